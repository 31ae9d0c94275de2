//! What HNS is told: documents as CNI plugins and kube-proxy write them.

use std::net::Ipv4Addr;

use hcn::Guid;
use serde_json::{Value, json};

use crate::system::VNI;

/// Pods of one node, on its own subnet.
pub(super) fn bridge_network() -> Value {
    json!({
        "Name": "bridge",
        "Type": "L2Bridge",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "10.244.1.0/24",
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// A Service at some ports of an address, with the same ports at its backends.
pub(super) fn load_balancer(vip: Ipv4Addr, ports: &[u16], backends: &[Guid]) -> Value {
    let mapping = |port: &u16| json!({"Protocol": 6, "InternalPort": port, "ExternalPort": port});
    json!({
        "HostComputeEndpoints": backends.iter().map(Guid::to_string).collect::<Vec<_>>(),
        "FrontendVIPs": [vip.to_string()],
        "PortMappings": ports.iter().map(mapping).collect::<Vec<_>>(),
        "Flags": 1,
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// Pods of one of two nodes, and the way to those of the other.
pub(super) fn overlay_network(own: usize, other: usize) -> Value {
    json!({
        "Name": "overlay",
        "Type": "Overlay",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": format!("10.244.{own}.0/24"),
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": VNI}}],
            "Routes": [{"NextHop": format!("10.244.{own}.1"), "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "Policies": [
            {"Type": "DrMacAddress", "Settings": {"Address": format!("00-15-5D-AA-00-0{own}")}},
            {"Type": "RemoteSubnetRoute", "Settings": {
                "DestinationPrefix": format!("10.244.{other}.0/24"),
                "IsolationId": VNI,
                "ProviderAddress": format!("192.168.0.{other}"),
                "DistributedRouterMacAddress": format!("00-15-5D-AA-00-0{other}"),
            }},
        ],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// An endpoint with the policies that CNI plugins give it.
pub(super) fn endpoint(name: &str, address: &str, gateway: &str) -> Value {
    json!({
        "Name": name,
        "IpConfigurations": [{"IpAddress": address, "PrefixLength": 24}],
        "Routes": [{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}],
        "Policies": [{"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// A namespace for a pod.
pub(super) fn namespace(name: &str) -> Value {
    json!({"Type": "Host", "Name": name, "SchemaVersion": {"Major": 2, "Minor": 0}})
}
