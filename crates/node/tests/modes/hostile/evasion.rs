//! Packets made to slip past an access list: in pieces, behind extension headers, with flags that nobody sends.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use serde_json::json;

use super::{BAD, Scene, families, frame, scene, send};
use crate::acl::{acl, change_pod};
use crate::frames::{Carries, extended, pieces};
use crate::harness::serve::PORT;
use crate::harness::{Sniffer, eventually, pings, refused, run, tcp, udp};

/// A port that the list shuts.
const SHUT: u16 = 7022;

/// As [`scene`], with a list that lets nothing into the good pod but what goes to its service.
fn guarded() -> Scene {
    let scene = scene();
    let open = json!({ "Protocols": "6,17", "LocalPorts": format!("{PORT}"), "Priority": 100 });
    change_pod(scene.world.one(), &scene.good, &[acl("Allow", "In", open), acl("Block", "In", json!({ "Priority": 200 }))]);
    scene
}

impl Scene {
    /// The bad pod sends frames of which none reaches the good one, each dropped for one of these reasons, and counted.
    fn none_slips_past(&self, frames: &[Vec<u8>], reasons: &[&str]) {
        let inside = Sniffer::start(&self.good);
        let count = || reasons.iter().map(|reason| self.dropped(reason)).sum::<u64>();
        let before = count();
        assert_eq!(send(&self.bad, frames), frames.len());
        eventually(&format!("all are counted as {reasons:?}"), || count() >= before + frames.len() as u64);
        for reason in reasons {
            assert!(self.world.one().dropped(reason) > 0, "{reason}");
        }
        let arrived = inside.arrived("eth0");
        for [bad, good] in families([&self.bad, &self.good]) {
            assert!(!arrived.iter().any(|frame| frame.is_between(bad, good)), "one arrived");
        }
    }

    /// What the list allows is as it was.
    fn the_service_is_reached(&mut self) {
        for [_, good] in families([&self.bad, &self.good]) {
            tcp(&self.bad, good);
            // In several pieces, which the kernel makes.
            assert!(udp(&self.bad, good, 9000).port() > 0);
        }
        for [_, bad] in families([&self.good, &self.bad]) {
            tcp(&self.good, bad);
            pings(&self.good, bad);
        }
    }

    fn segment(&self, [from, to]: [IpAddr; 2], port: u16, flags: u8) -> Vec<u8> {
        let payload = [&[0; 60][..], BAD].concat();
        frame((self.bad.mac, self.good.mac), from, to, Carries::Tcp(5000, port, flags), &payload)
    }
}

#[test]
fn fragments_do_not_slip_past() {
    run("hostile::evasion::fragments_do_not_slip_past", || {
        let mut scene = guarded();
        for ends in families([&scene.bad, &scene.good]) {
            let shut = scene.segment(ends, SHUT, 2);
            let open = scene.segment(ends, PORT, 2);
            // The header itself is cut, so that the first piece has no flags.
            scene.none_slips_past(&pieces(&shut, 8, 1), &["malformed-truncated", "malformed-fragment"]);
            scene.none_slips_past(&pieces(&open, 8, 2), &["malformed-truncated", "malformed-fragment"]);
            // Later pieces without a first, and those of a first that was blocked.
            let [first, later] = pieces(&shut, 24, 3);
            scene.none_slips_past(&[later.clone(), later.clone()], &["fragment-without-first"]);
            scene.none_slips_past(&[first, later], &["acl-block"]);
            // A first piece to the open port passes, and is not written over.
            let [allowed, _] = pieces(&open, 24, 4);
            let inside = Sniffer::start(&scene.good);
            send(&scene.bad, &[allowed]);
            let [from, to] = ends;
            eventually("the allowed piece arrives", || inside.arrived("eth0").iter().any(|frame| frame.is_between(from, to)));
            let [other, rest] = pieces(&shut, 24, 4);
            let [_, overlapping] = pieces(&shut, 8, 4);
            scene.none_slips_past(&[overlapping], &["malformed-fragment"]);
            scene.none_slips_past(&[other, rest], &["acl-block"]);
        }
        scene.the_service_is_reached();
    });
}

#[test]
fn a_datagram_in_pieces_is_not_received_on_a_port_that_is_shut() {
    run("hostile::evasion::a_datagram_in_pieces_is_not_received_on_a_port_that_is_shut", || {
        let mut scene = guarded();
        let socket = scene.good.run(|| UdpSocket::bind(("::", SHUT))).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        for [from, to] in families([&scene.bad, &scene.good]) {
            let datagram = |port: u16| frame((scene.bad.mac, scene.good.mac), from, to, Carries::Udp(5000, port), &[7; 200]);
            let [shut, open] = [SHUT, PORT].map(|port| pieces(&datagram(port), 64, 9));
            send(&scene.bad, &[open[0].clone(), shut[0].clone(), shut[1].clone(), open[1].clone(), shut[0].clone()]);
            send(&scene.bad, &[open[0].clone(), shut[1].clone(), shut[0].clone()]);
        }
        assert!(socket.recv(&mut [0; 1000]).is_err(), "it was received");
        assert!(scene.dropped("acl-block") > 0);
        change_pod(scene.world.one(), &scene.good, &[]);
        for [from, to] in families([&scene.bad, &scene.good]) {
            let datagram = frame((scene.bad.mac, scene.good.mac), from, to, Carries::Udp(5000, SHUT), &[7; 200]);
            send(&scene.bad, &pieces(&datagram, 64, 10));
            assert_eq!(socket.recv(&mut [0; 1000]).expect("now it may come"), 200);
        }
        scene.others_are_fine();
    });
}

#[test]
fn extension_headers_do_not_slip_past() {
    run("hostile::evasion::extension_headers_do_not_slip_past", || {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const DESTINATION: u8 = 60;
        let mut scene = guarded();
        let ends = [scene.bad.v6(), scene.good.v6()];
        let shut = scene.segment(ends, SHUT, 2);
        let chains: [&[(u8, u8)]; 5] = [
            &[(HOP_BY_HOP, 0)],
            &[(DESTINATION, 4)],
            // Type 0, which names routers that it wants to go by.
            &[(ROUTING, 2)],
            &[(HOP_BY_HOP, 0), (ROUTING, 0), (DESTINATION, 1)],
            &[(DESTINATION, 31), (DESTINATION, 31)],
        ];
        let frames: Vec<Vec<u8>> = chains.iter().map(|chain| extended(&shut, chain)).collect();
        scene.none_slips_past(&frames, &["acl-block"]);
        scene.none_slips_past(&[extended(&shut, &[(DESTINATION, 0); 20])], &["malformed-extension-headers"]);
        // Pieces of which the first ends within the chain, and one whose chain stands before it.
        let [first, later] = pieces(&extended(&shut, &[(DESTINATION, 3)]), 16, 5);
        scene.none_slips_past(&[first, later], &["malformed-header-length", "fragment-without-first"]);
        let [first, later] = pieces(&shut, 24, 6);
        let chain = [(HOP_BY_HOP, 0)];
        scene.none_slips_past(&[extended(&first, &chain), extended(&later, &chain)], &["acl-block"]);
        scene.the_service_is_reached();
    });
}

#[test]
fn odd_flags_do_not_slip_past() {
    run("hostile::evasion::odd_flags_do_not_slip_past", || {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        const RST: u8 = 4;
        const PSH: u8 = 8;
        const ACK: u8 = 16;
        let mut scene = guarded();
        for ends in families([&scene.bad, &scene.good]) {
            let odd = [0, SYN, FIN, RST, ACK, SYN | FIN, SYN | RST, SYN | ACK, FIN | PSH, RST | ACK, FIN | ACK, SYN | PSH];
            let mut frames: Vec<Vec<u8>> = odd.iter().map(|flags| scene.segment(ends, SHUT, *flags)).collect();
            // All lights of the tree; the builder does not set the urgent flag.
            let mut xmas = scene.segment(ends, SHUT, FIN | PSH);
            let at = if ends[0].is_ipv4() { 47 } else { 67 };
            xmas[at] |= 0x20;
            frames.push(xmas);
            scene.none_slips_past(&frames, &["acl-block"]);
            assert!(!refused(&scene.other, ends[1]), "the service is open to everybody");
        }
        scene.the_service_is_reached();
    });
}
