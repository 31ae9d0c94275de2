//! `ACL`: which packets an endpoint may send and receive.
//!
//! | field | meaning |
//! |---|---|
//! | `Action` | `Allow` lets a packet through, `Block` drops it (`acl-block`), `Pass` leaves it to what holds without rules |
//! | `Direction` | `In` is about what goes to the endpoint, `Out` about what it sends |
//! | `Protocols`, `LocalAddresses`, `RemoteAddresses`, `LocalPorts`, `RemotePorts` | which packets: [`super::filter`] |
//! | `RuleType` | `Switch`, or nothing: layer `acl`. `Host`: layer `firewall`, nearer to the NIC |
//! | `Priority` | a lower number is looked at first; 0 or nothing comes last |
//! | `Id` | a name, shown with the rule; several rules may have the same |
//!
//! Where rules of one priority contradict each other, `Block` wins. A rule decides about the first packet of a connection; what
//! answers it passes unasked. A packet must pass both layers. On Windows the host's firewall enforces `Host` rules and the switch the
//! others; here the switch enforces both, on networks of every type.
//!
//! Lands in the group `ACL` of its layer, after what the network and tiers say: [`super::access`]. Of a schema 1 document `Protocol`,
//! `LocalPort` and `RemotePort` arrive as lists of one; `InternalPort` and `ServiceName` ask nothing of packets and are kept.

use hcn::policy::Policy;
use hcn::policy::acl::{AclSettings, DirectionType, RuleType};
use hcn::policy::endpoint::EndpointPolicyType;
use vfp::{Direction, GroupSpec};

use super::filter::{self, Entry};
use super::sets::Sets;
use super::{CompileError, settings};

/// The ACLs of an endpoint.
#[derive(Debug)]
pub struct Acls(Vec<AclSettings>);

impl Acls {
    /// Reads them.
    pub fn of(policies: &[Policy]) -> Result<Self, CompileError> {
        settings(policies, &EndpointPolicyType::Acl).map(Self)
    }

    /// The group of those of one kind and direction, if there are any.
    pub fn group(&self, host: bool, direction: Direction, sets: &Sets) -> Result<Option<GroupSpec>, CompileError> {
        let entries: Vec<Entry<'_>> = entries(&self.0, host, direction);
        let rules = filter::rules(&entries, direction, sets, filter::as_it_says)?;
        Ok(Some(GroupSpec { name: "ACL".into(), rules }).filter(|group| !group.rules.is_empty()))
    }
}

/// The entries of one kind and direction.
pub(crate) fn entries(acls: &[AclSettings], host: bool, direction: Direction) -> Vec<Entry<'_>> {
    let is_meant = |acl: &&AclSettings| (acl.rule_type == Some(RuleType::Host)) == host && is(acl.direction.as_ref(), direction);
    acls.iter().filter(is_meant).map(Entry::from).collect()
}

/// Whether a document means this direction.
pub(crate) fn is(found: Option<&DirectionType>, direction: Direction) -> bool {
    match direction {
        Direction::In => found == Some(&DirectionType::In),
        Direction::Out => found == Some(&DirectionType::Out),
    }
}
