//! `PortMapping`: a port of the node led to an endpoint. Behind NAT it becomes a translation of the node, and elsewhere a load balancer.

use hcn::endpoint::Endpoint;
use hns::compile::port_mapping::{Mapping, balancers, mappings};
use serde_json::{Value, json};

use crate::documents::{endpoint, policy, read};

fn mapped(addresses: &[&str], settings: &[Value]) -> Result<Vec<String>, String> {
    let policies: Vec<Value> = settings.iter().map(|settings| policy("PortMapping", settings.clone())).collect();
    let document: Endpoint = read(&endpoint("a", 2, addresses, json!(policies)));
    let print = |mapping: &Mapping| {
        let external = mapping.external.map_or_else(|| "any".to_owned(), |address| address.to_string());
        format!("{} {external} {} > {} {}", mapping.protocol, mapping.external_port, mapping.internal, mapping.internal_port)
    };
    mappings(&document).map(|all| all.iter().map(print).collect()).map_err(|error| error.to_string())
}

#[test]
fn every_address_of_the_family_is_mapped() {
    let both = ["172.20.0.2", "fd20::2"];
    let table: [(&[&str], Value, &[&str]); 7] = [
        (&["172.20.0.2"], json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}), &["6 any 8080 > 172.20.0.2 80"]),
        (&["172.20.0.2"], json!({"Protocol": "UDP", "InternalPort": 53, "ExternalPort": 53}), &["17 any 53 > 172.20.0.2 53"]),
        (
            &both,
            json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}),
            &["6 any 8080 > 172.20.0.2 80", "6 any 8080 > fd20::2 80"],
        ),
        (
            &both,
            json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIP": "192.0.2.10"}),
            &["6 192.0.2.10 8080 > 172.20.0.2 80"],
        ),
        (&both, json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIP": "fd01::10"}), &["6 fd01::10 8080 > fd20::2 80"]),
        (
            &["172.20.0.2"],
            json!({"Protocol": 17, "InternalPort": 80, "ExternalPort": 80, "VIP": "0.0.0.0", "Flags": 4}),
            &["17 any 80 > 172.20.0.2 80"],
        ),
        (&[], json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}), &[]),
    ];
    for (addresses, settings, expected) in table {
        assert_eq!(mapped(addresses, std::slice::from_ref(&settings)).unwrap(), expected, "{settings}");
    }
}

#[test]
fn several_mappings_in_order() {
    let one = |internal: u16, external: u16| json!({"Protocol": 6, "InternalPort": internal, "ExternalPort": external});
    let expected = ["6 any 8080 > 172.20.0.2 80", "6 any 8443 > 172.20.0.2 443"];
    assert_eq!(mapped(&["172.20.0.2"], &[one(80, 8080), one(443, 8443)]).unwrap(), expected);
    assert!(mapped(&["172.20.0.2"], &[]).unwrap().is_empty());
}

#[test]
fn what_cannot_be_mapped_is_named() {
    let table = [
        (json!({"Protocol": 132, "InternalPort": 80, "ExternalPort": 80}), "Protocol: "),
        (json!({"Protocol": 1, "InternalPort": 80, "ExternalPort": 80}), "Protocol: "),
        (json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 80, "VIP": "everywhere"}), "VIP: \"everywhere\""),
        (json!({"Protocol": 6, "InternalPort": "eighty"}), "Policies: "),
    ];
    for (settings, start) in table {
        let error = mapped(&["172.20.0.2"], std::slice::from_ref(&settings)).unwrap_err();
        assert!(error.starts_with(start), "{settings}: {error}");
    }
}

#[test]
fn each_is_a_load_balancer_with_one_backend_in_each_family() {
    let settings = [
        json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}),
        json!({"Protocol": 17, "InternalPort": 53, "ExternalPort": 53, "VIP": "192.0.2.10"}),
    ];
    let of = |addresses: &[&str]| {
        let policies: Vec<Value> = settings.iter().map(|settings| policy("PortMapping", settings.clone())).collect();
        let document: Endpoint = read(&endpoint("a", 2, addresses, json!(policies)));
        (document.id, balancers(&document).unwrap())
    };
    let (endpoint, found) = of(&["10.1.0.2", "10.1.0.9", "fd10::2"]);
    let print = |balancer: &hcn::load_balancer::LoadBalancer| {
        assert_eq!(balancer.endpoints, [endpoint]);
        let mapping = &balancer.port_mappings[0];
        let flags = hcn::Field::write(&balancer.flags);
        format!("{} {:?} {} > {} {flags}", mapping.protocol, balancer.frontend_vips, mapping.external_port, mapping.internal_port)
    };
    let printed: Vec<String> = found.iter().map(print).collect();
    assert_eq!(printed, ["TCP [] 8080 > 80 1", "TCP [] 8080 > 80 3", "UDP [\"192.0.2.10\"] 53 > 53 1"]);
    let mut ids: Vec<_> = found.iter().map(|balancer| balancer.id).collect();
    assert_eq!(ids, of(&["10.1.0.2", "fd10::2"]).1.iter().map(|balancer| balancer.id).collect::<Vec<_>>(), "the same every time");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has an id of its own");
}
