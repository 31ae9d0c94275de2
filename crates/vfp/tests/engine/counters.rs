//! Every step accounts for every counter.

use vfp::{Action, Conditions, DropCount, DropReason, PortCounters, PortId, SwitchCounters};
use wire::{Frame, arp};

use super::bench::{Bench, block, ip, layer, mac, rule, tcp, udp};
use super::frames::dont_fragment;

/// All counters there are.
#[derive(Clone, Debug, PartialEq)]
struct Books {
    switch: SwitchCounters,
    ports: Vec<PortCounters>,
    /// The name of each rule, its packets and bytes.
    rules: Vec<(String, u64, u64)>,
}

impl Books {
    fn of(bench: &Bench) -> Self {
        let rules = bench.switch.rules().into_iter().map(|rule| (rule.place.rule.clone(), rule.packets, rule.bytes)).collect();
        let ports = bench.switch.ports().into_iter().map(|port| port.counters).collect();
        Self { switch: bench.switch.counters(), ports, rules }
    }

    /// A frame of this length came from one port and left by another.
    fn passed(&mut self, from: PortId, to: PortId, bytes: usize) {
        self.sent(from, bytes);
        self.received(to, bytes);
    }

    fn sent(&mut self, from: PortId, bytes: usize) {
        let port = &mut self.ports[from.0 as usize];
        (port.packets_sent, port.bytes_sent) = (port.packets_sent + 1, port.bytes_sent + bytes as u64);
    }

    fn received(&mut self, to: PortId, bytes: usize) {
        let port = &mut self.ports[to.0 as usize];
        (port.packets_received, port.bytes_received) = (port.packets_received + 1, port.bytes_received + bytes as u64);
    }

    fn dropped(&mut self, from: PortId, bytes: usize, reason: DropReason) {
        self.sent(from, bytes);
        self.ports[from.0 as usize].drops.push(DropCount { reason, packets: 1 });
    }

    fn met(&mut self, name: &str, stage: usize, bytes: usize) {
        let found = self.rules.iter_mut().filter(|(rule, ..)| rule == name).nth(stage);
        let (_, packets, total) = found.expect("the rule");
        (*packets, *total) = (*packets + 1, *total + bytes as u64);
    }
}

/// Does one step and checks that exactly the expected counters moved.
fn step(bench: &mut Bench, act: impl FnOnce(&mut Bench), expect: impl FnOnce(&mut Books)) {
    let mut expected = Books::of(bench);
    expect(&mut expected);
    act(bench);
    bench.out.sent.clear();
    assert_eq!(Books::of(bench), expected);
}

const OUT: usize = 0;

#[test]
fn a_connection_from_its_first_packet_to_its_end() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let there = udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), b"question");
    let back = udp((2, 1), ("10.0.0.2", 53), ("10.0.0.1", 1000), b"an answer");
    let send = |port: PortId, bytes: &[u8]| {
        let bytes = bytes.to_vec();
        move |bench: &mut Bench| {
            bench.send(port, &bytes);
        }
    };
    step(&mut bench, send(a, &there), |books| {
        books.passed(a, b, there.len());
        books.met("to 10.0.0.2", OUT, there.len());
        books.switch.new += 1;
        books.switch.connections_made += 1;
    });
    step(&mut bench, send(a, &there), |books| {
        books.passed(a, b, there.len());
        books.met("to 10.0.0.2", OUT, there.len());
        books.switch.unified += 1;
    });
    step(&mut bench, send(b, &back), |books| {
        books.passed(b, a, back.len());
        books.met("to 10.0.0.1", OUT, back.len());
        books.switch.connection += 1;
    });
    step(&mut bench, |bench| bench.refilter(a, vec![layer("spare", true, vec![], vec![])]), |_| {});
    step(&mut bench, send(a, &there), |books| {
        books.passed(a, b, there.len());
        books.met("to 10.0.0.2", OUT, there.len());
        books.switch.connection += 1;
        books.switch.resimulated += 1;
    });
    step(&mut bench, |bench| bench.wait(181), |_| {});
    step(&mut bench, |bench| bench.sweep(), |books| books.switch.connections_expired += 1);
}

#[test]
fn what_is_dropped_counts_for_its_sender_and_for_the_rules_it_met() {
    let rules = vec![rule("count", 1, Conditions::any(), Action::Count), block("no", 2, Conditions::to(ip("10.0.0.2")))];
    let (mut bench, a, _) = Bench::pair(vec![layer("acl", true, rules, vec![])]);
    let blocked = tcp((1, 2), ("10.0.0.1", 1), ("10.0.0.2", 2), 2);
    step(
        &mut bench,
        |bench| _ = bench.fail(a, &blocked),
        |books| {
            books.dropped(a, blocked.len(), DropReason::AclBlock);
            books.met("count", OUT, blocked.len());
            books.met("no", OUT, blocked.len());
            books.switch.new += 1;
        },
    );
    let lost = tcp((1, 2), ("10.0.0.1", 1), ("10.9.9.9", 2), 2);
    step(
        &mut bench,
        |bench| _ = bench.fail(a, &lost),
        |books| {
            books.dropped(a, lost.len(), DropReason::NoRoute);
            books.met("count", OUT, lost.len());
            books.switch.new += 1;
        },
    );
    step(&mut bench, |bench| _ = bench.fail(a, &lost[..20]), |books| books.dropped(a, 20, DropReason::Truncated));
}

#[test]
fn errors_and_answers_count_for_who_gets_them() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let large =
        dont_fragment(super::frames::frame((mac(1), mac(2)), ip("10.0.0.1"), ip("10.0.0.2"), super::bench::Carries::Udp(1, 2), &[0; 2000]));
    step(
        &mut bench,
        |bench| _ = bench.fail(a, &large),
        |books| {
            books.dropped(a, large.len(), DropReason::PacketTooBig);
            books.received(a, 14 + 576);
            books.met("to 10.0.0.2", OUT, large.len());
            books.switch.new += 1;
            books.switch.connections_made += 1;
            books.switch.errors_sent += 1;
        },
    );
    let answer = rule("gateway", 1, Conditions::to(ip("10.0.0.254")), Action::Answer(mac(254)));
    bench.switch.put_rules(bench.first_domain(), [(vfp::Stage::NeighbourOut, answer)]).expect("the domain");
    let mut asked = Frame::default();
    arp::request(ip("10.0.0.2"), mac(2), ip("10.0.0.254"), &mut asked);
    step(
        &mut bench,
        |bench| _ = bench.send(b, asked.bytes()),
        |books| {
            books.passed(b, b, asked.len());
            books.met("gateway", OUT, asked.len());
            books.switch.neighbours_answered += 1;
        },
    );
}

#[test]
fn a_revoked_connection_is_counted_once() {
    let (mut bench, a, b) = Bench::pair(vec![]);
    let there = udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), b"question");
    bench.pass(a, &there);
    let block = block("no", 1, Conditions::any());
    let in_the_way = rule("to 10.0.0.2", 10, Conditions::to(ip("10.0.0.2")), block.action);
    bench.switch.put_rules(bench.first_domain(), [(vfp::Stage::ForwardOut, in_the_way)]).expect("the domain");
    let moved = bench.switch.ports().iter().find(|port| port.id == b).map(|port| port.generation);
    assert!(moved > Some(1));
    step(
        &mut bench,
        |bench| _ = bench.fail(a, &there),
        |books| {
            books.dropped(a, there.len(), DropReason::AclBlock);
            // The rule that let it pass was in force only for its sake.
            let old = books.rules.iter().position(|(_, packets, _)| *packets > 0).expect("the old rule");
            books.rules.remove(old);
            books.met("to 10.0.0.2", 1, there.len());
            books.switch.connection += 1;
            books.switch.resimulated += 1;
            books.switch.connections_revoked += 1;
            books.switch.new += 1;
        },
    );
}
