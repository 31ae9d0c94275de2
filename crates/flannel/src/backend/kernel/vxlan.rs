//! `vxlan` on the kernel: one device, and for every subnet of a peer a route, the gateway's hardware address, and the node that is behind.
//!
//! The first address of a peer's subnet stands for its router, as in the original. One device carries both families.

use std::net::IpAddr;

use ipnet::IpNet;
use wire::MacAddress;

use super::{Kernel, Tunnel, serve_pods};
use crate::backend::router::{self, Route};
use crate::backend::{Backend, Prepared, Site, vxlan_overhead};
use crate::desired::Own;
use crate::lease::{Lease, Vtep, published_mac};
use crate::net_conf::VxlanConf;
use crate::trouble::{Subject, Trouble};
use crate::{address_like, nth};

const VNI: u32 = 1;
const PORT: u16 = 8472;

/// The backend.
pub struct Vxlan {
    kernel: Box<dyn Kernel>,
    vni: u32,
    port: u16,
    mtu: Option<u32>,
    device: Option<u32>,
}

impl Vxlan {
    /// With what the configuration says, and what flannel takes on Linux where it says nothing.
    pub fn new(kernel: Box<dyn Kernel>, conf: &VxlanConf) -> Self {
        Self { kernel, vni: conf.vni.unwrap_or(VNI), port: conf.port.unwrap_or(PORT), mtu: conf.mtu, device: None }
    }

    /// The ways to hardware addresses: the stale ones go before the missing ones come.
    fn reconcile_forwardings(&self, device: u32, wanted: &[(MacAddress, IpAddr)], troubles: &mut Vec<Trouble>) {
        let there = gathered(self.kernel.forwardings(device), troubles);
        for (mac, node) in there.iter().filter(|entry| !wanted.contains(entry)) {
            note(self.kernel.remove_forwarding(device, *mac, *node), troubles);
        }
        for (mac, node) in wanted.iter().filter(|entry| !there.contains(entry)) {
            note(self.kernel.set_forwarding(device, *mac, *node), troubles);
        }
    }

    fn reconcile_neighbours(&self, device: u32, wanted: &[(IpAddr, MacAddress)], troubles: &mut Vec<Trouble>) {
        let there = gathered(self.kernel.neighbours(device), troubles);
        for (address, _) in there.iter().filter(|(address, _)| !wanted.iter().any(|(other, _)| other == address)) {
            note(self.kernel.remove_neighbour(device, *address), troubles);
        }
        for (address, mac) in wanted.iter().filter(|entry| !there.contains(entry)) {
            note(self.kernel.set_neighbour(device, *address, *mac), troubles);
        }
    }
}

impl Backend for Vxlan {
    fn kind(&self) -> &'static str {
        "vxlan"
    }

    fn vni(&self) -> Option<u32> {
        Some(self.vni)
    }

    fn prepare(&mut self, own: &Own, site: &Site) -> Result<Prepared, Trouble> {
        self.device = None;
        let failed = |cause: String| Trouble::new(Subject::Kernel, cause);
        let local = site.tunnel_address().ok_or_else(|| failed(format!("{} has no address for tunnels", site.interface.name)))?;
        let mtu = self.mtu.unwrap_or(site.interface.mtu).saturating_sub(vxlan_overhead(site.v4_underlay));
        let tunnel = Tunnel {
            name: format!("flannel.{}", self.vni),
            vni: self.vni,
            port: self.port,
            local,
            parent: site.interface.index,
            mtu,
            mac: published_mac(&own.annotations),
            addresses: own.subnets.iter().map(|subnet| IpNet::from(subnet.network())).collect(),
        };
        let device = self.kernel.ensure_tunnel(&tunnel).map_err(failed)?;
        serve_pods(self.kernel.as_ref(), own, site)?;
        self.device = Some(device.index);
        Ok(Prepared { vtep: Some(Vtep { vni: self.vni, mac: device.mac }), mtu })
    }

    fn apply(&mut self, _own: &Own, site: &Site, peers: &[Lease]) -> Vec<Trouble> {
        let Some(device) = self.device else { return Vec::new() };
        let mut troubles = Vec::new();
        let (mut forwardings, mut neighbours, mut routes) = (Vec::new(), Vec::new(), Vec::new());
        for peer in peers {
            let (Some(vtep), Some(node)) = (peer.vtep, address_like(&peer.addresses, site.v4_underlay)) else { continue };
            forwardings.push((vtep.mac, node));
            neighbours.extend(peer.subnets.iter().map(|subnet| (nth(*subnet, 0), vtep.mac)));
            routes.extend(peer.subnets.iter().map(|subnet| Route { prefix: *subnet, gateway: nth(*subnet, 0), onlink: true }));
        }
        self.reconcile_forwardings(device, &forwardings, &mut troubles);
        self.reconcile_neighbours(device, &neighbours, &mut troubles);
        troubles.extend(router::reconcile(self.kernel.as_ref(), device, &site.networks, &routes, Subject::Kernel));
        troubles
    }
}

fn note(outcome: Result<(), String>, troubles: &mut Vec<Trouble>) {
    troubles.extend(outcome.err().map(|cause| Trouble::new(Subject::Kernel, cause)));
}

fn gathered<T>(answer: Result<Vec<T>, String>, troubles: &mut Vec<Trouble>) -> Vec<T> {
    answer.unwrap_or_else(|cause| {
        troubles.push(Trouble::new(Subject::Kernel, cause));
        Vec::new()
    })
}
