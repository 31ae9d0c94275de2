//! Direct server return between nodes, as somebody else reads it in the frames at both ends.

use std::net::{IpAddr, SocketAddr};

use hcn::Guid;

use crate::harness::analyser::{Capture, make_real};
use crate::harness::balancer::{Balancer, DSR, address_like, fronts, provider, remote_endpoint};
use crate::harness::probe::{meet, meet_udp};
use crate::harness::sandbox::missing;
use crate::harness::{Pod, Sniffer, World, exchange, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::{Overlay, VNI};

/// Who speaks to whom, in a capture: of the innermost IP header, once each.
fn talks(capture: &Capture<'_>, filter: &str, v4: bool) -> Vec<(IpAddr, IpAddr)> {
    let protocol = if v4 { "ip" } else { "ipv6" };
    let fields = [format!("{protocol}.src"), format!("{protocol}.dst")];
    let lines = capture.fields(filter, &fields.each_ref().map(String::as_str));
    // Of an encapsulated packet there are several, the innermost last.
    let innermost = |text: &str| text.rsplit(',').next()?.parse().ok();
    let mut talks: Vec<(IpAddr, IpAddr)> =
        lines.iter().filter_map(|line| line.split_once('\t')).filter_map(|(from, to)| Some((innermost(from)?, innermost(to)?))).collect();
    talks.sort_unstable();
    talks.dedup();
    talks
}

/// Connects, and reads what is in the frames in the client's pod, in the backend's pod, and at both ends of the wire.
fn is_seen_at_both_ends(world: &World, client: &Pod, backend: &Pod, front: SocketAddr) {
    let [own, other] = [client, backend].map(|pod| address_like(pod, front));
    let [at_client, at_backend, wire] = [&**client, &**backend, &world.underlay].map(Sniffer::start);
    assert_eq!(meet(client, front).map(|(name, seen)| (name, seen.ip())).expect("the backend answers"), (backend.name.clone(), own));
    assert_eq!(meet_udp(client, front).expect("the backend answers").1.ip(), own);
    exchange(client, front, 1 << 20);

    let both = |link: &Sniffer| [link.arrived("eth0"), link.left("eth0")].concat();
    let sorted = |mut pairs: Vec<(IpAddr, IpAddr)>| {
        pairs.sort_unstable();
        pairs
    };
    let v4 = front.is_ipv4();
    for protocol in ["tcp", "udp"] {
        let inside = |name: &str, frames: &Sniffer| talks(&Capture::of(&world.underlay, name, &both(frames)), protocol, v4);
        assert_eq!(inside("client", &at_client), sorted(vec![(own, front.ip()), (front.ip(), own)]), "the client sees the service");
        assert_eq!(inside("backend", &at_backend), sorted(vec![(own, other), (other, own)]), "the backend sees the client");
    }
    for (link, pair) in [("node1", (own, other)), ("node2", (other, own))] {
        let capture = Capture::of(&world.underlay, link, &wire.arrived(link));
        assert_eq!(capture.complaints(), "", "{link}");
        assert_eq!(talks(&capture, "tcp", v4), [pair], "{link} sends to the other end, and nothing else");
    }
}

/// A service on the first node with one backend on the second.
fn service(world: &World, backend: Guid) {
    Balancer { backends: vec![backend], flags: DSR, ..Balancer::default() }.on(world.one());
}

fn skipped() -> bool {
    let why = ["tshark", "ethtool"].into_iter().find_map(missing);
    why.is_some_and(|why| {
        println!("skipped: {why}");
        true
    })
}

#[test]
fn over_an_overlay_answers_go_straight_back() {
    if skipped() {
        return;
    }
    run("dsr::over_an_overlay_answers_go_straight_back", || {
        let world = World::new(2);
        world.nodes.iter().for_each(|node| make_real(node));
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let client = overlay.pod(world.one(), first, 11, &[]);
        let backend = overlay.pod(world.two(), second, 12, &[]);
        service(&world, remote_endpoint(world.one(), first, &backend, &[provider()]));
        for front in fronts() {
            is_seen_at_both_ends(&world, &client, &backend, front);
        }
        let wire = Sniffer::start(&world.underlay);
        exchange(&client, fronts()[0], 1 << 16);
        for (link, from, to) in [("node1", "192.168.0.1", "192.168.0.2"), ("node2", "192.168.0.2", "192.168.0.1")] {
            let capture = Capture::of(&world.underlay, link, &wire.arrived(link));
            let outer = capture.fields("vxlan", &["ip.src", "ip.dst", "vxlan.vni"]);
            let expected = |line: &String| {
                line.starts_with(&format!("{from},")) && line.contains(&format!("\t{to},")) && line.ends_with(&format!("\t{VNI}"))
            };
            assert!(!outer.is_empty() && outer.iter().all(expected), "{outer:?}");
        }
    });
}

#[test]
fn over_bridges_answers_go_straight_back() {
    if skipped() {
        return;
    }
    run("dsr::over_bridges_answers_go_straight_back", || {
        let world = World::new(2);
        world.nodes.iter().for_each(|node| make_real(node));
        let networks = [routed(&world, world.one()), routed(&world, world.two())];
        let client = routed_pod(world.one(), networks[0], 11, &[]);
        let backend = routed_pod(world.two(), networks[1], 12, &[]);
        service(&world, remote_endpoint(world.one(), networks[0], &backend, &[]));
        for front in fronts() {
            is_seen_at_both_ends(&world, &client, &backend, front);
        }
    });
}
