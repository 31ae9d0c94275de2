//! Which backends serve whom, as a table.

use std::net::IpAddr;

use super::*;
use crate::family::Family;
use crate::service::{PortKey, Protocol, ServiceName};

/// A backend from a few words: its number, then what is special about it.
fn backend(text: &str) -> Backend {
    let mut words = text.split(' ');
    let number: u8 = words.next().unwrap().parse().unwrap();
    let mut backend = Backend {
        address: IpAddr::from([10, 0, 0, number]),
        port: 80,
        is_local: false,
        is_ready: true,
        is_serving: true,
        is_terminating: false,
        zones: None,
        nodes: None,
    };
    for word in words {
        match word.split_once('=') {
            Some(("zone", zone)) => backend.zones = Some([zone.to_owned()].into()),
            Some(("node", node)) => backend.nodes = Some([node.to_owned()].into()),
            _ => match word {
                "local" => backend.is_local = true,
                "ending" => (backend.is_ready, backend.is_terminating) = (false, true),
                "dead" => (backend.is_ready, backend.is_serving) = (false, false),
                other => panic!("{other}"),
            },
        }
    }
    backend
}

fn port(internal_local: bool, external_local: bool) -> ServicePort {
    let service = ServiceName { namespace: "default".into(), name: "web".into() };
    ServicePort {
        key: PortKey { service, family: Family::V4, name: String::new(), protocol: Protocol::Tcp },
        cluster_ip: IpAddr::from([10, 96, 0, 1]),
        port: 80,
        node_port: Some(30080),
        external_ips: Vec::new(),
        ingress_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity_seconds: None,
        internal_local,
        external_local,
        health_check_port: None,
        preserve_destination: false,
    }
}

fn numbers(backends: &[&Backend]) -> Vec<u8> {
    backends.iter().map(|backend| if let IpAddr::V4(v4) = backend.address { v4.octets()[3] } else { 0 }).collect()
}

#[test]
fn backends_are_selected_by_the_rules() {
    // The backends; then those for everybody, and those of the Local policy.
    let table: &[(&[&str], &[u8], &[u8])] = &[
        (&[], &[], &[]),
        (&["1 local", "2"], &[1, 2], &[1]),
        (&["1 dead local", "2 dead"], &[], &[]),
        (&["1 ending local", "2"], &[2], &[1]),
        (&["1 ending local", "2 ending", "3 dead"], &[1, 2], &[1]),
        (&["1 zone=a", "2 zone=b"], &[1], &[]),
        (&["1 zone=b", "2 zone=b"], &[1, 2], &[]),
        (&["1 zone=a", "2"], &[1, 2], &[]),
        (&["1 zone=a", "2 ending"], &[1], &[]),
        (&["1 zone=a node=here", "2 zone=a node=there"], &[1], &[]),
        (&["1 zone=b node=there", "2 zone=a node=there"], &[2], &[]),
        (&["1 zone=b local", "2 zone=a"], &[2], &[1]),
    ];
    let here = Location { node: "here".into(), zone: Some("a".into()) };
    for (texts, everybody, local) in table {
        let backends: Vec<Backend> = texts.iter().map(|text| backend(text)).collect();
        let cluster = select(&port(false, false), &backends, &here);
        assert_eq!((numbers(&cluster.internal), numbers(&cluster.external)), (everybody.to_vec(), everybody.to_vec()), "{texts:?}");
        let policy = select(&port(true, true), &backends, &here);
        assert_eq!((numbers(&policy.internal), numbers(&policy.external)), (local.to_vec(), local.to_vec()), "{texts:?}");
        assert_eq!(numbers(&policy.short_cut), everybody.to_vec(), "{texts:?}");
    }
}

#[test]
fn a_node_that_does_not_know_its_zone_uses_all() {
    let backends = [backend("1 zone=a"), backend("2 zone=b")];
    let here = Location { node: "here".into(), zone: None };
    assert_eq!(numbers(&select(&port(false, false), &backends, &here).internal), [1, 2]);
}
