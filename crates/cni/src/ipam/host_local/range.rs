//! Ranges of addresses: how one is completed from its configuration, and sets of them.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::error::{Error, Result};
use crate::object::Object;

/// Addresses from the first to the last, both included, of one subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    subnet: IpNet,
    start: IpAddr,
    end: IpAddr,
    gateway: IpAddr,
}

impl Range {
    /// Reads a range and completes it: what is not told follows from the subnet.
    pub(super) fn read(object: &Object<'_>) -> Result<Self> {
        let refuse = |key: &str, why: String, remedy: &str| {
            Err(Error::invalid_network_config(format!("{}: {why}", object.path(key))).details(remedy))
        };
        let Some(subnet) = object.prefix("subnet")? else {
            return refuse("subnet", "a range needs a subnet".to_owned(), "write one such as 10.244.1.0/24");
        };
        if subnet.prefix_len() > subnet.max_prefix_len() - 2 {
            return refuse("subnet", format!("Network {subnet} too small to allocate from"), "use a shorter prefix");
        }
        if subnet.addr() != subnet.addr().to_canonical() {
            return refuse("subnet", format!("{subnet} is IPv4 in the clothes of IPv6"), "write it as IPv4");
        }
        if subnet.addr() != subnet.network() {
            let message = format!(
                "Network has host bits set. For a subnet mask of length {} the network address is {}",
                subnet.prefix_len(),
                subnet.network()
            );
            return refuse("subnet", message, "write the network address");
        }
        let first = from_number(subnet, to_number(subnet.network()) + 1);
        let (start, end) = (object.address("rangeStart")?, object.address("rangeEnd")?);
        for (key, address) in [("rangeStart", start), ("rangeEnd", end)] {
            if let Some(address) = address.filter(|address| !subnet.contains(address)) {
                return refuse(key, format!("{address} not in network {subnet}"), "write an address of the subnet, or leave the key out");
            }
        }
        let range = Self {
            subnet,
            start: start.unwrap_or(first),
            end: end.unwrap_or_else(|| last(subnet)),
            gateway: object.address("gateway")?.unwrap_or(first),
        };
        match range.start > range.end {
            true => refuse("rangeStart", format!("{} is after the end, {}", range.start, range.end), "exchange the two"),
            false => Ok(range),
        }
    }

    pub(super) fn subnet(&self) -> IpNet {
        self.subnet
    }

    pub(super) fn start(&self) -> IpAddr {
        self.start
    }

    pub(super) fn gateway(&self) -> IpAddr {
        self.gateway
    }

    /// Whether an address is one of these. The gateway may be, although it is not given out.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        // Addresses are ordered by family first.
        (self.start..=self.end).contains(&address)
    }

    /// The address after one of these, unless it is the last.
    pub(super) fn after(&self, address: IpAddr) -> Option<IpAddr> {
        (address != self.end).then(|| from_number(self.subnet, to_number(address) + 1))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// How many addresses can be given out.
    fn size(&self) -> u128 {
        let all = (to_number(self.end) - to_number(self.start)).saturating_add(1);
        all - u128::from(self.contains(self.gateway))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// The last address to give out: IPv4's very last is for broadcasts.
fn last(subnet: IpNet) -> IpAddr {
    match subnet {
        IpNet::V4(_) => from_number(subnet, to_number(subnet.broadcast()) - 1),
        IpNet::V6(_) => subnet.broadcast(),
    }
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of the subnet's family with a number that is one of the subnet's.
fn from_number(subnet: IpNet, number: u128) -> IpAddr {
    match subnet {
        IpNet::V4(_) => IpAddr::V4((number as u32).into()),
        IpNet::V6(_) => IpAddr::V6(number.into()),
    }
}

/// Ranges of one family, from which a container gets one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangeSet {
    ranges: Vec<Range>,
}

impl RangeSet {
    /// Of these ranges, which stand at `path` in the configuration.
    pub(super) fn new(ranges: Vec<Range>, path: &str) -> Result<Self> {
        let refuse = |why: String, remedy: &str| Err(Error::invalid_network_config(format!("{path}: {why}")).details(remedy));
        let Some(first) = ranges.first() else {
            return refuse("empty range set".to_owned(), "put a range into it, or remove it");
        };
        if ranges.iter().any(|range| range.start.is_ipv4() != first.start.is_ipv4()) {
            return refuse("mixed address families".to_owned(), "make a set for each family");
        }
        for (index, one) in ranges.iter().enumerate() {
            if let Some(other) = ranges[index + 1..].iter().find(|other| one.overlaps(other)) {
                return refuse(format!("subnets {one} and {other} overlap"), "make them apart");
            }
        }
        Ok(Self { ranges })
    }

    pub(super) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.ranges.iter().all(|range| range.start.is_ipv4())
    }

    pub(super) fn range_for(&self, address: IpAddr) -> Option<&Range> {
        self.ranges.iter().find(|range| range.contains(address))
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.range_for(address).is_some()
    }

    /// Whether an address is one that the set may give out.
    pub(super) fn gives_out(&self, address: IpAddr) -> bool {
        self.range_for(address).is_some_and(|range| range.gateway != address)
    }

    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.ranges.iter().any(|one| other.ranges.iter().any(|other| one.overlaps(other)))
    }

    /// How many addresses can be given out.
    pub(super) fn size(&self) -> u128 {
        self.ranges.iter().map(Range::size).fold(0, u128::saturating_add)
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(Range::to_string).collect();
        f.write_str(&ranges.join(","))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn range(document: Value) -> Result<Range> {
        Range::read(&Object::read(&document, "r".to_owned())?)
    }

    /// A set of these ranges, each as a document.
    pub(in super::super) fn set(ranges: &[Value]) -> RangeSet {
        RangeSet::new(ranges.iter().map(|document| range(document.clone()).unwrap()).collect(), "set").unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_subnet_is_enough() {
        let v4 = range(json!({"subnet": "192.0.2.0/24"})).unwrap();
        assert_eq!((v4.to_string().as_str(), v4.gateway), ("192.0.2.1-192.0.2.254", address("192.0.2.1")));
        let v6 = range(json!({"subnet": "2001:db8:1::/64"})).unwrap();
        assert_eq!((v6.to_string().as_str(), v6.gateway), ("2001:db8:1::1-2001:db8:1:0:ffff:ffff:ffff:ffff", address("2001:db8:1::1")));
        assert_eq!((v4.size(), v6.size()), (253, (1 << 64) - 2));
    }

    #[test]
    fn everything_can_be_told() {
        let range =
            range(json!({"Subnet": "192.0.2.0/24", "rangeStart": "192.0.2.40", "rangeEnd": "192.0.2.50", "gateway": "192.0.2.254"}))
                .unwrap();
        assert_eq!((range.to_string().as_str(), range.gateway, range.size()), ("192.0.2.40-192.0.2.50", address("192.0.2.254"), 11));
        assert!(range.contains(address("192.0.2.40")) && range.contains(address("192.0.2.50")));
        assert!(!range.contains(address("192.0.2.39")) && !range.contains(address("192.0.2.51")) && !range.contains(address("::1")));
    }

    #[test]
    fn ends_of_the_subnet_may_be_told() {
        let range = range(json!({"subnet": "10.0.0.0/30", "rangeStart": "10.0.0.0", "rangeEnd": "10.0.0.3"})).unwrap();
        assert_eq!(range.size(), 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let table = [
            (json!({}), 7, "r.subnet: a range needs a subnet"),
            (json!({"subnet": "192.0.2.0/31"}), 7, "r.subnet: Network 192.0.2.0/31 too small to allocate from"),
            (json!({"subnet": "2001:db8::/127"}), 7, "too small"),
            (
                json!({"subnet": "192.0.2.12/24"}),
                7,
                "Network has host bits set. For a subnet mask of length 24 the network address is 192.0.2.0",
            ),
            (json!({"subnet": "192.0.2.0/24", "rangeStart": "192.0.3.1"}), 7, "r.rangeStart: 192.0.3.1 not in network 192.0.2.0/24"),
            (json!({"subnet": "192.0.2.0/24", "rangeEnd": "192.0.4.0"}), 7, "r.rangeEnd: 192.0.4.0 not in network 192.0.2.0/24"),
            (json!({"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.50", "rangeEnd": "192.0.2.40"}), 7, "192.0.2.50 is after the end"),
            (json!({"subnet": "192.0.2.0/24", "rangeStart": "192.0.2.255"}), 7, "192.0.2.255 is after the end"),
            (json!({"subnet": "192.0.2.0/24", "rangeStart": "2001:db8::1"}), 7, "not in network"),
            (json!({"subnet": "::ffff:192.0.2.0/120"}), 7, "IPv4 in the clothes of IPv6"),
            (json!({"subnet": "192.0.2.0"}), 6, "r.subnet"),
            (json!({"subnet": "192.0.2.0/24", "gateway": "x"}), 6, "r.gateway"),
        ];
        for (document, code, message) in table {
            let error = range(document.clone()).unwrap_err();
            assert_eq!(error.code, code, "{document}");
            assert!(error.msg.contains(message), "{}", error.msg);
        }
    }

    #[test]
    fn sets_are_of_one_family_and_apart() {
        let read = |subnets: &[&str]| RangeSet::new(subnets.iter().map(|subnet| range(json!({"subnet": subnet})).unwrap()).collect(), "s");
        assert_eq!(read(&[]).unwrap_err().msg, "s: empty range set");
        assert_eq!(read(&["10.0.0.0/24", "2001:db8::/64"]).unwrap_err().msg, "s: mixed address families");
        assert_eq!(
            read(&["10.0.0.0/20", "10.0.1.0/24"]).unwrap_err().msg,
            "s: subnets 10.0.0.1-10.0.15.254 and 10.0.1.1-10.0.1.254 overlap"
        );
        let set = read(&["10.0.0.0/24", "10.0.1.0/24"]).unwrap();
        assert!(set.contains(address("10.0.1.7")) && !set.contains(address("10.0.2.7")));
        assert!(set.gives_out(address("10.0.1.2")) && !set.gives_out(address("10.0.1.1")));
        assert_eq!((set.to_string().as_str(), set.size()), ("10.0.0.1-10.0.0.254,10.0.1.1-10.0.1.254", 506));
        assert!(set.overlaps(&read(&["10.0.1.0/25"]).unwrap()) && !set.overlaps(&read(&["10.0.2.0/24"]).unwrap()));
    }

    #[test]
    fn the_whole_of_a_family_can_be_counted() {
        assert_eq!(set(&[json!({"subnet": "::/0", "rangeStart": "::"})]).size(), u128::MAX - 1);
        assert_eq!(set(&[json!({"subnet": "0.0.0.0/0"})]).size(), (1 << 32) - 3);
    }
}
