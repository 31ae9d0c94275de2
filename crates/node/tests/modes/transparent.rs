//! Transparent: pods are on the wire as they are, with hardware addresses of their own.

use hcn::Guid;
use serde_json::Value;

use crate::harness::document::{endpoint, network, subnet};
use crate::harness::ping::ping_sized;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{Node, Pod, Sniffer, World, pings, run, tcp, udp};

/// A network on the wire as it is.
pub(crate) fn transparent(node: &Node) -> Guid {
    let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
    node.network(&network("clear", "Transparent", &subnets, &[]))
}

/// A pod of it.
pub(crate) fn pod(node: &Node, network: Guid, number: usize) -> Pod {
    node.pod(network, &document(number))
}

/// The document of such a pod's endpoint.
pub(crate) fn document(number: usize) -> Value {
    let addresses = [format!("192.168.0.{number}/24"), format!("fd00:99::{number}/64")];
    endpoint(&format!("pod{number}"), &addresses.each_ref().map(String::as_str), &["192.168.0.254", "fd00:99::fe"], &[])
}

#[test]
fn pods_are_on_the_wire_with_their_own_hardware_addresses() {
    run("transparent::pods_are_on_the_wire_with_their_own_hardware_addresses", || {
        let world = World::new(2);
        let (first, second) = (transparent(world.one()), transparent(world.two()));
        let (one, two) = (pod(world.one(), first, 101), pod(world.two(), second, 102));
        let wire = Sniffer::start(&world.underlay);
        pings(&one, two.v4());
        pings(&one, two.v6());
        let sent = wire.arrived("node1");
        assert!(sent.iter().any(|frame| frame.is_between(one.v4(), two.v4())));
        for frame in sent.iter().filter(|frame| frame.ip().is_some_and(|(from, _, _)| from == one.v4() || from == one.v6())) {
            assert_eq!(frame.source_mac(), one.mac, "{frame:?}");
        }
        let received = wire.left("node1");
        for frame in received.iter().filter(|frame| frame.ip().is_some_and(|(_, to, _)| to == one.v4())) {
            assert_eq!(frame.destination_mac(), one.mac, "{frame:?}");
        }
        let neighbours = world.underlay.netlink().neighbours(world.underlay.link("br0").index).expect("the neighbours");
        pings(&world.underlay, one.v4());
        let known = world.underlay.netlink().neighbours(world.underlay.link("br0").index).expect("the neighbours");
        let mac = known.iter().find(|neighbour| neighbour.address == one.v4()).and_then(|neighbour| neighbour.mac);
        assert_eq!(mac, Some(one.mac), "before: {neighbours:?}");
    });
}

#[test]
fn everybody_on_the_link_reaches_everybody() {
    run("transparent::everybody_on_the_link_reaches_everybody", || {
        let world = World::new(2);
        let (first, second) = (transparent(world.one()), transparent(world.two()));
        let (one, near) = (pod(world.one(), first, 101), pod(world.one(), first, 102));
        let far = pod(world.two(), second, 103);
        for (at, own) in [one.v4(), one.v6()].into_iter().enumerate() {
            let v4 = at == 0;
            let nodes = [world.one().address_like(v4), world.two().address_like(v4)];
            for other in [near.addresses[at], far.addresses[at], nodes[0], nodes[1], OUTSIDE[at], ROUTER[at]] {
                pings(&one, other);
                assert_eq!(tcp(&one, other).ip(), own, "{other}");
            }
            ping_sized(&one, far.addresses[at], 4000);
            assert_eq!(udp(&one, far.addresses[at], 9000).ip(), own);
            for node in &world.nodes {
                pings(node, own);
                assert_eq!(tcp(node, own).ip(), node.address_like(v4));
            }
            assert_eq!(tcp(&world.outside, own).ip(), OUTSIDE[at]);
        }
    });
}
