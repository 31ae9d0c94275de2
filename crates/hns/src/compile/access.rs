//! The layers that say which packets pass: `firewall` and `acl`.
//!
//! | layer | groups, in order | what it is on Windows |
//! |---|---|---|
//! | `firewall`, nearer to the NIC | `NetworkACL`, `ACL`: rules with the `RuleType` `Host` | the host's firewall (WFP) |
//! | `acl` | `NetworkACL`, one for each tier (`TierAcl`), `ACL`: all other rules; `default` | the switch (VFP) |
//!
//! Both must let a packet pass. Both decide once per connection: what answers a packet that passed is not asked about. Where no rule
//! matches, a packet passes. Under a Windows build `default` blocks, inwards, all that is not TCP, UDP, ICMP or IGMP, unless a tier or an
//! ACL allows it: that is what Windows documents for containers without ACLs.

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use vfp::{Action, Conditions, Direction, DropReason, GroupSpec, LayerSpec, RuleSpec};
use wire::number::{ether_type, protocol};

use super::acl::Acls;
use super::network_acl::NetworkAcls;
use super::sets::Sets;
use super::tier_acl::Tiers;
use super::{CompileError, Site};
use crate::profile::Limit;

/// IGMP has no other use here.
const IGMP: u8 = 2;

/// All that says which packets of an endpoint pass.
struct Access {
    network: NetworkAcls,
    tiers: Tiers,
    acls: Acls,
    sets: Sets,
}

/// The layers of an endpoint's port, the one nearer to the NIC first. A layer without rules is left out.
pub fn layers(endpoint: &Endpoint, network: &Network, site: &Site) -> Result<Vec<LayerSpec>, CompileError> {
    let access = Access {
        network: NetworkAcls::of(network)?,
        tiers: Tiers::of(&endpoint.policies)?,
        acls: Acls::of(&endpoint.policies)?,
        sets: Sets::of(&network.policies)?,
    };
    let firewall = layer("firewall", |direction| access.host_groups(direction))?;
    let acl = layer("acl", |direction| access.switch_groups(direction, site))?;
    Ok([firewall, acl].into_iter().filter(|layer| !layer.outward.is_empty() || !layer.inward.is_empty()).collect())
}

fn layer(name: &str, groups: impl Fn(Direction) -> Result<Vec<GroupSpec>, CompileError>) -> Result<LayerSpec, CompileError> {
    Ok(LayerSpec {
        name: name.into(),
        stateful: true,
        outward: groups(Direction::Out)?,
        inward: groups(Direction::In)?,
        ..LayerSpec::default()
    })
}

impl Access {
    fn host_groups(&self, direction: Direction) -> Result<Vec<GroupSpec>, CompileError> {
        let groups = [self.network.group(true, direction, &self.sets)?, self.acls.group(true, direction, &self.sets)?];
        Ok(groups.into_iter().flatten().collect())
    }

    fn switch_groups(&self, direction: Direction, site: &Site) -> Result<Vec<GroupSpec>, CompileError> {
        let mut groups = Vec::new();
        groups.extend(self.network.group(false, direction, &self.sets)?);
        groups.extend(self.tiers.groups(direction, &self.sets)?);
        groups.extend(self.acls.group(false, direction, &self.sets)?);
        if direction == Direction::In && site.has(Limit::InwardProtocols) {
            groups.push(default_group());
        }
        Ok(groups)
    }
}

fn default_group() -> GroupSpec {
    let protocols = vec![protocol::TCP, protocol::UDP, protocol::ICMP, protocol::ICMPV6, IGMP];
    let usual = Conditions { protocols, ..Conditions::default() };
    let other = Conditions { ether_types: vec![ether_type::IPV4, ether_type::IPV6], ..Conditions::default() };
    let rules = vec![
        RuleSpec::new("usual protocols", 10, usual, Action::Allow),
        RuleSpec::new("other protocols", 1000, other, Action::Block(DropReason::AclBlock)),
    ];
    GroupSpec { name: "default".into(), rules }
}
