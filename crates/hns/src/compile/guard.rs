//! Spoof protection: an endpoint may send only as itself.
//!
//! Hyper-V's switch does this for hardware addresses unless MAC spoofing is allowed; where HNS gives out the IP addresses, those are
//! held to as well. Link-local addresses and "no address yet" stay allowed, as neighbour discovery needs them.

use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, DropReason, GroupSpec, LayerSpec, RuleSpec};
use wire::{Ip, MacAddress};

/// The layer. Without addresses, only the hardware address is held to.
pub fn layer(mac: MacAddress, addresses: &[Ip]) -> LayerSpec {
    let sources = match addresses {
        [] => Vec::new(),
        own => own.iter().copied().map(AddressMatch::host).chain(always().map(AddressMatch::Prefix)).collect(),
    };
    let own = Conditions { source_macs: vec![mac], sources, ..Conditions::default() };
    let rules = vec![
        RuleSpec::new("own", 10, own, Action::Allow),
        RuleSpec::new("spoofed", 1000, Conditions::any(), Action::Block(DropReason::SpoofedSource)),
    ];
    LayerSpec { name: "guard".into(), stateful: false, outward: vec![GroupSpec { name: "source".into(), rules }], ..LayerSpec::default() }
}

fn always() -> impl Iterator<Item = IpNet> {
    ["0.0.0.0/32", "::/128", "fe80::/10"].into_iter().filter_map(|prefix| prefix.parse().ok())
}
