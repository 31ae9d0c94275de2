//! Many short connections on a switch that remembers few, under names that come back: whoever has to make room, and whatever the kernel has opened
//! by itself, no connection is led astray.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use host::kernel_flows::{KernelFlows, KernelLimits, KernelOwner};

use crate::harness::balancer::{Balancer, DSR, fronts};
use crate::harness::probe::greet;
use crate::harness::serve::PORT;
use crate::harness::{Node, Place, World, eventually};
use crate::kernel_flows::over_the_kernel;
use crate::overlay::Overlay;

/// How many connections the switch remembers, and a pod's half of it is soon used up.
const CONNECTIONS: &str = "512";

/// How many names there are to one address.
const NAMES: u16 = 800;

/// How many connections are made to each.
const ROUNDS: usize = 1200;

/// A first packet that is lost is sent again after a second.
const LOST: Duration = Duration::from_millis(900);

/// Has a place take few names, and each again at once: it does not wait for last packets of the one before.
fn few_names(place: &Place) {
    place.run(|| {
        let set = |name: &str, value: &str| fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("a setting of the namespace");
        set("ip_local_port_range", &format!("40000 {}", 40_000 + NAMES - 1));
        set("tcp_max_tw_buckets", "0");
    });
}

fn connect_often(from: &Place, to: SocketAddr) {
    for round in 0..ROUNDS {
        let start = Instant::now();
        let met = from.run(|| TcpStream::connect(to)).and_then(|mut stream| greet(&mut stream));
        assert!(met.is_ok() && start.elapsed() < LOST, "round {round} to {to}: {met:?} after {:?}", start.elapsed());
    }
}

fn small_world(nodes: usize) -> World {
    let mut world = World::bare(nodes);
    for node in &mut world.nodes {
        node.start_vswitchd_with(&["--connections", CONNECTIONS]);
        node.start_hnsd(&[]);
    }
    world
}

fn counter(node: &Node, name: &str) -> u64 {
    node.look("/counters")["Switch"][name].as_u64().unwrap_or_else(|| panic!("a counter {name}"))
}

/// How many flows the kernel has, read from its table as the next process would.
fn in_the_kernel(node: &Node) -> usize {
    let socket = node.file("vswitchd.sock");
    let load = || KernelFlows::load(KernelLimits { flows: 8, openings: 8, ports: 8 }, KernelOwner::at(&socket));
    let table = node.run(load).expect("a table");
    table.take_previous().expect("that of the switch").flows().count()
}

/// Nothing is in the kernel that the engine knows nothing of, though much had to make room.
fn is_tidy(node: &Node) {
    assert!(counter(node, "connections-evicted") > 0 && counter(node, "flows-displaced") > 0, "{}", node.look("/counters"));
    assert!(counter(node, "kernel-opened") > ROUNDS as u64 / 3, "{}", node.look("/counters"));
    let known = || node.look("/flows").as_array().into_iter().flatten().filter(|flow| flow["Kernel"] == true).count();
    eventually("both tables have the same", || known() == in_the_kernel(node));
}

#[test]
fn names_that_come_back_lead_where_they_should() {
    over_the_kernel("kernel_flows::reuse::names_that_come_back_lead_where_they_should", || {
        let world = small_world(1);
        let node = world.one();
        let (_, [client, one, two]) = crate::services::bridge(&world);
        few_names(&client);
        for flags in [0, DSR] {
            let id = Balancer { backends: vec![one.endpoint, two.endpoint], flags, ..Balancer::default() }.on(node);
            fronts().into_iter().for_each(|front| connect_often(&client, front));
            hcn::Hcn::delete(&node.client, hcn::Kind::LoadBalancer, id).expect("the load balancer goes");
        }
        connect_often(&client, SocketAddr::new(one.v4(), PORT));
        is_tidy(node);
    });
}

#[test]
fn between_nodes_too() {
    over_the_kernel("kernel_flows::reuse::between_nodes_too", || {
        let world = small_world(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (client, far) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 12, &[]));
        few_names(&client);
        connect_often(&client, SocketAddr::new(far.v4(), PORT));
        is_tidy(world.one());
        is_tidy(world.two());
    });
}
