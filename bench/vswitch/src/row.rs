//! The tests, and what is expected of them.

use crate::cpu::Placement;
use crate::load::Load;
use crate::system::Topology;

/// One test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) topology: Topology,
    name: &'static str,
    pub(crate) load: Load,
    pub(crate) placement: Placement,
    /// Whether frames on the wire between nodes fit its MTU.
    pub(crate) wire_like: bool,
    /// Our figure against the kernel's: what the portable path must reach, and what it may hope for.
    pub(crate) floor: Option<f64>,
    pub(crate) stretch: Option<f64>,
    /// What is to be known about the two.
    pub(crate) remark: &'static str,
}

impl Row {
    /// The whole name of the test.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.topology.name(), self.name)
    }

    /// Whether less is better.
    pub(crate) fn less_is_better(&self) -> bool {
        self.load == Load::RoundTrips
    }

    /// Whether a ratio reaches a target.
    pub(crate) fn reaches(&self, ratio: f64, target: Option<f64>) -> Option<bool> {
        target.map(|target| if self.less_is_better() { ratio <= target } else { ratio >= target })
    }
}

/// All tests. The targets are ratios that prototypes of the same design reached against the kernel on two vCPUs, less a tenth for
/// what they left out.
pub(crate) const ROWS: &[Row] = &[
    same_node("1 stream", Load::Streams(1), Placement::Free, Some(0.60), Some(0.75), ""),
    same_node("4 streams", Load::Streams(4), Placement::Free, Some(0.45), Some(0.58), ""),
    same_node("RTT, cross-CPU", Load::RoundTrips, Placement::Split, Some(1.3), Some(1.1), ""),
    same_node("RTT, same CPU", Load::RoundTrips, Placement::Same, Some(13.0), Some(5.0), "report only"),
    same_node("connections, pinned", Load::Connections, Placement::Same, Some(0.25), Some(0.50), ""),
    same_node("connections, free", Load::Connections, Placement::Free, Some(0.45), Some(0.85), ""),
    same_node("UDP, 64 bytes", Load::Datagrams, Placement::Split, Some(0.38), Some(0.50), ""),
    two_nodes("1 stream, super-packets", Load::Streams(1), Placement::Free, Some(0.60), Some(0.75), ""),
    two_nodes("4 streams", Load::Streams(4), Placement::Free, Some(0.33), Some(0.45), ""),
    Row { wire_like: true, ..two_nodes("1 stream, wire-like", Load::Streams(1), Placement::Free, Some(0.75), Some(0.90), "") },
    two_nodes("RTT, cross-CPU", Load::RoundTrips, Placement::Split, Some(1.7), Some(1.35), ""),
    two_nodes("connections, pinned", Load::Connections, Placement::Same, Some(0.27), Some(0.40), ""),
    two_nodes("connections, free", Load::Connections, Placement::Free, Some(0.38), Some(0.55), ""),
    two_nodes("UDP, 64 bytes", Load::Datagrams, Placement::Split, None, None, ""),
    service("1 stream", Load::Streams(1), Placement::Free, Some(0.60), Some(0.75)),
    service("connections, pinned", Load::Connections, Placement::Same, Some(0.28), Some(0.45)),
    service("connections, free", Load::Connections, Placement::Free, Some(0.55), Some(0.75)),
];

const fn service(name: &'static str, load: Load, placement: Placement, floor: Option<f64>, stretch: Option<f64>) -> Row {
    Row { topology: Topology::Service, ..same_node(name, load, placement, floor, stretch, "") }
}

const fn same_node(
    name: &'static str,
    load: Load,
    placement: Placement,
    floor: Option<f64>,
    stretch: Option<f64>,
    remark: &'static str,
) -> Row {
    Row { topology: Topology::SameNode, name, load, placement, wire_like: false, floor, stretch, remark }
}

const fn two_nodes(
    name: &'static str,
    load: Load,
    placement: Placement,
    floor: Option<f64>,
    stretch: Option<f64>,
    remark: &'static str,
) -> Row {
    Row { topology: Topology::TwoNodes, ..same_node(name, load, placement, floor, stretch, remark) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_is_better_and_less_of_anything_else_is_not() {
        let [stream, _, round_trip, ..] = ROWS else { panic!("there are rows") };
        assert_eq!(stream.reaches(0.7, stream.floor), Some(true));
        assert_eq!(stream.reaches(0.5, stream.floor), Some(false));
        assert_eq!(round_trip.reaches(1.2, round_trip.floor), Some(true));
        assert_eq!(round_trip.reaches(1.4, round_trip.floor), Some(false));
        assert_eq!(stream.reaches(0.5, None), None);
    }

    #[test]
    fn a_stretch_lies_beyond_its_floor() {
        assert!(ROWS.iter().all(|row| row.stretch.is_none_or(|stretch| row.reaches(stretch, row.floor) == Some(true))));
    }
}
