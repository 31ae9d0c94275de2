//! What must hold for any input and any order of calls.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::*;
use hcn::{Guid, Hcn, Kind};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON, with a liking for the names and values that documents have.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        4 => proptest::sample::select(WORDS).prop_map(str::to_owned),
        1 => ".{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..70_000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((word.clone(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

const WORDS: &[&str] = &[
    "ID",
    "Id",
    "Name",
    "name",
    "Type",
    "NAT",
    "Overlay",
    "L2Bridge",
    "Ipams",
    "Subnets",
    "IpAddressPrefix",
    "10.0.0.0/24",
    "fd00::/64",
    "Routes",
    "NextHop",
    "10.0.0.1",
    "DestinationPrefix",
    "0.0.0.0/0",
    "Policies",
    "Settings",
    "ACL",
    "PortMapping",
    "VSID",
    "IsolationId",
    "HostComputeNetwork",
    "HostComputeEndpoints",
    "VirtualNetwork",
    "IpConfigurations",
    "IpAddress",
    "MacAddress",
    "00-15-5D-00-00-01",
    "MacPool",
    "Ranges",
    "StartMacAddress",
    "EndMacAddress",
    "Flags",
    "SchemaVersion",
    "Major",
    "Minor",
    "PortMappings",
    "Protocol",
    "InternalPort",
    "ExternalPort",
    "FrontendVIPs",
    "SourceVIP",
    "Resources",
    "Data",
    "Endpoint",
    "Container",
    "ResourceType",
    "RequestType",
    "Add",
    "Remove",
    "Update",
    "Policy",
    "Subnet",
    "IPSubnet",
    "DNS",
    "State",
    "EndpointId",
    "ContainerId",
    "References",
    "ELB",
    "VIPs",
    "AddressPrefix",
    "GatewayAddress",
    "SystemType",
    "Host",
    "Filter",
    "{}",
    "Extensions",
    "IsDefault",
    "Dns",
    "ServerList",
    "00000000-0000-4000-8000-000000000001",
    "5f0b1190-63be-4e0c-b974-bd0f55675a42",
    "Direction",
    "In",
    "Action",
    "Allow",
    "Setting",
];

/// An error must be one that a caller can act on.
fn is_well_formed(outcome: hcn::Result<Value>) -> Result<(), TestCaseError> {
    if let Err(error) = outcome {
        let record = error.record();
        prop_assert_eq!(&record["Success"], false);
        prop_assert!(record["ErrorCode"].as_u64().is_some_and(|code| code >= 0x8000_0000), "{}", record);
        prop_assert!(error.hresult() != 0x8000_FFFF, "the service met a fault of its own: {}", record);
        prop_assert!(!error.to_string().is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_json_gets_a_well_formed_answer(documents in vec((0usize..6, any_json()), 1..6), path in "[a-z/]{0,12}") {
        let hcn = service();
        let net = make_network(&hcn, "L2Bridge", "net");
        let pod = make_endpoint(&hcn, net);
        for (kind, document) in documents {
            let kind = Kind::ALL[kind];
            let text = document.to_string();
            is_well_formed(hcn.create(kind, None, None, &text).map(|id| hcn.query(kind, id, V2).unwrap()))?;
            is_well_formed(hcn.create(Kind::Endpoint, Some(net), None, &text).map(|_| Value::Null))?;
            for id in hcn.enumerate(kind, "").unwrap() {
                is_well_formed(hcn.modify(kind, id, &text).map(|()| Value::Null))?;
            }
            is_well_formed(hcn.enumerate(kind, &text).map(|_| Value::Null))?;
            is_well_formed(hcn.query(Kind::Endpoint, pod, &text))?;
            for path in ["/networks", "/endpoints", "/namespaces", "/policylists", "/accelnet", path.as_str()] {
                is_well_formed(hcn.call("POST", path, &text))?;
            }
            is_well_formed(hcn.call("POST", &format!("/endpoints/{pod}"), &text))?;
            is_well_formed(hcn.call("POST", &format!("/endpoints/{pod}/attach"), &text))?;
            is_well_formed(hcn.call("POST", &format!("/networks/{net}"), &text))?;
            is_well_formed(hcn.reserve_port(&text))?;
        }
        // Whatever was accepted can be shown in both schemas and deleted.
        for kind in Kind::ALL {
            hcn.list(kind, "").unwrap();
            for document in hcn.list(kind, V2).unwrap() {
                let id: Guid = document["ID"].as_str().unwrap().parse().unwrap();
                is_well_formed(hcn.delete(kind, id).map(|()| Value::Null))?;
            }
        }
    }

    #[test]
    fn any_bytes_get_a_well_formed_answer(text in ".{0,80}") {
        let hcn = service();
        for kind in Kind::ALL {
            is_well_formed(hcn.create(kind, None, None, &text).map(|_| Value::Null))?;
            is_well_formed(hcn.enumerate(kind, &text).map(|_| Value::Null))?;
        }
        is_well_formed(hcn.call(&text, &text, &text))?;
        is_well_formed(hcn.call("GET", &text, ""))?;
    }
}

/// A step in the life of endpoints.
#[derive(Clone, Debug)]
enum Step {
    /// Make one wherever the network likes.
    Any(usize),
    /// Make one at an address.
    At(usize, u8),
    /// Make one with a MAC address.
    Mac(usize, u8),
    /// Make a remote one at an address.
    Remote(usize, u8),
    /// Delete one.
    Delete(usize),
    /// Add a part to the second subnet of a network.
    Grow(usize, u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..2).prop_map(Step::Any),
        2 => (0usize..2, any::<u8>()).prop_map(|(network, host)| Step::At(network, host % 20)),
        1 => (0usize..2, any::<u8>()).prop_map(|(network, last)| Step::Mac(network, last % 24)),
        1 => (0usize..2, any::<u8>()).prop_map(|(network, host)| Step::Remote(network, host % 20)),
        4 => any::<usize>().prop_map(Step::Delete),
        1 => (0usize..2, any::<u8>()).prop_map(|(network, part)| Step::Grow(network, part % 8)),
    ]
}

fn small_network(name: &str, number: usize) -> Value {
    let mut document = network("L2Bridge", name);
    document["MacPool"] = json!({"Ranges": [{"StartMacAddress": "00-15-5D-00-00-00", "EndMacAddress": "00-15-5D-00-00-0F"}]});
    document["Ipams"][0]["Subnets"] = json!([{"IpAddressPrefix": format!("10.0.{number}.0/28"),
        "Routes": [{"NextHop": format!("10.0.{number}.1"), "DestinationPrefix": "0.0.0.0/0"}]}]);
    document
}

/// No two local endpoints of one network share an address or a MAC address, and none has an address with a reserved end.
fn check_addresses(hcn: &dyn Hcn, reserved: &[&str]) -> Result<(), TestCaseError> {
    let mut taken: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for endpoint in hcn.list(Kind::Endpoint, V2).unwrap() {
        if endpoint["Flags"] == 1 {
            continue;
        }
        let network = taken.entry(endpoint["HostComputeNetwork"].to_string()).or_default();
        let address = endpoint["IpConfigurations"][0]["IpAddress"].as_str().unwrap().to_owned();
        prop_assert!(!reserved.contains(&address.rsplit('.').next().unwrap()), "{} is reserved", address);
        prop_assert!(network.insert(address.clone()), "{} was given out twice", address);
        let mac = endpoint["MacAddress"].as_str().unwrap().to_owned();
        prop_assert!(network.insert(mac.clone()), "{} was given out twice", mac);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_address_is_given_out_twice(steps in vec(any_step(), 1..80)) {
        let hcn = service();
        let networks: Vec<Guid> = (0..2).map(|number| make(&hcn, Kind::Network, &small_network(&format!("n{number}"), number))).collect();
        let mut made: Vec<Guid> = Vec::new();
        for step in steps {
            let document = match &step {
                Step::Any(network) => endpoint(networks[*network]),
                Step::At(network, host) => endpoint_at(networks[*network], &format!("10.0.{network}.{host}")),
                Step::Mac(network, last) => {
                    let mut document = endpoint(networks[*network]);
                    document["MacAddress"] = json!(format!("00-15-5D-00-00-{last:02X}"));
                    document
                }
                Step::Remote(network, host) => {
                    let mut document = endpoint_at(networks[*network], &format!("10.0.{network}.{host}"));
                    document["Flags"] = json!(1);
                    document
                }
                Step::Delete(which) => {
                    if !made.is_empty() {
                        hcn.delete(Kind::Endpoint, made.swap_remove(which % made.len())).unwrap();
                    }
                    continue;
                }
                Step::Grow(network, part) => {
                    let subnet = show(&hcn, Kind::Network, networks[*network])["Ipams"][0]["Subnets"][0]["ID"].clone();
                    let parts = json!({"SubnetId": subnet, "IpSubnets": [{"IpAddressPrefix": format!("10.0.{network}.{}/31", part * 2)}]});
                    // A part that is there already is refused; that too must change nothing.
                    _ = hcn.modify(Kind::Network, networks[*network], &request("IPSubnet", "Add", parts));
                    continue;
                }
            };
            if let Ok(id) = hcn.create(Kind::Endpoint, None, None, &document.to_string()) {
                made.push(id);
            }
            check_addresses(&hcn, &["0", "1", "15"])?;
        }
        // Everything given back can be given out again: sixteen addresses less network, gateway and broadcast.
        for id in made {
            hcn.delete(Kind::Endpoint, id).unwrap();
        }
        let mut last = 0;
        while hcn.create(Kind::Endpoint, None, None, &endpoint(networks[0]).to_string()).is_ok() {
            last += 1;
        }
        let parts = show(&hcn, Kind::Network, networks[0])["Ipams"][0]["Subnets"][0]["IpSubnets"].as_array().map_or(0, Vec::len);
        prop_assert!(last == 13 || (parts > 0 && last <= 2 * parts), "{} addresses, {} parts", last, parts);
    }
}

#[test]
fn many_callers_at_once_get_different_addresses() {
    let hcn = service();
    let mut wide = network("Overlay", "wide");
    wide["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!("192.168.0.0/16");
    let net = make(&hcn, Kind::Network, &wide);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let made: Vec<Guid> = (0..60).map(|_| make_endpoint(&hcn, net)).collect();
                for id in &made[..30] {
                    hcn.delete(Kind::Endpoint, *id).unwrap();
                }
            });
        }
    });
    assert_eq!(hcn.enumerate(Kind::Endpoint, "").unwrap().len(), 8 * 30);
    check_addresses(&hcn, &[]).unwrap();
}
