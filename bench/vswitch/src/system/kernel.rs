//! The baseline: veth and the kernel's bridge, and its VXLAN device between nodes.

use std::net::Ipv4Addr;

use super::{INNER_MTU, System, Topology, VNI, nftables, service};
use crate::links::{self, ip};

/// The port that IANA has given to VXLAN.
const PORT: u16 = 4789;

/// Sets it up.
pub(crate) fn set_up(topology: Topology) -> Result<System, String> {
    match topology {
        Topology::SameNode => same_node("k"),
        Topology::TwoNodes => two_nodes(),
        Topology::Service => service(),
    }
}

/// Two pods on a node. The names of its namespaces begin with `name`.
pub(crate) fn same_node(name: &str) -> Result<System, String> {
    let (node, pods) = (format!("{name}-node"), [format!("{name}-pod1"), format!("{name}-pod2")]);
    links::namespace(&node)?;
    bridge(&node)?;
    let client = links::pod(&pods[0], &node, "10.244.1.11/24", 1500)?;
    let server = links::pod(&pods[1], &node, "10.244.1.12/24", 1500)?;
    for pod in pods {
        ip(&format!("-n {node} link set dev {pod} master br0"))?;
    }
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 1, 12), nodes: Vec::new(), daemons: Vec::new() })
}

/// Routed pods, as Services are a matter of the node's routing.
fn service() -> Result<System, String> {
    let node = "k-svc";
    let namespace = links::namespace(node)?;
    links::let_forward(&namespace)?;
    let mut pods = Vec::new();
    for (number, pod) in (1..).zip(["k-svc1", "k-svc2"]) {
        let address = format!("10.244.1.1{number}");
        pods.push(links::pod(pod, node, &format!("{address}/32"), 1500)?);
        ip(&format!("-n {node} address add 10.244.1.1/32 dev {pod}"))?;
        ip(&format!("-n {node} route add {address}/32 dev {pod}"))?;
        ip(&format!("-n {pod} route add 10.244.1.1/32 dev eth0"))?;
        ip(&format!("-n {pod} route add default via 10.244.1.1"))?;
    }
    nftables::load(node, &service::frontends(), "10.244.1.12")?;
    let [client, server] = <[_; 2]>::try_from(pods).map_err(|_| "two pods were to be made")?;
    Ok(System { client, server, address: service::VIP, nodes: Vec::new(), daemons: Vec::new() })
}

fn two_nodes() -> Result<System, String> {
    let nodes = ["k-node1", "k-node2"];
    nodes.iter().try_for_each(|node| links::namespace(node).map(drop))?;
    links::wire([(nodes[0], Some("192.168.0.1/24")), (nodes[1], Some("192.168.0.2/24"))])?;
    let mut pods = Vec::new();
    for (number, node) in (1..).zip(nodes) {
        let (pod, other) = (format!("k-far{number}"), 3 - number);
        bridge(node)?;
        pods.push(links::pod(&pod, node, &format!("10.244.0.{number}/24"), INNER_MTU)?);
        let ends = format!("local 192.168.0.{number} remote 192.168.0.{other} dstport {PORT} dev eth0");
        ip(&format!("-n {node} link add name vxlan0 mtu {INNER_MTU} type vxlan id {VNI} {ends}"))?;
        for link in [&pod, "vxlan0"] {
            ip(&format!("-n {node} link set dev {link} master br0 up"))?;
        }
    }
    let [client, server] = <[_; 2]>::try_from(pods).map_err(|_| "two pods were to be made")?;
    let nodes = nodes.map(str::to_owned).to_vec();
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 0, 2), nodes, daemons: Vec::new() })
}

fn bridge(node: &str) -> Result<(), String> {
    ip(&format!("-n {node} link add name br0 type bridge"))?;
    ip(&format!("-n {node} link set dev br0 up"))
}
