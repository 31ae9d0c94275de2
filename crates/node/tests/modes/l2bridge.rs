//! L2Bridge: pods are on the underlay, behind the hardware address of their node.

use std::net::SocketAddr;

use hcn::Guid;
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, outbound_nat, outbound_nat_v6, policy, subnet};
use crate::harness::ping::ping_sized;
use crate::harness::serve::PORT;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{Node, Pod, Sniffer, World, pings, probe, run, tcp, udp};

/// What may be an address of a frame that the whole link receives.
const GROUP: u8 = 1;

/// A network with subnets of its own, whose gateway is the node, and the underlay's routes to it.
pub(crate) fn routed(world: &World, node: &Node) -> Guid {
    let n = node.number;
    let (v4, v6) = (format!("10.244.{n}.0/24"), format!("fd00:244:{n}::/64"));
    world.route_to(node, &[&v4, &v6]);
    let subnets = [subnet(&v4, &format!("10.244.{n}.1")), subnet(&v6, &format!("fd00:244:{n}::1"))];
    node.network(&network("bridge", "L2Bridge", &subnets, &[]))
}

/// A pod of such a network.
pub(crate) fn routed_pod(node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
    node.pod(network, &routed_document(node, number, policies))
}

/// The document of such a pod's endpoint.
pub(crate) fn routed_document(node: &Node, number: usize, policies: &[Value]) -> Value {
    let n = node.number;
    let addresses = [format!("10.244.{n}.{number}/24"), format!("fd00:244:{n}::{number}/64")];
    let gateways = [format!("10.244.{n}.1"), format!("fd00:244:{n}::1")];
    endpoint(&format!("pod{n}-{number}"), &addresses.each_ref().map(String::as_str), &gateways.each_ref().map(String::as_str), policies)
}

/// A network on the adapter's own subnets, with the router as gateway.
fn flat(node: &Node) -> Guid {
    let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
    node.network(&network("flat", "L2Bridge", &subnets, &[]))
}

/// A pod of such a network.
fn flat_pod(node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
    let addresses = [format!("192.168.0.{number}/24"), format!("fd00:99::{number}/64")];
    let document =
        endpoint(&format!("pod{number}"), &addresses.each_ref().map(String::as_str), &["192.168.0.254", "fd00:99::fe"], policies);
    node.pod(network, &document)
}

/// Two pods reach each other by every protocol, under their own addresses.
fn pods_meet(one: &Pod, two: &Pod) {
    for (from, to) in [(one.v4(), two.v4()), (one.v6(), two.v6())] {
        pings(one, to);
        ping_sized(one, to, 4000);
        assert_eq!(tcp(one, to).ip(), from);
        for size in [0, 1400, 9000] {
            assert_eq!(udp(one, to, size).ip(), from, "{size} bytes");
        }
    }
}

/// A pod and a node reach each other, under their own addresses.
fn pod_and_node_meet(pod: &Pod, node: &Node) {
    for (of_pod, of_node) in [(pod.v4(), node.v4()), (pod.v6(), node.v6())] {
        pings(pod, of_node);
        assert_eq!(tcp(pod, of_node).ip(), of_pod);
        assert_eq!(udp(pod, of_node, 9000).ip(), of_pod);
        pings(node, of_pod);
        assert_eq!(tcp(node, of_pod).ip(), of_node);
        assert_eq!(udp(node, of_pod, 9000).ip(), of_node);
    }
}

/// A pod and somebody outside reach each other, under their own addresses.
fn pod_and_outside_meet(pod: &Pod, world: &World) {
    for (of_pod, outside) in [(pod.v4(), OUTSIDE[0]), (pod.v6(), OUTSIDE[1])] {
        pings(pod, outside);
        assert_eq!(tcp(pod, outside).ip(), of_pod);
        pings(&world.outside, of_pod);
        assert_eq!(tcp(&world.outside, of_pod).ip(), outside);
        assert_eq!(udp(&world.outside, of_pod, 9000).ip(), outside);
    }
}

#[test]
fn pods_of_one_node_reach_each_other_and_their_node() {
    run("l2bridge::pods_of_one_node_reach_each_other_and_their_node", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        pods_meet(&one, &two);
        pod_and_node_meet(&one, node);
    });
}

#[test]
fn pods_of_two_nodes_reach_each_other_and_both_nodes_and_the_outside() {
    run("l2bridge::pods_of_two_nodes_reach_each_other_and_both_nodes_and_the_outside", || {
        let world = World::new(2);
        let networks: Vec<Guid> = world.nodes.iter().map(|node| routed(&world, node)).collect();
        let (one, two) = (routed_pod(world.one(), networks[0], 11, &[]), routed_pod(world.two(), networks[1], 11, &[]));
        pods_meet(&one, &two);
        pod_and_node_meet(&one, world.two());
        pod_and_outside_meet(&two, &world);
    });
}

#[test]
fn a_network_may_have_a_hardware_address_of_its_own_on_the_wire() {
    run("l2bridge::a_network_may_have_a_hardware_address_of_its_own_on_the_wire", || {
        let world = World::new(1);
        let node = world.one();
        let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
        let source = policy("SourceMacAddress", json!({ "SourceMacAddress": "02-15-5D-00-00-EE" }));
        let pod = flat_pod(node, node.network(&network("flat", "L2Bridge", &subnets, &[source])), 101, &[]);
        for (of_pod, router, outside) in [(pod.v4(), ROUTER[0], OUTSIDE[0]), (pod.v6(), ROUTER[1], OUTSIDE[1])] {
            pings(&pod, router);
            assert_eq!(tcp(&pod, outside).ip(), of_pod);
            pings(&world.outside, of_pod);
            let known = world.underlay.ip(&format!("neigh show {of_pod}"));
            assert!(known.contains("02:15:5d:00:00:ee"), "{known}");
            tcp(&world.underlay, node.address_like(of_pod.is_ipv4()));
        }
    });
}

#[test]
fn pods_on_the_adapters_own_subnet_are_neighbours_of_everybody_there() {
    run("l2bridge::pods_on_the_adapters_own_subnet_are_neighbours_of_everybody_there", || {
        let world = World::new(2);
        let (first, second) = (flat(world.one()), flat(world.two()));
        let one = flat_pod(world.one(), first, 101, &[]);
        let two = flat_pod(world.one(), first, 102, &[]);
        let three = flat_pod(world.two(), second, 103, &[]);
        pods_meet(&one, &two);
        pods_meet(&one, &three);
        pod_and_node_meet(&one, world.one());
        pod_and_node_meet(&one, world.two());
        pod_and_outside_meet(&one, &world);
        for (pod, router) in [(one.v4(), ROUTER[0]), (one.v6(), ROUTER[1])] {
            pings(&one, router);
            assert_eq!(tcp(&world.underlay, pod).ip(), router);
        }
    });
}

#[test]
fn the_wire_never_sees_the_hardware_address_of_a_pod() {
    run("l2bridge::the_wire_never_sees_the_hardware_address_of_a_pod", || {
        let world = World::new(2);
        let (first, second) = (flat(world.one()), flat(world.two()));
        let (one, two) = (flat_pod(world.one(), first, 101, &[]), flat_pod(world.two(), second, 102, &[]));
        let (wire, inside) = (Sniffer::start(&world.underlay), Sniffer::start(&one));
        pods_meet(&one, &two);
        pings(&world.outside, one.v4());
        let sent = wire.arrived("node1");
        let node = world.one().mac();
        assert!(sent.iter().any(|frame| frame.is_between(one.v4(), two.v4())), "nothing of the pod was on the wire");
        for frame in &sent {
            assert_eq!(frame.source_mac(), node, "{frame:?}");
        }
        for frame in wire.left("node1").iter().filter(|frame| frame.destination_mac().0[0] & GROUP == 0) {
            assert_eq!(frame.destination_mac(), node, "{frame:?}");
        }
        let (v4, v6) = (one.v4(), one.v6());
        let received = inside.arrived("eth0");
        let for_it: Vec<_> = received.iter().filter(|frame| frame.ip().is_some_and(|(_, to, _)| to == v4 || to == v6)).collect();
        assert!(!for_it.is_empty() && for_it.iter().all(|frame| frame.destination_mac() == one.mac));
    });
}

#[test]
fn outbound_nat_gives_the_nodes_address_except_to_exceptions() {
    run("l2bridge::outbound_nat_gives_the_nodes_address_except_to_exceptions", || {
        let world = World::new(2);
        let networks: Vec<Guid> = world.nodes.iter().map(|node| routed(&world, node)).collect();
        let policies = [outbound_nat(&["10.244.0.0/16", "192.168.0.254/32"]), outbound_nat_v6(&["fd00:244::/32", "fd00:99::fe/128"])];
        let one = routed_pod(world.one(), networks[0], 11, &policies);
        let two = routed_pod(world.two(), networks[1], 11, &policies);
        pods_meet(&one, &two);
        pod_and_node_meet(&one, world.one());
        for (pod, node, at) in [(one.v4(), world.one().v4(), 0), (one.v6(), world.one().v6(), 1)] {
            pings(&one, OUTSIDE[at]);
            ping_sized(&one, OUTSIDE[at], 4000);
            assert_eq!(tcp(&one, OUTSIDE[at]).ip(), node);
            for size in [0, 1400, 9000] {
                assert_eq!(udp(&one, OUTSIDE[at], size).ip(), node, "{size} bytes");
            }
            assert_eq!(tcp(&one, world.two().address_like(at == 0)).ip(), node, "another node is outside");
            assert_eq!(tcp(&one, ROUTER[at]).ip(), pod, "the router is an exception");
            assert_eq!(tcp(&world.outside, pod).ip(), OUTSIDE[at], "from outside nothing is translated");
        }
    });
}

#[test]
fn outbound_nat_with_destinations_translates_only_those() {
    run("l2bridge::outbound_nat_with_destinations_translates_only_those", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let policies = [policy("OutBoundNAT", json!({ "Destinations": ["203.0.113.0/24"] }))];
        let pod = routed_pod(world.one(), network, 11, &policies);
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), world.one().v4());
        assert_eq!(tcp(&pod, ROUTER[0]).ip(), pod.v4());
        assert_eq!(tcp(&pod, OUTSIDE[1]).ip(), pod.v6());
    });
}

#[test]
fn outbound_nat_to_a_virtual_address_combines_with_another_policy() {
    run("l2bridge::outbound_nat_to_a_virtual_address_combines_with_another_policy", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let policies = [
            policy("OutBoundNAT", json!({ "VirtualIP": "192.168.0.200", "Destinations": ["203.0.113.9"] })),
            outbound_nat(&["10.244.0.0/16"]),
            outbound_nat_v6(&[]),
        ];
        let (one, two) = (routed_pod(world.one(), network, 11, &policies), routed_pod(world.one(), network, 12, &policies));
        for pod in [&one, &two] {
            assert_eq!(tcp(pod, OUTSIDE[0]).ip().to_string(), "192.168.0.200");
            assert_eq!(udp(pod, OUTSIDE[0], 1000).ip().to_string(), "192.168.0.200");
            pings(pod, OUTSIDE[0]);
            assert_eq!(tcp(pod, ROUTER[0]).ip(), world.one().v4());
            assert_eq!(tcp(pod, OUTSIDE[1]).ip(), world.one().v6());
        }
        pods_meet(&one, &two);
    });
}

#[test]
fn many_connections_of_many_pods_share_the_nodes_address() {
    run("l2bridge::many_connections_of_many_pods_share_the_nodes_address", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let pods: Vec<Pod> = (11..15).map(|number| routed_pod(world.one(), network, number, &[outbound_nat(&[])])).collect();
        let to = SocketAddr::new(OUTSIDE[0], PORT);
        let open = |pod: &Pod| (0..16).map(|_| pod.run(|| probe::socket_like(to)).expect("a socket")).collect::<Vec<_>>();
        let sockets: Vec<_> = pods.iter().flat_map(open).collect();
        let seen: Vec<_> = sockets.iter().filter_map(|socket| probe::ask(socket, 100)).collect();
        assert!(seen.iter().all(|seen| seen.ip() == world.one().v4()));
        let mut ports: Vec<u16> = seen.iter().map(|seen| seen.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 64, "two connections to one destination had the same port");
    });
}

#[test]
fn a_narrow_path_is_found_out_behind_translation() {
    run("l2bridge::a_narrow_path_is_found_out_behind_translation", || {
        let world = World::new(1);
        world.narrow(1300);
        let network = routed(&world, world.one());
        let pod = routed_pod(world.one(), network, 11, &[outbound_nat(&[]), outbound_nat_v6(&[])]);
        for outside in OUTSIDE {
            assert_eq!(tcp(&pod, outside).ip(), world.one().address_like(outside.is_ipv4()));
        }
        let other = routed_pod(world.one(), network, 12, &[outbound_nat(&[]), outbound_nat_v6(&[])]);
        for outside in OUTSIDE {
            probe::learns_of_narrow_path(&other, outside);
        }
    });
}
