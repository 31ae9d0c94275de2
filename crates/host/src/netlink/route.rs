//! Routes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteNextHopFlags, RoutePreference,
    RouteProtocol, RouteScope, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, NetlinkError};

/// The table of routes that count unless a rule says otherwise.
const MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// The metric that the kernel gives an IPv6 route without one.
const IPV6_METRIC: u32 = 1024;

/// A way to send packets on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// The link.
    pub index: u32,
    /// The next hop on the link; none if the destination itself is on it. It may be of the other family.
    pub gateway: Option<IpAddr>,
    /// The next hop is on the link even if no address of the link says so.
    pub onlink: bool,
    /// How many more packets than one it gets in turn, if there are several hops.
    pub weight: u8,
}

/// A unicast route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub destination: IpNet,
    /// The ways there; one of them for each flow.
    pub hops: Vec<Hop>,
    /// The lower, the sooner it is taken.
    pub metric: u32,
    /// The source address that it suggests.
    pub source: Option<IpAddr>,
    /// How far away the destination is: 0 anywhere, 253 on the link. Always 0 for IPv6.
    pub scope: u8,
    /// The table it is in.
    pub table: u32,
    /// Who made it: [`super::PROTOCOL`] if we did.
    pub protocol: u8,
    /// The type of service it is for; 0 for any.
    pub tos: u8,
    /// What it says of paths along it, such as their MTU.
    metrics: Vec<RouteMetric>,
    /// How routers of the same metric compare (IPv6).
    preference: Option<RoutePreference>,
}

/// How the kernel would send to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The link.
    pub index: u32,
    /// The router, or the destination itself where that is on the link.
    pub address: IpAddr,
    /// The source address.
    pub source: IpAddr,
}

impl Route {
    /// A route of ours in the main table.
    pub fn new(destination: IpNet, hop: Hop, metric: u32) -> Self {
        let v4 = destination.addr().is_ipv4();
        Self {
            destination: destination.trunc(),
            scope: if v4 && hop.gateway.is_none() { u8::from(RouteScope::Link) } else { 0 },
            hops: vec![hop],
            metric: if v4 || metric != 0 { metric } else { IPV6_METRIC },
            source: None,
            table: MAIN,
            protocol: super::PROTOCOL,
            tos: 0,
            metrics: Vec::new(),
            preference: None,
        }
    }

    /// Reads a unicast route; none, if it is of another kind or only remembers what was learned on the way.
    pub(super) fn read(message: RouteMessage) -> Option<Self> {
        let header = message.header;
        let any = match header.address_family {
            AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => return None,
        };
        if header.kind != RouteType::Unicast || header.flags.contains(RouteFlags::Cloned) {
            return None;
        }
        let hop = Hop { onlink: header.flags.contains(RouteFlags::Onlink), ..Hop::default() };
        let mut route = Self::new(IpNet::new(any, header.destination_prefix_length).ok()?, hop, 0);
        (route.metric, route.scope, route.table) = (0, u8::from(header.scope), header.table.into());
        (route.protocol, route.tos) = (u8::from(header.protocol), header.tos);
        message.attributes.into_iter().for_each(|attribute| route.note(attribute));
        Some(route)
    }

    fn note(&mut self, attribute: RouteAttribute) {
        let length = self.destination.prefix_len();
        match attribute {
            RouteAttribute::Destination(address) => {
                self.destination = ip(&address).and_then(|address| IpNet::new(address, length).ok()).unwrap_or(self.destination);
            }
            RouteAttribute::Priority(metric) => self.metric = metric,
            RouteAttribute::PrefSource(address) => self.source = ip(&address),
            RouteAttribute::Table(table) => self.table = table,
            RouteAttribute::Metrics(metrics) => self.metrics = metrics,
            // The kernel says it of every IPv6 route; medium is the same as nothing.
            RouteAttribute::Preference(preference) => self.preference = Some(preference).filter(|it| *it != RoutePreference::Medium),
            RouteAttribute::MultiPath(hops) => self.hops = hops.into_iter().map(hop).collect(),
            other => self.hops.iter_mut().for_each(|hop| hop.note(&other)),
        }
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        let v4 = self.destination.addr().is_ipv4();
        message.header.address_family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.destination_prefix_length = self.destination.prefix_len();
        message.header.tos = self.tos;
        message.header.table = u8::try_from(self.table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
        message.header.protocol = RouteProtocol::from(self.protocol);
        message.header.scope = RouteScope::from(self.scope);
        message.header.kind = RouteType::Unicast;
        let mut attributes = vec![RouteAttribute::Destination(self.destination.addr().into()), RouteAttribute::Table(self.table)];
        attributes.extend((self.metric != 0).then_some(RouteAttribute::Priority(self.metric)));
        attributes.extend(self.source.map(|source| RouteAttribute::PrefSource(source.into())));
        attributes.extend((!self.metrics.is_empty()).then(|| RouteAttribute::Metrics(self.metrics.clone())));
        attributes.extend(self.preference.map(RouteAttribute::Preference));
        match self.hops.as_slice() {
            [only] => {
                message.header.flags.set(RouteFlags::Onlink, only.onlink);
                attributes.push(RouteAttribute::Oif(only.index));
                attributes.extend(only.via(v4));
            }
            several => attributes.push(RouteAttribute::MultiPath(several.iter().map(|hop| hop.message(v4)).collect())),
        }
        message.attributes = attributes;
        message
    }
}

impl Hop {
    fn note(&mut self, attribute: &RouteAttribute) {
        match attribute {
            RouteAttribute::Oif(index) => self.index = *index,
            RouteAttribute::Gateway(address) => self.gateway = ip(address),
            RouteAttribute::Via(RouteVia::Inet6(address)) => self.gateway = Some(IpAddr::V6(*address)),
            RouteAttribute::Via(RouteVia::Inet(address)) => self.gateway = Some(IpAddr::V4(*address)),
            _ => {}
        }
    }

    /// The gateway as an attribute of a route that is IPv4, or is not.
    fn via(&self, v4: bool) -> Option<RouteAttribute> {
        Some(match self.gateway? {
            IpAddr::V6(address) if v4 => RouteAttribute::Via(RouteVia::Inet6(address)),
            address => RouteAttribute::Gateway(address.into()),
        })
    }

    fn message(&self, v4: bool) -> RouteNextHop {
        let mut hop = RouteNextHop::default();
        hop.flags.set(RouteNextHopFlags::Onlink, self.onlink);
        (hop.hops, hop.interface_index) = (self.weight, self.index);
        hop.attributes.extend(self.via(v4));
        hop
    }
}

fn hop(message: RouteNextHop) -> Hop {
    let onlink = message.flags.contains(RouteNextHopFlags::Onlink);
    let mut hop = Hop { index: message.interface_index, onlink, weight: message.hops, ..Hop::default() };
    message.attributes.iter().for_each(|attribute| hop.note(attribute));
    hop
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

impl Netlink {
    /// The unicast routes by a link, of all tables, in the order in which the kernel has them.
    pub fn routes(&self, index: u32) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            let answers = self
                .dump(&RouteNetlinkMessage::GetRoute(request))
                .map_err(|refusal| refusal.of(format!("list the routes by link {index}")))?;
            routes.extend(answers.into_iter().filter_map(read).filter(|route| route.hops.iter().any(|hop| hop.index == index)));
        }
        Ok(routes)
    }

    /// Adds a route before those of the same destination and metric, so that it is the one taken (IPv4); after them (IPv6).
    pub fn prepend_route(&self, route: &Route) -> Result<(), NetlinkError> {
        // The creation flag alone means just that: with "exclusive" it would fail, with "append" it would come last.
        self.change(RouteNetlinkMessage::NewRoute(route.message()), NLM_F_CREATE)
            .map_err(|refusal| refusal.of(format!("add the route to {}", described(route))))
    }

    /// Adds a route in place of the first one of the same destination and metric.
    pub fn replace_route(&self, route: &Route) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::NewRoute(route.message()), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(|refusal| refusal.of(format!("set the route to {}", described(route))))
    }

    /// Deletes a route.
    pub fn delete_route(&self, route: &Route) -> Result<(), NetlinkError> {
        self.change(RouteNetlinkMessage::DelRoute(route.message()), 0)
            .map_err(|refusal| refusal.of(format!("delete the route to {}", described(route))))
    }

    /// How the kernel would send to `destination`, by the link `index` only if one is given. None, if it has no route.
    pub fn lookup(&self, destination: IpAddr, index: Option<u32>) -> Result<Option<NextHop>, NetlinkError> {
        let mut request = RouteMessage::default();
        let v4 = destination.is_ipv4();
        request.header.address_family = if v4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        request.header.destination_prefix_length = if v4 { 32 } else { 128 };
        request.attributes.push(RouteAttribute::Destination(destination.into()));
        request.attributes.extend(index.map(RouteAttribute::Oif));
        match self.get(RouteNetlinkMessage::GetRoute(request)).map_err(|refusal| refusal.of(format!("look up the route to {destination}")))
        {
            Ok(RouteNetlinkMessage::NewRoute(answer)) => Ok(next_hop(&answer, destination)),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.errno(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn next_hop(answer: &RouteMessage, destination: IpAddr) -> Option<NextHop> {
    let mut hop = Hop::default();
    answer.attributes.iter().for_each(|attribute| hop.note(attribute));
    let source = answer.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(source) => ip(source),
        _ => None,
    })?;
    Some(NextHop { index: hop.index, address: hop.gateway.unwrap_or(destination), source })
}

fn read(answer: RouteNetlinkMessage) -> Option<Route> {
    if let RouteNetlinkMessage::NewRoute(message) = answer { Route::read(message) } else { None }
}

fn described(route: &Route) -> String {
    let mut text = route.destination.to_string();
    for hop in &route.hops {
        if let Some(gateway) = hop.gateway {
            text += &format!(" via {gateway}");
        }
        text += &format!(" by link {}", hop.index);
    }
    text
}
