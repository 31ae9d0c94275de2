//! Flows that leave the node, or come from elsewhere: by an adapter as they are or translated, and through tunnels.

use std::net::SocketAddr;

use crate::harness::document::{outbound_nat, outbound_nat_v6};
use crate::harness::probe::{ask, try_udp};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{World, eventually, exchange, pings, udp};
use crate::kernel_flows::{MUCH, are_in_the_kernel, by_the_kernel, over_the_kernel, socket};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;
use crate::restart::{Conversation, kill_vswitchd};

/// Fewer packets than carry `MUCH` one way, if all are as large as they can be.
const FEW: u64 = (MUCH / 65_536) as u64;

#[test]
fn packets_to_and_from_the_outside() {
    over_the_kernel("kernel_flows::beyond::packets_to_and_from_the_outside", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let hidden = routed_pod(node, network, 11, &[outbound_nat(&[]), outbound_nat_v6(&[])]);
        let seen = routed_pod(node, network, 12, &[]);
        for (at, own) in [node.v4(), node.v6()].into_iter().enumerate() {
            let before = by_the_kernel(node);
            assert_eq!(exchange(&hidden, SocketAddr::new(OUTSIDE[at], PORT), MUCH).ip(), own, "it is translated");
            assert!(by_the_kernel(node) - before > 2 * FEW, "both ways, translated");
            let before = by_the_kernel(node);
            let to = if own.is_ipv4() { seen.v4() } else { seen.v6() };
            assert_eq!(exchange(&world.outside, SocketAddr::new(to, PORT), MUCH).ip(), OUTSIDE[at]);
            // The way back is by the node, which routes for its pods, and whose own vNIC goes with vswitchd.
            assert!(by_the_kernel(node) - before > FEW, "one way, as they are");
            udp(&hidden, OUTSIDE[at], 1400);
            pings(&hidden, OUTSIDE[at]);
        }
        let port = node.port("eth0");
        assert!(port["BytesSent"].as_u64() > Some(2 * MUCH as u64), "what the kernel forwarded is counted for the adapter: {port}");
    });
}

#[test]
fn tunnels_between_nodes() {
    over_the_kernel("kernel_flows::beyond::tunnels_between_nodes", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        for to in [two.v4(), two.v6()] {
            let before = [world.one(), world.two()].map(by_the_kernel);
            exchange(&one, SocketAddr::new(to, PORT), MUCH);
            for (node, before) in [world.one(), world.two()].into_iter().zip(before) {
                assert!(by_the_kernel(node) - before > 2 * FEW, "{}: pushed and popped by the kernel", node.name);
            }
            let datagrams = socket(&one, to);
            for size in [0, 1, 1000, 1400] {
                assert_eq!(ask(&datagrams, size).map(|own| own.ip()), Some(if to.is_ipv4() { one.v4() } else { one.v6() }));
            }
            pings(&one, to);
        }
        for node in [world.one(), world.two()] {
            assert!(are_in_the_kernel(node, PORT), "{}", node.look("/flows"));
        }
        // What is too large for the tunnel is for the engine, which says so or cuts.
        udp(&one, two.v4(), 9000);
    });
}

#[test]
fn tunnels_go_on_without_vswitchd() {
    over_the_kernel("kernel_flows::beyond::tunnels_go_on_without_vswitchd", || {
        let mut world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        let datagrams = socket(&one, two.v4());
        (0..3).for_each(|_| assert!(ask(&datagrams, 100).is_some()));
        let conversation = Conversation::begin(&one, two.v6());
        (0..2).for_each(|number| kill_vswitchd(&mut world.nodes[number]));
        for _ in 0..20 {
            assert!(ask(&datagrams, 1000).is_some(), "not one is lost");
        }
        conversation.ends_well();
        (0..2).for_each(|number| world.nodes[number].start_vswitchd());
        eventually("new ones work again", || try_udp(&one, SocketAddr::new(two.v6(), PORT), 100).is_some());
        exchange(&two, SocketAddr::new(one.v4(), PORT), MUCH);
        assert!(ask(&datagrams, 100).is_some());
    });
}

#[test]
fn nothing_stays_on_the_node_when_vswitchd_ends() {
    over_the_kernel("kernel_flows::beyond::nothing_stays_on_the_node_when_vswitchd_ends", || {
        let mut world = World::bare(2);
        let links = |world: &World| world.one().netlink().links().expect("links").into_iter().map(|link| link.name).collect::<Vec<_>>();
        let before = links(&world);
        for node in &mut world.nodes {
            node.start_vswitchd();
            node.start_hnsd(&[]);
        }
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
        exchange(&one, SocketAddr::new(two.v4(), PORT), 1 << 20);
        let programs = |world: &World| {
            let netlink = world.one().netlink();
            let adapter = world.one().link("eth0");
            netlink.ingress_filters(adapter.index).expect("filters").len()
        };
        assert_eq!(programs(&world), 1);
        world.one().delete_pod(&one);
        world.nodes[0].vswitchd.take().expect("vswitchd runs").stop();
        assert_eq!(programs(&world), 0);
        eventually("nothing is left", || links(&world) == before);
    });
}

#[test]
fn another_program_on_the_adapter_is_respected() {
    over_the_kernel("kernel_flows::beyond::another_program_on_the_adapter_is_respected", || {
        if let Some(missing) = crate::harness::sandbox::missing("tc") {
            return println!("skipped: {missing}");
        }
        let mut world = World::bare(1);
        for words in ["qdisc add dev eth0 clsact", "filter add dev eth0 ingress pref 7 protocol all bpf bytecode 1,6_0_0_0,"] {
            // A program of one instruction that wants nothing, whose words have spaces.
            let words: Vec<String> = words.split(' ').map(|word| word.replace('_', " ")).collect();
            let made = world.one().run(|| std::process::Command::new("tc").args(&words).output()).expect("tc");
            assert!(made.status.success(), "{words:?}: {}", String::from_utf8_lossy(&made.stderr));
        }
        world.nodes[0].start_vswitchd();
        world.nodes[0].start_hnsd(&[]);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        let said = "could not attach a program to eth0: a filter of kind bpf is there already";
        assert!(node.log("vswitchd").contains(said), "{}", node.log("vswitchd"));
        exchange(&one, SocketAddr::new(OUTSIDE[0], PORT), 1 << 20);
        exchange(&world.outside, SocketAddr::new(one.v4(), PORT), 1 << 20);
        let before = by_the_kernel(node);
        exchange(&one, SocketAddr::new(two.v4(), PORT), MUCH);
        assert!(by_the_kernel(node) - before > FEW, "pods of the node still talk by the kernel");
        assert!(node.command("tc", "filter show dev eth0 ingress").1.contains("pref 7"), "it is as it was");
    });
}
