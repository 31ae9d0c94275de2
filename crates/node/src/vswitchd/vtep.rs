//! The near end of tunnels as a device of the kernel: it receives and pops, so that what comes from the wire in pieces is joined there.
//!
//! One device has a UDP port, for all tunnels to it. A program behind it forwards what is known, and gives all else, with what was popped, to a TAP
//! device of the tunnel, which the engine reads. Both stay while vswitchd is away, as known flows go on.

use std::net::IpAddr;
use std::sync::Arc;

use host::kernel_flows::KernelTunnelEnd;
use host::netlink::{Link, Netlink};
use host::nic::Receiver;
use host::nic::tap::{Tap, TapOptions};
use wire::{Encapsulation, Ip, TunnelKind};

use super::error::Error;
use super::offload::KernelOffload;

/// What marks the device as ours.
const ALIAS: &str = "tunnels of transom";

/// In keys of flows, numbers from here on are no links.
const NO_LINK: u32 = 1 << 31;

/// An end of tunnels.
pub(super) struct Vtep {
    netlink: Netlink,
    kernel: Arc<KernelOffload>,
    device: Link,
    end: KernelTunnelEnd,
    tap: Tap,
}

impl Vtep {
    /// Makes the device and its program, or takes up those that are there.
    pub(super) fn open((address, port): (IpAddr, u16), kernel: &Arc<KernelOffload>) -> Result<Self, Error> {
        let netlink = Netlink::open()?;
        let device = device(&netlink, port)?;
        let opened = open_tap(&netlink, &device, (address, port), kernel);
        if opened.is_err() && !kernel.has_other_tunnel((address, port)) {
            _ = netlink.delete_link(device.index);
        }
        let (end, tap) = opened?;
        Ok(Self { netlink, kernel: kernel.clone(), device, end, tap })
    }

    /// What stands for it in keys of flows.
    pub(super) fn link(&self) -> u32 {
        self.end.link
    }

    /// The device's name.
    pub(super) fn device(&self) -> &str {
        &self.device.name
    }

    /// What the engine reads.
    pub(super) fn receiver(&self) -> Box<dyn Receiver> {
        let KernelTunnelEnd { address, port, .. } = self.end;
        self.tap.popped_receiver(Encapsulation { kind: TunnelKind::Vxlan, vni: 0, local: Ip::from(address), remote: Ip::NONE, port })
    }

    /// Takes it away, and the device too unless others have it.
    pub(super) fn close(self, is_last: bool) {
        self.kernel.table().part_tunnel(&self.end);
        if let Err(error) = self.tap.set_persistent(false) {
            tracing::debug!(%error, "the TAP device of a tunnel is gone already");
        }
        if is_last && let Err(error) = self.netlink.delete_link(self.device.index) {
            tracing::debug!(%error, "the device of a tunnel is gone already");
        }
    }
}

/// The device of a UDP port, which is made unless it is there.
fn device(netlink: &Netlink, port: u16) -> Result<Link, Error> {
    let name = format!("vtep{port}");
    let find = || netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the link {name} has vanished")));
    match netlink.link_by_name(&name)? {
        Some(link) if link.alias.as_deref() == Some(ALIAS) => return Ok(link),
        Some(_) => return Err(Error::Message(format!("somebody else has a link {name}; delete it, or choose another UDP port"))),
        None => netlink.create_vxlan_for_all(&name, port)?,
    }
    let made = find().and_then(|link| {
        netlink.set_alias(link.index, ALIAS)?;
        netlink.make_no_addresses(link.index)?;
        netlink.set_up(link.index)?;
        Ok(link)
    });
    if made.is_err()
        && let Ok(link) = find()
    {
        // As where another has the UDP port.
        _ = netlink.delete_link(link.index);
    }
    made
}

/// Makes the TAP device of a tunnel, and has the program give it what is not known.
fn open_tap(
    netlink: &Netlink,
    device: &Link,
    (address, port): (IpAddr, u16),
    kernel: &KernelOffload,
) -> Result<(KernelTunnelEnd, Tap), Error> {
    let link = stand_in(address, port);
    let name = format!("x{link:08x}");
    let tap = Tap::open(&name, TapOptions { persistent: true })?;
    let joined = prepare(netlink, &name).and_then(|index| {
        let end = KernelTunnelEnd { address, port, tap: index, link };
        kernel.table().join_tunnel((&device.name, device.index), &end)?;
        Ok(end)
    });
    if joined.is_err() {
        _ = tap.set_persistent(false);
    }
    joined.map(|end| (end, tap))
}

fn prepare(netlink: &Netlink, tap: &str) -> Result<u32, Error> {
    let link = netlink.link_by_name(tap)?.ok_or_else(|| Error::Message(format!("the link {tap} has vanished")))?;
    netlink.make_no_addresses(link.index)?;
    netlink.set_up(link.index)?;
    Ok(link.index)
}

/// What stands for a tunnel in keys of flows: always the same, so that the next vswitchd knows its flows.
fn stand_in(address: IpAddr, port: u16) -> u32 {
    let bytes = Ip::from(address).0.to_be_bytes().into_iter().chain(port.to_be_bytes());
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) | NO_LINK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_told_apart_and_are_no_links() {
        let [one, two]: [IpAddr; 2] = ["192.168.0.1", "192.168.0.2"].map(|text| text.parse().expect("an address"));
        assert_eq!(stand_in(one, 4789), stand_in(one, 4789));
        assert_ne!(stand_in(one, 4789), stand_in(two, 4789));
        assert_ne!(stand_in(one, 4789), stand_in(one, 8472));
        assert!(stand_in(one, 4789) >= NO_LINK);
    }
}
