//! Connections that the kernel opens by itself, because the engine has said how, and that the engine takes up.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::harness::balancer::{Balancer, DSR, fronts, names};
use crate::harness::document::policy;
use crate::harness::probe::{greet, meet, meet_soon};
use crate::harness::serve::PORT;
use crate::harness::{Node, Pod, World, eventually, exchange};
use crate::kernel_flows::over_the_kernel;
use crate::l2bridge::{routed, routed_pod};

/// A counter of the switch.
fn counter(node: &Node, name: &str) -> u64 {
    node.look("/counters")["Switch"][name].as_u64().unwrap_or_else(|| panic!("a counter {name}"))
}

/// How many packets that open connections came up while something was done, and how many connections the kernel opened.
fn opened(node: &Node, task: impl FnOnce()) -> (u64, u64) {
    let counts = || [counter(node, "kernel-opening"), counter(node, "kernel-opened")];
    let before = counts();
    task();
    let after = counts();
    (after[0] - before[0], after[1] - before[1])
}

/// Flows of the engine whose packets go to an address.
fn flows_to(node: &Node, to: SocketAddr) -> Vec<serde_json::Value> {
    let flows = node.look("/flows");
    let to = to.to_string();
    flows.as_array().into_iter().flatten().filter(|flow| flow["Destination"] == to.as_str()).cloned().collect()
}

fn two_pods(world: &World) -> (Pod, Pod) {
    let node = world.one();
    let network = routed(world, node);
    (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]))
}

#[test]
fn most_connections_never_come_up() {
    over_the_kernel("kernel_flows::opening::most_connections_never_come_up", || {
        let world = World::new(1);
        let node = world.one();
        let (one, two) = two_pods(&world);
        for to in [two.v4(), two.v6()].map(|to| SocketAddr::new(to, PORT)) {
            let (up, down) = opened(node, || (0..50).for_each(|_| _ = exchange(&one, to, 1000)));
            assert!(up <= 3 && down >= 47, "{to}: {up} came up, {down} did not");
            eventually("the engine knows all of them", || flows_to(node, to).len() >= 50);
            let held = one.run(|| TcpStream::connect(to)).expect("a connection");
            let own = held.local_addr().expect("an address").to_string();
            let is_open = |flow: &serde_json::Value| flow["Source"] == own.as_str() && flow["State"] == "open" && flow["Kernel"] == true;
            eventually("one that is open is known to be", || flows_to(node, to).iter().any(is_open));
        }
    });
}

#[test]
fn policy_holds_for_connections_that_nobody_asked_about() {
    over_the_kernel("kernel_flows::opening::policy_holds_for_connections_that_nobody_asked_about", || {
        let world = World::new(1);
        let node = world.one();
        let (one, two) = two_pods(&world);
        let to = SocketAddr::new(two.v4(), PORT);
        (0..5).for_each(|_| _ = exchange(&one, to, 1000));
        let mut held = one.run(|| TcpStream::connect(to)).expect("a connection");
        greet(&mut held).expect("a greeting");
        let block = policy(
            "ACL",
            json!({"Action": "Block", "Direction": "In", "Protocols": "6", "RemoteAddresses": one.v4().to_string(), "Priority": 100, "RuleType": "Switch"}),
        );
        let change = |request: &str| {
            let settings = json!({"Policies": [block]});
            node.modify_endpoint(two.endpoint, &json!({"ResourceType": "Policy", "RequestType": request, "Settings": settings}));
        };
        change("Add");
        assert!(meet_soon(&one, to).is_err(), "new ones are blocked at once");
        held.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
        // It asks for nothing, and would be told that this is right.
        held.write_all(&[0; 24]).expect("room");
        assert!(held.read(&mut [0]).is_err(), "and so is one that the kernel opened");
        change("Remove");
        eventually("they are allowed again", || meet_soon(&one, to).is_ok());
        let (up, _) = opened(node, || (0..20).for_each(|_| _ = exchange(&one, to, 1000)));
        assert!(up <= 3, "{up} came up");
    });
}

#[test]
fn rules_that_ask_for_the_source_port_are_asked() {
    over_the_kernel("kernel_flows::opening::rules_that_ask_for_the_source_port_are_asked", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let only =
            json!({"Action": "Block", "Direction": "Out", "Protocols": "6", "LocalPorts": "40000", "Priority": 100, "RuleType": "Switch"});
        let one = routed_pod(node, network, 11, &[policy("ACL", only)]);
        let two = routed_pod(node, network, 12, &[]);
        let to = SocketAddr::new(two.v4(), PORT);
        let (_, down) = opened(node, || (0..10).for_each(|_| _ = meet(&one, to).expect("an answer")));
        assert_eq!(down, 0, "each is decided about by itself");
        let from = |port: u16| -> io::Result<TcpStream> {
            one.run(|| {
                let any: IpAddr = [0; 4].into();
                let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
                socket.bind(&SocketAddr::new(any, port).into())?;
                socket.connect_timeout(&to.into(), Duration::from_millis(500))?;
                Ok(socket.into())
            })
        };
        assert!(from(40_001).is_ok() && from(40_000).is_err());
    });
}

#[test]
fn services_choose_their_backends_in_it() {
    over_the_kernel("kernel_flows::opening::services_choose_their_backends_in_it", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = crate::services::bridge(&world);
        for flags in [0, DSR] {
            let id = Balancer { backends: vec![one.endpoint, two.endpoint], flags, ..Balancer::default() }.on(node);
            for front in fronts() {
                let met = std::cell::RefCell::new(Vec::new());
                let (up, down) = opened(node, || {
                    (0..60).for_each(|_| met.borrow_mut().push(meet(&client, front).expect("an answer").0));
                });
                let met = met.into_inner();
                assert_eq!(met.iter().cloned().collect::<BTreeSet<_>>(), names(&[&one, &two]), "{front}");
                let share = met.iter().filter(|name| **name == one.name).count();
                assert!((12..=48).contains(&share), "{front}: one of two had {share} of 60");
                if flags == DSR {
                    assert!(up <= 20 && down >= 40, "{front}: {up} came up, {down} did not");
                }
            }
            // A backend that is gone gets no more, whoever would have chosen it.
            Balancer { backends: vec![two.endpoint], flags, ..Balancer::default() }.change(node, id);
            for front in fronts() {
                let met: BTreeSet<String> = (0..30).map(|_| meet(&client, front).expect("an answer").0).collect();
                assert_eq!(met, names(&[&two]), "{front}");
            }
            hcn::Hcn::delete(&node.client, hcn::Kind::LoadBalancer, id).expect("the load balancer goes");
        }
    });
}

#[test]
fn a_name_that_is_used_again_begins_again() {
    over_the_kernel("kernel_flows::opening::a_name_that_is_used_again_begins_again", || {
        let world = World::new(1);
        let node = world.one();
        let (one, two) = two_pods(&world);
        let to = SocketAddr::new(two.v4(), PORT);
        let again = || {
            one.run(|| -> io::Result<()> {
                let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
                socket.set_reuse_address(true)?;
                // No waiting for last packets: the name is free at once.
                socket.set_linger(Some(Duration::ZERO))?;
                socket.bind(&SocketAddr::new([0, 0, 0, 0].into(), 45_000).into())?;
                socket.connect_timeout(&to.into(), Duration::from_secs(2))?;
                let mut stream: TcpStream = socket.into();
                greet(&mut stream).map(|_| ())
            })
        };
        for round in 0..10 {
            again().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        let own = SocketAddr::new(one.v4(), 45_000).to_string();
        let of_name = || flows_to(node, to).into_iter().filter(|flow| flow["Source"] == own.as_str()).collect::<Vec<_>>();
        eventually("all of them were one name", || of_name().len() == 1 && of_name()[0]["State"] == "closed");
    });
}
