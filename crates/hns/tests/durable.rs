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
    for bytes in [b"not a database".to_vec(), vec![0; 8192], b"redb\x1A\x0A\xA9\x0D\x0A".repeat(500)] {
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

/// Damage at any place is either found, or does no harm to what is read.
#[test]
fn a_damaged_file_never_panics_and_never_lies() {
    let directory = tempfile::tempdir().unwrap();
    let hcn = open(directory.path()).unwrap();
    let net = make_network(&hcn, "NAT", "net");
    for _ in 0..30 {
        make_endpoint(&hcn, net);
    }
    let before = everything(&hcn);
    drop(hcn);
    let path = directory.path().join(FILE_NAME);
    let whole = fs::read(&path).unwrap();
    let mut found = 0;
    for step in 0..60 {
        let mut bytes = whole.clone();
        let at = step * whole.len() / 60;
        let end = (at + 64).min(bytes.len());
        bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&path, &bytes).unwrap();
        match open(directory.path()) {
            Ok(hcn) => assert_eq!(everything(&hcn), before, "damage at {at} was not noticed"),
            Err(error) => {
                assert!(matches!(error, JournalError::Unreadable { .. }), "{error}");
                assert!(fs::read(&path).unwrap() == bytes, "the damaged file was changed");
                found += 1;
            }
        }
    }
    for length in [0, 100, 4096, whole.len() / 2] {
        fs::write(&path, &whole[..length]).unwrap();
        if let Ok(hcn) = open(directory.path()) {
            assert!(length == 0 || everything(&hcn) == before, "{length} bytes were read as something else");
        }
    }
    assert!(found > 0, "no damage was ever found");
}

#[test]
fn a_newer_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    make_network(&open(directory.path()).unwrap(), "NAT", "net");
    let path = directory.path().join(FILE_NAME);
    {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let meta: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
        transaction.open_table(meta).unwrap().insert("format", 9u32.to_be_bytes().as_slice()).unwrap();
        transaction.commit().unwrap();
    }
    let bytes = fs::read(&path).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, JournalError::Newer { format: 9, .. }), "{error}");
    assert!(error.to_string().contains("format 9"), "{error}");
    assert!(bytes == fs::read(&path).unwrap(), "the file was changed");
}
