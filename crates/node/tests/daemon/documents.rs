//! The documents that the tests send.

use hcn::Guid;
use serde_json::{Value, json};

/// The network on which most endpoints are made.
pub(crate) const NETWORK: Guid = Guid::from_u128(0x0E10_0000_0000_4000_8000_0000_0000_0001);

/// The network, with one subnet.
pub(crate) fn network() -> Value {
    let mut network = other_network(1);
    network["ID"] = NETWORK.to_string().into();
    network["Name"] = "pods".into();
    network
}

/// One of many networks that do not get in each other's way.
pub(crate) fn other_network(number: u8) -> Value {
    json!({
        "Name": format!("pods{number}"),
        "Type": "Overlay",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": format!("10.{number}.0.0/22"),
            "Routes": [{"NextHop": format!("10.{number}.0.1"), "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096 + u32::from(number)}}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// An endpoint on the network; the service chooses its addresses.
pub(crate) fn endpoint(name: &str) -> Value {
    json!({"Name": name, "HostComputeNetwork": NETWORK.to_string(), "SchemaVersion": {"Major": 2, "Minor": 0}})
}

/// A namespace: the smallest document there is.
pub(crate) fn namespace() -> Value {
    json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}})
}

/// A load balancer in front of an endpoint.
pub(crate) fn load_balancer(endpoint: Guid, port: u16) -> Value {
    json!({
        "HostComputeEndpoints": [endpoint.to_string()],
        "SourceVIP": "192.0.2.10",
        "FrontendVIPs": ["11.0.0.1"],
        "PortMappings": [{"Protocol": 6, "InternalPort": 8080, "ExternalPort": port}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}
