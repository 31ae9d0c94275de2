//! In which order addresses are tried: once around the whole set, beginning after the one that was given out last, so
//! that a container that is started over and over does not get the same address again.

use std::net::IpAddr;

use super::range::{Range, RangeSet};

/// A walk around a set. It gives every address but the gateways, each once.
pub(super) struct Cursor<'a> {
    set: &'a RangeSet,
    range: usize,
    current: Option<IpAddr>,
    start: Option<IpAddr>,
}

impl<'a> Cursor<'a> {
    /// Begins after the address given, or at the first of the set if it is not one of it.
    pub(super) fn new(set: &'a RangeSet, last: Option<IpAddr>) -> Self {
        let found = last.and_then(|last| set.ranges().iter().position(|range| range.contains(last)));
        let current = found.and(last);
        Self { set, range: found.unwrap_or(0), current, start: None }
    }

    /// The next address, gateway or not.
    fn advance(&mut self) -> Option<IpAddr> {
        let ranges = self.set.ranges();
        let next = match self.current {
            None => ranges[self.range].start(),
            Some(current) => ranges[self.range].after(current).unwrap_or_else(|| {
                self.range = (self.range + 1) % ranges.len();
                ranges[self.range].start()
            }),
        };
        if self.start == Some(next) {
            return None;
        }
        self.start.get_or_insert(next);
        self.current = Some(next);
        Some(next)
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = (IpAddr, &'a Range);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let address = self.advance()?;
            let range = &self.set.ranges()[self.range];
            if address != range.gateway() {
                return Some((address, range));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::range::tests::set;
    use super::*;

    fn walk(set: &RangeSet, last: Option<&str>) -> String {
        let addresses: Vec<String> =
            Cursor::new(set, last.map(|last| last.parse().unwrap())).map(|(address, _)| address.to_string()).collect();
        addresses.join(" ")
    }

    #[test]
    fn it_begins_at_the_first_and_skips_the_gateway() {
        let set = set(&[json!({"subnet": "10.0.0.0/29"})]);
        assert_eq!(walk(&set, None), "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6");
    }

    #[test]
    fn it_goes_on_after_the_last_and_wraps() {
        let set = set(&[json!({"subnet": "10.0.0.0/29"})]);
        assert_eq!(walk(&set, Some("10.0.0.4")), "10.0.0.5 10.0.0.6 10.0.0.2 10.0.0.3 10.0.0.4");
        assert_eq!(walk(&set, Some("10.0.0.6")), "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6");
        assert_eq!(walk(&set, Some("10.0.0.1")), "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6");
    }

    #[test]
    fn a_last_one_from_elsewhere_does_not_count() {
        let set = set(&[json!({"subnet": "10.0.0.0/30"})]);
        assert_eq!(walk(&set, Some("10.9.0.4")), "10.0.0.2");
        assert_eq!(walk(&set, Some("fd00::1")), "10.0.0.2");
    }

    #[test]
    fn it_goes_through_several_ranges() {
        let set =
            set(&[json!({"subnet": "10.0.0.0/30"}), json!({"subnet": "10.0.1.0/29", "rangeStart": "10.0.1.3", "rangeEnd": "10.0.1.4"})]);
        assert_eq!(walk(&set, None), "10.0.0.2 10.0.1.3 10.0.1.4");
        assert_eq!(walk(&set, Some("10.0.1.3")), "10.0.1.4 10.0.0.2 10.0.1.3");
        assert_eq!(walk(&set, Some("10.0.1.4")), "10.0.0.2 10.0.1.3 10.0.1.4");
    }

    #[test]
    fn a_range_with_nothing_but_its_gateway_gives_nothing() {
        let set = set(&[json!({"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.1", "rangeEnd": "10.0.0.1"})]);
        assert_eq!(walk(&set, None), "");
        assert_eq!(walk(&set, Some("10.0.0.1")), "");
    }

    proptest! {
        /// Wherever it begins, it gives every address of the set that is no gateway, once.
        #[test]
        fn it_gives_each_address_once(ranges in proptest::collection::vec((0u8..20, 1u8..20), 1..4), last in proptest::option::of((0u8..4, any::<u8>()))) {
            let documents: Vec<_> = ranges.iter().enumerate().map(|(index, (start, length))| json!({
                "subnet": format!("10.0.{index}.0/24"),
                "rangeStart": format!("10.0.{index}.{start}"),
                "rangeEnd": format!("10.0.{index}.{}", start + length),
            })).collect();
            let set = set(&documents);
            let last = last.map(|(third, fourth)| IpAddr::from([10, 0, third, fourth]));
            let mut given: Vec<IpAddr> = Cursor::new(&set, last).map(|(address, _)| address).collect();
            prop_assert!(given.iter().all(|address| set.gives_out(*address)));
            given.sort();
            given.dedup();
            prop_assert_eq!(given.len() as u128, set.size());
        }
    }
}
