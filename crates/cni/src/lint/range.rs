//! Ranges of host-local: what it would refuse, and addresses that somebody else has.

use std::net::IpAddr;

use ipnet::IpNet;

use super::located::Node;
use super::{Linter, Subject, join};

/// A range as host-local will have it.
struct Range<'a> {
    node: &'a Node,
    path: String,
    subnet: IpNet,
    start: IpAddr,
    end: IpAddr,
    gateway: IpAddr,
}

impl Range<'_> {
    /// Whether an address is given out.
    fn gives_out(&self, address: IpAddr) -> bool {
        (self.start..=self.end).contains(&address) && address != self.gateway
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.subnet.addr().is_ipv4() == other.subnet.addr().is_ipv4() && self.start <= other.end && other.start <= self.end
    }

    /// Where the start is told, or else the subnet.
    fn at(&self) -> usize {
        self.node.get("rangeStart").or_else(|| self.node.get("subnet")).unwrap_or(self.node).at
    }
}

impl Linter<'_> {
    pub(super) fn ranges(&mut self, subject: &Subject<'_>, ipam: &Node, path: &str) {
        let mut objects: Vec<(&Node, String)> = Vec::new();
        if ipam.get("subnet").is_some() {
            objects.push((ipam, path.to_owned()));
        }
        for (set, ranges) in ipam.get("ranges").map(Node::elements).unwrap_or_default().iter().enumerate() {
            objects.extend(ranges.elements().iter().enumerate().map(|(index, range)| (range, format!("{path}.ranges[{set}][{index}]"))));
        }
        let by_runtime = subject.node.get("capabilities").is_some_and(|capabilities| capabilities.flag("ipRanges"));
        if objects.is_empty() && !by_runtime {
            self.error(ipam.at, format!("{path}: host-local has no range to give addresses out from"), "set subnet or ranges");
        }
        let ranges: Vec<Range<'_>> = objects.into_iter().filter_map(|(node, path)| self.range(node, path)).collect();
        for (index, range) in ranges.iter().enumerate() {
            if let Some(before) = ranges[..index].iter().find(|before| before.overlaps(range)) {
                let message = format!("{}: the range overlaps {}", range.path, before.path);
                self.error(range.node.at, message, "choose ranges that have no address in common");
            }
            self.clashes(subject, range);
        }
        self.families(subject, &ranges);
    }

    /// A range, if host-local takes it.
    fn range<'n>(&mut self, node: &'n Node, path: String) -> Option<Range<'n>> {
        let subnet_node = node.get("subnet");
        let Some(subnet) = subnet_node.and_then(Node::as_text).and_then(|text| text.parse::<IpNet>().ok()) else {
            if subnet_node.is_none() {
                self.error(node.at, format!("{path}: the range has no subnet"), "set subnet");
            }
            return None;
        };
        let at = subnet_node.map_or(node.at, |node| node.at);
        let path_of = |key: &str| join(&path, key);
        if subnet != subnet.trunc() {
            self.error(
                at,
                format!("{}: {subnet} has bits set beyond its prefix", path_of("subnet")),
                format!("write \"{}\"", subnet.trunc()),
            );
            return None;
        }
        if subnet.prefix_len() > subnet.max_prefix_len() - 2 {
            self.error(
                at,
                format!("{}: {subnet} is too small to give addresses out", path_of("subnet")),
                "write a prefix with four addresses or more",
            );
            return None;
        }
        let last = if subnet.addr().is_ipv4() { step(subnet.broadcast(), -1) } else { subnet.broadcast() };
        let (start, end) = (self.address(node, "rangeStart")?, self.address(node, "rangeEnd")?);
        for (key, address) in [("rangeStart", start), ("rangeEnd", end)] {
            if let Some(address) = address.filter(|address| !subnet.contains(address)) {
                let at = node.get(key).map_or(node.at, |node| node.at);
                self.error(at, format!("{}: {address} is not in {subnet}", path_of(key)), "choose an address in the subnet");
                return None;
            }
        }
        let gateway = self.address(node, "gateway")?.unwrap_or(step(subnet.network(), 1));
        let range = Range { node, subnet, start: start.unwrap_or(step(subnet.network(), 1)), end: end.unwrap_or(last), gateway, path };
        if range.start > range.end {
            let message = format!("{}: {} comes after the end, {}", join(&range.path, "rangeStart"), range.start, range.end);
            self.error(range.at(), message, "choose a start before the end");
            return None;
        }
        if (start.is_some() || end.is_some()) && (range.start..=range.end).contains(&gateway) {
            let message = format!("{}: the gateway {gateway} is inside {}..{}", range.path, range.start, range.end);
            self.warning(range.at(), message, "choose a range without the gateway; host-local leaves it out, and others may not");
        }
        Some(range)
    }

    /// An address of a range; nothing at all if it is none, which was told already.
    fn address(&self, node: &Node, key: &str) -> Option<Option<IpAddr>> {
        match node.get(key).map(|node| node.as_text().unwrap_or("?")) {
            None | Some("") => Some(None),
            Some(text) => text.parse().ok().map(|address: IpAddr| Some(address.to_canonical())),
        }
    }

    /// Addresses of the subnet that a bridge has itself: the network's gateway, and the node's own on the bridge, which is
    /// the gateway of pods.
    fn clashes(&mut self, subject: &Subject<'_>, range: &Range<'_>) {
        if subject.plugin != "win-bridge" {
            return;
        }
        let third = step(range.subnet.network(), 3);
        let taken = [
            (step(range.subnet.network(), 1), "the gateway of the network"),
            (step(range.subnet.network(), 2), "the gateway that win-bridge gives to pods"),
        ];
        for (address, whose) in taken.into_iter().filter(|(address, _)| range.gives_out(*address)) {
            let message = format!("{}: host-local would give out {address}, which is {whose}", range.path);
            self.error(range.at(), message, format!("set rangeStart to \"{third}\" or later"));
        }
    }

    fn families(&mut self, subject: &Subject<'_>, ranges: &[Range<'_>]) {
        let build = self.surroundings.build.clone();
        let Some(ipv6) = ranges.iter().find(|range| range.subnet.addr().is_ipv6()) else { return };
        let alone = ranges.iter().all(|range| range.subnet.addr().is_ipv6());
        let (refused, why) = match () {
            _ if subject.is_overlay() && !build.overlay_ipv6 => (true, "has no IPv6 on overlay networks"),
            _ if alone && !build.ipv6_only => (true, "has no network with IPv6 alone"),
            _ => (!alone && !build.dual_stack, "has no endpoint with both families"),
        };
        if refused {
            self.error(ipv6.at(), format!("{}: {} {why}", ipv6.path, build.name), "give out IPv4 addresses only, or choose another build");
        }
    }
}

/// An address this many further on; the same at either end of all addresses.
fn step(address: IpAddr, by: i8) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(u32::from(address).saturating_add_signed(by.into()).into()),
        IpAddr::V6(address) => IpAddr::V6(u128::from(address).saturating_add_signed(by.into()).into()),
    }
}
