//! Spoof protection: an endpoint may send only as itself.
//!
//! Hyper-V's switch does this for hardware addresses unless MAC spoofing is allowed; where HNS gives out the IP addresses, those are
//! held to as well. Link-local addresses and "no address yet" stay allowed, as neighbour discovery needs them.

use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, DropReason, GroupSpec, LayerSpec, RuleSpec};
use wire::{Ip, MacAddress};

/// The layers. Without addresses, only the hardware address is held to.
///
/// The hardware address is looked at in every packet, the IP address only in those that begin something: a backend that was reached
/// under the address of its service answers from there.
pub fn layers(mac: MacAddress, addresses: &[Ip]) -> Vec<LayerSpec> {
    let own_mac = Conditions { source_macs: vec![mac], ..Conditions::default() };
    let mut layers = vec![layer("hardware", false, own_mac)];
    if !addresses.is_empty() {
        let sources = addresses.iter().copied().map(AddressMatch::host).chain(always().map(AddressMatch::Prefix)).collect();
        layers.push(layer("source", true, Conditions { sources, ..Conditions::default() }));
    }
    layers
}

fn layer(group: &str, stateful: bool, own: Conditions) -> LayerSpec {
    let rules = vec![
        RuleSpec::new("own", 10, own, Action::Allow),
        RuleSpec::new("spoofed", 1000, Conditions::any(), Action::Block(DropReason::SpoofedSource)),
    ];
    LayerSpec { name: "guard".into(), stateful, outward: vec![GroupSpec { name: group.into(), rules }], ..LayerSpec::default() }
}

fn always() -> impl Iterator<Item = IpNet> {
    ["0.0.0.0/32", "::/128", "fe80::/10"].into_iter().filter_map(|prefix| prefix.parse().ok())
}
