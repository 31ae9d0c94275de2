//! Pods that send what they like: it is dropped and counted, and nobody else notices.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use std::{io, thread};

use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use wire::{Frame, MacAddress};

use crate::harness::ping::checksum;
use crate::harness::{Place, Pod, Sniffer, World, eventually, pings, run, tcp, udp};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::{Overlay, VNI};

/// The reason under which spoofed frames are counted.
const SPOOFED: &str = "spoofed-source";

/// Sends raw frames from a place's `eth0`, and answers how many the kernel took.
fn send(place: &Place, frames: &[Vec<u8>]) -> usize {
    let index = place.link("eth0").index;
    let socket = place.run(|| PacketSocket::open("eth0", index, &PacketSocketOptions::default())).expect("a packet socket");
    let nic = socket.nic();
    let sent = |frame: &Vec<u8>| nic.sender.send(&mut Frame::from_bytes(frame), None).is_ok();
    frames.iter().filter(|frame| sent(frame)).count()
}

fn ethernet(to: MacAddress, from: MacAddress, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ether_type.to_be_bytes(), payload].concat()
}

/// A UDP datagram in an IPv4 packet.
fn datagram(from: IpAddr, to: IpAddr, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else { panic!("IPv4 only") };
    let length = (28 + payload.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend([0x10, 0x00, 0x20, 0x00]);
    packet.extend((length - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// An ARP answer that claims an address.
fn claim(address: IpAddr, mac: MacAddress, to: MacAddress, for_whom: IpAddr) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
    };
    [&[0, 1, 8, 0, 6, 4, 0, 2][..], &mac.0, &octets(address), &to.0, &octets(for_whom)].concat()
}

/// Bytes without any order, but the same every time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

struct Scene {
    world: World,
    bad: Pod,
    good: Pod,
    other: Pod,
}

fn scene() -> Scene {
    let world = World::new(1);
    let network = routed(&world, world.one());
    let [bad, good, other] = [11, 12, 13].map(|number| routed_pod(world.one(), network, number, &[]));
    pings(&bad, good.v4());
    pings(&good, other.v4());
    Scene { world, bad, good, other }
}

impl Scene {
    /// The others work, and so does the switch.
    fn others_are_fine(&mut self) {
        assert_eq!(tcp(&self.good, self.other.v4()).ip(), self.good.v4());
        assert_eq!(udp(&self.other, self.good.v6(), 9000).ip(), self.other.v6());
        pings(&self.world.outside, self.good.v4());
        assert!(self.world.nodes[0].vswitchd.as_mut().is_some_and(|switch| switch.is_alive()), "vswitchd has ended");
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.world.one().drops("pod1-11", reason)
    }
}

#[test]
fn broken_frames_are_dropped_and_counted() {
    run("hostile::broken_frames_are_dropped_and_counted", || {
        let mut scene = scene();
        let (to, from) = (scene.good.mac, scene.bad.mac);
        let whole = ethernet(to, from, 0x0800, &datagram(scene.bad.v4(), scene.good.v4(), &[7; 100]));
        let v6 = ethernet(to, from, 0x86dd, &noise(6, 200));
        let cut = |frame: &Vec<u8>| (15..frame.len()).step_by(3).map(|length| frame[..length].to_vec()).collect::<Vec<_>>();
        let mut frames = [cut(&whole), cut(&v6)].concat();
        for kind in [0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x1234] {
            frames.extend((0..200).map(|seed| ethernet(to, from, kind, &noise(seed, 1 + seed as usize * 7))));
        }
        frames.extend((0..200).map(|seed| noise(seed, 60 + seed as usize)));
        let sent = send(&scene.bad, &frames);
        assert!(sent > frames.len() / 2, "the kernel took {sent} of {}", frames.len());
        let counted =
            || scene.world.one().port("pod1-11")["Drops"].as_object().map_or(0, |drops| drops.values().filter_map(|n| n.as_u64()).sum());
        eventually("most of it is counted", || counted() > sent as u64 / 2);
        scene.others_are_fine();
        tcp(&scene.bad, scene.good.v4());
    });
}

#[test]
fn frames_that_are_too_large_are_dropped() {
    run("hostile::frames_that_are_too_large_are_dropped", || {
        let mut scene = scene();
        // The kernel lets a link carry more than the switch has agreed to.
        scene.bad.ip("link set eth0 mtu 9000");
        let packet = datagram(scene.bad.v4(), scene.good.v4(), &[7; 8000]);
        let frame = ethernet(scene.good.mac, scene.bad.mac, 0x0800, &packet);
        let inside = Sniffer::start(&scene.good);
        send(&scene.bad, &vec![frame; 20]);
        thread::sleep(Duration::from_millis(200));
        assert!(inside.arrived("eth0").iter().all(|frame| frame.bytes.len() <= 1514), "the neighbour got more than its NIC takes");
        scene.others_are_fine();
    });
}

#[test]
fn spoofed_sources_are_dropped_and_counted() {
    run("hostile::spoofed_sources_are_dropped_and_counted", || {
        let mut scene = scene();
        let (good, bad, victim) = (&scene.good, &scene.bad, &scene.other);
        let inside = Sniffer::start(victim);
        let stranger: IpAddr = "203.0.113.77".parse().expect("an address");
        let frames = [
            ethernet(victim.mac, good.mac, 0x0800, &datagram(bad.v4(), victim.v4(), b"spoofed")),
            ethernet(victim.mac, bad.mac, 0x0800, &datagram(good.v4(), victim.v4(), b"spoofed")),
            ethernet(victim.mac, bad.mac, 0x0800, &datagram(stranger, victim.v4(), b"spoofed")),
            ethernet(victim.mac, bad.mac, 0x0800, &datagram(scene.world.one().v4(), victim.v4(), b"spoofed")),
        ];
        assert_eq!(send(bad, &frames), frames.len());
        eventually("all are counted", || scene.dropped(SPOOFED) >= frames.len() as u64);
        let arrived = inside.arrived("eth0");
        assert!(!arrived.iter().any(|frame| frame.bytes.ends_with(b"spoofed")), "one arrived");
        scene.others_are_fine();
    });
}

#[test]
fn nobody_can_claim_the_address_of_another() {
    run("hostile::nobody_can_claim_the_address_of_another", || {
        let mut scene = scene();
        let (good, bad, other) = (&scene.good, &scene.bad, &scene.other);
        let gateway: IpAddr = "10.244.1.1".parse().expect("an address");
        let everybody = MacAddress([0xff; 6]);
        let mut frames = Vec::new();
        for address in [good.v4(), gateway, scene.world.one().v4()] {
            frames.push(ethernet(other.mac, bad.mac, 0x0806, &claim(address, bad.mac, other.mac, other.v4())));
            frames.push(ethernet(everybody, bad.mac, 0x0806, &claim(address, bad.mac, everybody, address)));
            frames.push(ethernet(everybody, good.mac, 0x0806, &claim(address, good.mac, everybody, address)));
        }
        let wire = Sniffer::start(&scene.world.underlay);
        (0..5).for_each(|_| _ = send(bad, &frames));
        thread::sleep(Duration::from_millis(200));
        let neighbours = other.netlink().neighbours(other.link("eth0").index).expect("the neighbours");
        assert!(!neighbours.iter().any(|neighbour| neighbour.mac == Some(bad.mac) && neighbour.address != bad.v4()), "{neighbours:?}");
        let claimed = |frame: &&crate::harness::sniff::Frame| frame.ether_type() == 0x0806 && frame.bytes[22..28] == bad.mac.0;
        assert_eq!(wire.arrived("node1").iter().filter(claimed).count(), 0, "the claim was on the wire");
        scene.others_are_fine();
    });
}

#[test]
fn a_flood_of_one_pod_leaves_room_for_the_others() {
    run("hostile::a_flood_of_one_pod_leaves_room_for_the_others", || {
        let mut scene = scene();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (bad, good) = (scene.bad.v4(), scene.good.v4());
        let node = scene.world.one().mac();
        let flood: Vec<Vec<u8>> = (0..20_000_u32)
            .map(|number| {
                let mut packet = datagram(bad, good, &[0; 10]);
                packet[20..24].copy_from_slice(&(0x0400_0400 + number * 7).to_be_bytes());
                ethernet(node, scene.bad.mac, 0x0800, &packet)
            })
            .collect();
        let place = scene.bad.hold();
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    send(&place, &flood);
                }
            });
            thread::sleep(Duration::from_millis(300));
            scene.others_are_fine();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
}

#[test]
fn garbage_at_the_tunnel_is_dropped_and_counted() {
    run("hostile::garbage_at_the_tunnel_is_dropped_and_counted", || {
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
