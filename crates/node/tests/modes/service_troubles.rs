//! Load balancers that ask for something odd, or whose backends go away: defined answers, and nothing half-done.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::balancer::{Balancer, VIPS, everybody_new, fronts, names};
use crate::harness::document::policy;
use crate::harness::probe::meet;
use crate::harness::{Place, World, eventually, pings, run, tcp};
use crate::l2bridge::{routed, routed_pod};
use crate::services::bridge;

/// Whether a connection is refused, and at once.
fn is_refused(from: &Place, to: SocketAddr) -> bool {
    let start = Instant::now();
    let refusal = meet(from, to).err().map(|error| error.kind());
    refusal == Some(io::ErrorKind::ConnectionRefused) && start.elapsed() < Duration::from_secs(1)
}

#[test]
fn backends_that_vanish_are_not_asked_and_are_when_they_return() {
    run("service_troubles::backends_that_vanish_are_not_asked_and_are_when_they_return", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        Balancer { backends: vec![one.endpoint, two.endpoint], ..Balancer::default() }.on(node);
        let detach = |pod: &crate::harness::Pod| {
            let request =
                json!({ "ResourceType": "Endpoint", "RequestType": "Remove", "Settings": { "EndpointId": pod.endpoint.to_string() } });
            node.client.modify(Kind::Namespace, pod.namespace, &request.to_string()).expect("the endpoint leaves");
        };
        for front in fronts() {
            assert_eq!(everybody_new(&client, front), names(&[&one, &two]));
        }
        detach(&one);
        for front in fronts() {
            assert_eq!(everybody_new(&client, front), names(&[&two]), "the one that is gone is not asked");
        }
        detach(&two);
        for front in fronts() {
            assert!(is_refused(&client, front), "nobody is left at {front}");
        }
        node.attach(one.namespace, one.endpoint);
        for front in fronts() {
            eventually("the first is asked again", || meet(&client, front).is_ok_and(|(name, _)| name == one.name));
        }
    });
}

#[test]
fn backends_of_one_family_serve_that_family() {
    run("service_troubles::backends_of_one_family_serve_that_family", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let client = routed_pod(node, network, 11, &[]);
        let document = crate::harness::document::endpoint("v4-only", &["10.244.1.12/24"], &["10.244.1.1"], &[]);
        let backend = node.pod(network, &document);
        Balancer { backends: vec![backend.endpoint], ..Balancer::default() }.on(node);
        assert_eq!(everybody_new(&client, fronts()[0]), names(&[&backend]));
        assert!(is_refused(&client, fronts()[1]), "there is no backend for IPv6");
    });
}

#[test]
fn a_frontend_that_is_taken_is_refused_and_its_owner_goes_on() {
    run("service_troubles::a_frontend_that_is_taken_is_refused_and_its_owner_goes_on", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        Balancer { backends: vec![one.endpoint], ..Balancer::default() }.on(node);
        let before = node.look("/rules");
        // Of its two addresses one is taken: the other one must not come either.
        let vips = ["10.96.0.99", VIPS[0]];
        let second = Balancer { vips: &vips, backends: vec![two.endpoint], ..Balancer::default() }.document();
        let error = node.client.create(Kind::LoadBalancer, None, None, &second.to_string()).expect_err("it is taken").to_string();
        assert!(error.contains(VIPS[0]) && error.contains("80"), "{error}");
        assert_eq!(names_of_rules(&node.look("/rules")), names_of_rules(&before), "nothing of it came");
        assert_eq!(everybody_new(&client, fronts()[0]), names(&[&one]));
        let free: IpAddr = "10.96.0.99".parse().expect("an address");
        assert!(meet_quickly(&client, free).is_err());
    });
}

fn meet_quickly(from: &Place, to: IpAddr) -> io::Result<std::net::TcpStream> {
    from.run(|| std::net::TcpStream::connect_timeout(&SocketAddr::new(to, 80), Duration::from_millis(400)))
}

fn names_of_rules(rules: &Value) -> Vec<&str> {
    rules.as_array().into_iter().flatten().filter_map(|rule| rule["Rule"].as_str()).collect()
}

#[test]
fn a_rate_of_nothing_is_refused_and_the_pod_goes_on() {
    run("service_troubles::a_rate_of_nothing_is_refused_and_the_pod_goes_on", || {
        let world = World::new(1);
        let (_, [client, one, _]) = bridge(&world);
        let limit = |rate: Value| {
            let settings = json!({ "Policies": [policy("QOS", json!({ "MaximumOutgoingBandwidthInBytes": rate }))] });
            let request = json!({ "ResourceType": "Policy", "RequestType": "Add", "Settings": settings });
            world.one().client.modify(Kind::Endpoint, client.endpoint, &request.to_string())
        };
        for rate in [json!(0), json!(-1), json!("fast"), json!(1.5)] {
            let error = limit(rate.clone()).expect_err("no rate").to_string();
            assert!(error.contains("MaximumOutgoingBandwidthInBytes"), "{rate}: {error}");
        }
        pings(&client, one.v4());
        tcp(&client, one.v4());
    });
}
