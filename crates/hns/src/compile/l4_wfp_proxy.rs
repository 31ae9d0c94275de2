//! `L4WFPPROXY`: connections of a container led to a proxy inside it.
//!
//! | field | meaning |
//! |---|---|
//! | `OutboundProxyPort` | where the proxy takes what programs of the container send out: at 127.0.0.1, or ::1 |
//! | `InboundProxyPort` | where it takes what arrives: at the address it came for |
//! | `FilterTuple` | which connections: `Protocols` (TCP if there are none; UDP), and addresses and ports of the container (`Local…`) and of the other side (`Remote…`); any where a field is empty |
//! | `FilterTuple.Priority` | which of several such policies is asked first: the lower; 0 or none comes last |
//! | `UserSID` | whose connections are never led away, so that the proxy's own are not: the last number of the SID is the user's here |
//! | `InboundExceptions`, `OutboundExceptions` | `IpAddressExceptions`: other sides, `PortExceptions`: ports that connections go to, which are left alone |
//!
//! On Windows the filtering platform (WFP) does this in the container's compartment, and so it is here: it becomes no rule of the switch but a
//! translation in the endpoint's namespace, at its NIC. What programs of the container say to each other is left alone. The proxy learns where a connection
//! was meant to go from the socket option `SO_ORIGINAL_DST`. One for datagrams must answer from the address it was asked at, and so be bound to the
//! loopback address. An exception of one policy holds for those that are asked after it.

use std::ops::RangeInclusive;

use hcn::endpoint::Endpoint;
use hcn::policy::endpoint::{EndpointPolicyType, FiveTuple, L4WfpProxySettings, ProxyExceptions};
use ipnet::IpNet;
use vfp::Direction;
use wire::number::protocol;

use super::{CompileError, prefix, settings};
use crate::validate::text;

/// The most combinations of addresses, ports and protocols that one direction of a policy may name.
const COMBINATIONS_MAX: usize = 4096;

/// Protocols whose connections can be led elsewhere.
const PROTOCOLS: [u8; 2] = [protocol::TCP, protocol::UDP];

/// Connections of one direction that a proxy takes. An empty list means any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interception {
    /// Which way they go.
    pub direction: Direction,
    /// The transport port of the proxy.
    pub proxy: u16,
    /// Their protocols.
    pub protocols: Vec<u8>,
    /// Addresses of the container.
    pub local: Vec<IpNet>,
    /// Addresses of the other side.
    pub remote: Vec<IpNet>,
    /// Ports of the container.
    pub local_ports: Vec<RangeInclusive<u16>>,
    /// Ports of the other side.
    pub remote_ports: Vec<RangeInclusive<u16>>,
    /// Other sides whose connections are left alone.
    pub exempt_addresses: Vec<IpNet>,
    /// Ports that connections are left alone to.
    pub exempt_ports: Vec<RangeInclusive<u16>>,
    /// The user whose connections are left alone.
    pub exempt_user: Option<u32>,
}

/// What the proxies of an endpoint take, those that are asked first coming first.
pub fn interceptions(endpoint: &Endpoint) -> Result<Vec<Interception>, CompileError> {
    let mut policies: Vec<L4WfpProxySettings> = settings(&endpoint.policies, &EndpointPolicyType::L4WfpProxy)?;
    policies.sort_by_key(|policy| policy.filter_tuple.priority.wrapping_sub(1));
    let mut all = Vec::new();
    for policy in &policies {
        all.extend(of_policy(policy)?);
    }
    Ok(all)
}

/// What the proxy of one policy takes.
pub(crate) fn of_policy(policy: &L4WfpProxySettings) -> Result<Vec<Interception>, CompileError> {
    let ways = [
        (Direction::In, "InboundProxyPort", &policy.inbound_proxy_port, "InboundExceptions", &policy.inbound_exceptions),
        (Direction::Out, "OutboundProxyPort", &policy.outbound_proxy_port, "OutboundExceptions", &policy.outbound_exceptions),
    ];
    let mut all = Vec::new();
    for (direction, field, port, exceptions_field, exceptions) in ways.into_iter().filter(|(_, _, port, ..)| !port.is_empty()) {
        let proxy = port.trim().parse().ok().filter(|port| *port != 0);
        let proxy = proxy.ok_or_else(|| CompileError::new(field, format!("{port:?} is no port")))?;
        let mut interception = filtered(direction, proxy, &policy.filter_tuple)?;
        (interception.exempt_addresses, interception.exempt_ports) =
            exempt(exceptions).map_err(|error| CompileError::new(format!("{exceptions_field}.{}", error.field), error.cause))?;
        interception.exempt_user = user(&policy.user_sid)?;
        all.push(interception);
    }
    Ok(all)
}

fn filtered(direction: Direction, proxy: u16, tuple: &FiveTuple) -> Result<Interception, CompileError> {
    let within = |error: CompileError| CompileError::new(format!("FilterTuple.{}", error.field), error.cause);
    let interception = Interception {
        direction,
        proxy,
        protocols: protocols(&tuple.protocols).map_err(within)?,
        local: prefixes("LocalAddresses", &tuple.local_addresses).map_err(within)?,
        remote: prefixes("RemoteAddresses", &tuple.remote_addresses).map_err(within)?,
        local_ports: ports("LocalPorts", text::list(&tuple.local_ports)).map_err(within)?,
        remote_ports: ports("RemotePorts", text::list(&tuple.remote_ports)).map_err(within)?,
        exempt_addresses: Vec::new(),
        exempt_ports: Vec::new(),
        exempt_user: None,
    };
    let lists = [interception.local.len(), interception.remote.len(), interception.local_ports.len(), interception.remote_ports.len()];
    let combinations = lists.iter().fold(interception.protocols.len(), |product, length| product.saturating_mul((*length).max(1)));
    match combinations <= COMBINATIONS_MAX {
        true => Ok(interception),
        false => Err(CompileError::new("FilterTuple", format!("{combinations} combinations are more than {COMBINATIONS_MAX}"))),
    }
}

fn protocols(list: &str) -> Result<Vec<u8>, CompileError> {
    let numbers = text::protocols(&mut list.to_owned(), "Protocols");
    let numbers = numbers.map_err(|error| CompileError::new("Protocols", error.detail().cause.clone()))?;
    match numbers.iter().find(|number| !PROTOCOLS.contains(number)) {
        Some(other) => Err(CompileError::new("Protocols", format!("connections of protocol {other} cannot be led to a proxy"))),
        None if numbers.is_empty() => Ok(vec![protocol::TCP]),
        None => Ok(numbers),
    }
}

fn prefixes(field: &str, list: &str) -> Result<Vec<IpNet>, CompileError> {
    text::list(list).map(|element| prefix(field, element)).collect()
}

fn ports<'a>(field: &str, list: impl Iterator<Item = &'a str>) -> Result<Vec<RangeInclusive<u16>>, CompileError> {
    let one = |element: &str| {
        let range = text::port_range(element).filter(|range| *range.start() != 0);
        range.ok_or_else(|| CompileError::new(field, format!("{element:?} is neither a port nor a range from a lower to a higher one")))
    };
    list.map(one).collect()
}

fn exempt(exceptions: &ProxyExceptions) -> Result<(Vec<IpNet>, Vec<RangeInclusive<u16>>), CompileError> {
    let addresses = exceptions.ip_address_exceptions.iter().flat_map(|element| text::list(element));
    let addresses: Result<Vec<IpNet>, CompileError> = addresses.map(|element| prefix("IpAddressExceptions", element)).collect();
    let list = exceptions.port_exceptions.iter().flat_map(|element| text::list(element));
    Ok((addresses?, ports("PortExceptions", list)?))
}

/// The user that a SID is here: its last number, as Windows numbers the users of a machine by it.
fn user(sid: &str) -> Result<Option<u32>, CompileError> {
    if sid.is_empty() {
        return Ok(None);
    }
    let numbers = sid.trim().strip_prefix("S-1-").or_else(|| sid.trim().strip_prefix("s-1-"));
    let numbers: Option<Vec<u64>> = numbers.and_then(|rest| rest.split('-').map(|number| number.parse().ok()).collect());
    let last = numbers.filter(|numbers| (2..=16).contains(&numbers.len())).and_then(|numbers| numbers.last().copied());
    let user = last.and_then(|last| u32::try_from(last).ok()).filter(|user| *user != u32::MAX);
    user.map(Some).ok_or_else(|| CompileError::new("UserSID", format!("{sid:?} is no SID")))
}
