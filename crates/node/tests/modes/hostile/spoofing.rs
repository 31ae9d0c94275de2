//! Pods that send as somebody else.

use std::net::IpAddr;

use host::sysctl::{Family, Key};
use serde_json::json;
use wire::MacAddress;

use super::{BAD, GOOD, SPOOFED, Scene, ethernet, families, frame, has_arrived, icmpv6, scene, send};
use crate::frames::Carries;
use crate::harness::{Sniffer, World, eventually, pings, run};
use crate::l2bridge::{routed, routed_pod};
use crate::transparent;

/// The groups of all IPv6 nodes, and of everybody.
const ALL_NODES: MacAddress = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
const EVERYBODY: MacAddress = MacAddress([0xff; 6]);

fn datagrams(scene: &Scene, mac: MacAddress, from: &[IpAddr]) -> Vec<Vec<u8>> {
    let victim = &scene.other;
    let to = |from: &IpAddr| if from.is_ipv4() { victim.v4() } else { victim.v6() };
    from.iter().map(|from| frame((mac, victim.mac), *from, to(from), Carries::Udp(1000, 2000), BAD)).collect()
}

#[test]
fn the_hardware_address_of_another_is_not_to_be_had() {
    run("hostile::spoofing::the_hardware_address_of_another_is_not_to_be_had", || {
        let mut scene = scene();
        for mac in [scene.good.mac, scene.world.one().mac(), MacAddress([2, 0, 0, 0, 0, 77])] {
            let frames = datagrams(&scene, mac, &[scene.bad.v4(), scene.bad.v6()]);
            scene.all_are_dropped(&scene.other, &frames, SPOOFED);
        }
        scene.others_are_fine();
    });
}

#[test]
fn the_address_of_another_is_not_to_be_had() {
    run("hostile::spoofing::the_address_of_another_is_not_to_be_had", || {
        let mut scene = scene();
        let node = scene.world.one();
        let mut from = vec![scene.good.v4(), scene.good.v6(), scene.other.v4(), scene.other.v6(), node.v4(), node.v6()];
        let others = ["203.0.113.77", "2001:db8::77", "10.244.1.1", "fd00:244:1::1", "10.244.1.99", "fd00:244:1::99", "fe80::1"];
        from.extend(others.iter().map(|address| address.parse::<IpAddr>().expect("an address")));
        from.push(scene.good.mac.link_local().into());
        scene.all_are_dropped(&scene.other, &datagrams(&scene, scene.bad.mac, &from), SPOOFED);
        scene.others_are_fine();
    });
}

#[test]
fn both_addresses_of_another_are_not_to_be_had() {
    run("hostile::spoofing::both_addresses_of_another_are_not_to_be_had", || {
        let mut scene = scene();
        let frames = datagrams(&scene, scene.good.mac, &[scene.good.v4(), scene.good.v6()]);
        scene.all_are_dropped(&scene.other, &frames, SPOOFED);
        scene.others_are_fine();
    });
}

/// A router advertisement that makes who believes it take its sender for the gateway, with an address of a prefix.
fn advertisement(from: MacAddress, to: (MacAddress, IpAddr)) -> Vec<u8> {
    let mut body = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    body.extend([1, 1]);
    body.extend(from.0);
    body.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0]);
    body.extend([0x20, 0x01, 0x0d, 0xb8, 0xba, 0xd0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    icmpv6((from, to.0), from.link_local(), to.1.into(), body)
}

/// A redirect: what goes to an address is to go by its sender.
fn redirect(from: MacAddress, gateway: IpAddr, to: (MacAddress, IpAddr), target: IpAddr) -> Vec<u8> {
    let octets = |address: IpAddr| wire::Ip::from(address).0.to_be_bytes();
    let mut body = vec![137, 0, 0, 0, 0, 0, 0, 0];
    body.extend(octets(from.link_local().into()));
    body.extend(octets(target));
    icmpv6((from, to.0), gateway.into(), to.1.into(), body)
}

#[test]
fn nobody_takes_a_pod_for_a_router() {
    run("hostile::spoofing::nobody_takes_a_pod_for_a_router", || {
        let mut scene = scene();
        let (bad, good) = (&scene.bad, &scene.good);
        // It would believe, if it were told.
        good.run(|| Key::interface(Family::V6, "eth0", "accept_ra").write("2")).expect("the setting");
        let wire = Sniffer::start(&scene.world.underlay);
        let all: IpAddr = "ff02::1".parse().expect("an address");
        let outside: IpAddr = "2001:db8::1".parse().expect("an address");
        let link_local: IpAddr = bad.mac.link_local().into();
        let frames = [
            advertisement(bad.mac, (good.mac, good.v6())),
            advertisement(bad.mac, (ALL_NODES, all)),
            advertisement(bad.mac, (good.mac, good.mac.link_local().into())),
            redirect(bad.mac, link_local, (good.mac, good.v6()), outside),
            redirect(bad.mac, "fd00:244:1::1".parse().expect("an address"), (good.mac, good.v6()), outside),
        ];
        scene.all_are_dropped(good, &frames, "router-guard");
        let routes = good.ip("-6 route show");
        assert!(!routes.contains("proto ra") && !routes.contains("bad0"), "{routes}");
        assert!(!good.ip("-6 addr show dev eth0").contains("bad0"));
        let seen = wire.arrived("node1");
        assert!(!seen.iter().any(|frame| frame.ether_type() == 0x86dd && frame.bytes.get(54) == Some(&134)), "it was on the wire");
        scene.others_are_fine();
    });
}

#[test]
fn nobody_takes_a_pod_for_a_dhcp_server() {
    run("hostile::spoofing::nobody_takes_a_pod_for_a_dhcp_server", || {
        let mut scene = scene();
        let (bad, good) = (&scene.bad, &scene.good);
        let broadcast: IpAddr = "255.255.255.255".parse().expect("an address");
        let frames = [
            frame((bad.mac, good.mac), bad.v4(), good.v4(), Carries::Udp(67, 68), BAD),
            frame((bad.mac, EVERYBODY), bad.v4(), broadcast, Carries::Udp(67, 68), BAD),
            frame((bad.mac, good.mac), bad.v6(), good.v6(), Carries::Udp(547, 546), BAD),
        ];
        scene.all_are_dropped(good, &frames, "dhcp-guard");
        scene.others_are_fine();
    });
}

#[test]
fn mac_spoofing_can_be_allowed_to_a_single_pod() {
    run("hostile::spoofing::mac_spoofing_can_be_allowed_to_a_single_pod", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let mut document = crate::l2bridge::routed_document(node, 11, &[]);
        document["AdditionalParams"] = json!({ "MacAddressSpoofing": true });
        let nested = node.pod(network, &document);
        let [strict, victim] = [12, 13].map(|number| routed_pod(node, network, number, &[]));
        let stranger = MacAddress([2, 0, 0, 0, 0, 77]);
        let inside = Sniffer::start(&victim);
        for [of_strict, to] in families([&strict, &victim]) {
            let guest: IpAddr = if to.is_ipv4() { "10.244.1.77" } else { "fd00:244:1::77" }.parse().expect("an address");
            assert_eq!(send(&nested, &[frame((stranger, victim.mac), guest, to, Carries::Udp(1, 2), GOOD)]), 1);
            eventually("it arrives", || {
                inside.arrived("eth0").iter().any(|frame| frame.is_between(guest, to) && frame.source_mac() == stranger)
            });
            let before = node.drops("pod1-12", SPOOFED);
            send(
                &strict,
                &[
                    frame((stranger, victim.mac), guest, to, Carries::Udp(1, 2), BAD),
                    frame((stranger, victim.mac), of_strict, to, Carries::Udp(1, 2), BAD),
                ],
            );
            eventually("who is not allowed is not", || node.drops("pod1-12", SPOOFED) >= before + 2);
        }
        assert!(!has_arrived(&inside, BAD));
        assert_eq!(node.drops("pod1-11", SPOOFED), 0);
        pings(&nested, victim.v4());
        pings(&victim, nested.v6());
    });
}

#[test]
fn what_is_inside_of_a_pod_is_on_the_wire_where_it_may_be() {
    run("hostile::spoofing::what_is_inside_of_a_pod_is_on_the_wire_where_it_may_be", || {
        let world = World::new(1);
        let network = transparent::transparent(world.one());
        let mut document = transparent::document(101);
        document["AdditionalParams"] = json!({ "MacAddressSpoofing": true });
        let (host, plain) = (world.one().pod(network, &document), transparent::pod(world.one(), network, 102));
        // A virtual machine of its own, bridged onto its NIC.
        for pod in [&host, &plain] {
            pod.ip("link add guest link eth0 type macvlan mode bridge");
            pod.ip("addr flush dev eth0");
            let number = if std::ptr::eq(pod, &host) { 201 } else { 202 };
            pod.ip(&format!("addr add 192.168.0.{number}/24 dev guest"));
            pod.ip(&format!("addr add fd00:99::{number}/64 dev guest nodad"));
            pod.ip("link set guest up");
        }
        let at = |number: u16, v4: bool| -> IpAddr {
            if v4 { format!("192.168.0.{number}") } else { format!("fd00:99::{number}") }.parse().expect("an address")
        };
        for v4 in [true, false] {
            pings(&world.underlay, at(201, v4));
            pings(&host, crate::harness::world::ROUTER[usize::from(!v4)]);
            assert!(!crate::harness::answers(&world.underlay, at(202, v4)), "where it may not be, it is not");
        }
        assert!(world.one().drops("pod102", SPOOFED) > 0);
        assert_eq!(world.one().drops("pod101", SPOOFED), 0);
    });
}

#[test]
fn tagged_frames_are_held_to_the_same() {
    run("hostile::spoofing::tagged_frames_are_held_to_the_same", || {
        let scene = scene();
        let (bad, good, other) = (&scene.bad, &scene.good, &scene.other);
        let tagged = |from: MacAddress, source: IpAddr, to: IpAddr| {
            let plain = frame((from, other.mac), source, to, Carries::Udp(1, 2), BAD);
            let kind = u16::from_be_bytes([plain[12], plain[13]]);
            ethernet(other.mac, from, 0x8100, &[&[0, 0][..], &kind.to_be_bytes(), &plain[14..]].concat())
        };
        let frames: Vec<Vec<u8>> = families([good, other])
            .into_iter()
            .flat_map(|[of_good, to]| [tagged(bad.mac, of_good, to), tagged(good.mac, of_good, to)])
            .collect();
        scene.all_are_dropped(other, &frames, SPOOFED);
    });
}
