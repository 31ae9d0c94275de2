//! Taking a node's adapter as the uplink of a virtual switch, such that no crash strands the node.
//!
//! The switch sends and receives at the adapter by a packet socket, and the node itself becomes one more port of the switch, by a
//! link of its own: the host vNIC, `vEthernet (NAME)`.
//!
//! ```text
//!        before                         taken over
//!
//!     the node's stack                the node's stack ◄──── overlay datagrams, ARP and ND answers,
//!          │                               │      ▲          DHCP, router advertisements
//!          │                           host vNIC  │
//!          │                               │   ingress filter
//!          │                             switch   │
//!          │                               │      │
//!       adapter                           adapter─┘
//! ```
//!
//! **The adapter keeps its addresses and its routes.** The vNIC gets the same MAC address, MTU and addresses, and copies of the
//! routes that are taken before the originals. A filter at the adapter's entrance keeps the node's stack from seeing there what the
//! switch brings it by the vNIC. What gets through is what the adapter itself needs: overlay datagrams to their socket, answers to
//! its own questions for neighbours, and DHCP and router advertisements, so that its addresses do not expire.
//!
//! **A crash gives everything back.** The vNIC is a link that lives as long as its descriptor, and the filter as long as its socket.
//! When the process ends, however it does, the kernel removes both, with the vNIC's addresses and routes; what is left is what was
//! there before, and it works at once. The one trace may be the adapter's `rp_filter` at 2 (loose) where it was 1 (strict).
//!
//! What does not work while an adapter is taken: VLAN links and the like on top of it, whose frames the filter drops; and a route
//! that somebody adds to the vNIC is gone after a crash. IPv6 routes of metric 1 are not overruled, since no metric is lower. An IPv4
//! default route of metric 0 has two halves beside its copy, `0.0.0.0/1` and `128.0.0.0/1`, for the same reason.

mod difference;
mod error;

use std::net::IpAddr;

pub use error::TakeoverError;

use crate::netlink::{Link, Netlink};
use crate::nftables::{Accept, IngressFilter, NftError};
use crate::sysctl::{Family, Key};

const DHCP_CLIENT: u16 = 68;
const DHCPV6_CLIENT: u16 = 546;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Reverse path filtering: the source must be reachable by the interface the packet came by, or by any.
const STRICT: &str = "1";
const LOOSE: &str = "2";

/// The alias of the host vNIC of an adapter, as Windows names it.
pub fn alias(adapter: &str) -> String {
    format!("vEthernet ({adapter})")
}

/// An adapter that is taken over, until it is given back or dropped.
#[derive(Debug)]
pub struct Takeover {
    netlink: Netlink,
    adapter: String,
    adapter_index: u32,
    vnic_index: u32,
    filter: Option<IngressFilter>,
    /// Settings of the adapter that were changed, with what they were.
    settings: Vec<(Key, String)>,
    /// The addresses that the vNIC was given.
    given: Vec<crate::netlink::Address>,
}

impl Takeover {
    /// Takes over an adapter of the calling thread's namespace for the switch that has the link `host_vnic` as a port.
    ///
    /// The switch should forward between the two by now: from here on the node's packets go that way. `overlay` lists the UDP
    /// sockets that stay reachable at the adapter itself.
    pub fn take(adapter: &str, host_vnic: u32, overlay: &[(IpAddr, u16)]) -> Result<Self, TakeoverError> {
        let netlink = Netlink::open()?;
        let link = checked(&netlink, adapter, host_vnic)?;
        let vnic = netlink.link_by_index(host_vnic)?.ok_or(TakeoverError::NoVnic(host_vnic))?;
        let mut takeover = Self {
            netlink,
            adapter: adapter.to_owned(),
            adapter_index: link.index,
            vnic_index: host_vnic,
            filter: None,
            settings: Vec::new(),
            given: Vec::new(),
        };
        // What fails on the way is undone when the value is dropped.
        takeover.prepare(&link, &vnic)?;
        takeover.follow_addresses()?;
        takeover.filter = Some(IngressFilter::install(adapter, &accepted(overlay)).map_err(|error| takeover.explained(error))?);
        takeover.follow_routes()?;
        Ok(takeover)
    }

    /// The adapter's name.
    pub fn adapter(&self) -> &str {
        &self.adapter
    }

    /// The adapter's number.
    pub fn adapter_index(&self) -> u32 {
        self.adapter_index
    }

    /// The host vNIC's number.
    pub fn vnic_index(&self) -> u32 {
        self.vnic_index
    }

    /// Lists anew the UDP sockets that are reachable at the adapter itself.
    pub fn set_overlay(&mut self, overlay: &[(IpAddr, u16)]) -> Result<(), TakeoverError> {
        match &mut self.filter {
            Some(filter) => filter.update(&accepted(overlay)).map_err(TakeoverError::Filter),
            None => Ok(()),
        }
    }

    /// Makes the vNIC follow the adapter, whose addresses, routes, MAC address or MTU may have changed. It changes nothing that is
    /// right already.
    pub fn refresh(&mut self) -> Result<(), TakeoverError> {
        let adapter = self.netlink.link_by_index(self.adapter_index)?.ok_or_else(|| TakeoverError::NoAdapter(self.adapter.clone()))?;
        let vnic = self.netlink.link_by_index(self.vnic_index)?.ok_or(TakeoverError::NoVnic(self.vnic_index))?;
        self.follow_link(&adapter, &vnic)?;
        self.remove_stale_routes()?;
        self.follow_addresses()?;
        self.follow_routes()
    }

    /// Gives the adapter back. The vNIC stays, without addresses.
    pub fn give_back(mut self) -> Result<(), TakeoverError> {
        self.undo()
    }

    /// Makes the vNIC a link that has what the adapter has and makes nothing up itself.
    fn prepare(&mut self, adapter: &Link, vnic: &Link) -> Result<(), TakeoverError> {
        if self.netlink.addresses(adapter.index)?.iter().any(|address| address.network.addr().is_ipv6()) {
            let quiet = [("disable_ipv6", "0"), ("accept_ra", "0"), ("accept_dad", "0"), ("router_solicitations", "0")];
            for (name, value) in quiet {
                self.set(&Key::interface(Family::V6, &vnic.name, name), value)?;
            }
        }
        // A kernel without IPv6 does not know the attribute, and makes no addresses either.
        if vnic.makes_addresses
            && let Err(error) = self.netlink.make_no_addresses(vnic.index)
            && error.errno() != Some(libc::EAFNOSUPPORT)
        {
            return Err(error.into());
        }
        self.follow_link(adapter, vnic)?;
        self.netlink.set_alias(vnic.index, &alias(&adapter.name))?;
        let before = self.loosen(&adapter.name)?;
        self.settings.extend(before);
        self.loosen(&vnic.name)?;
        if !vnic.up {
            self.netlink.set_up(vnic.index)?;
        }
        Ok(())
    }

    fn follow_link(&self, adapter: &Link, vnic: &Link) -> Result<(), TakeoverError> {
        if vnic.mac != adapter.mac {
            self.netlink.set_mac(vnic.index, adapter.mac)?;
        }
        if vnic.mtu != adapter.mtu {
            self.netlink.set_mtu(vnic.index, adapter.mtu)?;
        }
        Ok(())
    }

    /// Lets an interface receive from sources that are reached by another: overlay datagrams come in at the adapter, while the way
    /// back to their senders is by the vNIC. The setting of all interfaces counts where it is higher, and loose is the highest.
    fn loosen(&self, interface: &str) -> Result<Option<(Key, String)>, TakeoverError> {
        let key = Key::interface(Family::V4, interface, "rp_filter");
        let values = || Ok([Key::interface(Family::V4, "all", "rp_filter").read()?, key.read()?]);
        let [all, own] = self.netlink.within(values).and_then(|values| values).map_err(TakeoverError::Setting)?;
        if own == LOOSE || (all != STRICT && own != STRICT) {
            return Ok(None);
        }
        self.set(&key, LOOSE)?;
        Ok(Some((key, own)))
    }

    fn set(&self, key: &Key, value: &str) -> Result<(), TakeoverError> {
        let set = self.netlink.within(|| key.set(value)).and_then(|result| result);
        set.map(|_| ()).map_err(TakeoverError::Setting)
    }

    fn explained(&self, error: NftError) -> TakeoverError {
        match error {
            NftError::Busy { table } => {
                TakeoverError::Taken { adapter: self.adapter.clone(), by: format!("the owner of the nf_tables table {table}") }
            }
            other => TakeoverError::Filter(other),
        }
    }

    /// Undoes all of it in the reverse order, as far as it goes, and tells the first failure.
    fn undo(&mut self) -> Result<(), TakeoverError> {
        let vnic_lives = self.netlink.link_by_index(self.vnic_index)?.is_some();
        let routes = if vnic_lives { self.remove_routes() } else { Ok(()) };
        self.filter = None;
        let addresses = if vnic_lives { self.remove_addresses() } else { Ok(()) };
        let alias = if vnic_lives { self.netlink.set_alias(self.vnic_index, "") } else { Ok(()) };
        let settings = std::mem::take(&mut self.settings);
        let restored: Vec<_> = settings.iter().map(|(key, value)| self.set(key, value)).collect();
        routes?;
        addresses?;
        alias?;
        restored.into_iter().collect()
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        // Nobody is left to tell; and what could not be undone goes with the vNIC and the socket.
        _ = self.undo();
    }
}

/// What the adapter itself still receives.
fn accepted(overlay: &[(IpAddr, u16)]) -> Vec<Accept> {
    let own = [
        Accept::ArpReply,
        Accept::Icmpv6(NEIGHBOUR_ADVERTISEMENT),
        Accept::Icmpv6(ROUTER_ADVERTISEMENT),
        Accept::UdpV4(DHCP_CLIENT),
        Accept::UdpV6(DHCPV6_CLIENT),
    ];
    // Overlay datagrams are nearly all there is, so they are looked for first.
    overlay.iter().map(|(address, port)| Accept::Udp(*address, *port)).chain(own).collect()
}

/// The adapter, if it can be taken.
fn checked(netlink: &Netlink, adapter: &str, host_vnic: u32) -> Result<Link, TakeoverError> {
    let name = || adapter.to_owned();
    let link = netlink.link_by_name(adapter)?.ok_or_else(|| TakeoverError::NoAdapter(name()))?;
    if link.loopback {
        return Err(TakeoverError::Loopback(name()));
    }
    if link.mac == wire::MacAddress::default() || link.index == host_vnic {
        return Err(TakeoverError::NoEthernet(name()));
    }
    if let Some(controller) = link.controller {
        return Err(TakeoverError::PortOf(name(), controller));
    }
    if !link.up {
        return Err(TakeoverError::Down(name()));
    }
    let taken = alias(adapter);
    match netlink.links()?.into_iter().find(|other| other.index != host_vnic && other.alias.as_ref() == Some(&taken)) {
        Some(other) => Err(TakeoverError::Taken { adapter: name(), by: format!("the switch that has the link {}", other.name) }),
        None => Ok(link),
    }
}
