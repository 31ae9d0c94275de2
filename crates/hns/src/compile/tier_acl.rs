//! `TierAcl`: rules in tiers, each of which may leave a packet to the next.
//!
//! | field | meaning |
//! |---|---|
//! | `Name` | a name, shown with the group |
//! | `Direction` | `In` or `Out`, of all rules of the tier |
//! | `Order` | a lower number is asked first; no two tiers of a direction have the same |
//! | `TierAclRules` | the rules |
//!
//! | field of a rule | meaning |
//! |---|---|
//! | `TierAclRuleAction` | `Allow` and `Block` decide, and no later tier is asked; `Pass` ends this tier only |
//! | `Protocols`, `LocalAddresses`, `RemoteAddresses`, `LocalPorts`, `RemotePorts` | which packets: [`super::filter`] |
//! | `Priority` | a lower number is looked at first; 0 or nothing comes last; among equals the stricter |
//! | `Id` | a name, shown with the rule |
//!
//! A packet that no rule of a tier matches goes on to the next tier, and after the last one to the endpoint's ACLs. Lands in layer `acl`,
//! one group a tier.

use hcn::policy::Policy;
use hcn::policy::acl::TierAclSettings;
use hcn::policy::endpoint::EndpointPolicyType;
use vfp::{Direction, GroupSpec};

use super::acl::is;
use super::filter::{self, Entry};
use super::sets::Sets;
use super::{CompileError, settings};

/// The tiers of an endpoint.
#[derive(Debug)]
pub struct Tiers(Vec<TierAclSettings>);

impl Tiers {
    /// Reads them, the first to be asked first.
    pub fn of(policies: &[Policy]) -> Result<Self, CompileError> {
        let mut tiers: Vec<TierAclSettings> = settings(policies, &EndpointPolicyType::TierAcl)?;
        tiers.sort_by_key(|tier| tier.order);
        Ok(Self(tiers))
    }

    /// The groups of a direction.
    pub fn groups(&self, direction: Direction, sets: &Sets) -> Result<Vec<GroupSpec>, CompileError> {
        let tiers = self.0.iter().filter(|tier| is(tier.direction.as_ref(), direction));
        tiers
            .map(|tier| Ok(GroupSpec { name: label(tier), rules: filter::rules(&entries(tier), direction, sets, filter::as_it_says)? }))
            .collect()
    }
}

fn label(tier: &TierAclSettings) -> String {
    format!("TierAcl {} {}", tier.order, tier.name).trim_end().to_owned()
}

fn entries(tier: &TierAclSettings) -> Vec<Entry<'_>> {
    tier.rules.iter().map(Entry::from).collect()
}
