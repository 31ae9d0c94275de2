//! `NeighborDiscovery`: neighbours that are known beforehand.
//!
//! | field | meaning |
//! |---|---|
//! | `TargetIpPrefix` | the addresses that endpoints may ask for |
//! | `SenderMacAddress` | the hardware address they are told |
//! | `SenderIpAddress` | kept: an answer is always sent as the address that was asked for, as no other would be believed |
//!
//! Endpoints of the network get the answer; questions from the wire and of the node do not. What an endpoint or a gateway has is answered
//! as without the policy, as is what a longer prefix covers. Lands in the domain's neighbour group for NICs. On a domain that several
//! networks share (those bridged onto an adapter) only askers from this network's subnets are answered. On L2Tunnel networks, where the
//! fabric answers, the policy is refused.

use hcn::network::Network;
use hcn::policy::network::{NeighborDiscoverySettings, NetworkPolicyType};
use ipnet::IpNet;
use vfp::{Action, AddressMatch, Conditions, RuleSpec, Stage};

use super::network::{Mode, label, prefixes};
use super::{CompileError, Placed, Realm, mac, prefix, prefix_priority, settings};

/// The rules of a network.
pub fn rules(network: &Network, mode: Mode) -> Result<Vec<Placed>, CompileError> {
    let policies: Vec<NeighborDiscoverySettings> = settings(&network.policies, &NetworkPolicyType::NeighborDiscovery)?;
    let (realm, own) = match mode.has_domain() {
        true => (Realm::Own, Vec::new()),
        false => (Realm::Wire, prefixes(network)?),
    };
    policies.iter().enumerate().map(|(number, policy)| rule(number, policy, &label(network), realm, &own)).collect()
}

fn rule(number: usize, policy: &NeighborDiscoverySettings, network: &str, realm: Realm, own: &[IpNet]) -> Result<Placed, CompileError> {
    let target = prefix("TargetIpPrefix", &policy.target_ip_prefix)?;
    let answer = Action::Answer(mac("SenderMacAddress", &policy.sender_mac_address)?);
    let conditions = Conditions { sources: askers(&target, own), ..Conditions::to_prefix(target) };
    let name = format!("{network} NeighborDiscovery {} {target}", number + 1);
    Ok(Placed::new(realm, Stage::NeighbourOut, RuleSpec::new(name, prefix_priority(&target), conditions, answer)))
}

/// Who may ask: the subnets of that family, and for IPv6 those who have not said yet where they are.
fn askers(target: &IpNet, own: &[IpNet]) -> Vec<AddressMatch> {
    let is_v4 = target.addr().is_ipv4();
    let mut askers: Vec<AddressMatch> =
        own.iter().filter(|prefix| prefix.addr().is_ipv4() == is_v4).copied().map(AddressMatch::Prefix).collect();
    if !askers.is_empty() && !is_v4 {
        askers.extend("fe80::/10".parse().map(AddressMatch::Prefix));
    }
    askers
}
