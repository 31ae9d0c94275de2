//! Documents as clients of HNS write them.

use serde_json::{Value, json};

/// The schema of all of them.
pub(crate) fn schema() -> Value {
    json!({ "Major": 2, "Minor": 0 })
}

/// A subnet with its gateway.
pub(crate) fn subnet(prefix: &str, gateway: &str) -> Value {
    json!({ "IpAddressPrefix": prefix, "Routes": [route(gateway)] })
}

/// The default route by a gateway.
pub(crate) fn route(gateway: &str) -> Value {
    let everything = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
    json!({ "NextHop": gateway, "DestinationPrefix": everything })
}

/// A subnet of an overlay, in a virtual network.
pub(crate) fn overlay_subnet(prefix: &str, gateway: &str, vni: u32) -> Value {
    let mut subnet = subnet(prefix, gateway);
    subnet["Policies"] = json!([{ "Type": "VSID", "Settings": { "IsolationId": vni } }]);
    subnet
}

/// A network.
pub(crate) fn network(name: &str, kind: &str, subnets: &[Value], policies: &[Value]) -> Value {
    let mut network = json!({ "Name": name, "Type": kind, "SchemaVersion": schema(), "Policies": policies });
    if !subnets.is_empty() {
        network["Ipams"] = json!([{ "Type": "Static", "Subnets": subnets }]);
    }
    network
}

/// An endpoint with addresses (with their prefix lengths) and default routes by gateways.
pub(crate) fn endpoint(name: &str, addresses: &[&str], gateways: &[&str], policies: &[Value]) -> Value {
    let address = |text: &&str| {
        let (address, length) = text.split_once('/').expect("an address with its prefix length");
        json!({ "IpAddress": address, "PrefixLength": length.parse::<u8>().expect("a prefix length") })
    };
    let addresses: Vec<Value> = addresses.iter().map(address).collect();
    let routes: Vec<Value> = gateways.iter().map(|gateway| route(gateway)).collect();
    json!({ "Name": name, "SchemaVersion": schema(), "IpConfigurations": addresses, "Routes": routes, "Policies": policies })
}

/// A policy.
pub(crate) fn policy(kind: &str, settings: Value) -> Value {
    json!({ "Type": kind, "Settings": settings })
}

/// Translation to the node's address, except to these.
pub(crate) fn outbound_nat(exceptions: &[&str]) -> Value {
    policy("OutBoundNAT", json!({ "Exceptions": exceptions }))
}

/// The same for IPv6.
pub(crate) fn outbound_nat_v6(exceptions: &[&str]) -> Value {
    policy("OutBoundNAT", json!({ "Exceptions": exceptions, "Flags": 2 }))
}

/// The way to a prefix behind another node.
pub(crate) fn remote_subnet(prefix: &str, vni: u32, provider: &str, router: &str) -> Value {
    let settings =
        json!({ "DestinationPrefix": prefix, "IsolationId": vni, "ProviderAddress": provider, "DistributedRouterMacAddress": router });
    policy("RemoteSubnetRoute", settings)
}
