//! Flows in the kernel: known ones never come up to the engine, and everything holds for them that holds for others.

mod adoption;
mod beyond;
mod opening;
mod reuse;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use host::kernel_flows::{KernelFlows, KernelLimits, KernelOwner};
use serde_json::json;

use crate::harness::balancer::{Balancer, DSR, fronts, names};
use crate::harness::document::policy;
use crate::harness::probe::{ask, ask_once, try_udp};
use crate::harness::sandbox::run_with;
use crate::harness::serve::PORT;
use crate::harness::{Node, Place, World, balancer, eventually, exchange, udp};
use crate::l2bridge::{routed, routed_pod};
use crate::restart::{Conversation, kill_vswitchd};

/// Much more than is sent before a flow is known.
const MUCH: usize = 32 << 20;

/// Runs a test with known flows in the kernel, where that is possible.
fn over_the_kernel(test: &str, body: impl FnOnce()) {
    match KernelFlows::load(KernelLimits { flows: 8, openings: 8, ports: 8 }, KernelOwner::at(Path::new("/nobody"))) {
        Ok(_) => run_with(test, &[("TRANSOM_DATA_PATH", "bpf".to_owned())], body),
        Err(error) => println!("skipped: {error}"),
    }
}

/// How many packets the kernel has forwarded by itself.
fn by_the_kernel(node: &Node) -> u64 {
    node.look("/counters")["Switch"]["packets-kernel"].as_u64().expect("a counter")
}

/// Whether all flows to a port are in the kernel, of which there are some.
fn are_in_the_kernel(node: &Node, port: u16) -> bool {
    let flows = node.look("/flows");
    let to = |flow: &&serde_json::Value| flow["Destination"].as_str().is_some_and(|to| to.ends_with(&format!(":{port}")));
    let found: Vec<_> = flows.as_array().into_iter().flatten().filter(to).collect();
    !found.is_empty() && found.iter().all(|flow| flow["Kernel"] == true)
}

/// A socket of a place that talks to another.
fn socket(from: &Place, to: IpAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    from.run(|| {
        let socket = UdpSocket::bind((any, 0)).expect("a socket");
        socket.connect((to, PORT)).expect("an address");
        socket
    })
}

#[test]
fn known_flows_never_leave_it() {
    over_the_kernel("kernel_flows::known_flows_never_leave_it", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        for to in [two.v4(), two.v6()] {
            let before = by_the_kernel(node);
            exchange(&one, SocketAddr::new(to, PORT), MUCH);
            // At most 64 KB are one packet.
            let passed = by_the_kernel(node) - before;
            assert!(passed > (2 * MUCH / 65_536) as u64, "{passed} packets of {MUCH} bytes each way");
            let socket = socket(&one, to);
            for size in [0, 1, 1000, 1400] {
                assert_eq!(ask(&socket, size).map(|own| own.ip()), Some(if to.is_ipv4() { one.v4() } else { one.v6() }));
            }
        }
        assert!(are_in_the_kernel(node, PORT), "{}", node.look("/flows"));
        // Of a connection only what opens it comes up: its answers are foreseen.
        let unknown = || node.look("/counters")["Switch"]["kernel-unknown"].as_u64().expect("a counter");
        let before = unknown();
        for to in [two.v4(), two.v6()].repeat(5) {
            exchange(&one, SocketAddr::new(to, PORT), 1000);
        }
        // A neighbour may be asked for in between, but ten connections would be ten packets.
        assert!(unknown() - before < 5, "{} packets", unknown() - before);
        // Fragments, which are not for it.
        udp(&one, two.v4(), 9000);
        let port = node.port("pod1-11");
        assert!(port["BytesSent"].as_u64() > Some(2 * MUCH as u64), "what the kernel forwarded is counted for the port: {port}");
    });
}

#[test]
fn policy_reaches_flows_that_are_there() {
    over_the_kernel("kernel_flows::policy_reaches_flows_that_are_there", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        let block = policy(
            "ACL",
            json!({"Action": "Block", "Direction": "Out", "Protocols": "17", "RemoteAddresses": two.v4().to_string(), "Priority": 100, "RuleType": "Switch"}),
        );
        let change = |request: &str| {
            let settings = json!({"Policies": [block]});
            node.modify_endpoint(one.endpoint, &json!({"ResourceType": "Policy", "RequestType": request, "Settings": settings}));
        };
        let (blocked, other) = (socket(&one, two.v4()), socket(&one, two.v6()));
        for socket in [&blocked, &other] {
            for _ in 0..3 {
                assert!(ask(socket, 100).is_some());
            }
        }
        let before = by_the_kernel(node);
        assert!(before >= 4, "{before} packets");
        change("Add");
        assert!(ask(&blocked, 100).is_none(), "it is blocked at once");
        assert!(ask(&other, 100).is_some(), "others are not");
        change("Remove");
        eventually("it is allowed again", || ask(&blocked, 100).is_some());
    });
}

#[test]
fn services_are_translated_in_it() {
    over_the_kernel("kernel_flows::services_are_translated_in_it", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = crate::services::bridge(&world);
        for flags in [0, DSR] {
            let id = Balancer { backends: vec![one.endpoint, two.endpoint], flags, ..Balancer::default() }.on(node);
            for front in fronts() {
                let before = by_the_kernel(node);
                assert_eq!(balancer::everybody(&client, front).0, names(&[&one, &two]), "{front}");
                exchange(&client, front, MUCH);
                let passed = by_the_kernel(node) - before;
                assert!(passed > (2 * MUCH / 65_536) as u64, "{front}: {passed} packets");
            }
            hcn::Hcn::delete(&node.client, hcn::Kind::LoadBalancer, id).expect("the load balancer goes");
        }
    });
}

#[test]
fn a_pod_that_may_send_only_so_much_stays_with_the_engine() {
    over_the_kernel("kernel_flows::a_pod_that_may_send_only_so_much_stays_with_the_engine", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let slow = routed_pod(node, network, 11, &[policy("QOS", json!({"MaximumOutgoingBandwidthInBytes": 4_000_000}))]);
        let other = routed_pod(node, network, 12, &[]);
        let socket = socket(&slow, other.v4());
        (0..5).for_each(|_| assert!(ask(&socket, 500).is_some()));
        let flows = node.look("/flows");
        let own = |flow: &&serde_json::Value| flow["Source"].as_str().is_some_and(|from| from.starts_with(&slow.v4().to_string()));
        let flow = flows.as_array().into_iter().flatten().find(own).expect("the flow").clone();
        assert_eq!((flow["Kernel"].as_bool(), flow["Unified"].as_bool()), (Some(false), Some(true)), "{flow}");
    });
}

#[test]
fn a_capture_sees_flows_that_were_in_it() {
    over_the_kernel("kernel_flows::a_capture_sees_flows_that_were_in_it", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        let socket = socket(&one, two.v4());
        (0..3).for_each(|_| assert!(ask(&socket, 100).is_some()));
        let (file, at) = (node.file("switch.pcapng"), node.file("vswitchd.sock"));
        let words = ["capture", "--write", &file.display().to_string(), "--vswitchd", &at.display().to_string()].map(str::to_owned);
        let mut capture = node.spawn("vfp", &words, "capture.log");
        let length = || std::fs::metadata(&file).map_or(0, |file| file.len());
        eventually("the capture has begun", || length() > 0);
        let (before, forwarded) = (length(), by_the_kernel(node));
        (0..5).for_each(|_| assert!(ask(&socket, 1000).is_some()));
        eventually("all are in it, as they are sent and as they arrive", || length() > before + 20 * 1000);
        assert_eq!(by_the_kernel(node), forwarded, "the kernel leaves them to the engine");
        capture.kill();
        eventually("it goes on when nobody captures", || ask(&socket, 100).is_some() && by_the_kernel(node) > forwarded);
    });
}

#[test]
fn known_flows_go_on_without_vswitchd() {
    over_the_kernel("kernel_flows::known_flows_go_on_without_vswitchd", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        let datagrams = socket(&one, two.v6());
        (0..3).for_each(|_| assert!(ask(&datagrams, 100).is_some()));
        let conversation = Conversation::begin(&one, two.v4());
        kill_vswitchd(&mut world.nodes[0]);
        for _ in 0..200 {
            assert!(ask_once(&datagrams, 100).is_some(), "not one is lost");
        }
        conversation.ends_well();
        world.nodes[0].start_vswitchd();
        eventually("new ones work again", || try_udp(&one, SocketAddr::new(two.v4(), PORT), 100).is_some());
        exchange(&one, SocketAddr::new(two.v6(), PORT), MUCH);
        assert!(ask(&datagrams, 100).is_some());
        assert!(by_the_kernel(world.one()) > (2 * MUCH / 65_536) as u64);
    });
}

#[test]
fn the_next_vswitchd_may_move_packets_another_way() {
    over_the_kernel("kernel_flows::the_next_vswitchd_may_move_packets_another_way", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        exchange(&one, SocketAddr::new(two.v4(), PORT), 1 << 20);
        let addresses = one.addresses("eth0");
        for (path, kind) in [("tap", "tun"), ("bpf", "tun"), ("auto", "tun")] {
            kill_vswitchd(&mut world.nodes[0]);
            world.nodes[0].start_vswitchd_with(&["--data-path", path]);
            eventually("pods talk", || try_udp(&one, SocketAddr::new(two.v4(), PORT), 100).is_some());
            exchange(&one, SocketAddr::new(two.v6(), PORT), 1 << 20);
            assert_eq!(one.link("eth0").kind.as_deref(), Some(kind), "{path}: a NIC that can be taken up stays");
            assert_eq!(one.addresses("eth0"), addresses, "{path}");
        }
        let three = routed_pod(world.one(), network, 13, &[]);
        assert_eq!(three.link("eth0").kind.as_deref(), Some("veth"));
        for to in [one.v4(), one.v6()] {
            exchange(&three, SocketAddr::new(to, PORT), 1 << 20);
        }
        assert_eq!(by_the_kernel(world.one()), 0, "it takes two ends");
    });
}

#[test]
fn nothing_is_left_of_pods_that_went() {
    over_the_kernel("kernel_flows::nothing_is_left_of_pods_that_went", || {
        let world = World::new(1);
        let node = world.one();
        let links = || node.netlink().links().expect("links").into_iter().map(|link| link.name).collect::<Vec<_>>();
        let network = routed(&world, node);
        let before = links();
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        exchange(&one, SocketAddr::new(two.v4(), PORT), 1 << 20);
        assert_eq!(links().len(), before.len() + 4, "two links to a pod: {:?}", links());
        node.delete_pod(&one);
        node.delete_pod(&two);
        eventually("nothing is left", || links() == before);
        // The place is free for the next.
        let three = routed_pod(node, network, 11, &[]);
        let four = routed_pod(node, network, 12, &[]);
        exchange(&three, SocketAddr::new(four.v6(), PORT), 1 << 20);
    });
}
