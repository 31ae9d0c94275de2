//! The network modes, one file each: what a network and an endpoint of that mode ask of the switch.

pub mod internal;
pub mod l2bridge;
pub mod l2tunnel;
pub mod overlay;
pub mod transparent;

use vfp::{Action, Conditions, RuleSpec, Stage};
use wire::{Ip, MacAddress};

use super::{Placed, Realm, priority};

/// Packets to an address go to a port, under its hardware address.
fn deliver(realm: Realm, stages: &[Stage], name: &str, to: Ip, port: vfp::PortId, mac: MacAddress) -> Vec<Placed> {
    let action = Action::Forward { port, source_mac: None, destination_mac: Some(mac) };
    let rule = RuleSpec::new(format!("{name} {to}"), priority::ENDPOINT, Conditions::to(to), action);
    stages.iter().map(|stage| Placed::new(realm, *stage, rule.clone())).collect()
}

/// Who asks for an address is told a hardware address.
fn answer(realm: Realm, stage: Stage, name: &str, of: Ip, mac: MacAddress, priority: u16) -> Placed {
    Placed::new(realm, stage, RuleSpec::new(format!("{name} {of}"), priority, Conditions::to(of), Action::Answer(mac)))
}
