//! Which packets a rule of an access list is about: the fields that `ACL`, `TierAcl` and `NetworkACL` have in common.
//!
//! | field | meaning |
//! |---|---|
//! | `Protocols` | numbers of IP protocols, such as `6,17`; any if it is empty; 252 (VXLAN, on Windows) is one as any other |
//! | `LocalAddresses` | addresses of the endpoint: addresses, prefixes, ids of sets; any if it is empty |
//! | `RemoteAddresses` | addresses of whoever it talks to, likewise |
//! | `LocalPorts`, `RemotePorts` | transport ports and ranges of them, such as `80,8080-8090`; any if it is empty |
//!
//! Local is the side of the endpoint: the source of what it sends, the destination of what it receives. An address that the endpoint does
//! not have matches nothing there. A rule that asks for ports is about protocols that have ports only: TCP, UDP and SCTP. No rule is about
//! ARP, neighbour discovery or frames that are not IP; without the first two there would be no packets to filter.

use hcn::policy::acl::{AclSettings, ActionType, TierAclRule};
use vfp::{Action, AddressMatch, Conditions, Direction, DropReason, PortRange, RuleSpec};
use wire::number::{ether_type, protocol};

use super::sets::Sets;
use super::{CompileError, prefix};
use crate::validate::text;

/// The precedence of rules that have none: after all that have one.
const LAST: u16 = u16::MAX;

/// Protocols that have transport ports.
pub(crate) const WITH_PORTS: [u8; 3] = [protocol::TCP, protocol::UDP, protocol::SCTP];

/// The fields, as they are in a document.
#[derive(Clone, Copy, Debug)]
struct Filter<'a> {
    protocols: &'a str,
    local_addresses: &'a str,
    remote_addresses: &'a str,
    local_ports: &'a str,
    remote_ports: &'a str,
}

macro_rules! entry_of {
    ($($settings:ty),+) => {
        $(impl<'a> From<&'a $settings> for Entry<'a> {
            fn from(settings: &'a $settings) -> Self {
                let filter = Filter {
                    protocols: &settings.protocols,
                    local_addresses: &settings.local_addresses,
                    remote_addresses: &settings.remote_addresses,
                    local_ports: &settings.local_ports,
                    remote_ports: &settings.remote_ports,
                };
                Self { id: &settings.id, priority: settings.priority, action: settings.action.as_ref(), filter }
            }
        })+
    };
}
entry_of!(AclSettings, TierAclRule);

/// A rule of an access list, before it has a place in a group.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    id: &'a str,
    priority: u16,
    action: Option<&'a ActionType>,
    filter: Filter<'a>,
}

impl Filter<'_> {
    /// The conditions for packets of a direction. None if no packet can meet them.
    fn conditions(&self, direction: Direction, sets: &Sets) -> Result<Option<Conditions>, CompileError> {
        let local = (addresses("LocalAddresses", self.local_addresses, sets)?, ports("LocalPorts", self.local_ports)?);
        let remote = (addresses("RemoteAddresses", self.remote_addresses, sets)?, ports("RemotePorts", self.remote_ports)?);
        let Some(protocols) = self.protocols(!local.1.is_empty() || !remote.1.is_empty())? else { return Ok(None) };
        let ((sources, source_ports), (destinations, destination_ports)) = match direction {
            Direction::Out => (local, remote),
            Direction::In => (remote, local),
        };
        let ether_types = vec![ether_type::IPV4, ether_type::IPV6];
        Ok(Some(Conditions { protocols, sources, destinations, source_ports, destination_ports, ether_types, ..Conditions::default() }))
    }

    fn protocols(&self, has_ports: bool) -> Result<Option<Vec<u8>>, CompileError> {
        let mut protocols =
            text::protocols(&mut self.protocols.to_owned(), "Protocols").map_err(|error| unreadable("Protocols", &error))?;
        if !has_ports {
            return Ok(Some(protocols));
        }
        if protocols.is_empty() {
            return Ok(Some(WITH_PORTS.to_vec()));
        }
        protocols.retain(|number| WITH_PORTS.contains(number));
        Ok(Some(protocols).filter(|left| !left.is_empty()))
    }
}

fn unreadable(field: &str, error: &hcn::Error) -> CompileError {
    CompileError::new(field, error.detail().cause.clone())
}

fn addresses(field: &str, list: &str, sets: &Sets) -> Result<Vec<AddressMatch>, CompileError> {
    let one = |element: &str| match sets.get(element) {
        Some(set) => Ok(AddressMatch::Set(set)),
        None => prefix(field, element)
            .map(AddressMatch::Prefix)
            .map_err(|_| CompileError::new(field, format!("{element:?} is neither an address nor a prefix nor the id of a set"))),
    };
    text::list(list).map(one).collect()
}

fn ports(field: &str, list: &str) -> Result<Vec<PortRange>, CompileError> {
    let one =
        |element: &str| text::port_range(element).ok_or_else(|| CompileError::new(field, format!("{element:?} is no range of ports")));
    text::list(list).map(one).collect()
}

/// The rules of a group, in order of precedence: by priority, then the stricter first, then as they stand in the document.
pub(crate) fn rules(
    entries: &[Entry<'_>],
    direction: Direction,
    sets: &Sets,
    act: impl Fn(&ActionType) -> Action,
) -> Result<Vec<RuleSpec>, CompileError> {
    let mut rules = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let action = entry
            .action
            .filter(|action| action.is_known())
            .ok_or_else(|| CompileError::new("Action", "the field is missing or unknown"))?;
        if let Some(conditions) = entry.filter.conditions(direction, sets)? {
            let rule = RuleSpec::new(name(index, entry.id), precedence(entry.priority), conditions, act(action));
            rules.push((rule.priority, strictness(action), rule));
        }
    }
    // A stable sort: those that are equal so far stay in the order of the document.
    rules.sort_by_key(|(priority, strictness, _)| (*priority, *strictness));
    Ok(rules.into_iter().map(|(_, _, rule)| rule).collect())
}

/// What a rule does that neither adds to its action nor takes from it.
pub(crate) fn as_it_says(action: &ActionType) -> Action {
    match action {
        ActionType::Allow => Action::Allow,
        ActionType::Pass => Action::Pass,
        _ => Action::Block(DropReason::AclBlock),
    }
}

/// Numbered, as several rules may have one id or none.
fn name(index: usize, id: &str) -> String {
    match id {
        "" => format!("{}", index + 1),
        id => format!("{} {id}", index + 1),
    }
}

const fn precedence(priority: u16) -> u16 {
    match priority {
        0 => LAST,
        priority => priority,
    }
}

/// Where rules of one priority contradict each other, a packet is blocked rather than passed on, and passed on rather than allowed.
const fn strictness(action: &ActionType) -> u8 {
    match action {
        ActionType::Allow => 2,
        ActionType::Pass => 1,
        _ => 0,
    }
}
