//! Every situation of the reference's table, with the code that Windows gives.

mod common;

use common::*;
use hcn::{Guid, Hcn, Kind};
use hns::Build;
use hns::machine::FakeMachine;
use serde_json::json;

fn unknown() -> Guid {
    "5f0b1190-63be-4e0c-b974-bd0f55675a42".parse().unwrap()
}

#[test]
fn opening_what_does_not_exist() {
    let hcn = service();
    let table = [
        (Kind::Namespace, 0x8007_0490),
        (Kind::Network, 0x803B_0001),
        (Kind::Endpoint, 0x803B_0002),
        (Kind::LoadBalancer, 0x8007_0490),
        (Kind::Route, 0x8007_0490),
        (Kind::GuestNetworkService, 0x8007_0490),
    ];
    for (kind, code) in table {
        assert_eq!(hcn.query(kind, unknown(), V2).unwrap_err().hresult(), code, "query {kind:?}");
        assert_eq!(hcn.delete(kind, unknown()).unwrap_err().hresult(), code, "delete {kind:?}");
    }
    let change = request("Policy", "Add", json!({"Policies": []}));
    assert_eq!(hcn.modify(Kind::Endpoint, unknown(), &change).unwrap_err().hresult(), 0x803B_0002);
    assert_eq!(hcn.modify(Kind::Network, unknown(), &change).unwrap_err().hresult(), 0x803B_0001);
}

#[test]
fn version_one_calls_on_what_does_not_exist() {
    let hcn = service();
    let body = json!({"Name": "x", "VirtualNetwork": unknown().to_string()}).to_string();
    assert_eq!(hcn.call("POST", "/endpoints/", &body).unwrap_err().hresult(), 0x8007_0490);
    let error = hcn.call("GET", &format!("/namespaces/{}", unknown()), "").unwrap_err();
    assert_eq!(error.record()["Error"], "Element not found. ");
    let error = hcn.call("DELETE", &format!("/namespaces/{}", unknown()), "").unwrap_err();
    assert_eq!(error.sentence(), "Element not found.");
}

#[test]
fn names_and_ids_that_are_taken() {
    let hcn = service();
    let first = make_network(&hcn, "NAT", "nat");
    assert_eq!(refusal(&hcn, Kind::Network, &network("L2Bridge", "nat")), 0x803B_0010);
    let mut same_id = network("L2Bridge", "other");
    same_id["ID"] = json!(first.to_string());
    assert_eq!(refusal(&hcn, Kind::Network, &same_id), 0x803B_0010);
    let pod = make_endpoint(&hcn, first);
    let mut again = endpoint(first);
    again["ID"] = json!(pod.to_string().to_uppercase());
    assert_eq!(refusal(&hcn, Kind::Endpoint, &again), 0x8007_1392);
}

#[test]
fn subnets_that_clash() {
    let hcn = service();
    make_network(&hcn, "NAT", "nat");
    assert_eq!(refusal(&hcn, Kind::Network, &network("NAT", "second")), 0x8007_1392);
    make_network(&hcn, "ICS", "ics");
    assert_eq!(refusal(&hcn, Kind::Network, &network("ICS", "second")), 0x8007_0034);
    let mut twice = network("Transparent", "twice");
    let subnet = twice["Ipams"][0]["Subnets"][0].clone();
    twice["Ipams"][0]["Subnets"].as_array_mut().unwrap().push(subnet);
    assert_eq!(refusal(&hcn, Kind::Network, &twice), 0x803B_0032);
}

#[test]
fn addresses_that_cannot_be_had() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    make(&hcn, Kind::Endpoint, &endpoint_at(net, "192.168.100.7"));
    let table = [
        ("192.168.100.7", 0x8007_1392),
        ("192.168.100.1", 0x803B_002F),
        ("192.168.100.0", 0x803B_002F),
        ("192.168.100.255", 0x803B_002F),
        ("10.0.0.1", 0x803B_001E),
        ("fd00::1", 0x803B_001E),
        ("not an address", 0x803B_001E),
    ];
    for (address, code) in table {
        assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_at(net, address)), code, "{address}");
    }
}

#[test]
fn a_pool_that_is_empty() {
    let hcn = service();
    let mut small = network("NAT", "small");
    small["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!("192.168.100.0/30");
    let net = make(&hcn, Kind::Network, &small);
    make_endpoint(&hcn, net);
    let error = hcn.create(Kind::Endpoint, None, None, &endpoint(net).to_string()).unwrap_err();
    assert!(error.to_string().contains("every IPv4 address"), "{error}");
    assert!(error.detail().remedy.is_some());
    assert_eq!(hcn.enumerate(Kind::Endpoint, "").unwrap().len(), 1);
}

#[test]
fn a_mac_pool_that_is_empty() {
    let hcn = service();
    let mut small = network("NAT", "small");
    small["MacPool"]["Ranges"][0]["EndMacAddress"] = json!("00-15-5D-52-C0-01");
    let net = make(&hcn, Kind::Network, &small);
    make_endpoint(&hcn, net);
    make_endpoint(&hcn, net);
    let error = hcn.create(Kind::Endpoint, None, None, &endpoint(net).to_string()).unwrap_err();
    assert!(error.to_string().contains("every MAC address"), "{error}");
}

#[test]
fn ports_that_are_taken() {
    let machine = FakeMachine { ports: vec![(6, 8443), (6, 31000)], ..FakeMachine::with_ethernet() };
    let hcn = start(machine, Build::default());
    let overlay = make_network(&hcn, "Overlay", "overlay");
    let mapping = json!({"Protocol": 17, "InternalPort": 45678, "ExternalPort": 56789});
    make(&hcn, Kind::Endpoint, &endpoint_with(overlay, "PortMapping", mapping.clone()));
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_with(overlay, "PortMapping", mapping)), 0x803B_0013);
    assert_eq!(hcn.enumerate(Kind::Endpoint, "").unwrap().len(), 1, "the refused endpoint left something behind");

    let nat = make_network(&hcn, "NAT", "nat");
    let on_socket = json!({"Protocol": 6, "InternalPort": 443, "ExternalPort": 8443});
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_with(nat, "PortMapping", on_socket)), 0x8007_0020);

    let pod = make_endpoint(&hcn, overlay);
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.2"], 80));
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.3", "1.1.1.2"], 80)), 0x803B_0013);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &[], 31000)), 0x803B_0013);
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.2"], 81));
}

#[test]
fn backends_without_a_switch_port() {
    let hcn = service();
    let bridge = make_network(&hcn, "L2Bridge", "bridge");
    let pod = make_endpoint(&hcn, bridge);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.2"], 80)), 0x803B_0007);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.2"], 80));
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[unknown()], &["1.1.1.3"], 80)), 0x803B_0002);
}

#[test]
fn policies_in_the_wrong_place_or_shape() {
    let hcn = service();
    let nat = make_network(&hcn, "NAT", "nat");
    let route = json!({"DestinationPrefix": "10.0.0.0/8", "NextHop": "10.0.0.1", "NeedEncap": true});
    let acl = |field: &str, value: &str| {
        let mut settings = json!({"Action": "Allow", "Direction": "In"});
        settings[field] = json!(value);
        settings
    };
    let table = [
        ("SDNRoute", route, 0x803B_000E),
        ("ACL", acl("RemoteAddresses", "Any"), 0x803B_000D),
        ("ACL", acl("LocalPorts", "80,x"), 0x803B_000D),
        ("ACL", acl("Protocols", "300"), 0x803B_000D),
        ("ACL", acl("Action", "Maybe"), 0x803B_000D),
        ("ACL", json!({"Direction": "In"}), 0x803B_000D),
        ("ACL", json!({"Action": "Allow", "Direction": "In", "Priority": "high"}), 0x803B_000D),
        ("PortMapping", json!({"Protocol": 6, "ExternalPort": 80}), 0x803B_002D),
        ("PortMapping", json!({"Protocol": 1, "InternalPort": 80, "ExternalPort": 80}), 0x803B_000D),
        ("Nonsense", json!({}), 0x803B_000E),
        ("SetPolicy", json!({}), 0x803B_000E),
    ];
    for (policy_type, settings, code) in table {
        let document = endpoint_with(nat, policy_type, settings);
        assert_eq!(refusal(&hcn, Kind::Endpoint, &document), code, "{document}");
    }
    let transparent = make_network(&hcn, "Transparent", "transparent");
    let mapping = json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 80});
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_with(transparent, "PortMapping", mapping)), 0x803B_0016);
    assert!(hcn.enumerate(Kind::Endpoint, "").unwrap().is_empty());
}

#[test]
fn errors_name_the_field() {
    let hcn = service();
    let nat = make_network(&hcn, "NAT", "nat");
    let document = endpoint_with(nat, "ACL", json!({"Action": "Allow", "Direction": "In", "RemotePorts": "x"}));
    let error = hcn.create(Kind::Endpoint, None, None, &document.to_string()).unwrap_err();
    assert_eq!(error.detail().field.as_deref(), Some("Policies[0].Settings.RemotePorts"));
    let mut broken = network("NAT", "broken");
    broken["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!("10.0.0.0/99");
    let error = hcn.create(Kind::Network, None, None, &broken.to_string()).unwrap_err();
    assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_0030, Some("Ipams[0].Subnets[0].IpAddressPrefix")));
}

#[test]
fn a_namespace_with_a_container_in_it() {
    let hcn = service();
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    hcn.modify(Kind::Namespace, space, &request("Container", "Add", json!({"ContainerId": "c1"}))).unwrap();
    assert!(hcn.has_container("c1"));
    assert_eq!(hcn.delete(Kind::Namespace, space).unwrap_err().hresult(), 0x803B_0015);
    hcn.modify(Kind::Namespace, space, &request("Container", "Remove", json!({"ContainerId": "c1"}))).unwrap();
    hcn.delete(Kind::Namespace, space).unwrap();
    assert!(!hcn.has_container("c1"));
}

#[test]
fn attaching_twice() {
    let hcn = service();
    let nat = make_network(&hcn, "NAT", "nat");
    let pod = make_endpoint(&hcn, nat);
    let host = json!({"SystemType": "Host", "CompartmentId": 1}).to_string();
    hcn.call("POST", &format!("/endpoints/{pod}/attach"), &host).unwrap();
    let error = hcn.call("POST", &format!("/endpoints/{pod}/attach"), &host).unwrap_err();
    assert_eq!(error.hresult(), 0x803B_0014);
    assert_eq!(error.sentence(), "This endpoint is already attached to the switch.");
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    assert_eq!(attach(&hcn, space, pod).unwrap_err().hresult(), 0x803B_0014);
}

#[test]
fn networks_without_an_adapter() {
    let hcn = start(FakeMachine::default(), Build::default());
    for network_type in ["L2Bridge", "L2Tunnel", "Overlay", "Transparent"] {
        assert_eq!(refusal(&hcn, Kind::Network, &network(network_type, "x")), 0x803B_0006, "{network_type}");
    }
    make_network(&hcn, "NAT", "nat");
    let hcn = service();
    let mut named = network("L2Bridge", "x");
    named["Policies"] = json!([{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet 7"}}]);
    assert_eq!(refusal(&hcn, Kind::Network, &named), 0x803B_0006);
}

#[test]
fn things_in_use() {
    let hcn = service();
    let nat = make_network(&hcn, "NAT", "nat");
    let pod = make_endpoint(&hcn, nat);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    assert_eq!(hcn.delete(Kind::Network, nat).unwrap_err().hresult(), 0x803B_002C);
    assert_eq!(show(&hcn, Kind::Endpoint, pod)["State"], 2, "the refused delete changed something");
    detach(&hcn, space, pod).unwrap();
    hcn.delete(Kind::Network, nat).unwrap();
    assert!(hcn.enumerate(Kind::Endpoint, "").unwrap().is_empty());
}

#[test]
fn documents_that_are_none() {
    let hcn = service();
    for text in ["", "{", "[]", "7", "null", "\"x\"", "{\"Name\":7}", "{\"Name\":\"x\",\"Ipams\":{}}", "\u{0}"] {
        for kind in [Kind::Network, Kind::Endpoint, Kind::LoadBalancer, Kind::Route] {
            let error = hcn.create(kind, None, None, text).unwrap_err();
            assert!([0x803B_001B, 0x803B_000C, 0x803B_000D].contains(&error.hresult()), "{kind:?} {text:?}: {error}");
        }
    }
    let error = hcn.create(Kind::Endpoint, None, None, r#"{"HostComputeNetwork":"my network"}"#).unwrap_err();
    assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_0019, Some("HostComputeNetwork")));
}

#[test]
fn remote_endpoints_cannot_be_attached() {
    let hcn = service();
    let overlay = make_network(&hcn, "Overlay", "overlay");
    let mut remote = endpoint_at(overlay, "10.244.9.9");
    remote["Flags"] = json!(1);
    remote["MacAddress"] = json!("02-11-0a-f4-09-09");
    let remote = make(&hcn, Kind::Endpoint, &remote);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    assert_eq!(attach(&hcn, space, remote).unwrap_err().hresult(), 0x803B_000F);
}
