//! Backends on the kernel of Linux, as the original has them there: pods are on a bridge that a CNI plugin makes, and the kernel routes.

mod host_gw;
mod vxlan;

use std::net::IpAddr;

use ipnet::IpNet;
use wire::MacAddress;

pub use host_gw::HostGw;
pub use vxlan::Vxlan;

use super::Site;
use super::router::Router;
use crate::desired::Own;
use crate::prefix_like;
use crate::trouble::{Subject, Trouble};

/// An end of tunnels, as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The device's name.
    pub name: String,
    /// The virtual network.
    pub vni: u32,
    /// The UDP port.
    pub port: u16,
    /// The address that tunnels come from.
    pub local: IpAddr,
    /// The interface that they go by.
    pub parent: u32,
    /// The largest packet it takes.
    pub mtu: u32,
    /// The hardware address that a new device gets: the one that others know already.
    pub mac: Option<MacAddress>,
    /// The addresses of the device, by which the node itself is known to pods of others.
    pub addresses: Vec<IpNet>,
}

/// An end of tunnels, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number.
    pub index: u32,
    /// Its hardware address.
    pub mac: MacAddress,
}

/// The kernel, besides its routes.
pub trait Kernel: Router {
    /// Makes an end of tunnels what it should be. One that is right stays as it is; what can be changed is changed; and one of another
    /// kind goes.
    fn ensure_tunnel(&self, tunnel: &Tunnel) -> Result<Device, String>;

    /// Behind which nodes hardware addresses are.
    fn forwardings(&self, device: u32) -> Result<Vec<(MacAddress, IpAddr)>, String>;

    /// Says behind which node a hardware address is.
    fn set_forwarding(&self, device: u32, mac: MacAddress, node: IpAddr) -> Result<(), String>;

    /// Forgets it.
    fn remove_forwarding(&self, device: u32, mac: MacAddress, node: IpAddr) -> Result<(), String>;

    /// Which hardware addresses the gateways behind tunnels have, as they were told.
    fn neighbours(&self, device: u32) -> Result<Vec<(IpAddr, MacAddress)>, String>;

    /// Tells the hardware address of a gateway.
    fn set_neighbour(&self, device: u32, address: IpAddr, mac: MacAddress) -> Result<(), String>;

    /// Forgets it.
    fn remove_neighbour(&self, device: u32, address: IpAddr) -> Result<(), String>;

    /// Gives what leaves a network from a subnet the node's address; these and no others.
    fn translate(&self, subnets: &[(IpNet, IpNet)]) -> Result<(), String>;
}

/// Has the node route for its pods, and translate if it should.
fn serve_pods(kernel: &dyn Kernel, own: &Own, site: &Site) -> Result<(), Trouble> {
    let at: Vec<IpAddr> = own.subnets.iter().map(IpNet::addr).collect();
    let network = |subnet: &IpNet| Some((*subnet, prefix_like(&site.networks, subnet.addr().is_ipv4())?));
    let translated: Vec<(IpNet, IpNet)> = if site.ip_masq { own.subnets.iter().filter_map(network).collect() } else { Vec::new() };
    let done = kernel.forward(&at).and_then(|()| kernel.translate(&translated));
    done.map_err(|cause| Trouble::new(Subject::Kernel, cause))
}
