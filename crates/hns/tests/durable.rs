//! What is acknowledged is there after a restart; what cannot be read is never overwritten.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::*;
use hcn::{Hcn, Kind};
use hns::journal::{FILE_NAME, Journal, JournalError};
use hns::machine::FakeMachine;
use hns::switch::NullSwitch;
use hns::{Build, Options, Service};
use serde_json::{Value, json};

fn open(directory: &Path) -> Result<Service, JournalError> {
    Service::start(Options {
        state_dir: Some(directory.into()),
        build: Build::default(),
        machine: Arc::new(FakeMachine::with_ethernet()),
        switch: Arc::new(NullSwitch),
    })
}

fn everything(hcn: &dyn Hcn) -> Vec<Value> {
    Kind::ALL.iter().flat_map(|kind| hcn.list(*kind, V2).unwrap()).collect()
}

#[test]
fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let hcn = open(directory.path()).unwrap();
    let net = make_network(&hcn, "Overlay", "net");
    let pods: Vec<_> = (0..20).map(|_| make_endpoint(&hcn, net)).collect();
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pods[3]).unwrap();
    make(&hcn, Kind::LoadBalancer, &load_balancer(&pods[..5], &["1.1.1.1"], 80));
    let route = json!({"HostComputeEndpoints": [pods[0].to_string()], "Routes": [{"DestinationPrefix": "10.0.0.0/8"}]});
    make(&hcn, Kind::Route, &route);
    hcn.delete(Kind::Endpoint, pods[7]).unwrap();
    hcn.call("POST", "/accelnet", r#"{"MacAddressList":[{"MacAddress":"00-15-5D-0A-B7-C6"}]}"#).unwrap();
    let before = everything(&hcn);
    drop(hcn);

    let hcn = open(directory.path()).unwrap();
    assert_eq!(everything(&hcn), before);
    assert_eq!(hcn.call("GET", "/accelnet", "").unwrap()["MacAddressList"][0]["MacAddress"], "00-15-5D-0A-B7-C6");
    // The indexes are there too: nothing is given out twice.
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[], &["1.1.1.1"], 80)), 0x803B_0013);
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_at(net, "192.168.100.2")), 0x8007_1392);
    assert_eq!(refusal(&hcn, Kind::Network, &network("NAT", "net")), 0x803B_0010);
    let fresh = show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net));
    assert!(before.iter().all(|old| old["MacAddress"] != fresh["MacAddress"] && old["IpConfigurations"] != fresh["IpConfigurations"]));
}

#[test]
fn numbers_are_not_given_out_again() {
    let directory = tempfile::tempdir().unwrap();
    let compartment = || {
        let hcn = open(directory.path()).unwrap();
        let space = make(&hcn, Kind::Namespace, &json!({"Type": "Host", "CreateWithCompartment": true}));
        let number = show(&hcn, Kind::Namespace, space)["NamespaceId"].as_u64().unwrap();
        hcn.delete(Kind::Namespace, space).unwrap();
        number
    };
    let numbers = [compartment(), compartment(), compartment()];
    assert_eq!(numbers, [2, 3, 4]);
}

fn refused(directory: &Path) -> JournalError {
    match open(directory) {
        Ok(_) => panic!("the state was read"),
        Err(error) => error,
    }
}

#[test]
fn a_file_that_is_no_state_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let headless = [b"transom-hns\0".as_slice(), &[0; 4]].concat();
    for bytes in [Vec::new(), b"not a state".to_vec(), vec![0; 8192], b"something else altogether".repeat(500), headless] {
        fs::write(&path, &bytes).unwrap();
        let error = refused(directory.path());
        assert!(matches!(error, JournalError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains("--set-aside-unreadable-state"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "the file was changed");
    }
    let aside = Journal::set_aside(directory.path()).unwrap();
    let second = {
        fs::write(&path, "again").unwrap();
        Journal::set_aside(directory.path()).unwrap()
    };
    assert_ne!(aside, second);
    assert_eq!(fs::read(&second).unwrap(), b"again");
    make_network(&open(directory.path()).unwrap(), "NAT", "new");
}

/// A state with some history, and the bytes of its file.
fn some_history(directory: &Path) -> (Vec<Value>, Vec<u8>) {
    let hcn = open(directory).unwrap();
    let net = make_network(&hcn, "NAT", "net");
    for _ in 0..30 {
        make_endpoint(&hcn, net);
    }
    let all = everything(&hcn);
    drop(hcn);
    (all, fs::read(directory.join(FILE_NAME)).unwrap())
}

#[test]
fn damage_anywhere_is_found_and_the_file_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (_, whole) = some_history(directory.path());
    let path = directory.path().join(FILE_NAME);
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let error = refused(directory.path());
        assert!(matches!(error, JournalError::Unreadable { .. } | JournalError::Newer { .. }), "at {at}: {error}");
        assert!(fs::read(&path).unwrap() == bytes, "the file damaged at {at} was changed");
    }
}

#[test]
fn a_change_cut_off_by_a_crash_is_dropped_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (all, whole) = some_history(directory.path());
    let path = directory.path().join(FILE_NAME);
    // The last change is an endpoint of some hundred bytes; whatever is left of it is no endpoint.
    for cut in [1, 5, 11, 12, 13, 100, 300] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let hcn = open(directory.path()).unwrap();
        assert_eq!(everything(&hcn), all[..all.len() - 1], "{cut} bytes short");
        // The file goes on where the last whole change ended.
        let net = hcn.enumerate(Kind::Network, "").unwrap()[0];
        make_endpoint(&hcn, net);
        drop(hcn);
        assert_eq!(everything(&open(directory.path()).unwrap()).len(), all.len());
    }
}

#[test]
fn room_that_a_lost_write_left_behind_is_cut_away() {
    let directory = tempfile::tempdir().unwrap();
    let (all, whole) = some_history(directory.path());
    let path = directory.path().join(FILE_NAME);
    for blank in [12, 4096, 300_000] {
        let mut bytes = whole.clone();
        bytes.resize(whole.len() + blank, 0);
        fs::write(&path, &bytes).unwrap();
        assert_eq!(everything(&open(directory.path()).unwrap()), all);
        assert_eq!(fs::read(&path).unwrap().len(), whole.len());
        *bytes.last_mut().unwrap() = 1;
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(refused(directory.path()), JournalError::Unreadable { .. }));
    }
}

#[test]
fn a_newer_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (_, mut bytes) = some_history(directory.path());
    let path = directory.path().join(FILE_NAME);
    bytes[12] = 9;
    fs::write(&path, &bytes).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, JournalError::Newer { format: 9, .. }), "{error}");
    assert!(error.to_string().contains("format 9"), "{error}");
    assert!(bytes == fs::read(&path).unwrap(), "the file was changed");
}

#[test]
fn a_file_full_of_history_is_written_anew() {
    let directory = tempfile::tempdir().unwrap();
    let hcn = open(directory.path()).unwrap();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let long = "x".repeat(20_000);
    let change = |number: usize| {
        let acl = json!({"Action": "Allow", "Direction": "In", "Id": format!("{long}{number}")});
        hcn.modify(Kind::Endpoint, pod, &request("Policy", "Update", json!({"Policies": [{"Type": "ACL", "Settings": acl}]}))).unwrap();
    };
    (0..600).for_each(change);
    let before = everything(&hcn);
    drop(hcn);
    let length = fs::metadata(directory.path().join(FILE_NAME)).unwrap().len();
    assert!(length < 6 << 20, "{length} bytes for one endpoint of 20 kB after 12 MB of changes");
    assert_eq!(everything(&open(directory.path()).unwrap()), before);
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a file");
    fs::write(&file, "").unwrap();
    let error = refused(&file);
    assert!(matches!(error, JournalError::Io { .. }) && error.to_string().contains("a file"), "{error}");
}
