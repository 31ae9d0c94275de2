//! An adapter of the node as the uplink of the switch.
//!
//! The adapter's packet socket becomes the uplink port and a TAP device becomes the node's vNIC; `host::uplink` lets the node's packets go by
//! the vNIC. When this process dies, the kernel takes the TAP and the filter away, and the node is as it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hcn::Guid;
use hns::compile::load_balancer::NodePort;
use hns::compile::{self, AdapterSite, NODE_ALIASES};
use host::netlink::{Hop, Link, Netlink, Route};
use host::nftables::{PortMapping, Translation, TranslationRules};
use host::nic::Nic;
use host::nic::packet_socket::{LeftOut, PacketSocket, PacketSocketOptions, Share};
use host::nic::tap::{Tap, TapOptions};
use host::uplink::Takeover;
use ipnet::IpNet;
use vfp::{DomainSpec, Flood, NatPoolSpec, NextHop, PortKind, PortSpec, ProgramSpec, Switch, UnderlaySpec};
use wire::Ip;

use super::Options;
use super::chassis::installed::{Installed, domain};
use super::error::Error;
use super::kernel_uplink::KernelUplink;
use super::offload::KernelOffload;
use super::tunnel::Tunnel;
use super::vlan::Vlan;
use super::worker::Workers;

/// How the node's vNICs begin; `host::adapter` leaves them out of the adapters that networks can be bound to.
const VNIC: &str = host::adapter::VNIC_PREFIX;

/// The longest name of an interface.
const NAME_MAX: usize = 15;

/// An adapter that is taken over.
pub(super) struct Adapter {
    pub(super) site: AdapterSite,
    pub(super) networks: BTreeSet<Guid>,
    pub(super) tunnels: BTreeMap<(IpAddr, u16), Tunnel>,
    vlans: BTreeMap<u16, Vlan>,
    transparent: BTreeSet<Guid>,
    /// Networks that are on the wire under another hardware address than the adapter's.
    foreign: BTreeSet<Guid>,
    takeover: Takeover,
    netlink: Netlink,
    socket: PacketSocket,
    /// The program on it, if known flows go by the kernel.
    kernel: Option<KernelUplink>,
    vnic_name: String,
    rules: Installed,
    /// Prefixes behind the switch that the node has routes to, with how many networks ask for each.
    host_routes: BTreeMap<IpNet, usize>,
    forwards: bool,
    node_ports: Option<NodePorts>,
}

/// Ports of the node that lead to backends, for programs of the node itself.
struct NodePorts {
    ports: BTreeSet<NodePort>,
    translation: Translation,
}

/// The name of the node's vNIC for an adapter or network, as long as the kernel allows.
pub(super) fn vnic_name(of: &str) -> String {
    let plain: String = of.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let name = format!("{VNIC}{plain}");
    if name.len() <= NAME_MAX {
        return name;
    }
    // What is cut off still tells two long names apart.
    let mark = of.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let kept = NAME_MAX - VNIC.len() - 4;
    format!("{VNIC}{}{:04x}", &plain[..kept], mark as u16)
}

impl Adapter {
    /// Takes an adapter over.
    pub(super) fn take(interface: &str, switch: &Switch, workers: &mut Workers, options: &Options) -> Result<Self, Error> {
        let netlink = Netlink::open()?;
        let link = netlink.link_by_name(interface)?.ok_or_else(|| no_adapter(interface))?;
        let vnic_name = vnic_name(interface);
        let tap = Tap::open(&vnic_name, TapOptions { persistent: false })?;
        let vnic = netlink.link_by_name(&vnic_name)?.ok_or_else(|| no_adapter(&vnic_name))?;
        let kernel = workers.shared.kernel.clone().and_then(|kernel| kernel_uplink((interface, link.index), &netlink, &kernel));
        let deaf = kernel.is_some();
        let options_of_socket = PacketSocketOptions { share: Share::Untagged, deaf, ..PacketSocketOptions::default() };
        let socket = PacketSocket::open(interface, link.index, &options_of_socket)?;
        let addresses = addresses(&netlink, link.index)?;
        let site = prepare(interface, &link, addresses, switch, options)?;
        let mut rules = Installed::default();
        rules.replace_at(switch, compile::adapter::rules(&site), |realm| domain(realm, None, Some(&site)))?;
        match &kernel {
            Some(uplink) => {
                uplink.kernel().add_uplink(site.uplink, link.index);
                workers.attach(site.uplink, Nic { receiver: uplink.receiver(), sender: socket.nic().sender });
            }
            None => workers.attach(site.uplink, socket.nic()),
        }
        workers.attach(site.host, tap.nic());
        let takeover = match Takeover::take(interface, vnic.index, &[]) {
            Ok(takeover) => takeover,
            Err(error) => {
                dismantle(&site, switch, workers);
                kernel.into_iter().for_each(KernelUplink::close);
                return Err(error.into());
            }
        };
        let adapter = Self {
            site,
            networks: BTreeSet::new(),
            tunnels: BTreeMap::new(),
            vlans: BTreeMap::new(),
            transparent: BTreeSet::new(),
            foreign: BTreeSet::new(),
            takeover,
            netlink,
            socket,
            kernel,
            vnic_name,
            rules,
            host_routes: BTreeMap::new(),
            forwards: false,
            node_ports: None,
        };
        adapter.refresh_underlay(switch)?;
        tracing::info!(adapter = interface, vnic = adapter.vnic_name, "the adapter is the uplink of the switch");
        Ok(adapter)
    }

    /// The links that have programs of ours, where known flows go by the kernel.
    pub(super) fn programmed(&self) -> impl Iterator<Item = &str> {
        let own = self.kernel.as_ref().map(|_| self.takeover.adapter());
        own.into_iter().chain(self.tunnels.values().filter_map(Tunnel::device))
    }

    /// Whether a port of the switch is the adapter's, or one of its tunnels.
    pub(super) fn has_port(&self, port: vfp::PortId) -> bool {
        let own = [self.site.uplink, self.site.host].contains(&port);
        own || self.tunnels.values().any(|tunnel| tunnel.port == port) || self.vlans.values().any(|vlan| vlan.site.uplink == port)
    }

    pub(super) fn index(&self) -> u32 {
        self.takeover.adapter_index()
    }

    pub(super) fn vnic_index(&self) -> u32 {
        self.takeover.vnic_index()
    }

    pub(super) fn netlink(&self) -> &Netlink {
        &self.netlink
    }

    /// Follows the adapter: its addresses, routes, MTU.
    pub(super) fn refresh(&mut self, switch: &Switch) -> Result<(), Error> {
        self.takeover.refresh()?;
        self.site.addresses = addresses(&self.netlink, self.index())?;
        self.rules.replace_at(switch, compile::adapter::rules(&self.site), |realm| domain(realm, None, Some(&self.site)))?;
        self.refresh_underlay(switch)?;
        let mut routes: Vec<IpNet> = self.host_routes.keys().copied().collect();
        if self.node_ports.is_some() {
            routes.extend(NODE_ALIASES.into_iter().filter(|alias| self.has_family(*alias)).map(IpNet::from));
        }
        routes.iter().try_for_each(|prefix| self.add_route(*prefix))
    }

    /// Tells the switch how the adapter's network is reached: from the adapter's own routes, and from those that the node has been given
    /// since, which are the vNIC's.
    pub(super) fn refresh_underlay(&self, switch: &Switch) -> Result<(), Error> {
        let mut routes = self.netlink.routes(self.index())?;
        let leads_outside = |route: &Route| route.protocol != HOST_ROUTE_PROTOCOL;
        routes.extend(self.netlink.routes(self.vnic_index())?.into_iter().filter(leads_outside));
        let hop = |route: &Route| (route.destination, route.hops.first().and_then(|hop| hop.gateway));
        let routes: Vec<(IpNet, Option<IpAddr>)> = routes.iter().map(hop).collect();
        let next = |(prefix, gateway): &(IpNet, Option<IpAddr>)| {
            (*prefix, gateway.map_or(NextHop::Link, |gateway| NextHop::Gateway(Ip::from(gateway))))
        };
        let spec = UnderlaySpec { uplink: self.site.uplink, mac: self.site.mac, routes: routes.iter().map(next).collect() };
        switch.change_underlay(self.site.underlay, spec)?;
        // Who takes packets of tunnels to their other ends is in their flows.
        if self.kernel.as_ref().is_some_and(|uplink| uplink.kernel().set_routes(self.index(), routes)) {
            self.tunnels.values().for_each(|tunnel| switch.refresh_port(tunnel.port));
        }
        Ok(())
    }

    /// Opens the tunnel at a provider address, or takes up the one that is there.
    pub(super) fn tunnel(&mut self, at: (IpAddr, u16), switch: &Switch, workers: &mut Workers) -> Result<&mut Tunnel, Error> {
        if !self.tunnels.contains_key(&at) {
            let tunnel = Tunnel::open(at, (self.takeover.adapter(), self.index()), &self.site, switch, workers)?;
            self.tunnels.insert(at, tunnel);
            self.leave_to_tunnels()?;
        }
        self.tunnels.get_mut(&at).ok_or_else(|| Error::Message("the tunnel is gone".into()))
    }

    /// Closes a tunnel that no network uses any more.
    pub(super) fn close_tunnel(&mut self, at: (IpAddr, u16), switch: &Switch, workers: &mut Workers) -> Result<(), Error> {
        if let Some(tunnel) = self.tunnels.remove(&at) {
            let is_last = workers.shared.kernel.as_ref().is_none_or(|kernel| !kernel.has_other_tunnel(at));
            tunnel.close(switch, workers, is_last);
            self.leave_to_tunnels()?;
        }
        Ok(())
    }

    /// Datagrams of tunnels reach their sockets, and the uplink port does not see them.
    fn leave_to_tunnels(&mut self) -> Result<(), Error> {
        let at: Vec<(IpAddr, u16)> = self.tunnels.keys().copied().collect();
        self.takeover.set_overlay(&at)?;
        if let Some(uplink) = &self.kernel {
            let mut by_socket = self.tunnels.iter().filter(|(_, tunnel)| tunnel.device().is_none());
            by_socket.try_for_each(|((address, port), _)| uplink.kernel().table().leave_out(*address, *port))?;
        }
        let datagrams = at.iter().map(|(address, port)| SocketAddr::new(*address, *port)).collect();
        self.socket.leave_out(&LeftOut { datagrams, sources: Vec::new() }).map_err(|error| Error::io("filter the uplink", error))
    }

    /// Opens a VLAN, or takes up the one that is there.
    pub(super) fn vlan(&mut self, id: u16, switch: &Switch, workers: &mut Workers) -> Result<&mut Vlan, Error> {
        if !self.vlans.contains_key(&id) {
            let vlan = Vlan::open(id, self.takeover.adapter(), self.index(), &self.site, switch, workers)?;
            self.vlans.insert(id, vlan);
        }
        self.vlans.get_mut(&id).ok_or_else(|| Error::Message("the VLAN is gone".into()))
    }

    /// An endpoint is in a VLAN no more. The last one closes it.
    pub(super) fn leave_vlan(&mut self, id: u16, endpoint: Guid, switch: &Switch, workers: &mut Workers) {
        if self.vlans.get_mut(&id).is_some_and(|vlan| vlan.leave(endpoint, switch))
            && let Some(vlan) = self.vlans.remove(&id)
        {
            vlan.close(switch, workers);
        }
    }

    /// While there is a transparent network, frames for other hardware addresses are received, and groups reach everybody.
    pub(super) fn set_transparent(&mut self, network: Guid, transparent: bool, switch: &Switch) -> Result<(), Error> {
        match transparent {
            true => self.transparent.insert(network),
            false => self.transparent.remove(&network),
        };
        let any = !self.transparent.is_empty();
        self.receive_what_is_needed()?;
        let flood = if any { Flood::Everybody } else { Flood::Listed };
        let name = self.takeover.adapter().to_owned();
        switch.change_domain(self.site.wire_domain, DomainSpec { name, flood, other_protocols: any })?;
        Ok(())
    }

    /// While a network has another hardware address on the wire, frames for that one are received as well.
    pub(super) fn set_foreign(&mut self, network: Guid, foreign: bool) -> Result<(), Error> {
        let changed = match foreign {
            true => self.foreign.insert(network),
            false => self.foreign.remove(&network),
        };
        if changed { self.receive_what_is_needed() } else { Ok(()) }
    }

    fn receive_what_is_needed(&self) -> Result<(), Error> {
        let all = !self.transparent.is_empty() || !self.foreign.is_empty();
        let promiscuous = self.socket.set_promiscuous(all);
        promiscuous.map_err(|error| Error::io(format!("receive all frames of {}", self.takeover.adapter()), error))
    }

    /// Gives the node routes to what is behind the switch.
    pub(super) fn want_routes(&mut self, before: &[IpNet], after: &[IpNet]) -> Result<(), Error> {
        for prefix in after.iter().filter(|prefix| !before.contains(prefix)) {
            self.add_route(*prefix)?;
            *self.host_routes.entry(*prefix).or_default() += 1;
        }
        for prefix in before.iter().filter(|prefix| !after.contains(prefix)) {
            let Some(count) = self.host_routes.get_mut(prefix) else { continue };
            *count -= 1;
            if *count == 0 {
                self.host_routes.remove(prefix);
                // The route may have gone with its link.
                _ = self.netlink.delete_route(&self.route(*prefix));
            }
        }
        Ok(())
    }

    fn add_route(&self, prefix: IpNet) -> Result<(), Error> {
        Ok(self.netlink.replace_route(&self.route(prefix))?)
    }

    fn route(&self, prefix: IpNet) -> Route {
        let hop = Hop { index: self.takeover.vnic_index(), gateway: None, onlink: false, weight: 0 };
        let source = self.site.address_like(Ip::from(prefix.addr())).map(IpAddr::from);
        let mut route = Route::new(prefix, hop, HOST_ROUTE_METRIC);
        route.source = source;
        // Not what marks the copies of the adapter's routes: those come and go with the originals.
        route.protocol = HOST_ROUTE_PROTOCOL;
        route
    }

    /// Leads what the node itself sends to these ports of its own addresses to the switch.
    pub(super) fn set_node_ports(&mut self, ports: BTreeSet<NodePort>) -> Result<(), Error> {
        if self.node_ports.as_ref().map_or(ports.is_empty(), |before| before.ports == ports) {
            return Ok(());
        }
        let mapping = |port: &NodePort| {
            let alias = NODE_ALIASES.into_iter().find(|alias| alias.is_ipv4() == port.v4)?;
            let internal = SocketAddr::new(alias, port.port);
            Some(PortMapping { protocol: port.protocol, external: None, external_port: port.port, internal })
        };
        let rules = TranslationRules { masquerades: Vec::new(), mappings: ports.iter().filter_map(mapping).collect() };
        match &mut self.node_ports {
            Some(node_ports) => {
                node_ports.translation.update(&rules)?;
                node_ports.ports = ports;
            }
            None => {
                NODE_ALIASES.into_iter().filter(|alias| self.has_family(*alias)).try_for_each(|alias| self.add_route(alias.into()))?;
                let translation = Translation::install(&format!("node-ports-{}", self.takeover.adapter()), &rules)?;
                self.node_ports = Some(NodePorts { ports, translation });
            }
        }
        Ok(())
    }

    fn has_family(&self, of: IpAddr) -> bool {
        self.site.addresses.iter().any(|own| own.addr().is_ipv4() == of.is_ipv4())
    }

    /// Lets the node route for endpoints whose gateway it is.
    pub(super) fn forward(&mut self) {
        if self.forwards {
            return;
        }
        self.forwards = true;
        super::gateway::let_forward(Some(&self.vnic_name), self.site.addresses.iter().any(|prefix| prefix.addr().is_ipv6()));
    }

    /// Gives the adapter back to the node.
    pub(super) fn give_back(self, switch: &Switch, workers: &mut Workers) -> Result<(), Error> {
        for (at, tunnel) in self.tunnels {
            let is_last = workers.shared.kernel.as_ref().is_none_or(|kernel| !kernel.has_other_tunnel(at));
            tunnel.close(switch, workers, is_last);
        }
        for (_, vlan) in self.vlans {
            vlan.close(switch, workers);
        }
        let name = self.takeover.adapter().to_owned();
        let outcome = self.takeover.give_back();
        dismantle(&self.site, switch, workers);
        if let Some(uplink) = self.kernel {
            uplink.kernel().remove_port(self.site.uplink);
            uplink.close();
        }
        tracing::info!(adapter = name, "the adapter is given back");
        Ok(outcome?)
    }
}

/// Has known flows of an adapter go by the kernel, if that is possible.
fn kernel_uplink(adapter: (&str, u32), netlink: &Netlink, kernel: &Arc<KernelOffload>) -> Option<KernelUplink> {
    let opened = KernelUplink::open(adapter, netlink, kernel);
    opened.inspect_err(|error| tracing::warn!(adapter = adapter.0, %error, "what comes by the adapter all goes by this process")).ok()
}

/// Above those that the kernel makes itself, so that a route that somebody set by hand is preferred.
const HOST_ROUTE_METRIC: u32 = 512;

/// What marks them in the routing table.
const HOST_ROUTE_PROTOCOL: u8 = 85;

fn no_adapter(interface: &str) -> Error {
    Error::Message(format!(
        "this machine has no network interface {interface:?}; see `ip link`, or name another one with `transom hnsd --adapter`"
    ))
}

fn addresses(netlink: &Netlink, index: u32) -> Result<Vec<IpNet>, Error> {
    let mut addresses: Vec<IpNet> = netlink.addresses(index)?.into_iter().map(|address| address.network).collect();
    // Those of the link alone come last: they identify nobody elsewhere.
    addresses.sort_by_key(|prefix| matches!(prefix.addr(), IpAddr::V6(address) if address.is_unicast_link_local()));
    Ok(addresses)
}

/// Makes domains, ports and all that the adapter needs in the switch.
fn prepare(name: &str, link: &Link, addresses: Vec<IpNet>, switch: &Switch, options: &Options) -> Result<AdapterSite, Error> {
    let wire_domain = switch.add_domain(DomainSpec { name: name.to_owned(), flood: Flood::Listed, other_protocols: false });
    let host_domain = switch.add_domain(DomainSpec { name: host::uplink::alias(name), flood: Flood::Listed, other_protocols: false });
    let mtu = u16::try_from(link.mtu).unwrap_or(u16::MAX);
    let [node_services, outside_services] = ["node", "outside"].map(|of| switch.add_table(&format!("{name} {of}")));
    let port = |name: String, kind, domain, services| PortSpec {
        name,
        kind,
        mac: link.mac,
        addresses: Vec::new(),
        domain,
        mtu,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program: ProgramSpec { layers: vec![compile::service_layer(services)] },
    };
    let uplink = switch.add_port(port(name.to_owned(), PortKind::Uplink, wire_domain, outside_services))?;
    let host = switch.add_port(port(host::uplink::alias(name), PortKind::Nic, host_domain, node_services))?;
    switch.list_port(wire_domain, host, true)?;
    switch.list_port(host_domain, uplink, true)?;
    let underlay = switch.add_underlay(UnderlaySpec { uplink, mac: link.mac, routes: Vec::new() });
    let pool = switch.add_pool(NatPoolSpec { ports: options.nat_ports.clone() });
    Ok(AdapterSite {
        uplink,
        host,
        wire_domain,
        host_domain,
        underlay,
        pool,
        node_services,
        outside_services,
        mac: link.mac,
        addresses,
        mtu,
    })
}

fn dismantle(site: &AdapterSite, switch: &Switch, workers: &mut Workers) {
    for port in [site.uplink, site.host] {
        workers.detach(port);
        _ = switch.remove_port(port);
    }
    for table in [site.node_services, site.outside_services] {
        _ = switch.remove_table(table);
    }
    _ = switch.remove_underlay(site.underlay);
    _ = switch.remove_pool(site.pool);
    _ = switch.remove_domain(site.wire_domain);
    _ = switch.remove_domain(site.host_domain);
}
