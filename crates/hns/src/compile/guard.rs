//! Spoof protection: an endpoint may send only as itself, and is no server of the network's own.
//!
//! Hyper-V's switch holds NICs to their hardware addresses unless MAC spoofing is allowed, and has guards against DHCP servers and routers
//! that are none. Where HNS gives out the IP addresses, those are held to as well. "No address yet" stays allowed, and so does the one
//! address of the link that follows from the hardware address, as neighbour discovery needs it.
//!
//! | field | meaning |
//! |---|---|
//! | `AdditionalParams` | of our own: `MacAddressSpoofing`, whether the endpoint may send from any address, as switches and virtual machines inside of it do |

use hcn::endpoint::{Endpoint, EndpointFlags};
use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, DropReason, GroupSpec, LayerSpec, RuleSpec};
use wire::number::protocol;
use wire::{Ip, MacAddress};

use super::CompileError;

/// What an endpoint is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its hardware address, unless it may use any.
    pub mac: Option<MacAddress>,
    /// Its addresses, where HNS knows them.
    pub addresses: Vec<Ip>,
}

impl Guard {
    /// What a document says of an endpoint with these addresses.
    pub fn of(endpoint: &Endpoint, mac: MacAddress, addresses: &[Ip]) -> Result<Self, CompileError> {
        if may_spoof(endpoint)? {
            return Ok(Self { mac: None, addresses: Vec::new() });
        }
        let given_elsewhere = endpoint.flags.has(EndpointFlags::ENABLE_DHCP);
        Ok(Self { mac: Some(mac), addresses: if given_elsewhere { Vec::new() } else { addresses.to_vec() } })
    }

    /// The layers.
    ///
    /// The hardware address is looked at in every packet, the IP address only in those that begin something: a backend that was
    /// reached under the address of its service answers from there.
    pub fn layers(&self) -> Vec<LayerSpec> {
        let mut layers = Vec::new();
        if let Some(mac) = self.mac {
            layers.push(layer("hardware", false, own(Conditions { source_macs: vec![mac], ..Conditions::default() })));
        }
        layers.push(layer("role", false, vec![dhcp_server()]));
        if let Some(mac) = self.mac.filter(|_| !self.addresses.is_empty()) {
            let sources = self.addresses.iter().copied().chain([mac.link_local()]).map(AddressMatch::host);
            let sources = sources.chain(nobody().map(AddressMatch::Prefix)).collect();
            layers.push(layer("source", true, own(Conditions { sources, ..Conditions::default() })));
        }
        layers
    }
}

/// Whether an endpoint may send from any address.
pub fn may_spoof(endpoint: &Endpoint) -> Result<bool, CompileError> {
    match endpoint.additional_params.as_deref().and_then(|params| params.get("MacAddressSpoofing")) {
        None => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| CompileError::new("AdditionalParams.MacAddressSpoofing", format!("{value} is neither true nor false"))),
    }
}

fn layer(group: &str, stateful: bool, rules: Vec<RuleSpec>) -> LayerSpec {
    LayerSpec { name: "guard".into(), stateful, outward: vec![GroupSpec { name: group.into(), rules }], ..LayerSpec::default() }
}

fn own(conditions: Conditions) -> Vec<RuleSpec> {
    vec![
        RuleSpec::new("own", 10, conditions, Action::Allow),
        RuleSpec::new("spoofed", 1000, Conditions::any(), Action::Block(DropReason::SpoofedSource)),
    ]
}

/// Servers of DHCP, for IPv4 and IPv6, answer clients from these ports to these.
fn dhcp_server() -> RuleSpec {
    let ports = |ports: [u16; 2]| ports.map(|port| port..=port).to_vec();
    let conditions = Conditions {
        protocols: vec![protocol::UDP],
        source_ports: ports([67, 547]),
        destination_ports: ports([68, 546]),
        ..Conditions::default()
    };
    RuleSpec::new("dhcp server", 10, conditions, Action::Block(DropReason::DhcpGuard))
}

fn nobody() -> impl Iterator<Item = IpNet> {
    ["0.0.0.0/32", "::/128"].into_iter().filter_map(|prefix| prefix.parse().ok())
}
