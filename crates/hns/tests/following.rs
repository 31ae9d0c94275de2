//! Events for those who follow, and orders for the switch.

mod common;

use std::sync::Arc;

use common::*;
use hcn::event::{Change, Event};
use hcn::{Hcn, Kind};
use hns::Build;
use hns::machine::FakeMachine;
use hns::switch::{Recorder, Switch};
use serde_json::json;

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
