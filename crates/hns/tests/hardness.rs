//! Hostile and odd requests: bounded in cost, refused where they make no sense, and nothing left inconsistent.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use hcn::{Guid, Hcn, Kind};
use hns::Build;
use hns::machine::FakeMachine;
use hns::switch::NullSwitch;
use serde_json::{Map, Value, json};

fn mapping(external: u16) -> Value {
    json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": external})
}

#[test]
fn a_large_network_goes_in_one_small_change() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        hns::Service::start(hns::Options {
            state_dir: Some(directory.path().into()),
            build: Build::default(),
            machine: Arc::new(FakeMachine::with_ethernet()),
            switch: Arc::new(NullSwitch),
        })
        .unwrap()
    };
    let hcn = open();
    let mut wide = network("Overlay", "wide");
    wide["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!("192.168.0.0/16");
    let net = make(&hcn, Kind::Network, &wide);
    let pods: Vec<Guid> = (0..1500).map(|_| make_endpoint(&hcn, net)).collect();
    let balancer = make(&hcn, Kind::LoadBalancer, &load_balancer(&pods, &["1.1.1.1"], 80));
    let route = json!({"HostComputeEndpoints": pods.iter().map(Guid::to_string).collect::<Vec<_>>(), "Routes": [{"DestinationPrefix": "10.0.0.0/8"}]});
    make(&hcn, Kind::Route, &route);
    let length = || std::fs::metadata(directory.path().join(hns::journal::FILE_NAME)).unwrap().len();
    let before = length();
    hcn.delete(Kind::Network, net).unwrap();
    assert!(length() - before < 200_000, "{} bytes for one deletion", length() - before);
    let shown = show(&hcn, Kind::LoadBalancer, balancer);
    assert!(shown.get("HostComputeEndpoints").is_none() && shown.get("HostComputeNetwork").is_none());
    drop(hcn);
    assert_eq!(show(&open(), Kind::LoadBalancer, balancer)["ID"], balancer.to_string());
}

#[test]
fn frontends_are_named_once_and_not_without_end() {
    let hcn = service();
    let mut document = load_balancer(&[], &["1.1.1.1", "1.1.1.1"], 80);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &document), 0x803B_0013);
    document["FrontendVIPs"] = json!(["1.1.1.1"]);
    document["PortMappings"] = json!([mapping(80), {"Protocol": 6, "InternalPort": 81, "ExternalPort": 80}]);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &document), 0x803B_0013);
    document["FrontendVIPs"] = (0..1000u32).map(|n| json!(std::net::Ipv4Addr::from(0x0a00_0000 + n).to_string())).collect();
    document["PortMappings"] = (1..100u16).map(mapping).collect();
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &document), 0x8007_0057);
    for odd in [json!("Sticky"), json!(99_999_999_999u64)] {
        let mut document = load_balancer(&[], &["1.1.1.1"], 80);
        document["PortMappings"][0]["DistributionType"] = odd;
        assert_eq!(refusal(&hcn, Kind::LoadBalancer, &document), 0x803B_000D);
    }
}

#[test]
fn thousands_of_spellings_cost_little() {
    let hcn = service();
    let mut document: Map<String, Value> = (0..20_000).map(|number| (format!("junk{number}"), Value::Null)).collect();
    for number in 0u32..4_000 {
        let spelling: String = "AdditionalParams"
            .chars()
            .enumerate()
            .map(|(at, letter)| if number >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() })
            .collect();
        document.insert(spelling, json!(number));
    }
    document.insert("Name".into(), json!("many"));
    document.insert("SchemaVersion".into(), json!({"Major": 2}));
    let start = Instant::now();
    make(&hcn, Kind::Network, &Value::Object(document));
    // Minutes when the cost is quadratic; a bound so wide that no busy machine reaches it.
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn mac_pools_are_bounded_and_hold_only_what_a_nic_can_have() {
    let hcn = service();
    let with = |ranges: Value| {
        let mut document = network("Private", "net");
        document["MacPool"] = json!({"Ranges": ranges});
        document
    };
    let range = |first: &str, last: &str| json!({"StartMacAddress": first, "EndMacAddress": last});
    for (first, last) in
        [("00-FF-FF-FF-FF-FF", "02-00-00-00-00-00"), ("00-00-00-00-00-00", "00-00-00-00-00-05"), ("01-00-00-00-00-00", "01-00-00-00-00-05")]
    {
        assert_eq!(refusal(&hcn, Kind::Network, &with(json!([range(first, last)]))), 0x803B_000A, "{first}");
    }
    let many: Vec<Value> = (0..300)
        .map(|n| range(&format!("02-00-00-00-{:02X}-{:02X}", n / 256, n % 256), &format!("02-00-00-00-{:02X}-{:02X}", n / 256, n % 256)))
        .collect();
    assert_eq!(refusal(&hcn, Kind::Network, &with(json!(many))), 0x803B_000A);
    make(&hcn, Kind::Network, &with(json!([range("00-15-5D-00-00-00", "00-15-5D-FF-FF-FF")])));
    let none_left = json!({"Name": "other", "Type": "Private", "SchemaVersion": {"Major": 2}});
    assert_eq!(refusal(&hcn, Kind::Network, &none_left), 0x803B_000A);
}

#[test]
fn addresses_without_subnets_are_unique_too() {
    let hcn = service();
    let net = make(&hcn, Kind::Network, &json!({"Name": "t", "Type": "Transparent", "SchemaVersion": {"Major": 2}}));
    make(&hcn, Kind::Endpoint, &endpoint_at(net, "10.0.0.2"));
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_at(net, "10.0.0.2")), 0x8007_1392);
    let add = |prefix: &str, gateway: &str| {
        let subnet = json!({"IpAddressPrefix": prefix, "Routes": [{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}]});
        hcn.modify(Kind::Network, net, &request("Subnet", "Add", json!({"Subnets": [subnet]})))
    };
    assert_eq!(add("10.0.0.0/29", "10.0.0.2").unwrap_err().hresult(), 0x803B_002C, "the gateway is an endpoint's");
    add("10.0.0.0/29", "10.0.0.1").unwrap();
    let given: Vec<Value> =
        (0..4).map(|_| show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net))["IpConfigurations"][0]["IpAddress"].clone()).collect();
    assert_eq!(json!(given), json!(["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]));
}

#[test]
fn an_endpoint_is_held_by_one_kind_of_thing() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    hcn.modify(Kind::Endpoint, pod, &request("Port", "Add", json!({"VirtualNicName": "vm--e"}))).unwrap();
    let container = json!({"SystemType": "Container", "ContainerId": "c1"}).to_string();
    assert_eq!(hcn.call("POST", &format!("/endpoints/{pod}/attach"), &container).unwrap_err().hresult(), 0x803B_0014);
    hcn.call("POST", &format!("/endpoints/{pod}/detach"), &container).unwrap();
    assert_eq!(show(&hcn, Kind::Endpoint, pod)["State"], 2, "the machine still holds it");
    hcn.modify(Kind::Endpoint, pod, &request("Port", "Remove", json!({}))).unwrap();
    assert_eq!(show(&hcn, Kind::Endpoint, pod)["State"], 4);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    assert_eq!(hcn.modify(Kind::Endpoint, pod, &request("Port", "Add", json!({}))).unwrap_err().hresult(), 0x803B_0014);
    assert_eq!(hcn.delete(Kind::Network, net).unwrap_err().hresult(), 0x803B_002C);
}

#[test]
fn a_port_of_the_host_belongs_to_one_endpoint() {
    let machine = FakeMachine { ports: vec![(6, 49152)], ..FakeMachine::with_ethernet() };
    let hcn = start(machine, Build::default());
    let one = make_network(&hcn, "NAT", "one");
    let two = make(&hcn, Kind::Network, &json!({"Name": "two", "Type": "NAT", "SchemaVersion": {"Major": 2}}));
    let pod = make(&hcn, Kind::Endpoint, &endpoint_with(one, "PortMapping", mapping(18080)));
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_with(two, "PortMapping", mapping(18080))), 0x8007_0020);
    let on_address = json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 18080, "VIP": "192.0.2.10"});
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_with(one, "PortMapping", on_address)), 0x8007_0020);
    let both = json!({"Policies": [{"Type": "PortMapping", "Settings": mapping(18080)},
        {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 81, "ExternalPort": 18080}}]});
    assert_eq!(hcn.modify(Kind::Endpoint, pod, &request("Policy", "Update", both)).unwrap_err().hresult(), 0x803B_0013);
    // A socket has the first dynamic port, and the document names the second.
    let mut document = endpoint(one);
    document["Policies"] = json!([{"Type": "PortMapping", "Settings": mapping(0)}, {"Type": "PortMapping", "Settings": mapping(49153)}]);
    let shown = show(&hcn, Kind::Endpoint, make(&hcn, Kind::Endpoint, &document));
    let ports: Vec<&Value> = shown["Policies"].as_array().unwrap().iter().map(|policy| &policy["Settings"]["ExternalPort"]).collect();
    assert_eq!(ports, [&json!(49154), &json!(49153)]);
    hcn.delete(Kind::Endpoint, pod).unwrap();
    make(&hcn, Kind::Endpoint, &endpoint_with(two, "PortMapping", mapping(18080)));
}

#[test]
fn remote_endpoints_say_where_they_are() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let mut remote = endpoint(net);
    remote["Flags"] = json!(1);
    assert_eq!(refusal(&hcn, Kind::Endpoint, &remote), 0x803B_000C);
}

#[test]
fn subnets_have_ids_of_their_own() {
    let hcn = service();
    let mut document = network("L2Bridge", "net");
    document["Ipams"][0]["Subnets"] = json!([
        {"ID": "11111111-0000-4000-8000-000000000001", "IpAddressPrefix": "10.5.0.0/24"},
        {"ID": "11111111-0000-4000-8000-000000000001", "IpAddressPrefix": "10.6.0.0/24"},
    ]);
    assert_eq!(refusal(&hcn, Kind::Network, &document), 0x803B_0032);
}

#[test]
fn a_load_balancer_changes_although_a_backend_lost_its_port() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    let (one, two) = (make_endpoint(&hcn, net), make_endpoint(&hcn, net));
    attach(&hcn, space, one).unwrap();
    attach(&hcn, space, two).unwrap();
    let id = make(&hcn, Kind::LoadBalancer, &load_balancer(&[one, two], &["1.1.1.1"], 80));
    detach(&hcn, space, one).unwrap();
    hcn.modify(Kind::LoadBalancer, id, &request("Endpoint", "Remove", json!({"EndpointId": two.to_string()}))).unwrap();
    hcn.modify(Kind::LoadBalancer, id, &load_balancer(&[one], &["1.1.1.1"], 81).to_string()).unwrap();
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[one], &["1.1.1.2"], 80)), 0x803B_0007);
}

#[test]
fn documents_of_the_older_schema_stay_so() {
    let hcn = service();
    let body = json!({"Name": "v1r", "Type": "nat", "Subnets": [{"AddressPrefix": "10.77.0.0/24", "GatewayAddress": "10.77.0.1"}], "Resources": {"ID": "x"}});
    let made = hcn.call("POST", "/networks", &body.to_string()).unwrap();
    assert_eq!(made["Subnets"][0]["AddressPrefix"], "10.77.0.0/24");
    let id = made["ID"].as_str().unwrap();
    let updated = hcn.call("POST", &format!("/networks/{id}"), r#"{"DNSServerList":"8.8.8.8"}"#).unwrap();
    assert_eq!(updated["DNSServerList"], "8.8.8.8");
    let isolated = json!({"Name": "iso", "Type": "Transparent", "Subnets": [{"AddressPrefix": "10.78.0.0/24", "GatewayAddress": "10.78.0.1"}],
        "Policies": [{"Type": "Isolation", "VLAN": 5}]});
    let id: Guid = hcn.call("POST", "/networks", &isolated.to_string()).unwrap()["ID"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        show(&hcn, Kind::Network, id)["Ipams"][0]["Subnets"][0]["Policies"],
        json!([{"Type": "VLAN", "Settings": {"IsolationId": 5}}])
    );
}

#[test]
fn policies_are_equal_by_meaning() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let change = |how: &str, kind: Kind, id: Guid, policy_type: &str, settings: Value| {
        hcn.modify(kind, id, &request("Policy", how, json!({"Policies": [{"Type": policy_type, "Settings": settings}]})))
    };
    let route = |prefix: &str| json!({"DestinationPrefix": prefix, "IsolationId": 4096, "ProviderAddress": "1.1.1.1", "DistributedRouterMacAddress": "00-12-34-56-78-9a"});
    change("Add", Kind::Network, net, "RemoteSubnetRoute", route("10.244.2.7/24")).unwrap();
    change("Remove", Kind::Network, net, "RemoteSubnetRoute", route("10.244.2.0/24")).unwrap();
    let pod = make_endpoint(&hcn, net);
    let acl = |protocols: &str, addresses: &str| json!({"Action": "Allow", "Direction": "In", "Protocols": protocols, "RemoteAddresses": addresses});
    change("Add", Kind::Endpoint, pod, "ACL", acl("6, 17", "10.0.0.0/8 , FD00::1")).unwrap();
    change("Remove", Kind::Endpoint, pod, "ACL", acl("TCP,UDP", "10.0.0.0/8,fd00::1")).unwrap();
}

#[test]
fn nat_subnets_have_a_gateway_and_old_builds_one_ip_version() {
    let hcn = service();
    let net = make(
        &hcn,
        Kind::Network,
        &json!({"Name": "n", "Type": "NAT", "Ipams": [{"Subnets": [{"IpAddressPrefix": "10.9.0.0/24"}]}], "SchemaVersion": {"Major": 2}}),
    );
    let shown = show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net));
    assert_eq!((&shown["Routes"][0]["NextHop"], &shown["IpConfigurations"][0]["IpAddress"]), (&json!("10.9.0.1"), &json!("10.9.0.2")));
    assert!(hcn.enumerate(Kind::Network, r#"{"Filter":"{\"ID\":null}"}"#).unwrap().is_empty());
    let old = service_as("1903");
    let mut dual = network("L2Bridge", "dual");
    dual["Ipams"][0]["Subnets"].as_array_mut().unwrap().push(json!({"IpAddressPrefix": "fd00::/64"}));
    let net = make(&old, Kind::Network, &dual);
    assert_eq!(show(&old, Kind::Endpoint, make_endpoint(&old, net))["IpConfigurations"].as_array().unwrap().len(), 1);
}

#[test]
fn ports_are_reserved_in_rows() {
    let hcn = service();
    let reserve = |body: Value| hcn.reserve_port(&body.to_string());
    assert_eq!(reserve(json!({"Count": 16})).unwrap()["StartingPort"], 49152);
    assert_eq!(reserve(json!({"Port": 49170})).unwrap()["EndingPort"], 49170);
    assert_eq!(reserve(json!({"Count": 4})).unwrap()["StartingPort"], 49171);
    assert_eq!(reserve(json!({"Count": 2})).unwrap()["StartingPort"], 49168);
    assert_eq!(reserve(json!({"Port": 49170})).unwrap_err().hresult(), 0x8007_0020);
    assert_eq!(reserve(json!({"Port": 1, "Count": 1})).unwrap_err().hresult(), 0x8007_0057);
    hcn.reservations().release("2").unwrap();
    reserve(json!({"Port": 49170, "Protocol": 1, "Access": 2})).unwrap();
    reserve(json!({"Port": 49170, "Protocol": 1, "Access": 2})).unwrap();
    assert_eq!(hcn.reservations().release("99").unwrap_err().hresult(), 0x8007_0490);
}
