//! The configuration of a Windows node's network, as its plugin reads it.

use std::path::Path;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::node::has_exceptions;
use crate::topology::{Mode, NetworkSpec, NodeSpec, Plugin, Topology, all_but};

/// The flag of a translation that is for IPv6.
const IPV6: u32 = 2;

/// The configuration for the plugin of the node at a position.
pub(super) fn config(directory: &Path, position: usize, topology: &Topology) -> Value {
    let node = &topology.nodes[position];
    let network = topology.network_of(node);
    let subnets = topology.node_subnets(position);
    let mut config = match network.plugin() {
        Plugin::Flannel => flannel(directory, node, network, topology),
        Plugin::AzureVnet => azure_vnet(directory, node, network, topology, &subnets),
        Plugin::Sdnbridge => json!({
            "type": "sdnbridge", "ipam": host_local(directory, &subnets), "optionalFlags": {"enableDualStack": subnets.len() > 1}}),
        // The plugin makes the network of this one subnet, and reads no list.
        Plugin::Nat => json!({
            "type": "nat", "ipam": {"type": "host-local", "subnet": subnets.first(), "dataDir": directory.join("addresses")}}),
    };
    config["cniVersion"] = json!(cni_version(node, network.plugin()));
    config["name"] = json!(network.name());
    config
}

/// The plugin `flannel`, in front of the one that the mode needs.
fn flannel(directory: &Path, node: &NodeSpec, network: &NetworkSpec, topology: &Topology) -> Value {
    let policies: Vec<Value> =
        translations(node, topology).into_iter().map(|value| json!({"name": "EndpointPolicy", "value": value})).collect();
    json!({
        "type": "flannel", "subnetFile": directory.join("subnet.env"), "dataDir": directory.join("flannel"),
        "ipam": {"dataDir": directory.join("addresses")},
        "delegate": {"type": network.plugin_name(), "apiVersion": 2, "policies": policies}})
}

/// azure-vnet, which is told the adapter: the node has no address among those of pods.
fn azure_vnet(directory: &Path, node: &NodeSpec, network: &NetworkSpec, topology: &Topology, subnets: &[IpNet]) -> Value {
    let policies: Vec<Value> =
        translations(node, topology).into_iter().map(|value| json!({"Name": "EndpointPolicy", "Value": value})).collect();
    let ipam = match subnets {
        // What the cloud has given to the node is listed in a file, as on its machines without a host agent.
        [IpNet::V4(_)] => json!({
            "type": "azure-vnet-ipam", "environment": "fileIpam", "file": directory.join("interfaces.json"), "stateDir": directory.join("azure")}),
        // It knows no address of the other family.
        _ => host_local(directory, subnets),
    };
    let mode = if network.mode == Mode::L2tunnel { "tunnel" } else { "bridge" };
    json!({"type": "azure-vnet", "mode": mode, "adapterName": "eth0", "ipam": ipam, "AdditionalArgs": policies})
}

fn host_local(directory: &Path, subnets: &[IpNet]) -> Value {
    let ranges: Vec<Value> = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    json!({"type": "host-local", "ranges": ranges, "dataDir": directory.join("addresses")})
}

/// The version that a node's plugins are spoken to in. win-bridge and win-overlay of Windows end before CHECK came.
fn cni_version(node: &NodeSpec, plugin: Plugin) -> &'static str {
    if node.is_real_windows() && plugin == Plugin::Flannel { "0.3.1" } else { "1.0.0" }
}

/// What leaves the cluster gets the node's address. Each family has a policy of its own.
fn translations(node: &NodeSpec, topology: &Topology) -> Vec<Value> {
    [false, true].into_iter().filter(|v6| topology.has_family(*v6)).map(|v6| translation(node, topology, v6)).collect()
}

fn translation(node: &NodeSpec, topology: &Topology, v6: bool) -> Value {
    let ranges = topology.cluster.pod_subnets.iter().chain(&topology.cluster.service_subnets);
    let inside: Vec<IpNet> = ranges.filter(|range| range.addr().is_ipv6() == v6).copied().collect();
    let mut settings = match has_exceptions(node, topology) {
        true => json!({"Exceptions": inside}),
        false => json!({"Destinations": all_but(&inside, v6)}),
    };
    if v6 {
        settings["Flags"] = json!(IPV6);
    }
    json!({"Type": "OutBoundNAT", "Settings": settings})
}
