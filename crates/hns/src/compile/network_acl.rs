//! `NetworkACL`: which packets any endpoint of a network may send and receive.
//!
//! The fields are those of [`super::acl`]. What differs is what `Allow` means: the network has nothing against the packet, and the
//! endpoint's own tiers and ACLs are asked next. Both must allow, so that whoever may change an endpoint cannot lift what holds for the
//! network. `Pass` is the same as `Allow` here.
//!
//! Lands in the first group, `NetworkACL`, of layer `acl`, or of layer `firewall` where `RuleType` is `Host`; on every port of the network.

use hcn::network::Network;
use hcn::policy::acl::{AclSettings, ActionType};
use hcn::policy::network::NetworkPolicyType;
use vfp::{Action, Direction, DropReason, GroupSpec};

use super::acl::entries;
use super::sets::Sets;
use super::{CompileError, filter, settings};

/// The ACLs of a network.
#[derive(Debug)]
pub struct NetworkAcls(Vec<AclSettings>);

impl NetworkAcls {
    /// Reads them.
    pub fn of(network: &Network) -> Result<Self, CompileError> {
        settings(&network.policies, &NetworkPolicyType::NetworkAcl).map(Self)
    }

    /// The group of those of one kind and direction, if there are any.
    pub fn group(&self, host: bool, direction: Direction, sets: &Sets) -> Result<Option<GroupSpec>, CompileError> {
        let rules = filter::rules(&entries(&self.0, host, direction), direction, sets, ask_on)?;
        Ok(Some(GroupSpec { name: "NetworkACL".into(), rules }).filter(|group| !group.rules.is_empty()))
    }
}

fn ask_on(action: &ActionType) -> Action {
    match action {
        ActionType::Allow | ActionType::Pass => Action::Pass,
        _ => Action::Block(DropReason::AclBlock),
    }
}
