//! Queries and filters in the forms that clients use.

mod common;

use common::*;
use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

fn filter(properties: Value) -> String {
    json!({"SchemaVersion": {"Major": 2, "Minor": 0}, "Filter": properties.to_string()}).to_string()
}

#[test]
fn filters() {
    let hcn = service();
    let (a, b) = (make_network(&hcn, "NAT", "a"), make_network(&hcn, "L2Bridge", "b"));
    let (one, two, three) = (make_endpoint(&hcn, a), make_endpoint(&hcn, b), make_endpoint(&hcn, b));
    let nothing: Vec<Guid> = Vec::new();
    let table: Vec<(Kind, Value, Vec<Guid>)> = vec![
        (Kind::Network, json!({}), vec![a, b]),
        (Kind::Network, json!({"Name": "a"}), vec![a]),
        (Kind::Network, json!({"name": "a"}), vec![a]),
        (Kind::Network, json!({"Name": "A"}), nothing.clone()),
        (Kind::Network, json!({"ID": b.to_string().to_uppercase()}), vec![b]),
        (Kind::Network, json!({"Id": format!("{{{b}}}")}), vec![b]),
        (Kind::Network, json!({"ID": ""}), nothing.clone()),
        (Kind::Network, json!({"ID": "not a guid"}), nothing.clone()),
        (Kind::Network, json!({"ID": b.to_string(), "Name": "a"}), nothing.clone()),
        (Kind::Network, json!({"Flags": 8}), vec![a, b]),
        (Kind::Network, json!({"Flags": 9}), nothing.clone()),
        (Kind::Network, json!({"Type": "L2Bridge"}), vec![b]),
        (Kind::Network, json!({"Colour": "blue"}), nothing.clone()),
        (Kind::Endpoint, json!({"VirtualNetwork": b.to_string()}), vec![two, three]),
        (Kind::Endpoint, json!({"HostComputeNetwork": a.to_string()}), vec![one]),
        (Kind::Endpoint, json!({"VirtualNetworkName": "b"}), vec![two, three]),
        (Kind::Endpoint, json!({"Name": "pod"}), vec![one, two, three]),
        (Kind::Endpoint, json!({"Name": "pod", "VirtualNetwork": a.to_string()}), vec![one]),
        (Kind::Endpoint, json!({"Flags": 0}), vec![one, two, three]),
        (Kind::Endpoint, json!({"MacAddress": "00-15-5D-52-C0-01"}), vec![three]),
        (Kind::Namespace, json!({"ID": ""}), nothing),
    ];
    for (kind, properties, expected) in table {
        assert_eq!(hcn.enumerate(kind, &filter(properties.clone())).unwrap(), expected, "{kind:?} {properties}");
        let documents = hcn.list(kind, &filter(properties)).unwrap();
        let ids: Vec<String> = documents.iter().map(|document| document["ID"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids, expected.iter().map(Guid::to_string).collect::<Vec<_>>());
    }
}

#[test]
fn odd_queries() {
    let hcn = service();
    let id = make_network(&hcn, "NAT", "nat");
    for query in ["", "{}", r#"{"Name":"something"}"#, r#"{"Filter":"{}"}"#, r#"{"Filter":""}"#, r#"{"Filter":null}"#, r#"{"Flags":1}"#] {
        assert_eq!(hcn.enumerate(Kind::Network, query).unwrap(), [id], "{query}");
    }
    for query in ["{", "[]", r#"{"Filter":7}"#, r#"{"Filter":"["}"#, r#"{"Filter":"[]"}"#] {
        assert_eq!(hcn.enumerate(Kind::Network, query).unwrap_err().hresult(), 0x803B_001B, "{query}");
    }
    // hcsshim passes the enumeration's query on to the query of each object.
    assert_eq!(hcn.query(Kind::Network, id, &filter(json!({"Name": "else"}))).unwrap()["Name"], "nat");
}

#[test]
fn the_schema_of_an_answer() {
    let hcn = service();
    let id = make_network(&hcn, "NAT", "nat");
    let v1 = |query: &str| hcn.query(Kind::Network, id, query).unwrap()["Subnets"][0]["GatewayAddress"].clone();
    for query in ["", "{}", r#"{"SchemaVersion":{"Major":1,"Minor":0}}"#] {
        assert_eq!(v1(query), "192.168.100.1", "{query}");
    }
    let v2 = hcn.query(Kind::Network, id, r#"{"SchemaVersion":{"Major":2,"Minor":16}}"#).unwrap();
    assert_eq!(v2["Ipams"][0]["Subnets"][0]["Routes"][0]["NextHop"], "192.168.100.1");
    assert!(v2["Health"]["Extra"].get("Resources").is_none());
    let detailed = hcn.query(Kind::Network, id, r#"{"SchemaVersion":{"Major":2},"Flags":1}"#).unwrap();
    assert_eq!(detailed["Health"]["Extra"]["Resources"]["Endpoints"], 0);
}

#[test]
fn objects_are_listed_in_the_order_of_their_creation() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "nat");
    let made: Vec<Guid> = (0..50).map(|_| make_endpoint(&hcn, net)).collect();
    assert_eq!(hcn.enumerate(Kind::Endpoint, "").unwrap(), made);
    let change = request("Policy", "Add", json!({"Policies": [{"Type": "QOS", "Settings": {"MaximumOutgoingBandwidthInBytes": 1000}}]}));
    hcn.modify(Kind::Endpoint, made[0], &change).unwrap();
    assert_eq!(hcn.enumerate(Kind::Endpoint, &filter(json!({"Name": "pod"}))).unwrap(), made);
}
