//! What a first packet costs, as a table.

use rig::figure::{median, short};
use rig::table::{row, table};

use super::comparison::spread;
use crate::first_packet::{FirstPackets, NAMES};
use crate::load::{RoundTrip, Trips};
use crate::measure::{KERNEL, OURS};

const EXPLANATION: &str = "\
A first packet by itself: datagrams of one byte and their answers, one after the other, both ends on CPU 0; 5,000 flows in every round,
each used twice, in batches of 250 whose sockets were made before. The first round trip of a flow is compared with the second. Middle and
mean; the difference is of the middles, in the same round.
";

/// The explanation and the table.
pub(super) fn first_packet(packets: &FirstPackets) -> String {
    let [kernel, ours] = NAMES;
    let mut rows = vec![row(&["round trip", kernel, ours, &format!("{ours} : {kernel}")])];
    rows.push(trip("that begins a flow", packets, |trips| trips.first));
    rows.push(trip("of a known flow", packets, |trips| trips.known));
    let difference = |subject| match packets.of(subject, Trips::difference) {
        values if values.is_empty() => "-".to_owned(),
        values => format!("{} µs", short(median(&values))),
    };
    // A ratio of differences means nothing where that of the kernel is next to nothing.
    rows.push(row(&["what a first packet costs beyond a known one", &difference(KERNEL), &difference(OURS), "-"]));
    format!("{EXPLANATION}\n{}", table(&rows, 1))
}

fn trip(name: &str, packets: &FirstPackets, which: impl Fn(&Trips) -> RoundTrip) -> Vec<String> {
    let absolute = |subject| match packets.of(subject, |trips| which(trips).middle) {
        middles if middles.is_empty() => "-".to_owned(),
        middles => format!("{} µs (mean {})", short(median(&middles)), short(median(&packets.of(subject, |trips| which(trips).mean)))),
    };
    row(&[name, &absolute(KERNEL), &absolute(OURS), &spread(&packets.ratios(|trips| which(trips).middle))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_what_counts() {
        let trips = |first: f64, known: f64| {
            let trip = |middle: f64| RoundTrip { middle, mean: middle + 1.0 };
            Some(Trips { first: trip(first), known: trip(known) })
        };
        let trips = [vec![trips(8.0, 7.5)], vec![trips(40.0, 7.0)]];
        let text = first_packet(&FirstPackets { trips, failures: Vec::new() });
        assert!(text.contains("| 8.00 µs (mean 9.00) | 40.0 µs (mean 41.0) | 5.00 [5.00-5.00] |"), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.contains("0.50 µs |") && line.contains("33.0 µs |")), "{text}");
    }

    #[test]
    fn nothing_is_shown_as_nothing() {
        let text = first_packet(&FirstPackets::default());
        assert_eq!(text.lines().filter(|line| line.ends_with("- |")).count(), 3, "{text}");
    }
}
