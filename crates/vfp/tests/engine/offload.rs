//! Flows in a table elsewhere: what it is told, and what it counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use vfp::{Counted, Instant, Offload, OffloadFlow, PART_MACS, PortId, TcpState, Tier};
use wire::number::tcp_flag::{ACK, FIN, SYN};

use super::bench::{Bench, mac, tcp, udp};

/// A table that keeps what it is told.
#[derive(Debug, Default)]
struct Elsewhere {
    flows: Mutex<BTreeMap<[u64; 8], OffloadFlow>>,
    counted: Mutex<BTreeMap<[u64; 8], Counted>>,
    generations: Mutex<BTreeMap<PortId, u32>>,
    room: usize,
}

impl Offload for Elsewhere {
    fn put(&self, flow: &OffloadFlow) -> bool {
        let mut flows = self.flows.lock().expect("flows");
        let has_room = flows.len() < self.room;
        if has_room {
            flows.insert(flow.key, *flow);
        }
        has_room
    }

    fn remove(&self, key: &[u64; 8]) -> Counted {
        assert!(self.flows.lock().expect("flows").remove(key).is_some(), "nobody is told to forget what it does not have");
        self.counted.lock().expect("counts").remove(key).unwrap_or_default()
    }

    fn counted(&self, key: &[u64; 8]) -> Counted {
        self.counted.lock().expect("counts").get(key).copied().unwrap_or_default()
    }

    fn set_generation(&self, port: PortId, generation: u32) {
        self.generations.lock().expect("generations").insert(port, generation);
    }
}

impl Elsewhere {
    fn flow_from(&self, port: PortId) -> OffloadFlow {
        *self.flows.lock().expect("flows").values().find(|flow| flow.ports[0] == port).expect("a flow of the port")
    }

    fn len(&self) -> usize {
        self.flows.lock().expect("flows").len()
    }

    /// Counts packets as if it had forwarded them.
    fn count(&self, flow: &OffloadFlow, counted: Counted) {
        self.counted.lock().expect("counts").insert(flow.key, counted);
    }
}

fn pair(room: usize) -> (Bench, PortId, PortId, Arc<Elsewhere>) {
    let (Bench { switch, out, now }, a, b) = Bench::pair(Vec::new());
    let elsewhere = Arc::new(Elsewhere { room, ..Elsewhere::default() });
    (Bench { switch: switch.with_offload(elsewhere.clone()), out, now }, a, b, elsewhere)
}

fn there(flags: u8) -> Vec<u8> {
    tcp((1, 2), ("10.0.0.1", 40000), ("10.0.0.2", 80), flags)
}

fn back(flags: u8) -> Vec<u8> {
    tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 40000), flags)
}

#[test]
fn both_directions_are_put_there_with_the_first_packet() {
    let (mut bench, a, b, elsewhere) = pair(8);
    bench.pass(a, &there(SYN));
    assert_eq!(elsewhere.len(), 2);
    let (forward, reply) = (elsewhere.flow_from(a), elsewhere.flow_from(b));
    assert_eq!((forward.ports, reply.ports), ([a, b], [b, a]));
    assert_eq!(reply.destination_mac, mac(1));
    assert_eq!(forward.parts & !PART_MACS, 0, "nothing is translated");
    // The answer that was foreseen is the answer that comes.
    assert_eq!(bench.send(b, &back(SYN | ACK)).tier, Tier::Unified);
    assert_eq!(elsewhere.len(), 2);
    assert_eq!(bench.switch.counters().new, 1, "only what came is counted");
    assert!(bench.switch.flows().iter().all(|flow| flow.offloaded && flow.unified));
}

#[test]
fn what_it_counts_is_counted() {
    let (mut bench, a, b, elsewhere) = pair(8);
    bench.pass(a, &there(SYN));
    let at = Instant(bench.now.0 + 5_000_000);
    elsewhere.count(&elsewhere.flow_from(b), Counted { packets: 7, bytes: 700, at, tcp_flags: SYN | ACK });
    elsewhere.count(&elsewhere.flow_from(a), Counted { packets: 9, bytes: 900, at, tcp_flags: ACK });
    let flows = bench.switch.flows();
    let [forward, reply] = flows.as_slice() else { panic!("two flows: {flows:?}") };
    assert_eq!((forward.packets, reply.packets, reply.bytes), (10, 7, 700));
    assert_eq!((reply.last_seen, reply.tcp), (at, Some(TcpState::Open)));
    let sent = bench.switch.port_counters(b).expect("the port");
    assert_eq!((sent.packets_sent, sent.packets_received), (7, 10));
    assert_eq!(bench.switch.counters().unified, 16);
}

#[test]
fn connections_that_end_leave_it() {
    let (mut bench, a, b, elsewhere) = pair(8);
    bench.pass(a, &there(SYN));
    for (port, flags) in [(b, SYN | ACK | FIN), (a, ACK | FIN)] {
        elsewhere.count(&elsewhere.flow_from(port), Counted { packets: 3, bytes: 300, at: bench.now, tcp_flags: flags });
    }
    bench.switch.sweep(Instant(bench.now.0 + 5_000_000), 1000);
    assert_eq!(elsewhere.len(), 2, "a closed connection is remembered for a while");
    bench.switch.sweep(Instant(bench.now.0 + 11_000_000), 1000);
    assert_eq!(elsewhere.len(), 0);
    bench.pass(a, &there(SYN));
    assert_eq!(elsewhere.len(), 2);
    bench.switch.remove_port(b).expect("the port");
    assert_eq!(elsewhere.len(), 0);
}

#[test]
fn it_is_told_of_generations() {
    let (mut bench, a, _, elsewhere) = pair(8);
    bench.pass(a, &there(SYN));
    let before = elsewhere.flow_from(a);
    bench.switch.refresh_port(a);
    let told = elsewhere.generations.lock().expect("generations").get(&a).copied();
    assert_eq!(told, Some(before.generations[0] + 1));
    // It comes up, is found to be allowed, and goes there again.
    bench.pass(a, &there(ACK));
    assert_eq!(Some(elsewhere.flow_from(a).generations[0]), told);
}

#[test]
fn without_room_there_everything_is_as_ever() {
    let (mut bench, a, b, elsewhere) = pair(0);
    bench.pass(a, &there(SYN));
    bench.pass(b, &back(SYN | ACK));
    for _ in 0..3 {
        assert_eq!(bench.send(a, &there(ACK)).tier, Tier::Unified);
    }
    assert_eq!(elsewhere.len(), 0);
    assert!(bench.switch.flows().iter().all(|flow| !flow.offloaded && flow.unified));
    bench.switch.remove_port(b).expect("the port");
}

#[test]
fn one_that_is_displaced_leaves_it_too() {
    let (mut bench, a, _, elsewhere) = pair(10_000);
    // More than the table of 2048 flows holds.
    for port in 1..=3000_u16 {
        bench.send(a, &udp((1, 2), ("10.0.0.1", port), ("10.0.0.2", 53), b"q"));
        bench.out.sent.clear();
    }
    assert!(bench.switch.counters().flows_displaced > 0 || bench.switch.counters().connections_evicted > 0);
    let known = bench.switch.flows().iter().filter(|flow| flow.offloaded).count();
    assert_eq!(elsewhere.len(), known, "both tables have the same");
}
