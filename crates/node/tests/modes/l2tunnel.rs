//! L2Tunnel: every packet goes out to the fabric, which decides, also between neighbours.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use hcn::Guid;

use crate::harness::balancer::{Balancer, IPV6, everybody, names, remote_endpoint};
use crate::harness::document::{endpoint, network, subnet};
use crate::harness::node::Daemon;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{MOMENT, Node, Pod, Sniffer, World, pings, run, tcp, udp};

/// A port that the fabric does not let through.
const BLOCKED: u16 = 2323;

/// A port of nodes, and what says that it is one: routed by the node itself, at an external address.
const NODE_PORT: u16 = 30_080;
const IS_NODE_PORT: u32 = 2 | 16;

/// Puts a fabric where the bridge was: each node has a link to it, and so has the router.
pub(crate) fn with_fabric(nodes: usize) -> (World, Daemon) {
    let world = World::new(nodes);
    world.underlay.ip("link add router type veth peer name inner");
    world.underlay.ip("link set inner master br0 up");
    world.underlay.ip("link set router up");
    let mut file = String::from("links:\n");
    for node in &world.nodes {
        let n = node.number;
        world.underlay.ip(&format!("link set node{n} nomaster"));
        let addresses = format!("192.168.0.{n}/32, \"fd00:99::{n}/128\", 192.168.0.{}/28, \"fd00:99::{n}:0/112\"", n * 16);
        file += &format!("  - {{interface: node{n}, addresses: [{addresses}]}}\n");
    }
    file += "  - {interface: router, addresses: [192.168.0.254/32, \"fd00:99::fe/128\"]}\n";
    file += "routes:\n  - {prefix: 0.0.0.0/0, link: router}\n  - {prefix: \"::/0\", link: router}\n";
    file += &format!("rules:\n  - {{name: no-telnet, action: Block, priority: 100, protocols: [6], ports: [\"{BLOCKED}\"]}}\n");
    file += "  - {name: rest, action: Allow, priority: 1000}\n";
    let path = world.one().file("fabric.yaml");
    std::fs::write(&path, file).expect("a file");
    let arguments = ["--file".to_owned(), path.display().to_string()];
    let fabric = world.one().daemon_at(&world.underlay, "fabric", &arguments);
    (world, fabric)
}

fn tunnel(node: &Node) -> Guid {
    let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
    node.network(&network("tunnel", "L2Tunnel", &subnets, &[]))
}

/// A pod whose addresses the fabric has behind the link of its node.
fn pod(node: &Node, network: Guid, number: usize) -> Pod {
    let n = node.number;
    let addresses = [format!("192.168.0.{}/24", n * 16 + number), format!("fd00:99::{n}:{number}/64")];
    let document = endpoint(&format!("pod{n}-{number}"), &addresses.each_ref().map(String::as_str), &["192.168.0.254", "fd00:99::fe"], &[]);
    node.pod(network, &document)
}

/// Whether a program in a pod reaches a port of an address.
fn reaches(pod: &Pod, to: IpAddr, port: u16) -> bool {
    pod.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, port), MOMENT).is_ok())
}

#[test]
fn neighbours_meet_in_the_fabric_and_nowhere_else() {
    run("l2tunnel::neighbours_meet_in_the_fabric_and_nowhere_else", || {
        let (world, mut fabric) = with_fabric(1);
        let network = tunnel(world.one());
        let (one, two) = (pod(world.one(), network, 1), pod(world.one(), network, 2));
        let wire = Sniffer::start(&world.underlay);
        for (at, own) in [one.v4(), one.v6()].into_iter().enumerate() {
            pings(&one, two.addresses[at]);
            assert_eq!(tcp(&one, two.addresses[at]).ip(), own);
            assert_eq!(udp(&one, two.addresses[at], 9000).ip(), own);
        }
        let node = world.one().mac();
        let out = wire.arrived("node1");
        let out: Vec<_> = out.iter().filter(|frame| frame.is_between(one.v4(), two.v4())).collect();
        assert!(!out.is_empty() && out.iter().all(|frame| frame.source_mac() == node), "the source is the node's");
        assert!(wire.left("node1").iter().any(|frame| frame.is_between(one.v4(), two.v4())), "it comes back in");
        let _listener = two.run(|| TcpListener::bind(("0.0.0.0", BLOCKED))).expect("a socket");
        assert!(!reaches(&one, two.v4(), BLOCKED), "the fabric's rules hold between neighbours");
        fabric.kill();
        assert!(!crate::harness::answers(&one, two.v4()), "there is no way but through the fabric");
    });
}

#[test]
fn pods_nodes_and_the_outside_meet_through_the_fabric() {
    run("l2tunnel::pods_nodes_and_the_outside_meet_through_the_fabric", || {
        let (world, _fabric) = with_fabric(2);
        let (one, two) = (pod(world.one(), tunnel(world.one()), 1), pod(world.two(), tunnel(world.two()), 1));
        // The fabric learns where somebody is when that one speaks.
        pings(&world.underlay, world.one().v4());
        for (at, own) in [one.v4(), one.v6()].into_iter().enumerate() {
            let v4 = at == 0;
            pings(&one, two.addresses[at]);
            assert_eq!(tcp(&one, two.addresses[at]).ip(), own);
            for node in &world.nodes {
                pings(&one, node.address_like(v4));
                assert_eq!(tcp(&one, node.address_like(v4)).ip(), own);
                pings(node, own);
                assert_eq!(tcp(node, own).ip(), node.address_like(v4));
            }
            for outside in [ROUTER[at], OUTSIDE[at]] {
                pings(&one, outside);
                assert_eq!(tcp(&one, outside).ip(), own, "the address is visible on the underlay");
            }
            assert_eq!(tcp(&world.outside, own).ip(), OUTSIDE[at]);
        }
    });
}

#[test]
fn node_ports_lead_to_backends_on_both_sides_of_the_fabric() {
    run("l2tunnel::node_ports_lead_to_backends_on_both_sides_of_the_fabric", || {
        let (world, _fabric) = with_fabric(2);
        let (first, second) = (tunnel(world.one()), tunnel(world.two()));
        let (near, far) = (pod(world.one(), first, 1), pod(world.two(), second, 1));
        // The fabric learns where somebody is when that one speaks.
        world.nodes.iter().for_each(|node| pings(&world.underlay, node.v4()));
        let remote = remote_endpoint(world.one(), first, &far, &[]);
        for flags in [0, IPV6] {
            let backends = vec![near.endpoint, remote];
            let port = Balancer { vips: &[], backends, flags, mapping_flags: IS_NODE_PORT, port: NODE_PORT, ..Balancer::default() };
            port.on(world.one());
        }
        for address in [world.one().v4(), world.one().v6()] {
            let at = SocketAddr::new(address, NODE_PORT);
            for place in [&world.outside, &**world.two()] {
                assert_eq!(everybody(place, at).0, names(&[&near, &far]), "{} asks {at}", place.name);
            }
        }
    });
}
