//! What happens when there is no more room.

use vfp::{DropReason, Limits, PortId, PortKind, ProgramSpec, SwitchError, Tier};

use wire::number::tcp_flag::{ACK, FIN, SYN};

use super::bench::{Bench, port_spec, tcp, udp};

/// Some NICs that reach each other, with room for so much.
fn crowd(limits: Limits, nics: u8) -> (Bench, Vec<PortId>) {
    let bench = Bench::with_limits(limits);
    let domain = bench.domain("switch");
    let ports: Vec<PortId> = (1..=nics).map(|last| bench.nic(&format!("nic{last}"), domain, last, &format!("10.0.0.{last}"))).collect();
    for (port, last) in ports.iter().zip(1..) {
        bench.deliver(domain, &format!("10.0.0.{last}"), *port, last);
    }
    (bench, ports)
}

fn from(last: u8, port: u16) -> Vec<u8> {
    let to = if last == 1 { 2 } else { 1 };
    udp((last, to), (&format!("10.0.0.{last}"), port), (&format!("10.0.0.{to}"), 53), b"q")
}

fn answer_to(last: u8, port: u16) -> Vec<u8> {
    let to = if last == 1 { 2 } else { 1 };
    udp((to, last), (&format!("10.0.0.{to}"), 53), (&format!("10.0.0.{last}"), port), b"a")
}

/// How many connections a port can have that nobody answers within the same moment.
fn flood(bench: &mut Bench, port: PortId, last: u8, packets: u16) -> usize {
    for number in 1..=packets {
        bench.send(port, &from(last, number));
    }
    bench.switch.ports().iter().find(|view| view.id == port).map_or(0, |view| view.connections)
}

#[test]
fn a_flood_leaves_as_much_as_it_takes() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 64, flows: 64 }, 3);
    assert_eq!(flood(&mut bench, ports[0], 1, 500), 32);
    assert_eq!(flood(&mut bench, ports[1], 2, 500), 16);
    assert_eq!(flood(&mut bench, ports[2], 3, 500), 8);
    assert_eq!(bench.switch.connection_usage(), (56, 64));
}

#[test]
fn who_floods_loses_its_own_unanswered_connections() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 64, flows: 64 }, 3);
    bench.send(ports[2], &from(3, 1));
    flood(&mut bench, ports[0], 1, 500);
    let counters = bench.switch.counters();
    assert_eq!(counters.connections_evicted, 500 - 32);
    assert_eq!(bench.send(ports[2], &from(3, 1)).drop_reason(), None);
    assert_eq!(bench.switch.counters().connections_evicted, counters.connections_evicted, "others keep theirs");
    let newest = bench.send(ports[0], &from(1, 500));
    assert_ne!(newest.tier, Tier::New, "the newest is there");
}

#[test]
fn answered_connections_are_not_given_up() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 16, flows: 64 }, 2);
    for port in 1..=8 {
        bench.pass(ports[0], &from(1, port));
        bench.pass(ports[1], &answer_to(1, port));
    }
    assert_eq!(bench.fail(ports[0], &from(1, 9)), DropReason::NoFlowResources);
    bench.pass(ports[0], &from(1, 8));
    bench.pass(ports[1], &from(2, 1));
    bench.wait(181);
    bench.pass(ports[0], &from(1, 9));
    assert_eq!(bench.switch.counters().connections_evicted, 1, "one that is over makes room");
}

#[test]
fn closed_connections_make_room_at_once_and_open_ones_do_not() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 16, flows: 64 }, 2);
    let there = |port: u16, flags: u8| tcp((1, 2), ("10.0.0.1", port), ("10.0.0.2", 80), flags);
    let back = |port: u16, flags: u8| tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", port), flags);
    let mut talk = |port: u16, last: u8| {
        bench.pass(ports[0], &there(port, SYN));
        bench.pass(ports[1], &back(port, SYN | ACK));
        bench.pass(ports[0], &there(port, ACK));
        bench.pass(ports[0], &there(port, last));
        bench.pass(ports[1], &back(port, last));
    };
    (1..=2).for_each(|port| talk(port, ACK));
    // More than there is room for: each that is over makes room for the next one.
    (3..=200).for_each(|port| talk(port, FIN | ACK));
    assert!(bench.switch.counters().connections_evicted >= 190);
    for open in 1..=2 {
        assert_ne!(bench.send(ports[0], &there(open, ACK)).tier, Tier::New, "connection {open} is open");
    }
}

#[test]
fn displaced_flows_still_count() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 1024, flows: 8 }, 2);
    for _ in 0..3 {
        for port in 1..=20 {
            bench.pass(ports[0], &from(1, port));
            bench.pass(ports[0], &from(1, port));
        }
    }
    let counters = bench.switch.counters();
    assert!(counters.flows_displaced > 0);
    assert_eq!((counters.connections_made, counters.unified), (20, 60));
    assert_eq!(counters.connection + counters.new, 60);
    assert!(bench.switch.flows().iter().filter(|flow| !flow.reply).all(|flow| flow.packets == 6));
    let rule = bench.switch.rules().into_iter().find(|rule| rule.packets > 0).expect("the rule");
    assert_eq!(rule.packets, 120);
}

#[test]
fn there_are_so_many_ports_and_their_numbers_are_used_again() {
    let (bench, ports) = crowd(Limits { ports: 3, connections: 16, flows: 16 }, 3);
    let spec = || port_spec("more", PortKind::Nic, bench.first_domain(), 9, &[], ProgramSpec::default());
    assert_eq!(bench.switch.add_port(spec()), Err(SwitchError::NoMorePorts(3)));
    bench.switch.remove_port(ports[1]).expect("the port");
    assert_eq!(bench.switch.add_port(spec()), Ok(ports[1]));
    assert_eq!(bench.switch.remove_port(PortId(7)), Err(SwitchError::NoPort(PortId(7))));
}

#[test]
fn a_port_that_goes_takes_its_connections_with_it() {
    let (mut bench, ports) = crowd(Limits { ports: 8, connections: 64, flows: 64 }, 3);
    bench.pass(ports[0], &from(1, 1));
    bench.pass(ports[1], &answer_to(1, 1));
    bench.pass(ports[2], &from(3, 1));
    bench.switch.remove_port(ports[1]).expect("the port");
    assert_eq!(bench.switch.connection_usage().0, 1);
    assert_eq!(bench.fail(ports[0], &from(1, 1)), DropReason::PortGone);
    assert_eq!(bench.fail(ports[1], &answer_to(1, 1)), DropReason::PortGone);
    let newcomer = bench.nic("new", bench.first_domain(), 2, "10.0.0.2");
    assert_eq!(newcomer, ports[1]);
    assert_eq!(bench.switch.port_counters(newcomer), Some(Default::default()), "it starts from nothing");
}
