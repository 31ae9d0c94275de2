//! Several networks on one adapter, and documents that change while packets flow.

use std::net::{SocketAddr, TcpStream};

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, outbound_nat, policy, schema, subnet};
use crate::harness::serve::PORT;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{MEGABYTES, MOMENT, Node, Pod, World, answers, eventually, exchange, pings, run, tcp};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

/// A network on the adapter's own subnet, and a pod on it.
fn flat_pod(node: &Node, kind: &str, number: usize, policies: &[Value]) -> (Guid, Pod) {
    let network = node.network(&network(kind, kind, &[subnet("192.168.0.0/24", "192.168.0.254")], &[]));
    let document = endpoint(&format!("{kind}-pod"), &[&format!("192.168.0.{number}/24")], &["192.168.0.254"], policies);
    (network, node.pod(network, &document))
}

#[test]
fn networks_of_all_modes_share_one_node() {
    run("together::networks_of_all_modes_share_one_node", || {
        let world = World::new(2);
        let node = world.one();
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let [first, second] = overlay.on_both(&world);
        let (tunnelled, far) =
            (overlay.pod(node, first, 11, &[outbound_nat(&["10.244.0.0/16"])]), overlay.pod(world.two(), second, 11, &[]));
        let (clear, open) = flat_pod(node, "Transparent", 101, &[]);
        let nat = node.network(&network("nat", "NAT", &[subnet("172.20.0.0/24", "172.20.0.1")], &[]));
        let mapping = policy("PortMapping", json!({ "Protocol": 6, "InternalPort": PORT, "ExternalPort": 8080 }));
        let hidden = node.pod(nat, &endpoint("hidden", &["172.20.0.11/24"], &["172.20.0.1"], &[mapping]));

        let check = || {
            assert_eq!(tcp(&tunnelled, far.v4()).ip(), tunnelled.v4());
            assert_eq!(tcp(&tunnelled, OUTSIDE[0]).ip(), node.v4());
            assert_eq!(tcp(&hidden, OUTSIDE[0]).ip(), node.v4());
            assert_eq!(exchange(&world.outside, SocketAddr::new(node.v4(), 8080), MEGABYTES).ip(), OUTSIDE[0]);
            pings(&hidden, far.v4());
        };
        check();
        assert_eq!(tcp(&open, OUTSIDE[0]).ip(), open.v4());
        assert_eq!(tcp(&world.outside, open.v4()).ip(), OUTSIDE[0]);
        node.delete_pod(&open);
        node.client.delete(Kind::Network, clear).expect("the network goes");
        check();
        pings(&world.underlay, node.v4());
    });
}

#[test]
fn pods_on_the_adapters_own_subnet_may_be_translated_too() {
    run("together::pods_on_the_adapters_own_subnet_may_be_translated_too", || {
        let world = World::new(1);
        let (_, pod) = flat_pod(world.one(), "L2Bridge", 101, &[outbound_nat(&["192.168.0.0/24"])]);
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), world.one().v4());
        assert_eq!(tcp(&pod, ROUTER[0]).ip(), pod.v4());
        assert_eq!(tcp(&world.outside, pod.v4()).ip(), OUTSIDE[0]);
        pings(&pod, OUTSIDE[0]);
    });
}

#[test]
fn a_policy_that_is_added_holds_from_then_on() {
    run("together::a_policy_that_is_added_holds_from_then_on", || {
        let world = World::new(1);
        let node = world.one();
        let pod = routed_pod(node, routed(&world, node), 11, &[]);
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), pod.v4());
        let change = |request: &str| {
            let settings = json!({ "Policies": [outbound_nat(&[])] });
            let request = json!({ "ResourceType": "Policy", "RequestType": request, "Settings": settings });
            node.client.modify(Kind::Endpoint, pod.endpoint, &request.to_string()).expect("the policy is changed");
        };
        change("Add");
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), node.v4());
        pings(&pod, OUTSIDE[0]);
        change("Remove");
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), pod.v4());
    });
}

#[test]
fn an_endpoint_moves_to_another_namespace() {
    run("together::an_endpoint_moves_to_another_namespace", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (pod, other) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        pings(&other, pod.v4());
        let leave = json!({ "ResourceType": "Endpoint", "RequestType": "Remove", "Settings": { "EndpointId": pod.endpoint.to_string() } });
        node.client.modify(Kind::Namespace, pod.namespace, &leave.to_string()).expect("the endpoint leaves");
        assert!(pod.find_link("eth0").is_none() && !answers(&other, pod.v4()));
        let new = json!({ "Type": "Host", "SchemaVersion": schema() });
        let new = node.client.create(Kind::Namespace, None, None, &new.to_string()).expect("a namespace");
        node.attach(new, pod.endpoint);
        pings(&other, pod.v4());
        pings(node, pod.v6());
    });
}

#[test]
fn mapped_ports_are_back_when_the_switch_is() {
    run("together::mapped_ports_are_back_when_the_switch_is", || {
        let mut world = World::new(1);
        let nat = world.one().network(&network("nat", "NAT", &[subnet("172.20.0.0/24", "172.20.0.1")], &[]));
        let mapping = policy("PortMapping", json!({ "Protocol": 6, "InternalPort": PORT, "ExternalPort": 8080 }));
        let pod = world.one().pod(nat, &endpoint("pod", &["172.20.0.11/24"], &["172.20.0.1"], &[mapping]));
        let mapped = SocketAddr::new(world.one().v4(), 8080);
        exchange(&world.outside, mapped, MEGABYTES);
        world.nodes[0].vswitchd.take().expect("vswitchd runs").kill();
        pings(&world.outside, world.one().v4());
        let open = || world.outside.run(|| TcpStream::connect_timeout(&mapped, MOMENT).is_ok());
        assert!(!open(), "a dead switch still maps ports");
        world.nodes[0].start_vswitchd();
        eventually("the pod reaches the outside", || answers(&pod, OUTSIDE[0]));
        exchange(&world.outside, mapped, MEGABYTES);
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), world.one().v4());
    });
}
