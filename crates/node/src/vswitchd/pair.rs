//! The switch's end of a NIC whose known flows the kernel forwards.
//!
//! ```text
//!   pod's namespace │ vswitchd's namespace
//!        eth0 ──────┼── link ◄── program ──► links of other pods
//!                   │              ▲ │ what is not known
//!                   │              │ ▼
//!                   │             TAP device ◄──► engine
//! ```
//!
//! Both links have names of their endpoint, and stay when this process ends: the next one finds them.

use std::sync::Arc;

use hcn::Guid;
use host::namespace::Namespace;
use host::netlink::{Link, Netlink};
use host::nic::tap::{Tap, TapOptions};

use super::error::Error;
use super::offload::KernelOffload;

/// How much of an endpoint's id is in the names of its links; the kernel allows fifteen bytes.
const DIGITS: usize = 12;

/// The links at the switch.
pub(super) struct Pair {
    netlink: Netlink,
    /// The other end of the pod's link, and the TAP device.
    end: u32,
    tap: u32,
    names: [String; 2],
    kernel: Arc<KernelOffload>,
}

/// What the links of an endpoint are called: the switch's end, the TAP device, and the pod's end before it is the pod's.
struct Names {
    end: String,
    tap: String,
    inner: String,
}

impl Names {
    fn new(id: Guid) -> Self {
        let digits = id.simple().to_string();
        let name = |prefix: char| format!("{prefix}{}", &digits[..DIGITS]);
        Self { end: name('v'), tap: name('t'), inner: name('n') }
    }
}

impl Pair {
    /// Takes up the links of an endpoint, or makes them. `inside` is of the pod's namespace, and `known` its end of the pair if there is one.
    /// Answers the pod's end besides.
    pub(super) fn open(
        id: Guid,
        (namespace, inside): (&Namespace, &Netlink),
        known: Option<&Link>,
        kernel: &Arc<KernelOffload>,
    ) -> Result<(Self, Tap, Link), Error> {
        let netlink = Netlink::open()?;
        let names = Names::new(id);
        let inner = match (known, netlink.link_by_name(&names.end)?) {
            (Some(known), Some(_)) => known.clone(),
            (known, end) => {
                // One end without the other leads nowhere.
                end.iter().try_for_each(|end| netlink.delete_link(end.index))?;
                known.iter().try_for_each(|known| inside.delete_link(known.index))?;
                make(&netlink, &names, namespace)?;
                inside.link_by_name(&names.inner)?.ok_or_else(|| vanished(&names.inner))?
            }
        };
        let tap = Tap::open(&names.tap, TapOptions { persistent: true })?;
        let link = |name: &str| netlink.link_by_name(name)?.ok_or_else(|| vanished(name));
        let (end, device) = (link(&names.end)?, link(&names.tap)?);
        for link in [&end, &device] {
            netlink.make_no_addresses(link.index)?;
        }
        let pair =
            Self { netlink, end: end.index, tap: device.index, names: [names.end.clone(), names.tap.clone()], kernel: kernel.clone() };
        kernel.table().join((&names.end, pair.end), (&names.tap, pair.tap))?;
        for link in [pair.tap, pair.end] {
            pair.netlink.set_up(link)?;
        }
        Ok((pair, tap, inner))
    }

    /// Takes the links of an endpoint away, if there are any: the pod's end goes with the switch's.
    pub(super) fn discard(id: Guid) -> Result<(), Error> {
        let netlink = Netlink::open()?;
        let Names { end, tap, .. } = Names::new(id);
        for name in [end, tap] {
            if let Some(link) = netlink.link_by_name(&name)? {
                netlink.delete_link(link.index)?;
            }
        }
        Ok(())
    }

    /// The links that have programs of ours.
    pub(super) fn programmed(&self) -> Vec<String> {
        self.names.to_vec()
    }

    /// The switch's end of the NIC.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// Lets packets pass that are as large as the pod's may be.
    pub(super) fn set_mtu(&self, mtu: u32) -> Result<(), Error> {
        for link in [self.end, self.tap] {
            self.netlink.set_mtu(link, mtu)?;
        }
        Ok(())
    }

    /// Gives the names of the links away, so that others of the same endpoint can have them at once.
    pub(super) fn retire(&self) {
        self.kernel.table().part(self.end, self.tap);
        for link in [self.end, self.tap] {
            let moved = self.netlink.set_down(link).and_then(|()| self.netlink.set_name(link, &format!("gone{link}")));
            if let Err(error) = moved {
                tracing::debug!(link, %error, "a link of a NIC is gone already");
            }
        }
    }

    /// Takes the pair of links away. The TAP device goes with its last handle.
    pub(super) fn close(self) {
        if let Err(error) = self.netlink.delete_link(self.end) {
            tracing::debug!(link = self.end, %error, "the link of a NIC is gone already");
        }
    }
}

/// Makes a pair of links, and moves one end to the pod.
fn make(netlink: &Netlink, names: &Names, namespace: &Namespace) -> Result<(), Error> {
    netlink.create_veth(&names.end, &names.inner)?;
    let moved = netlink
        .link_by_name(&names.inner)?
        .ok_or_else(|| vanished(&names.inner))
        .and_then(|inner| Ok(netlink.move_to(inner.index, namespace)?));
    if moved.is_err()
        && let Ok(Some(end)) = netlink.link_by_name(&names.end)
    {
        // The other end goes with it.
        _ = netlink.delete_link(end.index);
    }
    moved
}

fn vanished(name: &str) -> Error {
    Error::Message(format!("the link {name} has vanished"))
}
