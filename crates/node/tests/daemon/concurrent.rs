//! Many at once.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hcn::{Guid, Hcn, Kind};
use serde_json::Value;

use crate::documents;
use crate::hnsd::Hnsd;

const CLIENTS: usize = 8;

/// What each client makes; all together fill a good part of the subnet.
const ENDPOINTS: usize = 60;

/// So many documents that listing them takes a while.
const LIST_LENGTH: usize = 250 * CLIENTS;

const V2: &str = r#"{"SchemaVersion":{"Major":2}}"#;

/// Whether each value of a field is there once.
fn are_distinct<'a>(documents: &'a [Value], field: impl Fn(&'a Value) -> &'a Value) -> bool {
    let values: BTreeSet<&str> = documents.iter().filter_map(|document| field(document).as_str()).collect();
    values.len() == documents.len()
}

fn make_endpoints(hnsd: &Hnsd, client: usize) -> Vec<Guid> {
    let service = hnsd.client();
    let name = |number| documents::endpoint(&format!("pod-{client}-{number}")).to_string();
    (0..ENDPOINTS).map(|number| service.create(Kind::Endpoint, None, None, &name(number)).unwrap()).collect()
}

/// Lists everything again and again; each list must be whole.
fn list(hnsd: &Hnsd, done: &AtomicBool) {
    let client = hnsd.client();
    let mut most = 0;
    while !done.load(Ordering::SeqCst) {
        let endpoints = client.list(Kind::Endpoint, V2).unwrap();
        assert!(endpoints.len() >= most, "an endpoint is gone");
        most = endpoints.len();
        assert!(are_distinct(&endpoints, |endpoint| &endpoint["IpConfigurations"][0]["IpAddress"]));
        client.list(Kind::LoadBalancer, V2).unwrap();
        client.list(Kind::Network, V2).unwrap();
    }
}

fn change_load_balancers(hnsd: &Hnsd, endpoint: Guid, done: &AtomicBool) {
    let client = hnsd.client();
    while !done.load(Ordering::SeqCst) {
        let made = [80, 443].map(|port| {
            let document = documents::load_balancer(endpoint, port).to_string();
            client.create(Kind::LoadBalancer, None, None, &document).unwrap()
        });
        for id in made {
            client.delete(Kind::LoadBalancer, id).unwrap();
        }
    }
}

/// Says that it is over, also when a thread panics.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn clients_do_not_get_in_each_others_way() {
    let (_place, hnsd) = Hnsd::with_network();
    let backend = hnsd.create(Kind::Endpoint, &documents::endpoint("backend"));
    let done = AtomicBool::new(false);
    let mut made = thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| list(&hnsd, &done));
        scope.spawn(|| change_load_balancers(&hnsd, backend, &done));
        let makers: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let hnsd = &hnsd;
                    move || make_endpoints(hnsd, client)
                })
            })
            .collect();
        makers.into_iter().flat_map(|maker| maker.join().expect("all are made")).collect::<Vec<Guid>>()
    });
    made.push(backend);
    let endpoints = hnsd.client().list(Kind::Endpoint, V2).unwrap();
    assert!(are_distinct(&endpoints, |endpoint| &endpoint["IpConfigurations"][0]["IpAddress"]), "an address is there twice");
    assert!(are_distinct(&endpoints, |endpoint| &endpoint["MacAddress"]), "a MAC address is there twice");
    let listed: BTreeSet<Guid> = hnsd.client().enumerate(Kind::Endpoint, "").unwrap().into_iter().collect();
    assert_eq!(listed, made.into_iter().collect());
    assert!(hnsd.client().enumerate(Kind::LoadBalancer, "").unwrap().is_empty());
}

#[test]
fn only_one_of_many_gets_what_is_there_once() {
    let (_place, hnsd) = Hnsd::with_network();
    let document = || {
        let mut document = documents::endpoint("fixed");
        document["IpConfigurations"] = serde_json::json!([{"IpAddress": "10.1.2.3"}]);
        document.to_string()
    };
    let outcomes: Vec<bool> = thread::scope(|scope| {
        let makers: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| hnsd.client().create(Kind::Endpoint, None, None, &document()).is_ok())).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|made| **made).count(), 1, "{outcomes:?}");
}

#[test]
fn lists_that_nobody_reads_hold_up_nobody() {
    let (_place, hnsd) = Hnsd::new();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let client = hnsd.client();
                for _ in 0..LIST_LENGTH / CLIENTS {
                    client.create(Kind::Namespace, None, None, &documents::namespace().to_string()).unwrap();
                }
            });
        }
    });
    // Each answer is far larger than what the sockets take in by themselves.
    let unread: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = hnsd.connect();
            stream.write_all(b"GET /v2/namespaces?documents=true HTTP/1.1\r\nHost: hns\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for _ in 0..50 {
        hnsd.assert_works();
    }
    let listed = hnsd.client().list(Kind::Namespace, V2).unwrap();
    assert!(serde_json::to_string(&listed).unwrap().len() > 300_000, "the list is long");
    assert_eq!(listed.len(), LIST_LENGTH);
    drop(unread);
    hnsd.assert_works();
}
