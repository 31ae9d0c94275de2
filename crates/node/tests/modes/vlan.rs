//! `VLAN`: pods in VLANs of the wire, of which nobody else sees anything.

use std::net::IpAddr;
use std::thread;

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};
use wire::{Headers, Ip};

use crate::harness::document::{endpoint, network, policy, subnet};
use crate::harness::ping::ping_sized;
use crate::harness::{MOMENT, Node, Place, Pod, Watch, World, eventually, pings, refused, run, tcp, udp, watch};

/// The kinds of networks whose pods are on the wire of an adapter, and may be in VLANs of it.
const KINDS: [&str; 2] = ["Transparent", "L2Bridge"];

fn vlan(id: u32) -> Value {
    policy("VLAN", json!({ "IsolationId": id }))
}

/// A network with these subnets, in a VLAN or in none. Networks in different VLANs may have the same addresses.
fn isolated(node: &Node, kind: &str, name: &str, id: Option<u32>) -> Guid {
    let mut subnets = [subnet("10.100.0.0/24", "10.100.0.1"), subnet("fd00:100::/64", "fd00:100::1")];
    for subnet in &mut subnets {
        subnet["Policies"] = json!(id.map(vlan).into_iter().collect::<Vec<_>>());
    }
    node.network(&network(name, kind, &subnets, &[]))
}

fn pod(node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
    let addresses = [format!("10.100.0.{number}/24"), format!("fd00:100::{number}/64")];
    let document = endpoint(&format!("pod{number}"), &addresses.each_ref().map(String::as_str), &["10.100.0.1", "fd00:100::1"], policies);
    node.pod(network, &document)
}

fn meet(one: &Pod, two: &Pod) {
    for (own, other) in [(one.v4(), two.v4()), (one.v6(), two.v6())] {
        pings(one, other);
        ping_sized(one, other, 4000);
        assert_eq!(tcp(one, other).ip(), own);
        assert_eq!(udp(two, own, 9000).ip(), other);
    }
}

fn do_not_meet(from: &Place, to: &Pod) {
    assert!(refused(from, to.v4()) && refused(from, to.v6()), "{} reaches {}", from.name, to.name);
}

/// The VLANs that packets from one pod to another were in.
fn vlans(watch: &Watch, from: &Pod, to: &Pod) -> Vec<Option<u16>> {
    let pairs = [(from.v4(), to.v4()), (from.v6(), to.v6())].map(|(from, to)| (Ip::from(from), Ip::from(to)));
    let is_between = |headers: &Headers| headers.kind == wire::Kind::Ip && pairs.contains(&(headers.id.source, headers.id.destination));
    let mut vlans: Vec<_> = watch.seen().into_iter().filter(is_between).map(|headers| headers.vlan).collect();
    vlans.sort_unstable();
    vlans.dedup();
    vlans
}

/// Pods in VLAN 100 and in VLAN 200 on two nodes, on networks of a kind.
fn kept_apart(kind: &str) {
    let world = World::new(2);
    let of = |id: u32| world.nodes.iter().map(|node| isolated(node, kind, &format!("net{id}"), Some(id))).collect::<Vec<_>>();
    let (hundred, two_hundred) = (of(100), of(200));
    let (one, near) = (pod(world.one(), hundred[0], 11, &[]), pod(world.one(), hundred[0], 12, &[]));
    let far = pod(world.two(), hundred[1], 13, &[]);
    let (other, other_far) = (pod(world.one(), two_hundred[0], 21, &[]), pod(world.two(), two_hundred[1], 22, &[]));
    let from_one = Watch::start(&world.underlay, "node1");
    let from_two = Watch::start(&world.underlay, "node2");
    meet(&one, &far);
    meet(&one, &near);
    meet(&other, &other_far);
    assert_eq!(vlans(&from_one, &one, &far), [Some(100)]);
    assert_eq!(vlans(&from_two, &far, &one), [Some(100)]);
    assert_eq!(vlans(&from_one, &other, &other_far), [Some(200)]);
    assert_eq!(vlans(&from_one, &one, &near), [], "neighbours meet without the wire");
    for outsider in [&other, &other_far] {
        [&one, &near, &far].into_iter().for_each(|pod| do_not_meet(outsider, pod));
    }
    for node in &world.nodes {
        node.ip("route add 10.100.0.0/24 dev vEth-eth0");
        node.ip("-6 route add fd00:100::/64 dev vEth-eth0");
        do_not_meet(node, &one);
    }
    world.underlay.ip("addr add 10.100.0.254/24 dev br0");
    do_not_meet(&world.underlay, &one);
}

#[test]
fn transparent_pods_of_two_nodes_meet_in_their_vlan_only() {
    run("vlan::transparent_pods_of_two_nodes_meet_in_their_vlan_only", || kept_apart("Transparent"));
}

#[test]
fn bridged_pods_of_two_nodes_meet_in_their_vlan_only() {
    run("vlan::bridged_pods_of_two_nodes_meet_in_their_vlan_only", || kept_apart("L2Bridge"));
}

#[test]
fn tunnelled_pods_of_two_nodes_meet_in_their_vlan_only() {
    run("vlan::tunnelled_pods_of_two_nodes_meet_in_their_vlan_only", || {
        let world = World::new(2);
        let of = |node: &Node, id: u32| isolated(node, "L2Tunnel", &format!("net{id}"), Some(id));
        let (one, far) = (pod(world.one(), of(world.one(), 100), 11, &[]), pod(world.two(), of(world.two(), 100), 12, &[]));
        let other = pod(world.two(), of(world.two(), 200), 13, &[]);
        let wire = Watch::start(&world.underlay, "node1");
        meet(&one, &far);
        do_not_meet(&one, &other);
        assert_eq!(vlans(&wire, &one, &far), [Some(100)]);
    });
}

#[test]
fn a_pod_is_in_the_vlan_that_its_own_policy_says_and_moves_with_it() {
    run("vlan::a_pod_is_in_the_vlan_that_its_own_policy_says_and_moves_with_it", || {
        let world = World::new(2);
        for kind in KINDS {
            let (first, second) = (isolated(world.one(), kind, kind, None), isolated(world.two(), kind, kind, None));
            let (mover, far) = (pod(world.one(), first, 11, &[vlan(100)]), pod(world.two(), second, 12, &[vlan(100)]));
            let (untagged, untagged_far) = (pod(world.one(), first, 13, &[]), pod(world.two(), second, 14, &[]));
            meet(&mover, &far);
            meet(&untagged, &untagged_far);
            do_not_meet(&mover, &untagged);
            do_not_meet(&untagged_far, &mover);
            let request = json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": { "Policies": [] } });
            world.one().modify_endpoint(mover.endpoint, &request);
            meet(&mover, &untagged);
            meet(&untagged_far, &mover);
            do_not_meet(&mover, &far);
            let policies = json!({ "Policies": [vlan(4094)] });
            world
                .one()
                .modify_endpoint(mover.endpoint, &json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": policies }));
            do_not_meet(&mover, &far);
            do_not_meet(&mover, &untagged);
            world.two().modify_endpoint(
                far.endpoint,
                &json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": { "Policies": [vlan(4094)] } }),
            );
            meet(&mover, &far);
            for (node, network) in world.nodes.iter().zip([first, second]) {
                for pod in [&mover, &far, &untagged, &untagged_far] {
                    // It is on one of the nodes.
                    _ = node.client.delete(Kind::Endpoint, pod.endpoint);
                }
                node.client.delete(Kind::Network, network).expect("the network goes");
            }
        }
    });
}

#[test]
fn pods_are_in_their_vlan_again_after_a_restart_of_the_switch() {
    run("vlan::pods_are_in_their_vlan_again_after_a_restart_of_the_switch", || {
        let mut world = World::new(2);
        let (first, second) = (isolated(world.one(), "L2Bridge", "net", Some(100)), isolated(world.two(), "L2Bridge", "net", Some(100)));
        let (one, far) = (pod(world.one(), first, 11, &[]), pod(world.two(), second, 12, &[]));
        let untagged = pod(world.two(), isolated(world.two(), "L2Bridge", "plain", None), 13, &[]);
        meet(&one, &far);
        world.nodes[0].vswitchd.take().expect("it runs").kill();
        world.nodes[0].start_vswitchd();
        meet(&one, &far);
        do_not_meet(&one, &untagged);
        world.one().client.delete(Kind::Endpoint, one.endpoint).expect("the endpoint goes");
        let ports = world.one().look("/ports");
        assert!(!ports.to_string().contains("VLAN"), "the uplink of the VLAN goes with its last endpoint: {ports}");
    });
}

#[test]
fn a_pod_does_not_get_into_a_vlan_by_tags_of_its_own() {
    run("vlan::a_pod_does_not_get_into_a_vlan_by_tags_of_its_own", || {
        let world = World::new(2);
        let inside = pod(world.two(), isolated(world.two(), "Transparent", "net", Some(100)), 13, &[]);
        let outsider = pod(world.one(), isolated(world.one(), "Transparent", "net", None), 14, &[]);
        let wire = Watch::start(&world.underlay, "node1");
        let at_inside = Watch::start(&inside, "eth0");
        for tag in [&[][..], &[0x81, 0, 0, 100], &[0x88, 0xa8, 0, 100]] {
            for packet in [datagram_v4(&outsider, &inside), datagram_v6(&outsider, &inside)] {
                let bytes = [&inside.mac.0[..], &outsider.mac.0, tag, &packet].concat();
                watch::send(&outsider, "eth0", &bytes);
            }
        }
        eventually("what has no tag is on the wire", || vlans(&wire, &outsider, &inside) == [None]);
        thread::sleep(MOMENT);
        assert_eq!(vlans(&wire, &outsider, &inside), [None], "nothing with a tag is on the wire");
        assert_eq!(vlans(&at_inside, &outsider, &inside), []);
    });
}

/// A datagram without content, behind its EtherType.
fn datagram_v4(from: &Pod, to: &Pod) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from.v4(), to.v4()) else { panic!("addresses of IPv4") };
    let mut packet = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0], &from.octets()[..], &to.octets(), &[0, 7, 0, 7, 0, 8, 0, 0]].concat();
    let sum = !wire::checksum::sum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[0x08, 0x00][..], &packet].concat()
}

/// The same over IPv6, where a datagram has a checksum.
fn datagram_v6(from: &Pod, to: &Pod) -> Vec<u8> {
    let (IpAddr::V6(from), IpAddr::V6(to)) = (from.v6(), to.v6()) else { panic!("addresses of IPv6") };
    let addresses = [from.octets(), to.octets()].concat();
    let sum = !wire::checksum::sum(&[&addresses[..], &[0, 0, 0, 8, 0, 0, 0, 17], &[0, 7, 0, 7, 0, 8, 0, 0]].concat());
    [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64], &addresses[..], &[0, 7, 0, 7, 0, 8], &sum.to_be_bytes()].concat()
}

#[test]
fn what_cannot_be_in_a_vlan_is_refused() {
    run("vlan::what_cannot_be_in_a_vlan_is_refused", || {
        let world = World::new(1);
        let node = world.one();
        let network_with = |kind: &str, id: u32| {
            let mut subnet = subnet("10.101.0.0/24", "10.101.0.1");
            subnet["Policies"] = json!([vlan(id)]);
            node.client.create(Kind::Network, None, None, &network("net", kind, &[subnet], &[]).to_string())
        };
        for id in [0, 4095] {
            let refusal = network_with("L2Bridge", id).expect_err("no VLAN");
            assert!(refusal.detail().field.as_deref().is_some_and(|field| field.ends_with("IsolationId")), "{refusal}");
        }
        let refusal = network_with("NAT", 7).expect_err("there is no wire");
        assert!(refusal.to_string().contains("VLAN"), "{refusal}");
        let network = isolated(node, "L2Bridge", "net", Some(100));
        for (kind, settings) in
            [("OutBoundNAT", json!({})), ("PortMapping", json!({ "Protocol": 6, "InternalPort": 80, "ExternalPort": 8080 }))]
        {
            let document = endpoint("pod", &["10.100.0.11/24"], &[], &[policy(kind, settings)]);
            let refusal = node.client.create(Kind::Endpoint, Some(network), None, &document.to_string()).expect_err(kind);
            assert!(refusal.to_string().contains(kind), "{refusal}");
        }
        let pod = pod(node, network, 11, &[]);
        let balancer = json!({
            "SchemaVersion": { "Major": 2, "Minor": 0 }, "FrontendVIPs": ["10.96.0.10"],
            "PortMappings": [{ "Protocol": 6, "InternalPort": 80, "ExternalPort": 80 }], "HostComputeEndpoints": [pod.endpoint.to_string()],
        });
        let refusal = node.client.create(Kind::LoadBalancer, None, None, &balancer.to_string()).expect_err("a backend in a VLAN");
        assert!(refusal.to_string().contains("VLAN"), "{refusal}");
    });
}
