//! Many short connections on a switch that remembers few, under names that come back: whoever has to make room, and whatever the kernel has opened
//! by itself, no connection is led astray.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::harness::balancer::{Balancer, DSR, fronts};
use crate::harness::probe::greet;
use crate::harness::serve::PORT;
use crate::harness::{Place, World};
use crate::kernel_flows::over_the_kernel;

/// How many connections the switch remembers, and a pod's half of it is soon used up.
const CONNECTIONS: &str = "512";

/// How many names there are to one address.
const NAMES: u16 = 800;

/// How many connections are made to each.
const ROUNDS: usize = 1600;

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

#[test]
fn names_that_come_back_lead_where_they_should() {
    over_the_kernel("kernel_flows::reuse::names_that_come_back_lead_where_they_should", || {
        let mut world = World::bare(1);
        world.nodes[0].start_vswitchd_with(&["--connections", CONNECTIONS]);
        world.nodes[0].start_hnsd(&[]);
        let node = world.one();
        let (_, [client, one, two]) = crate::services::bridge(&world);
        few_names(&client);
        for flags in [0, DSR] {
            let id = Balancer { backends: vec![one.endpoint, two.endpoint], flags, ..Balancer::default() }.on(node);
            fronts().into_iter().for_each(|front| connect_often(&client, front));
            hcn::Hcn::delete(&node.client, hcn::Kind::LoadBalancer, id).expect("the load balancer goes");
        }
        connect_often(&client, SocketAddr::new(one.v4(), PORT));
        let counter = |name: &str| node.look("/counters")["Switch"][name].as_u64().expect("a counter");
        assert!(counter("connections-evicted") > 0 && counter("flows-displaced") > 0, "{}", node.look("/counters"));
        assert!(counter("kernel-opened") > ROUNDS as u64, "{}", node.look("/counters"));
    });
}
