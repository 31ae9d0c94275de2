//! Transparent: on the wire as they are, with their own hardware addresses. Forwarding is by hardware address; what goes to groups goes to
//! everybody.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use vfp::{Action, Conditions, PortId, RuleSpec, Stage};

use crate::compile::endpoint::{hardware_address, label};
use crate::compile::guard::may_spoof;
use crate::compile::{CompileError, Placed, Realm, Site, priority};

/// The rules of a network: requests for neighbours reach everybody, as any of them may be the one.
pub fn network(network: &Network, site: &Site) -> Result<Vec<Placed>, CompileError> {
    site.adapter()?;
    let name = crate::compile::network::label(network);
    let rule = RuleSpec::new(format!("{name} everybody"), priority::DEFAULT - 1, Conditions::any(), Action::Flood);
    let places = [(Realm::Wire, Stage::NeighbourOut), (Realm::Wire, Stage::NeighbourIn), (Realm::Host, Stage::NeighbourOut)];
    Ok(places.map(|(realm, stage)| Placed::new(realm, stage, rule.clone())).to_vec())
}

/// The rules of an endpoint.
pub fn endpoint(endpoint: &Endpoint, port: PortId) -> Result<Vec<Placed>, CompileError> {
    let (mac, name) = (hardware_address(endpoint)?, label(endpoint));
    let action = Action::Forward { port, source_mac: None, destination_mac: None };
    let rule = RuleSpec::new(format!("{name} {mac}"), priority::ENDPOINT, Conditions::to_mac(mac), action);
    let places = [(Realm::Wire, Stage::ForwardOut), (Realm::Wire, Stage::ForwardIn), (Realm::Host, Stage::ForwardOut)];
    let mut rules = places.map(|(realm, stage)| Placed::new(realm, stage, rule.clone())).to_vec();
    if may_spoof(endpoint)? {
        // Whoever may use any hardware address gets what arrives for those that nobody else here has.
        let others = RuleSpec::new(format!("{name} others"), priority::DEFAULT, Conditions::any(), rule.action.clone());
        rules.push(Placed::new(Realm::Wire, Stage::ForwardIn, others));
    }
    Ok(rules)
}
