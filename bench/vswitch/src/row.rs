//! The tests, and what is expected of them.

use crate::cpu::Placement;
use crate::data_path::DataPath;
use crate::load::Load;
use crate::system::Topology;

/// One test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) topology: Topology,
    /// Where it is run, as the first half of its name.
    place: &'static str,
    name: &'static str,
    pub(crate) load: Load,
    pub(crate) placement: Placement,
    /// Whether frames on the wire between nodes fit its MTU.
    pub(crate) wire_like: bool,
    /// What is expected of each data path.
    tap: Option<Targets>,
    bpf: Option<Targets>,
}

/// Our figure against the kernel's: what a data path must reach, and what it may hope for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Targets {
    pub(crate) floor: f64,
    pub(crate) stretch: f64,
    /// What is to be known about the two.
    pub(crate) remark: &'static str,
}

impl Row {
    /// The same test at another place.
    pub(crate) fn at(self, place: &'static str) -> Self {
        Self { place, ..self }
    }

    /// Whether it is a test of this place.
    pub(crate) fn is_at(&self, place: &str) -> bool {
        self.place == place
    }

    /// The whole name of the test.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.place, self.name)
    }

    /// What is expected, where something is.
    pub(crate) fn targets(&self, path: DataPath) -> Option<Targets> {
        match path {
            DataPath::Tap => self.tap,
            DataPath::Bpf => self.bpf,
        }
    }

    /// Whether less is better.
    pub(crate) fn less_is_better(&self) -> bool {
        self.load == Load::RoundTrips
    }

    /// Whether a ratio reaches a target.
    pub(crate) fn reaches(&self, ratio: f64, target: f64) -> bool {
        if self.less_is_better() { ratio <= target } else { ratio >= target }
    }
}

/// All tests between two pods. The targets are ratios that prototypes of the same design reached against the kernel on two vCPUs, less a
/// tenth for what they left out: first those of the portable path, then those of the kernel's.
pub(crate) const ROWS: &[Row] = &[
    same_node("1 stream", Load::Streams(1), Placement::Free, [targets(0.60, 0.75), targets(0.90, 1.00)]),
    same_node("4 streams", Load::Streams(4), Placement::Free, [targets(0.45, 0.58), targets(0.85, 0.95)]),
    same_node("RTT, cross-CPU", Load::RoundTrips, Placement::Split, [targets(1.30, 1.10), targets(1.15, 1.00)]),
    same_node("RTT, same CPU", Load::RoundTrips, Placement::Same, [report_only(13.00, 5.00), targets(1.00, 0.87)]),
    same_node("connections, pinned", Load::Connections, Placement::Same, [targets(0.25, 0.50), targets(1.00, 1.10)]),
    same_node("connections, free", Load::Connections, Placement::Free, [targets(0.45, 0.85), targets(0.95, 1.20)]),
    same_node("UDP, 64 bytes", Load::Datagrams, Placement::Split, [targets(0.38, 0.50), targets(1.10, 1.25)]),
    two_nodes("1 stream, super-packets", Load::Streams(1), Placement::Free, [targets(0.60, 0.75), targets(0.85, 1.05)]),
    two_nodes("4 streams", Load::Streams(4), Placement::Free, [targets(0.33, 0.45), targets(0.85, 1.00)]),
    wire_like(two_nodes("1 stream, wire-like", Load::Streams(1), Placement::Free, [targets(0.75, 0.90), targets(0.80, 1.00)])),
    two_nodes("RTT, cross-CPU", Load::RoundTrips, Placement::Split, [targets(1.70, 1.35), targets(1.05, 0.85)]),
    two_nodes("connections, pinned", Load::Connections, Placement::Same, [targets(0.27, 0.40), targets(0.90, 1.20)]),
    two_nodes("connections, free", Load::Connections, Placement::Free, [targets(0.38, 0.55), targets(0.85, 1.00)]),
    two_nodes("UDP, 64 bytes", Load::Datagrams, Placement::Split, [None, None]),
    service("1 stream", Load::Streams(1), Placement::Free, [targets(0.60, 0.75), targets(0.95, 1.05)]),
    // Of the kernel's path, the prototype in which user space decides about new connections; free, the one in which the kernel does.
    service("connections, pinned", Load::Connections, Placement::Same, [targets(0.28, 0.45), targets(0.40, 0.55)]),
    service("connections, free", Load::Connections, Placement::Free, [targets(0.55, 0.75), targets(0.95, 1.15)]),
];

const fn targets(floor: f64, stretch: f64) -> Option<Targets> {
    Some(Targets { floor, stretch, remark: "" })
}

const fn report_only(floor: f64, stretch: f64) -> Option<Targets> {
    Some(Targets { floor, stretch, remark: "report only" })
}

const fn same_node(name: &'static str, load: Load, placement: Placement, targets: [Option<Targets>; 2]) -> Row {
    row(Topology::SameNode, name, load, placement, targets)
}

const fn two_nodes(name: &'static str, load: Load, placement: Placement, targets: [Option<Targets>; 2]) -> Row {
    row(Topology::TwoNodes, name, load, placement, targets)
}

const fn service(name: &'static str, load: Load, placement: Placement, targets: [Option<Targets>; 2]) -> Row {
    row(Topology::Service, name, load, placement, targets)
}

const fn wire_like(row: Row) -> Row {
    Row { wire_like: true, ..row }
}

const fn row(topology: Topology, name: &'static str, load: Load, placement: Placement, [tap, bpf]: [Option<Targets>; 2]) -> Row {
    Row { topology, place: topology.name(), name, load, placement, wire_like: false, tap, bpf }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [DataPath; 2] = [DataPath::Tap, DataPath::Bpf];

    #[test]
    fn less_time_is_better_and_less_of_anything_else_is_not() {
        let [stream, _, round_trip, ..] = ROWS else { panic!("there are rows") };
        assert!(stream.reaches(0.7, 0.6) && !stream.reaches(0.5, 0.6));
        assert!(round_trip.reaches(1.2, 1.3) && !round_trip.reaches(1.4, 1.3));
    }

    #[test]
    fn a_stretch_lies_beyond_its_floor() {
        for (row, path) in ROWS.iter().flat_map(|row| PATHS.map(|path| (row, path))) {
            assert!(row.targets(path).is_none_or(|targets| row.reaches(targets.stretch, targets.floor)), "{}", row.name());
        }
    }

    #[test]
    fn a_test_keeps_its_targets_elsewhere() {
        let elsewhere = ROWS[0].at("elsewhere");
        assert_eq!(elsewhere.name(), "elsewhere: 1 stream");
        assert_eq!(elsewhere.targets(DataPath::Bpf), ROWS[0].targets(DataPath::Bpf));
    }

    #[test]
    fn the_kernels_path_must_reach_more() {
        for row in ROWS {
            let [tap, bpf] = PATHS.map(|path| row.targets(path));
            assert_eq!(tap.is_some(), bpf.is_some(), "{}", row.name());
            assert!(tap.zip(bpf).is_none_or(|(tap, bpf)| row.reaches(bpf.floor, tap.floor)), "{}", row.name());
        }
    }
}
