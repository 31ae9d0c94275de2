//! Which networks can be, and which can be together.

use super::{Checked, wrong};
use crate::topology::{KubeProxySpec, Mode, NetworkSpec, NodeSpec, Os, Plugin, Topology};

/// The VNIs that VXLAN has.
const LARGEST_VNI: u32 = (1 << 24) - 1;

/// The largest packet of the fabric's stand-in.
const FABRIC_MTU: u32 = 1500;

pub(super) fn check(topology: &Topology) -> Checked {
    check_one("network", &topology.network)?;
    for (position, node) in topology.nodes.iter().enumerate() {
        let field = format!("nodes[{position}].network");
        match (&node.network, node.os) {
            (None, _) => {}
            (Some(_), Os::Linux) => return wrong(field, "pods of a Linux node are connected to those of all others anyway; leave it away"),
            (Some(network), Os::Windows) => check_one(&field, network)?,
        }
    }
    check_overlay(topology)?;
    check_wire(topology)?;
    check_services(topology)?;
    check_families(topology)
}

/// A network by itself.
fn check_one(field: &str, network: &NetworkSpec) -> Checked {
    let mode = network.mode;
    if mode != Mode::Overlay && (network.vni.is_some() || network.port.is_some()) {
        return wrong(format!("{field}.vni"), "only an overlay has a VNI and a port; leave them away, or choose mode: overlay");
    }
    if !mode.plugins().contains(&network.plugin()) {
        let able = mode.plugins().iter().map(Plugin::to_string).collect::<Vec<_>>().join(" or ");
        return wrong(format!("{field}.plugin"), format!("{} cannot make {mode} networks; choose {able}", network.plugin()));
    }
    match network.vni {
        Some(vni) if vni == 0 || vni > LARGEST_VNI => wrong(format!("{field}.vni"), format!("{vni} is no VNI from 1 to {LARGEST_VNI}")),
        _ => Ok(()),
    }
}

/// The first Windows node with a mode, as the field that says so.
fn first(topology: &Topology, is_it: impl Fn(&NetworkSpec) -> bool) -> Option<String> {
    let has = |node: &NodeSpec| node.os == Os::Windows && is_it(topology.network_of(node));
    let position = topology.nodes.iter().position(has)?;
    Some(if topology.nodes[position].network.is_some() { format!("nodes[{position}].network") } else { "network".to_owned() })
}

/// Pods in an overlay are reached through its tunnels only, so that nobody else has a way to them.
fn check_overlay(topology: &Topology) -> Checked {
    let Some(overlay) = topology.overlay() else { return Ok(()) };
    match first(topology, |other| !other.is_like(overlay)) {
        None => Ok(()),
        Some(field) => wrong(
            field,
            "pods of an overlay and of another network have no way to each other; give all Windows nodes one overlay, or none of them",
        ),
    }
}

/// The fabric knows one hardware address behind every link, sends packets by their destination alone, and has a largest size of them.
fn check_wire(topology: &Topology) -> Checked {
    if !topology.has_mode(Mode::L2tunnel) {
        return Ok(());
    }
    if let Some(field) = first(topology, |network| !network.mode.has_load_balancers()) {
        let cause =
            "the fabric of an l2tunnel network leads neither to pods with hardware addresses of their own, nor to Services of other nodes";
        return wrong(format!("{field}.mode"), format!("{cause}; put the two into different labs"));
    }
    match topology.underlay.mtu > FABRIC_MTU {
        true => wrong("underlay.mtu", format!("the fabric of an l2tunnel network takes packets of {FABRIC_MTU} bytes; use that or less")),
        false => Ok(()),
    }
}

/// Where HNS has no load balancers, Linux nodes do what kube-proxy would.
fn check_services(topology: &Topology) -> Checked {
    let is_set_in_vain = |node: &NodeSpec| !topology.has_proxy(node) && node.kube_proxy != KubeProxySpec::default();
    if let Some(position) = topology.nodes.iter().position(is_set_in_vain) {
        let cause = "HNS has no load balancers on such networks, and kube-proxy does not run there; leave it away";
        return wrong(format!("nodes[{position}].kubeProxy"), cause);
    }
    let has_linux = topology.nodes.iter().any(|node| node.os == Os::Linux);
    match first(topology, |network| !network.mode.has_load_balancers()).filter(|_| !has_linux) {
        Some(field) => wrong(
            format!("{field}.mode"),
            "HNS has no load balancers on such networks, so that Linux nodes serve Services; add a node with os: linux",
        ),
        None => Ok(()),
    }
}

fn check_families(topology: &Topology) -> Checked {
    match topology.has_mode(Mode::Nat) && topology.has_family(true) {
        true => wrong("cluster.podSubnets", "the plugin nat gives pods one address, of IPv4; give one range of IPv4, or leave it away"),
        false => Ok(()),
    }
}
