//! Overlay: VXLAN between nodes, by policy.

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use crate::harness::document::{endpoint, network, outbound_nat, outbound_nat_v6, overlay_subnet, policy, remote_subnet};
use crate::harness::ping::ping_sized;
use crate::harness::world::OUTSIDE;
use crate::harness::{MOMENT, Node, Pod, Sniffer, World, answers, pings, probe, run, tcp, udp};

/// The virtual network that flannel uses on Windows.
pub(crate) const VNI: u32 = 4096;

/// The UDP port of VXLAN.
const VXLAN: u16 = 4789;

/// How an overlay is made.
pub(crate) struct Overlay<'a> {
    pub(crate) name: &'a str,
    pub(crate) vni: u32,
    pub(crate) v6: bool,
    pub(crate) more: Vec<Value>,
}

impl Default for Overlay<'_> {
    fn default() -> Self {
        Self { name: "vxlan0", vni: VNI, v6: true, more: Vec::new() }
    }
}

/// The hardware address of a node's distributed router.
pub(crate) fn router_mac(number: usize) -> String {
    format!("00-15-5D-AA-00-0{number}")
}

impl Overlay<'_> {
    /// Makes the network on a node, with the way to the subnets of another.
    pub(crate) fn on(&self, node: &Node, other: usize) -> Guid {
        let n = node.number;
        let provider = format!("192.168.0.{other}");
        let mut subnets = vec![overlay_subnet(&format!("10.244.{n}.0/24"), &format!("10.244.{n}.1"), self.vni)];
        let mut policies = vec![
            policy("DrMacAddress", json!({ "Address": router_mac(n) })),
            remote_subnet(&format!("10.244.{other}.0/24"), self.vni, &provider, &router_mac(other)),
        ];
        if self.v6 {
            subnets.push(overlay_subnet(&format!("fd00:244:{n}::/64"), &format!("fd00:244:{n}::1"), self.vni));
            policies.push(remote_subnet(&format!("fd00:244:{other}::/64"), self.vni, &provider, &router_mac(other)));
        }
        policies.extend(self.more.iter().cloned());
        node.network(&network(self.name, "Overlay", &subnets, &policies))
    }

    /// Makes it on both nodes of a world.
    pub(crate) fn on_both(&self, world: &World) -> [Guid; 2] {
        [self.on(world.one(), 2), self.on(world.two(), 1)]
    }

    /// A pod on it.
    pub(crate) fn pod(&self, node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
        let n = node.number;
        let mut addresses = vec![format!("10.244.{n}.{number}/24")];
        let mut gateways = vec![format!("10.244.{n}.1")];
        if self.v6 {
            addresses.push(format!("fd00:244:{n}::{number}/64"));
            gateways.push(format!("fd00:244:{n}::1"));
        }
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let gateways: Vec<&str> = gateways.iter().map(String::as_str).collect();
        node.pod(network, &endpoint(&format!("{}-{n}-{number}", self.name), &addresses, &gateways, policies))
    }
}

/// Translation of what leaves the overlay.
fn translated() -> Vec<Value> {
    vec![outbound_nat(&["10.244.0.0/16"]), outbound_nat_v6(&["fd00:244::/32"])]
}

fn pods_meet(one: &Pod, two: &Pod) {
    for (from, to) in one.addresses.iter().zip(&two.addresses) {
        pings(one, *to);
        ping_sized(one, *to, 4000);
        assert_eq!(tcp(one, *to).ip(), *from);
        for size in [0, 1350, 1400, 9000] {
            assert_eq!(udp(one, *to, size).ip(), *from, "{size} bytes");
        }
    }
}

#[test]
fn pods_of_one_node_and_of_two_reach_each_other() {
    run("overlay::pods_of_one_node_and_of_two_reach_each_other", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.one(), first, 12, &[]));
        let far = overlay.pod(world.two(), second, 11, &[]);
        assert_eq!((one.link("eth0").mtu, far.link("eth0").mtu), (1450, 1450));
        let wire = Sniffer::start(&world.underlay);
        pods_meet(&one, &two);
        let (near, node) = (one.v4(), world.one().v4());
        let outside_the_tunnel = |frame: &&crate::harness::sniff::Frame| frame.ip().is_some_and(|(from, _, _)| from == near);
        assert_eq!(wire.arrived("node1").iter().filter(|frame| frame.udp_port() == Some(VXLAN)).count(), 0, "neighbours need no tunnel");
        pods_meet(&one, &far);
        pods_meet(&far, &two);
        let sent = wire.arrived("node1");
        assert_eq!(sent.iter().filter(outside_the_tunnel).count(), 0);
        let tunnelled: Vec<_> = sent.iter().filter(|frame| frame.udp_port() == Some(VXLAN)).collect();
        assert!(!tunnelled.is_empty());
        for frame in tunnelled {
            assert!(frame.is_between(node, world.two().v4()), "{frame:?}");
            assert_eq!(frame.vni(), Some(VNI), "{frame:?}");
        }
    });
}

#[test]
fn nodes_reach_their_own_pods_and_those_of_others() {
    run("overlay::nodes_reach_their_own_pods_and_those_of_others", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &translated()), overlay.pod(world.two(), second, 11, &translated()));
        for (own, at) in [(world.one().v4(), 0), (world.one().v6(), 1)] {
            pings(world.one(), one.addresses[at]);
            assert_eq!(tcp(world.one(), one.addresses[at]).ip(), own);
            pings(&one, own);
            assert_eq!(tcp(&one, own).ip(), one.addresses[at], "the own node is not outside");
            pings(world.one(), two.addresses[at]);
            assert_eq!(tcp(world.one(), two.addresses[at]).ip(), own);
            assert_eq!(udp(world.one(), two.addresses[at], 9000).ip(), own);
        }
    });
}

#[test]
fn pods_reach_other_nodes_and_the_outside_under_the_nodes_address() {
    run("overlay::pods_reach_other_nodes_and_the_outside_under_the_nodes_address", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, _] = overlay.on_both(&world);
        let pod = overlay.pod(world.one(), first, 11, &translated());
        for (own, outside, other) in [(world.one().v4(), OUTSIDE[0], world.two().v4()), (world.one().v6(), OUTSIDE[1], world.two().v6())] {
            pings(&pod, outside);
            assert_eq!(tcp(&pod, outside).ip(), own);
            for size in [0, 1400, 9000] {
                assert_eq!(udp(&pod, outside, size).ip(), own, "{size} bytes");
            }
            pings(&pod, other);
            assert_eq!(tcp(&pod, other).ip(), own);
        }
    });
}

#[test]
fn a_narrow_path_is_found_out_from_an_overlay() {
    run("overlay::a_narrow_path_is_found_out_from_an_overlay", || {
        let world = World::new(2);
        world.narrow(1300);
        let overlay = Overlay::default();
        let [first, _] = overlay.on_both(&world);
        let pod = overlay.pod(world.one(), first, 11, &translated());
        for outside in OUTSIDE {
            probe::learns_of_narrow_path(&pod, outside);
            assert_eq!(tcp(&pod, outside).ip(), world.one().address_like(outside.is_ipv4()));
        }
    });
}

#[test]
fn remote_endpoints_say_where_single_pods_are() {
    run("overlay::remote_endpoints_say_where_single_pods_are", || {
        let world = World::new(2);
        let subnets = [overlay_subnet("10.50.0.0/16", "10.50.0.1", VNI)];
        let flat = network("flat", "Overlay", &subnets, &[policy("DrMacAddress", json!({ "Address": router_mac(9) }))]);
        let networks: Vec<Guid> = world.nodes.iter().map(|node| node.network(&flat)).collect();
        let pod = |at: usize, address: &str| {
            let document = endpoint(&format!("pod{at}"), &[&format!("{address}/16")], &["10.50.0.1"], &[]);
            world.nodes[at].pod(networks[at], &document)
        };
        let (one, two) = (pod(0, "10.50.1.2"), pod(1, "10.50.2.2"));
        assert!(!answers(&one, two.v4()), "nobody has said where it is");
        for (at, other) in [(0, &two), (1, &one)] {
            let mut remote = endpoint("remote", &[&format!("{}/16", other.v4())], &[], &[]);
            remote["Flags"] = json!(1);
            remote["MacAddress"] = json!(other.mac.to_string());
            remote["Policies"] = json!([policy("ProviderAddress", json!({ "ProviderAddress": format!("192.168.0.{}", 2 - at) }))]);
            world.nodes[at].endpoint(networks[at], &remote);
        }
        pods_meet(&one, &two);
        pods_meet(&two, &one);
    });
}

#[test]
fn another_virtual_network_and_another_port() {
    run("overlay::another_virtual_network_and_another_port", || {
        let world = World::new(2);
        let overlay = Overlay { vni: 77, more: vec![policy("VxlanPort", json!({ "Port": 8472 }))], ..Overlay::default() };
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        let wire = Sniffer::start(&world.underlay);
        pods_meet(&one, &two);
        pods_meet(&two, &one);
        let sent = wire.arrived("node1");
        let tunnelled: Vec<_> = sent.iter().filter(|frame| frame.udp_port() == Some(8472)).collect();
        assert!(!tunnelled.is_empty() && tunnelled.iter().all(|frame| frame.vni() == Some(77)));
        assert!(sent.iter().all(|frame| frame.udp_port() != Some(VXLAN)));
    });
}

#[test]
fn the_underlay_may_be_ipv6() {
    run("overlay::the_underlay_may_be_ipv6", || {
        let world = World::new(2);
        let pods: Vec<Pod> = world
            .nodes
            .iter()
            .map(|node| {
                let (n, other) = (node.number, 3 - node.number);
                let subnets = [
                    overlay_subnet(&format!("10.244.{n}.0/24"), &format!("10.244.{n}.1"), VNI),
                    overlay_subnet(&format!("fd00:244:{n}::/64"), &format!("fd00:244:{n}::1"), VNI),
                ];
                let (provider, router) = (format!("fd00:99::{other}"), router_mac(other));
                let policies = [
                    policy("ProviderAddress", json!({ "ProviderAddress": format!("fd00:99::{n}") })),
                    policy("DrMacAddress", json!({ "Address": router_mac(n) })),
                    remote_subnet(&format!("10.244.{other}.0/24"), VNI, &provider, &router),
                    remote_subnet(&format!("fd00:244:{other}::/64"), VNI, &provider, &router),
                ];
                let network = node.network(&network("six", "Overlay", &subnets, &policies));
                Overlay { name: "six", ..Overlay::default() }.pod(node, network, 11, &[])
            })
            .collect();
        assert_eq!(pods[0].link("eth0").mtu, 1430);
        let wire = Sniffer::start(&world.underlay);
        pods_meet(&pods[0], &pods[1]);
        pods_meet(&pods[1], &pods[0]);
        let sent = wire.arrived("node1");
        assert!(sent.iter().any(|frame| frame.is_between(world.one().v6(), world.two().v6()) && frame.vni() == Some(VNI)));
    });
}

/// Whether a program in a pod reaches a port of an address.
fn reaches(pod: &Pod, to: IpAddr, port: u16) -> bool {
    pod.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, port), MOMENT).is_ok())
}

#[test]
fn networks_with_the_same_addresses_do_not_meet() {
    run("overlay::networks_with_the_same_addresses_do_not_meet", || {
        let world = World::new(2);
        let red = Overlay { name: "red", vni: 5001, v6: false, ..Overlay::default() };
        let blue = Overlay { name: "blue", vni: 5002, v6: false, ..Overlay::default() };
        let pods = [&red, &blue].map(|overlay| {
            let [first, second] = overlay.on_both(&world);
            [overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[])]
        });
        let [[red_one, red_two], [blue_one, blue_two]] = &pods;
        pods_meet(red_one, red_two);
        pods_meet(blue_one, blue_two);
        let _red = red_two.run(|| TcpListener::bind("0.0.0.0:7101")).expect("a socket");
        let _blue = blue_two.run(|| TcpListener::bind("0.0.0.0:7102")).expect("a socket");
        assert!(reaches(red_one, red_two.v4(), 7101) && !reaches(red_one, red_two.v4(), 7102));
        assert!(reaches(blue_one, blue_two.v4(), 7102) && !reaches(blue_one, blue_two.v4(), 7101));
    });
}

#[test]
fn a_route_that_is_taken_away_leads_nowhere() {
    run("overlay::a_route_that_is_taken_away_leads_nowhere", || {
        let world = World::new(2);
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        pings(&one, two.v4());
        let route = remote_subnet("10.244.2.0/24", VNI, "192.168.0.2", &router_mac(2));
        let change = |request: &str| {
            let request = json!({ "ResourceType": "Policy", "RequestType": request, "Settings": { "Policies": [route] } });
            world.one().client.modify(Kind::Network, first, &request.to_string()).expect("the policy is changed");
        };
        change("Remove");
        assert!(!answers(&one, two.v4()));
        change("Add");
        pings(&one, two.v4());
    });
}
