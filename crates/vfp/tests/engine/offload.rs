//! Flows in a table elsewhere: what it is told, and what it counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use vfp::{
    Action, Backend, Backends, Conditions, Counted, DropReason, GroupSpec, Instant, LayerSpec, Offload, OffloadFlow, OffloadOpened,
    OffloadOpening, PART_MACS, PortId, RuleSpec, Service, TcpState, Tier,
};
use wire::number::tcp_flag::{ACK, FIN, SYN};
use wire::{FlowId, Frame, Ip};

use super::bench::{Bench, ip, mac, tcp, udp};
use super::vip::headers;

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

/// A table that knows openings, and has opened some connections.
#[derive(Debug, Default)]
struct Opening {
    flows: Mutex<BTreeMap<[u64; 8], OffloadFlow>>,
    openings: Mutex<Vec<OffloadOpening>>,
    opened: Mutex<Vec<OffloadOpened>>,
    counted: Mutex<BTreeMap<[u64; 8], Counted>>,
}

impl Offload for Opening {
    fn put(&self, flow: &OffloadFlow) -> bool {
        self.flows.lock().expect("flows").insert(flow.key, *flow);
        true
    }

    fn remove(&self, key: &[u64; 8]) -> Counted {
        self.flows.lock().expect("flows").remove(key);
        self.counted.lock().expect("counts").remove(key).unwrap_or_default()
    }

    fn counted(&self, key: &[u64; 8]) -> Counted {
        self.counted.lock().expect("counts").get(key).copied().unwrap_or_default()
    }

    fn set_generation(&self, _: PortId, _: u32) {}

    fn put_opening(&self, opening: &OffloadOpening) {
        self.openings.lock().expect("openings").push(*opening);
    }

    fn each_opened(&self, most: usize, tell: &mut dyn FnMut(&OffloadOpened)) -> bool {
        let opened = &mut *self.opened.lock().expect("opened");
        let told: Vec<_> = opened.drain(..opened.len().min(most)).collect();
        told.iter().for_each(tell);
        opened.is_empty()
    }
}

impl Opening {
    /// Opens a connection from another port, as an opening says.
    fn open(&self, opening: &OffloadOpening, source_port: u16) -> OffloadOpened {
        let with = |flow: &OffloadFlow, shift: u32| {
            let mut flow = *flow;
            flow.key[5] = flow.key[5] & !(0xffff << shift) | u64::from(source_port) << shift;
            flow
        };
        let (forward, reply) = (with(&opening.forward, 48), with(&opening.reply, 32));
        let mut flows = self.flows.lock().expect("flows");
        flows.insert(forward.key, forward);
        flows.insert(reply.key, reply);
        let opened = OffloadOpened {
            key: forward.key,
            reply_key: Some(reply.key),
            encapsulation: None,
            generations: Some([forward.generations[0], forward.generations[1]]),
            translated: None,
            counted: [Counted::default(); 2],
        };
        self.opened.lock().expect("opened").push(opened);
        opened
    }
}

fn opening_pair() -> (Bench, PortId, PortId, Arc<Opening>) {
    let (Bench { switch, out, now }, a, b) = Bench::pair(Vec::new());
    let table = Arc::new(Opening::default());
    (Bench { switch: switch.with_offload(table.clone()), out, now }, a, b, table)
}

#[test]
fn a_connection_that_was_opened_elsewhere_becomes_ours() {
    let (mut bench, a, b, table) = opening_pair();
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    assert!(opening.choice.is_none() && !opening.forward.reply && opening.reply.reply);
    let opened = table.open(&opening, 1001);
    bench.switch.take_up(bench.now);
    let views = bench.switch.flows();
    assert_eq!(views.iter().filter(|flow| flow.id.source_port == 1001 && flow.offloaded).count(), 1);
    assert_eq!(views.iter().filter(|flow| flow.id.destination_port == 1001 && flow.offloaded).count(), 1);
    // Its answers are answers, and pass what would not let them begin.
    let verdict = bench.send(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1001), SYN | ACK));
    assert!(verdict.drop_reason().is_none());
    // What it has counted elsewhere is counted.
    let counted = Counted { packets: 5, bytes: 500, at: bench.now, tcp_flags: SYN | ACK };
    table.counted.lock().expect("counts").insert(opened.key, counted);
    let packets = bench.switch.flows().iter().find(|flow| flow.id.source_port == 1001).expect("the flow").packets;
    assert_eq!(packets, 5);
}

#[test]
fn those_that_were_opened_elsewhere_displace_others_there_too() {
    let (mut bench, a, _, table) = opening_pair();
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    // More than the table of 2048 flows holds. Whatever stayed elsewhere alone would be forwarded for ever.
    for port in 1001..=3000 {
        table.open(&opening, port);
        bench.switch.take_up(bench.now);
    }
    assert!(bench.switch.counters().flows_displaced > 0, "{:?}", bench.switch.counters());
    let known = bench.switch.flows().iter().filter(|flow| flow.offloaded).count();
    assert_eq!(table.flows.lock().expect("flows").len(), known, "both tables have the same");
}

#[test]
fn a_packet_finds_a_connection_that_nobody_has_told_of_yet() {
    let (mut bench, a, _, table) = opening_pair();
    bench.pass(a, &udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), &[]));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    table.open(&opening, 1001);
    bench.pass(a, &udp((1, 2), ("10.0.0.1", 1001), ("10.0.0.2", 53), &[]));
    assert_eq!(bench.switch.connection_usage().0, 2, "it is not made twice");
}

#[test]
fn policy_that_has_changed_since_is_asked_again() {
    let (mut bench, a, _, table) = opening_pair();
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    let opened = table.open(&opening, 1001);
    let block = RuleSpec::new("all", 10, Conditions::any(), Action::Block(DropReason::AclBlock));
    let group = GroupSpec { name: "all".into(), rules: vec![block] };
    bench.refilter(a, vec![LayerSpec { name: "acl".into(), stateful: true, outward: vec![group], ..LayerSpec::default() }]);
    bench.switch.take_up(bench.now);
    assert!(!table.flows.lock().expect("flows").contains_key(&opened.key), "it is not forwarded any more");
    assert!(bench.switch.flows().iter().all(|flow| flow.id.source_port != 1001));
}

#[test]
fn rules_about_source_ports_keep_connections_here() {
    let from = Conditions { source_ports: vec![2000..=3000], ..Conditions::any() };
    let rule = RuleSpec::new("from", 10, from, Action::Block(DropReason::AclBlock));
    let group = GroupSpec { name: "all".into(), rules: vec![rule] };
    let (mut bench, a, _, table) = opening_pair();
    bench.refilter(a, vec![LayerSpec { name: "acl".into(), stateful: true, outward: vec![group], ..LayerSpec::default() }]);
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    assert!(table.openings.lock().expect("openings").is_empty());
}

#[test]
fn a_connection_that_begins_again_elsewhere_is_not_ended_here() {
    let (mut bench, a, b, table) = opening_pair();
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    bench.pass(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), SYN | ACK));
    let key = table.flows.lock().expect("flows").values().find(|flow| !flow.reply).expect("the flow").key;
    let count = |at: Instant, tcp_flags: u8| {
        let counted = Counted { packets: 4, bytes: 400, at, tcp_flags };
        table.counted.lock().expect("counts").insert(key, counted);
    };
    count(bench.now, SYN | ACK | FIN);
    // Long after it was closed, but not after it began again.
    let late = Instant(bench.now.0 + 3_600_000_000);
    count(late, SYN | ACK);
    while !bench.switch.sweep(late, 1024) {}
    assert_eq!(bench.switch.connection_usage().0, 1);
    assert!(table.flows.lock().expect("flows").contains_key(&key), "it is forwarded elsewhere as before");
    assert_eq!(bench.switch.flows()[0].tcp, Some(TcpState::Open));
}

#[test]
fn answers_that_look_otherwise_than_foreseen_are_taken_up_as_they_look() {
    let (mut bench, a, b, table) = opening_pair();
    // The question comes from a router's frame, and the answer goes to the pod itself.
    bench.pass(a, &tcp((9, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    bench.pass(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), SYN | ACK));
    let openings = table.openings.lock().expect("openings").clone();
    let [guess, known] = openings[..] else { panic!("a guess, and what was seen: {openings:?}") };
    assert!(!guess.is_answered && known.is_answered && guess.reply.key != known.reply.key);
    for port in 1001..1010 {
        table.open(&known, port);
    }
    bench.switch.take_up(bench.now);
    let known = bench.switch.flows().iter().filter(|flow| flow.offloaded).count();
    assert_eq!((table.flows.lock().expect("flows").len(), known), (20, 20), "both tables have the same");
}

#[test]
fn a_name_that_was_displaced_may_be_opened_elsewhere_again() {
    let (mut bench, a, b, table) = opening_pair();
    bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), SYN));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    let count = |opened: &OffloadOpened, tcp_flags: u8| {
        let counted = Counted { packets: 4, bytes: 400, at: bench.now, tcp_flags };
        let keys = [Some(opened.key), opened.reply_key].into_iter().flatten();
        keys.for_each(|key| _ = table.counted.lock().expect("counts").insert(key, counted));
    };
    let first = table.open(&opening, 1001);
    bench.switch.take_up(bench.now);
    count(&first, SYN | ACK | FIN);
    // Others come until it is displaced.
    for port in 1002.. {
        table.open(&opening, port);
        bench.switch.take_up(bench.now);
        if !table.flows.lock().expect("flows").contains_key(&first.key) {
            break;
        }
    }
    assert!(!table.flows.lock().expect("flows").contains_key(&first.reply_key.expect("a key")), "both directions leave");
    let made = bench.switch.counters().connections_made;
    let again = table.open(&opening, 1001);
    count(&again, SYN | ACK);
    bench.switch.take_up(bench.now);
    assert_eq!(bench.switch.counters().connections_made, made + 1, "it is another connection");
    let views = bench.switch.flows();
    let of_name: Vec<_> = views.iter().filter(|flow| flow.id.source_port == 1001).collect();
    assert!(matches!(&of_name[..], [flow] if flow.tcp == Some(TcpState::Open) && flow.offloaded), "{of_name:?}");
    assert!(table.counted.lock().expect("counts").contains_key(&again.key), "what was counted there is left to count");
    bench.pass(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1001), ACK));
}

#[test]
fn what_is_displaced_comes_back_with_its_other_direction() {
    let (mut bench, a, b, table) = opening_pair();
    bench.pass(a, &there(SYN));
    bench.pass(b, &back(SYN | ACK));
    let opening = *table.openings.lock().expect("openings").last().expect("an opening");
    let len = |flows: &Mutex<BTreeMap<[u64; 8], OffloadFlow>>| {
        let own = |flow: &&OffloadFlow| flow.key[5] >> 48 == 40_000 || flow.key[5] >> 32 & 0xffff == 40_000;
        flows.lock().expect("flows").values().filter(own).count()
    };
    assert_eq!(len(&table.flows), 2);
    for port in 1..10_000 {
        bench.now = Instant(bench.now.0 + 1);
        table.open(&opening, port);
        bench.switch.take_up(bench.now);
        if len(&table.flows) == 0 {
            break;
        }
    }
    assert_eq!(len(&table.flows), 0);
    bench.pass(a, &there(ACK));
    bench.pass(b, &back(ACK));
    assert_eq!(len(&table.flows), 2);
}

fn backend(last: u8) -> Backend {
    Backend { address: ip(&format!("10.0.0.{last}")), port: 8080 }
}

/// A service at 10.0.0.200 with these backends.
fn front(backends: impl IntoIterator<Item = u8>) -> Vec<LayerSpec> {
    let service = Service { backends: Backends::new(backends.into_iter().map(backend).collect()), ..Service::default() };
    let front = Conditions { destination_ports: vec![80..=80], ..Conditions::to(ip("10.0.0.200")) };
    let rule = RuleSpec::new("front", 10, front, Action::Redirect(Arc::new(service)));
    let group = GroupSpec { name: "services".into(), rules: vec![rule] };
    vec![LayerSpec { name: "service".into(), stateful: true, outward: vec![group], ..LayerSpec::default() }]
}

/// A pair of which the first asks a service that had only the first backend when a connection to it was opened, and has only the second now.
fn with_a_backend_that_left() -> (Bench, PortId, Arc<Opening>) {
    let (mut bench, a, b, table) = opening_pair();
    bench.refilter(a, front([2]));
    bench.deliver(bench.first_domain(), "10.0.0.3", b, 2);
    for flags in [SYN, ACK] {
        assert_eq!(asked(&mut bench, a, flags), backend(2).address);
    }
    bench.refilter(a, front([3]));
    (bench, a, table)
}

/// Where a packet to the service goes.
fn asked(bench: &mut Bench, from: PortId, flags: u8) -> Ip {
    bench.pass(from, &to_front(flags)).2.id.destination
}

fn to_front(flags: u8) -> Vec<u8> {
    tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.200", 80), flags)
}

#[test]
fn who_has_kept_a_backend_that_left_begins_again_with_another() {
    let (mut bench, a, table) = with_a_backend_that_left();
    let openings = table.openings.lock().expect("openings").len();
    assert_eq!(asked(&mut bench, a, ACK), backend(2).address, "the two have shaken hands");
    let again = |table: &Opening| table.flows.lock().expect("flows").values().find(|flow| !flow.reply).expect("the flow").again;
    assert!(!again(&table), "elsewhere it would begin again with the backend that left");
    assert_eq!(asked(&mut bench, a, ACK | FIN), backend(2).address);
    assert_eq!(asked(&mut bench, a, SYN), backend(3).address);
    assert!(again(&table));
    let to_the_one_that_left = |opening: &OffloadOpening| opening.forward.destination == backend(2).address;
    assert!(!table.openings.lock().expect("openings")[openings..].iter().any(to_the_one_that_left));
}

#[test]
fn an_opening_in_the_middle_is_a_mistake_and_changes_nothing() {
    let (mut bench, a, _) = with_a_backend_that_left();
    for flags in [ACK, SYN, ACK, ACK] {
        assert_eq!(asked(&mut bench, a, flags), backend(2).address);
        let mut frame = Frame::from_bytes(&to_front(ACK));
        bench.switch.simulate(bench.now, a, &mut frame, None);
        assert_eq!(headers(frame.bytes()).id.destination, backend(2).address, "the layers say the same");
    }
}

#[test]
fn what_stands_elsewhere_is_adopted_with_its_translation() {
    for backend in (2..6).map(backend) {
        let (mut bench, a, b, table) = opening_pair();
        bench.refilter(a, front(2..6));
        (3..6).for_each(|last| bench.deliver(bench.first_domain(), &format!("10.0.0.{last}"), b, 2));
        // What a first packet is found by, and what it had become before.
        bench.pass(a, &tcp((1, 2), ("10.0.0.1", 900), ("10.0.0.200", 80), SYN));
        let mut key = table.flows.lock().expect("flows").values().find(|flow| !flow.reply).expect("the flow").key;
        key[5] = key[5] & !(0xffff << 48) | 1000 << 48;
        let before =
            FlowId { source: ip("10.0.0.1"), destination: backend.address, source_port: 1000, destination_port: backend.port, protocol: 6 };
        let counted = Counted { packets: 9, bytes: 900, at: bench.now, tcp_flags: SYN | ACK };
        let opened =
            OffloadOpened { key, reply_key: None, encapsulation: None, generations: None, translated: Some(before), counted: [counted; 2] };
        assert!(bench.switch.adopt(bench.now, &opened));
        let views = bench.switch.flows();
        let flow = views.iter().find(|flow| flow.id.source_port == 1000).expect("the flow");
        assert_eq!((flow.translated, flow.packets, flow.tcp), (before, 9, Some(TcpState::Open)));
    }
}
