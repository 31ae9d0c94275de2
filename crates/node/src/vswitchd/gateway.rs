//! The node on a switch without an adapter: a vNIC with the gateway's address, and what the node does for those behind it.
//!
//! On Windows this is WinNAT, a part of the host's own stack. Here it is the kernel's: it translates what leaves and leads mapped ports in, by a table that
//! vanishes with this process. Names are answered at the gateway's address.

use hcn::network::Network;
use hns::compile::network::Mode;
use hns::compile::port_mapping::Mapping;
use hns::compile::{self};
use host::netlink::Netlink;
use host::nftables::{Masquerade, PortMapping, Translation, TranslationRules};
use host::nic::tap::{Tap, TapOptions};
use host::sysctl::{Family, Key};
use host::vnic::{self, VnicConfig};
use ipnet::IpNet;
use vfp::{DomainId, PortId, PortKind, PortSpec, ProgramSpec, Switch};
use wire::MacAddress;

use super::adapter::vnic_name;
use super::error::Error;
use super::names::NameServer;
use super::worker::Workers;

/// The node's vNIC on a network.
pub(super) struct Gateway {
    pub(super) port: PortId,
    pub(super) mac: MacAddress,
    netlink: Netlink,
    index: u32,
    name: String,
    translation: Option<Translation>,
    names: Vec<NameServer>,
}

const MTU: u16 = 1500;

impl Gateway {
    pub(super) fn open(network: &Network, domain: DomainId, switch: &Switch, workers: &mut Workers) -> Result<Self, Error> {
        let label = compile::network::label(network);
        let name = vnic_name(&label);
        let tap = Tap::open(&name, TapOptions { persistent: false })?;
        let netlink = Netlink::open()?;
        let link = netlink.link_by_name(&name)?.ok_or_else(|| Error::Message(format!("the vNIC {name} has vanished")))?;
        let id = network.id.into_bytes();
        let mac = MacAddress([0x00, 0x15, 0x5d, id[3], id[4], id[5]]);
        let spec = PortSpec {
            name: host::uplink::alias(&label),
            kind: PortKind::Nic,
            mac,
            addresses: Vec::new(),
            domain,
            mtu: MTU,
            hidden_behind: None,
            hairpin: false,
            router_guard: false,
            program: ProgramSpec::default(),
        };
        let port = switch.add_port(spec)?;
        workers.attach(port, tap.nic());
        Ok(Self { port, mac, netlink, index: link.index, name, translation: None, names: Vec::new() })
    }

    /// Gives the vNIC the gateway's addresses, and makes the node translate and answer.
    pub(super) fn refresh(&mut self, network: &Network, mode: Mode, mappings: &[Mapping]) -> Result<(), Error> {
        let gateways = compile::network::gateways(network)?;
        let own = |(gateway, prefix): &(std::net::IpAddr, IpNet)| IpNet::new(*gateway, prefix.prefix_len()).unwrap_or((*gateway).into());
        let config = VnicConfig {
            name: self.name.clone(),
            mac: self.mac,
            mtu: u32::from(MTU),
            gso_max_size: None,
            addresses: gateways.iter().map(own).collect(),
            routes: Vec::new(),
            neighbours: Vec::new(),
            alias: Some(host::uplink::alias(&compile::network::label(network))),
        };
        vnic::configure(&self.netlink, self.index, &config)?;
        if mode == Mode::Nat {
            let_forward(None, gateways.iter().any(|(gateway, _)| gateway.is_ipv6()));
            self.translate(network, mappings)?;
        }
        if compile::network::serves_names(network, mode) {
            let wanted: Vec<std::net::IpAddr> = gateways.iter().map(|(gateway, _)| *gateway).collect();
            self.names.retain(|server| wanted.contains(&server.address()));
            for address in wanted {
                if !self.names.iter().any(|server| server.address() == address) {
                    self.names.extend(NameServer::start(address));
                }
            }
        }
        Ok(())
    }

    fn translate(&mut self, network: &Network, mappings: &[Mapping]) -> Result<(), Error> {
        let masquerade = |prefix: IpNet| Masquerade { prefix, interface: self.name.clone() };
        let rules = TranslationRules {
            masquerades: compile::network::prefixes(network)?.into_iter().map(masquerade).collect(),
            mappings: mappings.iter().map(node_mapping).collect(),
        };
        match &mut self.translation {
            Some(translation) => translation.update(&rules)?,
            None => self.translation = Some(Translation::install(&format!("transom-{}", self.name), &rules)?),
        }
        Ok(())
    }

    pub(super) fn close(self, switch: &Switch, workers: &mut Workers) {
        workers.detach(self.port);
        _ = switch.remove_port(self.port);
    }
}

fn node_mapping(mapping: &Mapping) -> PortMapping {
    PortMapping {
        protocol: mapping.protocol,
        external: mapping.external,
        external_port: mapping.external_port,
        internal: std::net::SocketAddr::new(mapping.internal, mapping.internal_port),
    }
}

/// Lets the kernel route what comes by an interface, or by any. IPv6 knows this for the whole machine only.
pub(super) fn let_forward(interface: Option<&str>, v6: bool) {
    let mut keys = vec![match interface {
        Some(interface) => Key::interface(Family::V4, interface, "forwarding"),
        None => Key::global("ipv4.ip_forward"),
    }];
    if v6 {
        keys.push(Key::interface(Family::V6, "all", "forwarding"));
    }
    for key in keys {
        match key.set("1") {
            Ok(None) => {}
            Ok(Some(_)) => tracing::info!(?key, "the node routes for its endpoints from now on"),
            Err(error) => tracing::warn!(%error, ?key, "the node does not route for its endpoints"),
        }
    }
}
