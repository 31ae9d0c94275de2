//! Documents as clients write them.

use hcn::{Field, Path};
use serde_json::{Value, json};

/// Reads a document.
pub(crate) fn read<T: Field>(document: &Value) -> T {
    T::read(document.clone(), &Path::Root).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// A network with these subnets, each a prefix and a gateway; no gateway if that is empty.
pub(crate) fn network(network_type: &str, name: &str, subnets: &[(&str, &str)], policies: Value) -> Value {
    let subnets: Vec<Value> = subnets.iter().map(|(prefix, gateway)| subnet(prefix, gateway)).collect();
    json!({
        "ID": uuid(name), "Name": name, "Type": network_type,
        "Ipams": [{"Type": "Static", "Subnets": subnets}], "Policies": policies, "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// An overlay of this virtual network.
pub(crate) fn overlay(name: &str, vni: u32, subnets: &[(&str, &str)], policies: Value) -> Value {
    let mut document = network("Overlay", name, subnets, policies);
    let list = document["Ipams"][0]["Subnets"].as_array_mut().expect("the list of subnets");
    for subnet in list {
        subnet["Policies"] = json!([policy("VSID", json!({"IsolationId": vni}))]);
    }
    document
}

fn subnet(prefix: &str, gateway: &str) -> Value {
    let default = if prefix.contains(':') { "::/0" } else { "0.0.0.0/0" };
    match gateway {
        "" => json!({"IpAddressPrefix": prefix}),
        _ => json!({"IpAddressPrefix": prefix, "Routes": [{"NextHop": gateway, "DestinationPrefix": default}]}),
    }
}

/// An endpoint whose hardware address ends with `last`.
pub(crate) fn endpoint(name: &str, last: u8, addresses: &[&str], policies: Value) -> Value {
    let address = |text: &&str| json!({"IpAddress": text, "PrefixLength": if text.contains(':') { 64 } else { 24 }});
    json!({
        "ID": uuid(&format!("{name}{last}")), "Name": name, "MacAddress": format!("00-15-5D-00-00-{last:02X}"),
        "IpConfigurations": addresses.iter().map(address).collect::<Vec<_>>(),
        "Policies": policies, "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// A policy.
pub(crate) fn policy(policy_type: &str, settings: Value) -> Value {
    json!({"Type": policy_type, "Settings": settings})
}

/// `OutBoundNAT`, alone.
pub(crate) fn outbound_nat(settings: Value) -> Value {
    json!([policy("OutBoundNAT", settings)])
}

/// `RemoteSubnetRoute`: a prefix of virtual network 5000 behind another node.
pub(crate) fn remote_subnet(prefix: &str, node: &str, router: &str) -> Value {
    let settings =
        json!({"DestinationPrefix": prefix, "IsolationId": 5000, "ProviderAddress": node, "DistributedRouterMacAddress": router});
    policy("RemoteSubnetRoute", settings)
}

/// An id that follows from a name.
fn uuid(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:08x}-0000-4000-8000-{:012x}", hash >> 32, hash & 0xffff_ffff_ffff)
}
