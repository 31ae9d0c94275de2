//! Pods that claim the addresses of others, by ARP and by neighbour discovery.

use std::net::{IpAddr, Ipv4Addr};

use wire::{Ip, MacAddress};

use super::{SPOOFED, Scene, ethernet, icmpv6, scene, send};
use crate::harness::{Place, Sniffer, eventually, run};

const EVERYBODY: MacAddress = MacAddress([0xff; 6]);
const ALL_NODES: MacAddress = MacAddress([0x33, 0x33, 0, 0, 0, 1]);

/// What ARP calls a request, and an answer.
const REQUEST: u8 = 1;
const REPLY: u8 = 2;

/// An ARP message in which somebody says that an address is at a hardware address.
fn arp(kind: u8, macs: (MacAddress, MacAddress), address: IpAddr, to: IpAddr) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED.octets(),
    };
    let payload = [&[0, 1, 8, 0, 6, 4, 0, kind][..], &macs.0.0, &octets(address), &macs.1.0, &octets(to)].concat();
    ethernet(macs.1, macs.0, 0x0806, &payload)
}

/// A neighbour advertisement that nobody asked for: an address is at a hardware address.
fn advertisement(macs: (MacAddress, MacAddress), address: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    body.extend(Ip::from(address).0.to_be_bytes());
    body.extend([2, 1]);
    body.extend(macs.0.0);
    icmpv6(macs, address.into(), to.into(), body)
}

/// A question for somebody, from an address, with the hardware address that answers are to go to.
fn solicitation(macs: (MacAddress, MacAddress), address: IpAddr, target: IpAddr) -> Vec<u8> {
    let mut body = vec![135, 0, 0, 0, 0, 0, 0, 0];
    body.extend(Ip::from(target).0.to_be_bytes());
    body.extend([1, 1]);
    body.extend(macs.0.0);
    icmpv6(macs, address.into(), target.into(), body)
}

/// Whose address the bad pod would like to have: another pod's, the gateway's, the node's.
fn wanted(scene: &Scene, v4: bool) -> [IpAddr; 3] {
    let gateway = if v4 { "10.244.1.1" } else { "fd00:244:1::1" };
    let good = if v4 { scene.good.v4() } else { scene.good.v6() };
    [good, gateway.parse().expect("an address"), scene.world.one().address_like(v4)]
}

/// Nobody in a place believes that an address that is not the bad pod's is at its hardware address.
fn is_not_poisoned(place: &Place, link: &str, scene: &Scene) {
    let bad = &scene.bad;
    let own = [bad.v4(), bad.v6(), bad.mac.link_local().into()];
    let neighbours = place.netlink().neighbours(place.link(link).index).expect("the neighbours");
    let poisoned = neighbours.iter().find(|neighbour| neighbour.mac == Some(bad.mac) && !own.contains(&neighbour.address));
    assert!(poisoned.is_none(), "{}: {poisoned:?}", place.name);
}

#[test]
fn nobody_can_claim_the_address_of_another_by_arp() {
    run("hostile::neighbours::nobody_can_claim_the_address_of_another_by_arp", || {
        let mut scene = scene();
        let (good, bad, other) = (&scene.good, &scene.bad, &scene.other);
        let mut frames = Vec::new();
        for address in wanted(&scene, true) {
            frames.push(arp(REPLY, (bad.mac, other.mac), address, other.v4()));
            frames.push(arp(REPLY, (bad.mac, EVERYBODY), address, address));
            frames.push(arp(REQUEST, (bad.mac, EVERYBODY), address, address));
            frames.push(arp(REQUEST, (bad.mac, other.mac), address, other.v4()));
            frames.push(arp(REPLY, (good.mac, EVERYBODY), address, address));
        }
        let wire = Sniffer::start(&scene.world.underlay);
        let before = scene.dropped(SPOOFED);
        assert_eq!(send(bad, &frames), frames.len());
        eventually("all are counted", || scene.dropped(SPOOFED) >= before + frames.len() as u64);
        is_not_poisoned(other, "eth0", &scene);
        is_not_poisoned(&scene.world.underlay, "br0", &scene);
        let claimed = |frame: &&crate::harness::sniff::Frame| frame.ether_type() == 0x0806 && frame.bytes[22..28] == bad.mac.0;
        assert_eq!(wire.arrived("node1").iter().filter(claimed).count(), 0, "the claim was on the wire");
        scene.others_are_fine();
    });
}

#[test]
fn nobody_can_claim_the_address_of_another_by_neighbour_discovery() {
    run("hostile::neighbours::nobody_can_claim_the_address_of_another_by_neighbour_discovery", || {
        let mut scene = scene();
        let (good, bad, other) = (&scene.good, &scene.bad, &scene.other);
        let all: IpAddr = "ff02::1".parse().expect("an address");
        let link_locals: [IpAddr; 2] = [good.mac.link_local().into(), "fe80::1".parse().expect("an address")];
        let mut frames = Vec::new();
        for address in wanted(&scene, false).into_iter().chain(link_locals) {
            frames.push(advertisement((bad.mac, other.mac), address, other.v6()));
            frames.push(advertisement((bad.mac, ALL_NODES), address, all));
            frames.push(solicitation((bad.mac, other.mac), address, other.v6()));
            frames.push(advertisement((good.mac, ALL_NODES), address, all));
        }
        let wire = Sniffer::start(&scene.world.underlay);
        let inside = Sniffer::start(other);
        let before = scene.dropped(SPOOFED);
        assert_eq!(send(bad, &frames), frames.len());
        eventually("all are counted", || scene.dropped(SPOOFED) >= before + frames.len() as u64);
        is_not_poisoned(other, "eth0", &scene);
        is_not_poisoned(&scene.world.underlay, "br0", &scene);
        let is_claim = |frame: &crate::harness::sniff::Frame| frame.bytes.ends_with(&bad.mac.0) && frame.bytes.get(20) == Some(&58);
        assert!(!inside.arrived("eth0").iter().any(is_claim), "a claim arrived");
        assert!(!wire.arrived("node1").iter().any(is_claim), "a claim was on the wire");
        scene.others_are_fine();
    });
}
