//! An adapter as uplink: what holds on it whichever networks are there.
//!
//! The node keeps its addresses, now on a vNIC of the switch. What arrives for it is delivered to that vNIC; what nobody here has
//! leaves by the adapter.

use vfp::{Action, Conditions, RuleSpec, Stage};
use wire::{Ip, MacAddress};

use super::{AdapterSite, NODE_ALIASES, Placed, Realm, priority};

/// The rules of an adapter.
pub fn rules(site: &AdapterSite) -> Vec<Placed> {
    let to_host = Action::Forward { port: site.host, source_mac: None, destination_mac: Some(site.mac) };
    let out = Action::Forward { port: site.uplink, source_mac: None, destination_mac: None };
    let mut rules = vec![
        placed(Realm::Wire, Stage::ForwardIn, "node", priority::NODE_MAC, Conditions::to_mac(site.mac), to_host.clone()),
        placed(Realm::Wire, Stage::ForwardOut, "node", priority::NODE_MAC, Conditions::to_mac(site.mac), to_host.clone()),
        placed(Realm::Wire, Stage::NeighbourIn, "node", priority::DEFAULT, Conditions::any(), to_host.clone()),
    ];
    for realm in [Realm::Wire, Realm::Host] {
        rules.push(placed(realm, Stage::ForwardOut, "uplink", priority::DEFAULT, Conditions::any(), out.clone()));
        rules.push(placed(realm, Stage::NeighbourOut, "uplink", priority::DEFAULT, Conditions::any(), out.clone()));
    }
    for address in site.node_addresses() {
        let name = format!("node {address}");
        rules.push(placed(Realm::Wire, Stage::ForwardIn, &name, priority::NODE, Conditions::to(address), to_host.clone()));
        rules.push(placed(Realm::Wire, Stage::ForwardOut, &name, priority::NODE, Conditions::to(address), to_host.clone()));
        rules.push(placed(Realm::Wire, Stage::NeighbourOut, &name, priority::NODE, Conditions::to(address), Action::Answer(site.mac)));
        // Answers to what the switch has routed for the node.
        rules.push(placed(Realm::Host, Stage::ForwardIn, &name, priority::NODE, Conditions::to(address), to_host.clone()));
    }
    for alias in NODE_ALIASES.map(Ip::from) {
        let name = format!("node port {alias}");
        rules.push(placed(Realm::Host, Stage::NeighbourOut, &name, priority::NODE, Conditions::to(alias), Action::Answer(ALIAS_MAC)));
    }
    rules
}

/// Whom the node's own packets to its node ports are for: nobody, as the switch leads them to a backend first.
const ALIAS_MAC: MacAddress = MacAddress([0x00, 0x15, 0x5d, 0x54, 0x52, 0x53]);

fn placed(realm: Realm, stage: Stage, name: &str, priority: u16, conditions: Conditions, action: Action) -> Placed {
    Placed::new(realm, stage, RuleSpec::new(name, priority, conditions, action))
}
