//! Who would like to be inside of an overlay: machines that are no nodes of it, nodes with sources that are not theirs, and pods.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;
use std::{io, thread};

use serde_json::Value;
use wire::MacAddress;

use super::broken::noise;
use super::{BAD, GOOD, SPOOFED, frame, has_arrived};
use crate::frames::Carries;
use crate::harness::document::{outbound_nat, outbound_nat_v6, remote_subnet};
use crate::harness::{Place, Pod, Sniffer, World, eventually, pings, run, tcp};
use crate::nat;
use crate::overlay::{Overlay, VNI, router_mac};

/// The tunnel's port of the first node's switch.
const TUNNEL: &str = "VXLAN 192.168.0.1:4789";

/// Where the tunnel of a node is.
fn at(node: IpAddr) -> SocketAddr {
    SocketAddr::new(node, 4789)
}

/// A datagram of a tunnel with a frame inside, from an address to another.
fn wrapped(vni: u32, from: IpAddr, to: &Pod, payload: &[u8]) -> Vec<u8> {
    let own = if from.is_ipv4() { to.v4() } else { to.v6() };
    let sender = MacAddress([0x00, 0x15, 0x5d, 0xaa, 0, 9]);
    let inner = frame((sender, to.mac), from, own, Carries::Udp(1000, 2000), payload);
    [&[8, 0, 0, 0][..], &(vni << 8).to_be_bytes(), &inner].concat()
}

/// Sends datagrams from a place, as any program there can.
fn send_to(place: &Place, to: SocketAddr, datagrams: &[Vec<u8>]) {
    let sent = place.run(|| -> io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        datagrams.iter().try_for_each(|datagram| socket.send_to(datagram, to).map(drop))
    });
    sent.unwrap_or_else(|error| panic!("{} sends to {to}: {error}", place.name));
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Two nodes with a pod each, and further policies of the first node's network.
fn two_nodes(more: Vec<Value>, policies: &[Value]) -> (World, [Pod; 2]) {
    let world = World::new(2);
    let first = Overlay { more, ..Overlay::default() }.on(world.one(), 2);
    let overlay = Overlay::default();
    let second = overlay.on(world.two(), 1);
    let pods = [overlay.pod(world.one(), first, 11, policies), overlay.pod(world.two(), second, 11, &[])];
    pings(&pods[0], pods[1].v4());
    (world, pods)
}

#[test]
fn a_machine_that_is_no_provider_is_not_believed() {
    run("hostile::tunnel::a_machine_that_is_no_provider_is_not_believed", || {
        let (world, [one, two]) = two_nodes(Vec::new(), &[]);
        let inside = Sniffer::start(&one);
        let sources = [two.v4(), two.v6(), one.v4(), one.v6(), address("8.8.8.8"), address("2001:db8::8")];
        let datagrams: Vec<Vec<u8>> = sources.iter().map(|from| wrapped(VNI, *from, &one, BAD)).collect();
        send_to(&world.underlay, at(world.one().v4()), &datagrams);
        let expected = datagrams.len() as u64;
        eventually("all are counted", || world.one().drops(TUNNEL, "unknown-provider") >= expected);
        assert!(world.one().dropped("unknown-provider") >= expected);
        assert!(!has_arrived(&inside, BAD), "one arrived");
        tcp(&one, two.v4());
        tcp(&two, one.v6());
    });
}

#[test]
fn a_provider_speaks_for_its_own_addresses_and_networks_only() {
    run("hostile::tunnel::a_provider_speaks_for_its_own_addresses_and_networks_only", || {
        // The router is a node too, as far as the first one knows.
        let route = |prefix: &str| remote_subnet(prefix, VNI, "192.168.0.254", &router_mac(9));
        let (world, [one, two]) = two_nodes(vec![route("10.244.9.0/24"), route("fd00:244:9::/64")], &[]);
        let node = world.one();
        let inside = Sniffer::start(&one);
        let foreign = [one.v4(), one.v6(), two.v4(), two.v6(), node.v4(), node.v6()];
        let datagrams: Vec<Vec<u8>> = foreign.iter().map(|from| wrapped(VNI, *from, &one, BAD)).collect();
        send_to(&world.underlay, at(node.v4()), &datagrams);
        eventually("all are counted", || node.drops(TUNNEL, SPOOFED) >= foreign.len() as u64);
        let own = [address("10.244.9.5"), address("fd00:244:9::5")];
        let unknown: Vec<Vec<u8>> = own.iter().map(|from| wrapped(VNI + 1, *from, &one, BAD)).collect();
        send_to(&world.underlay, at(node.v4()), &unknown);
        eventually("all are counted", || node.drops(TUNNEL, "unknown-vni") >= unknown.len() as u64);
        assert!(!has_arrived(&inside, BAD), "one arrived");
        for from in own.into_iter().chain([address("192.168.0.254"), address("203.0.113.9")]) {
            send_to(&world.underlay, at(node.v4()), &[wrapped(VNI, from, &one, GOOD)]);
            let has_come = || inside.arrived("eth0").iter().any(|frame| frame.ip().is_some_and(|(source, _, _)| source == from));
            eventually("what is its own arrives", has_come);
        }
        tcp(&one, two.v4());
        tcp(&two, one.v6());
    });
}

#[test]
fn a_pod_cannot_inject_into_an_overlay() {
    run("hostile::tunnel::a_pod_cannot_inject_into_an_overlay", || {
        let translated = [outbound_nat(&["10.244.0.0/16"]), outbound_nat_v6(&["fd00:244::/32"])];
        let (world, [bad, far]) = two_nodes(Vec::new(), &translated);
        let near = Overlay::default().pod(world.one(), world.one().network_of(&bad), 12, &[]);
        let plain = Overlay::default().pod(world.one(), world.one().network_of(&bad), 13, &[]);
        for pod in [&near, &plain, &far] {
            pings(&bad, pod.v4());
        }
        assert_eq!(tcp(&bad, world.two().v4()).ip(), world.one().v4(), "it is translated");
        // Under the node's address it would be believed by the other node, in the name of any pod of this one.
        let inside = [&near, &far].map(|pod| Sniffer::start(pod));
        for (victim, node) in [(&far, world.two()), (&near, world.one())] {
            let datagrams: Vec<Vec<u8>> =
                [near.v4(), near.v6(), far.v4(), far.v6()].iter().map(|from| wrapped(VNI, *from, victim, BAD)).collect();
            for pod in [&bad, &plain] {
                send_to(pod, at(node.v4()), &datagrams);
            }
        }
        eventually("what was translated is counted", || world.one().drops("vxlan0-1-11", "forged-tunnel") >= 4);
        thread::sleep(Duration::from_millis(300));
        assert!(!inside.iter().any(|inside| has_arrived(inside, BAD)), "one arrived");
        tcp(&bad, far.v4());
        tcp(&far, near.v6());
        assert_eq!(tcp(&bad, world.two().v4()).ip(), world.one().v4(), "other packets are translated as ever");
    });
}

#[test]
fn a_pod_that_the_node_translates_cannot_inject_either() {
    run("hostile::tunnel::a_pod_that_the_node_translates_cannot_inject_either", || {
        let (world, [near, far]) = two_nodes(Vec::new(), &[]);
        let bad = nat::pod(world.one(), nat::nat(world.one()), 99, &[]);
        assert_eq!(tcp(&bad, world.two().v4()).ip(), world.one().v4(), "the node's own stack gives it the node's address");
        let inside = Sniffer::start(&far);
        let datagrams: Vec<Vec<u8>> = [near.v4(), near.v6()].iter().map(|from| wrapped(VNI, *from, &far, BAD)).collect();
        send_to(&bad, at(world.two().v4()), &datagrams);
        let dropped = || world.one().drops("vEthernet (eth0)", "forged-tunnel");
        eventually("all are counted", || dropped() >= datagrams.len() as u64);
        assert!(!has_arrived(&inside, BAD), "one arrived");
        tcp(&near, far.v4());
        tcp(&bad, world.two().v4());
    });
}

#[test]
fn garbage_at_the_tunnel_is_dropped_and_counted() {
    run("hostile::tunnel::garbage_at_the_tunnel_is_dropped_and_counted", || {
        let mut world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        pings(&one, two.v4());
        let tunnel = SocketAddr::new(world.one().v4(), 4789);
        world.underlay.run(|| garbage(tunnel)).expect("it is sent");
        let counted = || {
            let row = world.one().port("VXLAN 192.168.0.1:4789");
            row["Drops"].as_object().map_or(0, |drops| drops.values().filter_map(|n| n.as_u64()).sum::<u64>())
        };
        eventually("most of it is counted", || counted() > 500);
        tcp(&one, two.v4());
        tcp(&two, one.v6());
        assert!(world.nodes[0].vswitchd.as_mut().is_some_and(|switch| switch.is_alive()), "vswitchd has ended");
    });
}

/// Datagrams that are no VXLAN, VXLAN of nobody's network, and VXLAN with nonsense inside.
fn garbage(to: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for seed in 0..1000_u64 {
        let mut bytes = noise(seed, seed as usize % 1400);
        match seed % 3 {
            0 => {}
            kind => {
                let vni = if kind == 1 { 99 } else { VNI };
                bytes.splice(0..0, [[8, 0, 0, 0], (vni << 8).to_be_bytes()].concat());
            }
        }
        socket.send_to(&bytes, to)?;
        if seed % 50 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}
