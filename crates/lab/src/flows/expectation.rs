//! What the documents promise of a flow, for the builds at its ends.

use serde::{Deserialize, Serialize};

use super::{Ends, Flow};
use crate::topology::{Mode, NodeSpec, Os, Topology};

/// What the documents promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expectation {
    /// Whether it works.
    pub works: bool,
    /// Which sentence says that it does not.
    pub because: String,
}

/// What is promised of a flow between nodes.
pub(crate) fn expect(topology: &Topology, flow: Flow, v6: bool, ends: &Ends) -> Expectation {
    let because = limit_of_mode(topology, flow, ends).or_else(|| limit_of_build(topology, flow, v6, ends)).unwrap_or_default();
    Expectation { works: because.is_empty(), because: because.to_owned() }
}

/// What cannot be on any build, as the mode is not made for it.
fn limit_of_mode(topology: &Topology, flow: Flow, ends: &Ends) -> Option<&'static str> {
    let is_behind = |node: &&NodeSpec| node.os == Os::Windows && topology.network_of(node).mode == Mode::Nat;
    topology.nodes.iter().find(|node| node.name == ends.to).filter(is_behind)?;
    match flow {
        Flow::PodToPodByIp | Flow::PodToPodByName | Flow::NodeToPod if ends.from != ends.to => {
            Some("behind NAT pods have their node's address, and others do not reach them by their own")
        }
        Flow::PodToServiceByIp | Flow::PodToServiceByShortName | Flow::PodToServiceByFqdn => {
            Some("behind NAT pods are no backends: other nodes, which serve Services there, do not reach them")
        }
        _ => None,
    }
}

/// What the builds at the ends cannot do.
fn limit_of_build(topology: &Topology, flow: Flow, v6: bool, ends: &Ends) -> Option<&'static str> {
    let node = |name: &str| topology.nodes.iter().find(|node| node.name == name);
    let is_limited = |name: &str| node(name).is_some_and(NodeSpec::is_real_windows);
    let any_limited = is_limited(&ends.from) || is_limited(&ends.to);
    topology.overlay()?;
    if v6 && any_limited {
        Some("overlay networks have no IPv6 on Windows")
    } else if flow == Flow::NodeToPod && is_limited(&ends.from) && ends.from != ends.to {
        Some("with flannel's VXLAN, Windows nodes reach their own pods only")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{DEFAULT, read};

    #[test]
    fn limits_hold_for_builds_of_windows_alone() {
        let mut topology = read(DEFAULT, &|_| Ok(())).unwrap().topology;
        let ends = |from: &str, to: &str| Ends { from: from.to_owned(), to: to.to_owned(), pods: None, title: String::new() };
        let works = |topology: &Topology, flow, v6, from: &str, to: &str| expect(topology, flow, v6, &ends(from, to)).works;
        assert!(works(&topology, Flow::NodeToPod, true, "win1", "win2"));
        topology.nodes[1].build = Some("ws2022".to_owned());
        assert!(!works(&topology, Flow::NodeToPod, false, "win1", "win2"));
        assert!(works(&topology, Flow::NodeToPod, false, "win1", "win1"));
        assert!(works(&topology, Flow::NodeToPod, false, "linux1", "win1"), "the kernel's own tunnels lead to all pods");
        assert!(!works(&topology, Flow::PodToPodByIp, true, "linux1", "win1"));
        assert!(works(&topology, Flow::PodToPodByIp, false, "linux1", "win1"));
        assert!(works(&topology, Flow::PodToPodByIp, true, "linux1", "win2"));
        topology.network.mode = Mode::L2bridge;
        assert!(works(&topology, Flow::PodToPodByIp, true, "linux1", "win1"));
    }

    #[test]
    fn behind_nat_nobody_is_reached_from_elsewhere() {
        let mut topology = read(DEFAULT, &|_| Ok(())).unwrap().topology;
        topology.network.mode = Mode::Nat;
        let ends = |from: &str, to: &str| Ends { from: from.to_owned(), to: to.to_owned(), pods: None, title: String::new() };
        let works = |from: &str, to: &str| Flow::ALL.map(|flow| expect(&topology, flow, false, &ends(from, to)).works);
        assert_eq!(works("win1", "win1"), [true, true, false, false, false, true, true, true, true]);
        for (from, to) in [("win1", "win2"), ("linux1", "win1")] {
            assert_eq!(works(from, to), [false, false, false, false, false, true, true, false, true], "{from} {to}");
        }
        for (from, to) in [("win1", "linux1"), ("linux1", "linux1")] {
            assert_eq!(works(from, to), [true; 9], "{from} {to}");
        }
    }
}
