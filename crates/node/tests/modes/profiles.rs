//! Windows builds: what their documentation says does not work does not, and single items can be lifted.

use std::os::unix::net::UnixStream;

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::{network, outbound_nat, overlay_subnet, policy};
use crate::harness::world::OUTSIDE;
use crate::harness::{Sniffer, World, answers, eventually, pings, refused, run, tcp, udp};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

/// A world whose nodes run as a build.
pub(crate) fn world_as(nodes: usize, arguments: &[&str]) -> World {
    let mut world = World::bare(nodes);
    for node in &mut world.nodes {
        node.start_vswitchd();
        node.start_hnsd(arguments);
    }
    world
}

/// Starts a node's service again in another way, with the switch as it is.
pub(crate) fn restart_as(world: &mut World, arguments: &[&str]) {
    for node in &mut world.nodes {
        node.stop_hnsd();
        node.start_hnsd(arguments);
    }
}

#[test]
fn outbound_icmp_is_not_translated_under_ws2022() {
    run("profiles::outbound_icmp_is_not_translated_under_ws2022", || {
        let mut world = world_as(1, &["--profile", "ws2022"]);
        let network = routed(&world, world.one());
        let pod = routed_pod(world.one(), network, 11, &[outbound_nat(&[])]);
        // Whoever is outside knows nothing of pods.
        world.underlay.ip("route del 10.244.1.0/24");
        let wire = Sniffer::start(&world.underlay);
        assert!(!answers(&pod, OUTSIDE[0]));
        assert!(wire.arrived("node1").iter().any(|frame| frame.is_between(pod.v4(), OUTSIDE[0])), "it leaves as it is");
        assert_eq!(tcp(&pod, OUTSIDE[0]).ip(), world.one().v4());
        assert_eq!(udp(&pod, OUTSIDE[0], 100).ip(), world.one().v4());
        let neighbour = routed_pod(world.one(), network, 12, &[outbound_nat(&[])]);
        pings(&pod, neighbour.v4());
        pings(&pod, world.one().v4());

        restart_as(&mut world, &["--profile", "ws2022", "--without", "icmp-not-translated"]);
        pings(&pod, OUTSIDE[0]);
        restart_as(&mut world, &["--profile", "ws2022"]);
        assert!(!answers(&pod, OUTSIDE[0]), "the limit is back");
        restart_as(&mut world, &[]);
        pings(&pod, OUTSIDE[0]);
    });
}

#[test]
fn a_node_reaches_only_its_own_pods_of_an_overlay_under_ws2022() {
    run("profiles::a_node_reaches_only_its_own_pods_of_an_overlay_under_ws2022", || {
        let mut world = world_as(2, &["--profile", "ws2022"]);
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        tcp(&one, two.v4());
        tcp(world.one(), one.v4());
        assert!(refused(world.one(), two.v4()) && !answers(world.one(), two.v4()));

        restart_as(&mut world, &["--profile", "ws2022", "--without", "overlay-node-local-pods-only"]);
        pings(world.one(), two.v4());
        tcp(world.one(), two.v4());
        restart_as(&mut world, &["--profile", "ws2022"]);
        assert!(!answers(world.one(), two.v4()), "the limit is back");
        restart_as(&mut world, &[]);
        tcp(world.one(), two.v4());
        tcp(&one, two.v4());
    });
}

#[test]
fn documents_that_a_build_cannot_have_are_refused() {
    run("profiles::documents_that_a_build_cannot_have_are_refused", || {
        let world = world_as(1, &["--profile", "ws2022"]);
        let create = |document: &Value| world.one().client.create(Kind::Network, None, None, &document.to_string());
        let small = network("small", "Overlay", &[overlay_subnet("10.60.0.0/24", "10.60.0.1", 77)], &[]);
        assert!(create(&small).is_err(), "VNIs begin at 4096");
        let v6 = network("v6", "Overlay", &[overlay_subnet("fd00:60::/64", "fd00:60::1", 4096)], &[]);
        assert!(create(&v6).is_err(), "no IPv6 on overlays");
        let refusal = as_ws2019(&world);
        assert!(refusal.contains("UDP port") || refusal.contains("VxlanPort"), "{refusal}");
    });
}

/// What the oldest build says to another port for VXLAN; asked of a service that keeps documents only.
fn as_ws2019(world: &World) -> String {
    let file = world.one().file("port.json");
    let port = [policy("VxlanPort", json!({ "Port": 8472 }))];
    std::fs::write(&file, network("port", "Overlay", &[overlay_subnet("10.61.0.0/24", "10.61.0.1", 4096)], &port).to_string())
        .expect("a file");
    let path = |name: &str| world.one().file(name).display().to_string();
    let arguments: Vec<String> =
        ["--socket", &path("old.sock"), "--state-dir", &path("old"), "--profile", "ws2019", "--switch", "none"].map(str::to_owned).to_vec();
    let mut old = world.one().spawn("hnsd", &arguments, "old.log");
    eventually("the old service listens", || UnixStream::connect(path("old.sock")).is_ok());
    let arguments = ["network", "create", "-f", &path("port.json"), "--hnsd", &format!("unix:{}", path("old.sock"))];
    let (code, text) = world.one().transom(&arguments.map(str::to_owned));
    assert!(code != Some(0), "{text}");
    old.kill();
    text
}
