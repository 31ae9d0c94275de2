//! Events for those who follow, and orders for the switch.
//!
//! `moving` is a switch that moves packets, so that what it cannot make true is refused.

mod common;
mod moving;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use hcn::event::{Change, Event};
use hcn::{Hcn, Kind};
use hns::Build;
use hns::machine::FakeMachine;
use hns::switch::{Recorder, Switch};
use moving::{Complaints, Moving, eventually};
use serde_json::{Value, json};

fn names(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{}{}", event.kind.map_or("", Kind::name), event.change)).collect()
}

#[test]
fn a_networks_life() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    hcn.delete(Kind::Network, net).unwrap_err();
    detach(&hcn, space, pod).unwrap();
    hcn.delete(Kind::Namespace, space).unwrap();
    hcn.delete(Kind::Network, net).unwrap();
    let events = hcn.hub().after(0).unwrap();
    let expected = [
        "NetworkPreCreate",
        "NetworkCreated",
        "EndpointCreated",
        "NamespaceCreated",
        "EndpointAttached",
        "EndpointModified",
        "NamespaceModified",
        // Announced although the network then stays, because an endpoint on it is attached.
        "NetworkPreDelete",
        "NamespaceModified",
        "EndpointDetached",
        "EndpointModified",
        "NamespaceDeleted",
        "NetworkPreDelete",
        "EndpointDeleted",
        "NetworkDeleted",
    ];
    assert_eq!(names(&events), expected);
    assert_eq!(events[0].flags, 8, "a network's notification carries its flags");
    let numbers: Vec<u64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(numbers, (1..=15).collect::<Vec<u64>>());
    assert_eq!(events[4].notification(), Some(9));
}

#[test]
fn a_follower_sees_what_happens_and_the_end() {
    let hcn = Arc::new(service());
    make_network(hcn.as_ref(), "NAT", "before");
    let stream = hcn.events().unwrap();
    let follower = std::thread::spawn(move || stream.map(|event| event.unwrap()).collect::<Vec<Event>>());
    make(hcn.as_ref(), Kind::Namespace, &namespace("Host"));
    hcn.stop();
    let events = follower.join().unwrap();
    assert_eq!(names(&events), ["NamespaceCreated", "Disconnected"]);
    assert_eq!(events[1].notification(), Some(0x0100_0000));
    let error = hcn.create(Kind::Namespace, None, None, "{}").unwrap_err();
    assert_eq!(error.hresult(), 0x803B_0020);
}

#[test]
fn a_follower_who_was_away_too_long_is_told() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    for _ in 0..5000 {
        let pod = make_endpoint(&hcn, net);
        hcn.delete(Kind::Endpoint, pod).unwrap();
    }
    assert_eq!(hcn.hub().after(1).unwrap_err().hresult(), 0x803B_0031);
    let newest = hcn.hub().newest();
    assert_eq!(hcn.hub().after(newest - 3).unwrap().len(), 3);
    assert!(hcn.hub().after(newest + 1).is_err(), "nobody has seen an event that has not happened");
}

#[test]
fn the_switch_is_told_of_every_change() {
    let switch = Arc::new(Recorder::default());
    let hcn = start_with(FakeMachine::with_ethernet(), Build::default(), switch.clone());
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    assert_eq!(switch.document(Kind::Endpoint, pod).unwrap()["IpConfigurations"][0]["IpAddress"], "192.168.100.2");
    refusal(&hcn, Kind::Endpoint, &endpoint_at(net, "10.0.0.1"));
    assert_eq!(switch.orders(), 2);
    hcn.delete(Kind::Network, net).unwrap();
    assert!(switch.inventory().unwrap().is_empty());
}

#[test]
fn only_the_difference_is_applied_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let switch = Arc::new(Recorder::default());
    let start = || {
        hns::Service::start(hns::Options {
            state_dir: Some(directory.path().into()),
            build: Build::default(),
            machine: Arc::new(FakeMachine::with_ethernet()),
            switch: switch.clone(),
        })
        .unwrap()
    };
    let hcn = start();
    let net = make_network(&hcn, "L2Bridge", "net");
    make_endpoint(&hcn, net);
    drop(hcn);
    let before = switch.orders();
    let hcn = start();
    assert_eq!(switch.orders(), before, "nothing had changed");
    // The switch loses one object while the service is away.
    switch.apply(&hns::switch::Order::Remove(Kind::Network, net)).unwrap();
    drop(hcn);
    let before = switch.orders();
    let _hcn = start();
    assert_eq!(switch.orders(), before + 1);
    assert!(switch.document(Kind::Network, net).is_some());
}

#[test]
fn a_network_that_the_switch_cannot_make_is_degraded_until_it_can() {
    let switch = Arc::new(Recorder::default());
    let hcn = start_with(FakeMachine::with_ethernet(), Build::default(), switch.clone());
    switch.refuse(Some("no such adapter any more"));
    let net = make_network(&hcn, "L2Bridge", "net");
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint(net)), 0x803B_0017);
    switch.refuse(None);
    // Any change makes the service try again.
    make(&hcn, Kind::Namespace, &namespace("Host"));
    let pod = make_endpoint(&hcn, net);
    assert!(switch.document(Kind::Network, net).is_some() && switch.document(Kind::Endpoint, pod).is_some());
    let detailed = hcn.query(Kind::Network, net, r#"{"SchemaVersion":{"Major":2},"Flags":1}"#).unwrap();
    assert_eq!(detailed["Health"]["Extra"]["Resources"]["Degraded"], json!(false));
    assert_eq!(hcn.hub().after(0).unwrap().iter().filter(|event| event.change == Change::Created).count(), 3);
}

/// Everything that the service has, in schema 2.
fn everything(hcn: &dyn Hcn) -> Vec<Value> {
    let ids = |kind: Kind| hcn.enumerate(kind, "").unwrap().into_iter().map(move |id| (kind, id));
    Kind::ALL.into_iter().flat_map(ids).map(|(kind, id)| show(hcn, kind, id)).collect()
}

/// Tries something that a switch which moves packets cannot make true. The error must name it, with a remedy, and nothing may change.
#[track_caller]
fn refused(hcn: &dyn Hcn, switch: &Moving, name: &str, attempt: impl FnOnce() -> hcn::Result<()>) {
    let before = (everything(hcn), switch.told());
    let error = attempt().expect_err(name);
    let detail = error.detail();
    assert_eq!(error.hresult(), 0x803B_000E, "{name}: {error}");
    assert_eq!(detail.field.as_deref(), Some("Type"), "{name}");
    assert!(detail.cause.contains("the switch cannot make"), "{name}: {}", detail.cause);
    let remedy = detail.remedy.as_deref().unwrap_or_default();
    assert!(remedy.contains(&format!("leave {name} out")) && remedy.contains("--switch none"), "{name}: {remedy}");
    assert!((everything(hcn), switch.told()) == before, "{name} changed something");
}

fn with_policy(mut document: Value, policy_type: &str, settings: Value) -> Value {
    document["Policies"] = json!([{"Type": policy_type, "Settings": settings}]);
    document
}

fn add(kind: Kind, hcn: &dyn Hcn, id: hcn::Guid, how: &str, policy_type: &str, settings: Value) -> hcn::Result<()> {
    let settings = json!({"Policies": [{"Type": policy_type, "Settings": settings}]});
    hcn.modify(kind, id, &request("Policy", how, settings))
}

#[test]
fn networks_that_the_switch_cannot_make_true_are_refused() {
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let create = |document: Value| hcn.create(Kind::Network, None, None, &document.to_string()).map(drop);
    let acl = json!({"Action": "Allow", "Direction": "In"});
    let set = json!({"Id": "s", "PolicyType": "IPSET", "Values": ""});
    let source = json!({"SourceMacAddress": "00-15-5D-00-00-01"});
    let proxy = json!({"IP": "10.0.0.1", "Port": "8080", "Protocol": 6});
    for (policy_type, settings) in [("L4Proxy", proxy.clone()), ("SourceMacAddress", source)] {
        refused(&hcn, &switch, policy_type, || create(with_policy(network("NAT", "other"), policy_type, settings)));
    }
    let nat = make_network(&hcn, "NAT", "nat");
    refused(&hcn, &switch, "L4Proxy", || add(Kind::Network, &hcn, nat, "Add", "L4Proxy", proxy.clone()));
    refused(&hcn, &switch, "L4Proxy", || add(Kind::Network, &hcn, nat, "Update", "L4Proxy", proxy.clone()));
    add(Kind::Network, &hcn, net, "Add", "L4Proxy", proxy).unwrap();
    add(Kind::Network, &hcn, net, "Add", "NetworkACL", acl).unwrap();
    add(Kind::Network, &hcn, net, "Update", "SetPolicy", set).unwrap();
    let vlan = json!([{"Type": "VLAN", "Settings": {"IsolationId": 7}}]);
    let mut tagged = network("NAT", "other");
    tagged["Ipams"][0]["Subnets"][0]["Policies"] = vlan.clone();
    refused(&hcn, &switch, "VLAN", || create(tagged));
    let subnet = json!({"Subnets": [{"IpAddressPrefix": "192.168.101.0/24", "Policies": vlan}]});
    refused(&hcn, &switch, "VLAN", || hcn.modify(Kind::Network, nat, &request("Subnet", "Add", subnet.clone())));
    hcn.modify(Kind::Network, net, &request("Subnet", "Add", subnet)).unwrap();
    let error = create(network("Mirrored", "m")).unwrap_err();
    assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_000B, Some("Type")));
}

#[test]
fn endpoints_that_the_switch_cannot_make_true_are_refused() {
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let table = [
        ("ProviderAddress", json!({"ProviderAddress": "192.0.2.11"})),
        ("Encryption", json!({"EncryptionMethodType": "Ipsec", "Name": "tunnel"})),
    ];
    for (policy_type, settings) in table {
        let document = endpoint_with(net, policy_type, settings.clone()).to_string();
        refused(&hcn, &switch, policy_type, || hcn.create(Kind::Endpoint, None, None, &document).map(drop));
        refused(&hcn, &switch, policy_type, || add(Kind::Endpoint, &hcn, pod, "Add", policy_type, settings));
    }
    let remote = [
        ("ACL", json!({"Action": "Block", "Direction": "In"})),
        ("PortMapping", json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080})),
        ("L4Proxy", json!({"IP": "10.0.0.1", "Port": "8080"})),
        ("L4WFPPROXY", json!({"OutboundProxyPort": "15001"})),
    ];
    for (policy_type, settings) in remote {
        let mut document = endpoint_with(net, policy_type, settings);
        (document["Flags"], document["IpConfigurations"]) = (json!(1), json!([{"IpAddress": "192.168.100.77"}]));
        refused(&hcn, &switch, policy_type, || hcn.create(Kind::Endpoint, None, None, &document.to_string()).map(drop));
    }
    add(Kind::Endpoint, &hcn, pod, "Add", "OutBoundNAT", json!({})).unwrap();
    let nat = make_network(&hcn, "NAT", "nat");
    let behind = make_endpoint(&hcn, nat);
    for how in ["Add", "Update"] {
        refused(&hcn, &switch, "VLAN", || add(Kind::Endpoint, &hcn, behind, how, "VLAN", json!({"IsolationId": 7})));
    }
    let older = json!({"VirtualNetwork": nat.to_string(), "Policies": [{"Type": "VLAN", "VLAN": 7}]}).to_string();
    refused(&hcn, &switch, "VLAN", || hcn.call("POST", "/endpoints/", &older).map(drop));
    let open = make_network(&hcn, "Transparent", "open");
    let document = endpoint_with(open, "OutBoundNAT", json!({})).to_string();
    refused(&hcn, &switch, "OutBoundNAT", || hcn.create(Kind::Endpoint, None, None, &document).map(drop));
}

#[test]
fn what_needs_the_node_is_refused_in_a_vlan() {
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make(&hcn, Kind::Endpoint, &endpoint_with(net, "VLAN", json!({"IsolationId": 7})));
    let before = show(&hcn, Kind::Endpoint, pod);
    for (policy_type, settings) in
        [("OutBoundNAT", json!({})), ("PortMapping", json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}))]
    {
        let error = add(Kind::Endpoint, &hcn, pod, "Add", policy_type, settings).unwrap_err();
        let detail = error.detail();
        assert_eq!((error.hresult(), detail.field.as_deref()), (0x803B_000D, Some("Policies")), "{error}");
        assert!(detail.cause.contains(policy_type) && detail.cause.contains("VLAN 7"), "{error}");
        assert_eq!(show(&hcn, Kind::Endpoint, pod), before);
    }
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    let balancer = load_balancer(&[pod], &["10.0.0.2"], 80).to_string();
    refused(&hcn, &switch, "LoadBalancer", || hcn.create(Kind::LoadBalancer, None, None, &balancer).map(drop));
}

#[test]
fn routes_are_refused_and_load_balancers_where_no_service_can_be() {
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["10.0.0.2"], 80));
    let open = make_network(&hcn, "Transparent", "open");
    let other = make_endpoint(&hcn, open);
    let balancer = load_balancer(&[other], &["10.0.0.3"], 80).to_string();
    refused(&hcn, &switch, "LoadBalancer", || hcn.create(Kind::LoadBalancer, None, None, &balancer).map(drop));
    let route = json!({"HostComputeEndpoints": [pod.to_string()], "Routes": [{"NextHop": "10.0.0.9", "DestinationPrefix": "10.9.0.0/16"}],
        "SchemaVersion": {"Major": 2, "Minor": 0}});
    refused(&hcn, &switch, "SDNRoute", || hcn.create(Kind::Route, None, None, &route.to_string()).map(drop));
}

#[test]
fn a_port_of_sctp_cannot_be_mapped_by_the_node() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "NAT", "net");
    let mapping = |protocol: u8| endpoint_with(net, "PortMapping", json!({"Protocol": protocol, "InternalPort": 80, "ExternalPort": 8080}));
    let error = hcn.create(Kind::Endpoint, None, None, &mapping(132).to_string()).unwrap_err();
    assert_eq!((error.hresult(), error.detail().field.as_deref()), (0x803B_000D, Some("Protocol")));
    make(&hcn, Kind::Endpoint, &mapping(6));
    let recorded = service();
    let net = make_network(&recorded, "NAT", "net");
    make(&recorded, Kind::Endpoint, &endpoint_with(net, "PortMapping", json!({"Protocol": 132, "InternalPort": 80, "ExternalPort": 80})));
}

#[test]
fn a_switch_that_was_started_anew_is_told_everything_without_a_call() {
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let before = switch.inventory().unwrap();
    switch.restart();
    assert!(switch.inventory().unwrap().is_empty());
    eventually("it has everything again", || switch.inventory().unwrap() == before);
    assert_eq!(switch.batches().last().unwrap(), &[(Kind::Network, net), (Kind::Endpoint, pod)], "what is needed first comes first");
    let told = switch.told();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(switch.told(), told, "and is then left alone");
}

#[test]
fn an_object_that_fails_is_told_again_and_the_complaint_is_logged_once() {
    let complaints = Complaints::follow();
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    switch.fail(Kind::Endpoint, Some("no room for a NIC 4711"));
    let pod = make_endpoint(&hcn, net);
    let tries = |switch: &Moving| switch.batches().iter().flatten().filter(|object| **object == (Kind::Endpoint, pod)).count();
    eventually("it is tried thrice", || tries(&switch) >= 3);
    assert_eq!(complaints.about("no room for a NIC 4711"), 1);
    assert!(switch.holds(Kind::Network, net), "what works is not undone");
    make_endpoint(&hcn, net);
    switch.fail(Kind::Endpoint, Some("still no room 4711"));
    eventually("another reason is said", || complaints.about("still no room 4711") == 2);
    switch.fail(Kind::Endpoint, None);
    eventually("it is made", || switch.holds(Kind::Endpoint, pod));
    let told = switch.told();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(switch.told(), told);
    assert_eq!(complaints.about("no room for a NIC 4711"), 2, "once for each of the two endpoints");
}

#[test]
fn a_switch_that_does_not_answer_is_told_when_it_does() {
    let complaints = Complaints::follow();
    let switch = Arc::new(Moving::default());
    switch.silence(Some("nobody at home 4712"));
    let hcn = switch.serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    std::thread::sleep(Duration::from_millis(2200));
    assert!(!switch.holds(Kind::Network, net));
    assert_eq!(complaints.about("nobody at home 4712"), 1);
    switch.silence(None);
    eventually("it is told", || switch.holds(Kind::Network, net));
}

#[test]
fn what_is_missing_is_told_in_one_batch_each_order_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let hcn = Arc::new(Moving::default()).serve_from(directory.path());
    let net = make_network(&hcn, "L2Bridge", "net");
    let pods: Vec<_> = (0..50).map(|_| make_endpoint(&hcn, net)).collect();
    drop(hcn);
    let switch = Arc::new(Moving::default());
    switch.fail_one(Kind::Endpoint, pods[20]);
    let _hcn = switch.serve_from(directory.path());
    let batches = switch.batches();
    assert_eq!(batches[0].len(), 51, "the network and its endpoints");
    assert!(pods.iter().all(|pod| switch.holds(Kind::Endpoint, *pod) == (*pod != pods[20])));
}

#[test]
fn what_was_made_without_a_switch_can_be_taken_apart_but_not_grow() {
    let directory = tempfile::tempdir().unwrap();
    let hcn = hns::Service::start(hns::Options {
        state_dir: Some(directory.path().into()),
        build: Build::default(),
        machine: Arc::new(FakeMachine::with_ethernet()),
        switch: Arc::new(Recorder::default()),
    })
    .unwrap();
    let tunnel = |name: &str| json!({"EncryptionMethodType": "Ipsec", "Name": name});
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make(&hcn, Kind::Endpoint, &endpoint_with(net, "Encryption", tunnel("one")));
    add(Kind::Endpoint, &hcn, pod, "Add", "VLAN", json!({"IsolationId": 7})).unwrap();
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    let balancer = make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["10.0.0.2"], 80));
    drop(hcn);
    let switch = Arc::new(Moving::default());
    let hcn = switch.serve_from(directory.path());
    refused(&hcn, &switch, "Encryption", || add(Kind::Endpoint, &hcn, pod, "Add", "Encryption", tunnel("two")));
    let second = add(Kind::Endpoint, &hcn, pod, "Add", "VLAN", json!({"IsolationId": 8})).unwrap_err();
    assert_eq!(second.detail().field.as_deref(), Some("Policies"), "{second}");
    add(Kind::Endpoint, &hcn, pod, "Add", "QOS", json!({"MaximumOutgoingBandwidthInBytes": 1000})).unwrap();
    add(Kind::Endpoint, &hcn, pod, "Remove", "QOS", json!({"MaximumOutgoingBandwidthInBytes": 1000})).unwrap();
    let mut renamed = load_balancer(&[pod], &["10.0.0.2"], 81);
    renamed["ID"] = json!(balancer.to_string());
    hcn.modify(Kind::LoadBalancer, balancer, &renamed.to_string()).unwrap();
    detach(&hcn, space, pod).unwrap();
    hcn.delete(Kind::Endpoint, pod).unwrap();
    assert!(show(&hcn, Kind::LoadBalancer, balancer).get("HostComputeEndpoints").is_none());
    hcn.delete(Kind::LoadBalancer, balancer).unwrap();
    hcn.delete(Kind::Namespace, space).unwrap();
    hcn.delete(Kind::Network, net).unwrap();
}
