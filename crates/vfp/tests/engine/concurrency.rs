//! Workers at their ports while policy changes.

use std::sync::atomic::{AtomicBool, Ordering};

use vfp::{Conditions, Outcome, PortId, Switch};
use wire::{Frame, Headers};

use super::bench::{Bench, Out, allow, ip, layer, mac, udp};
use super::frames::assert_checksums;

const PACKETS: u64 = 20_000;

/// What one worker has sent: how many frames left, and how many were dropped.
fn work(switch: &Switch, port: PortId, frames: &[Vec<u8>], other: PortId) -> (u64, u64) {
    let (mut out, mut frame, mut left, mut dropped) = (Out::default(), Frame::default(), 0, 0);
    for number in 0..PACKETS {
        frame.fill(&frames[number as usize % frames.len()]);
        match switch.process(vfp::Instant(number), port, &mut frame, None, &mut out).outcome {
            Outcome::Forwarded(egress) => assert_eq!(egress.port, other),
            outcome => {
                assert!(matches!(outcome, Outcome::Dropped(_)));
                dropped += 1;
            }
        }
        for (_, frame) in out.sent.drain(..) {
            let headers = Headers::parse(frame.bytes()).expect("it is whole");
            assert!(headers.destination_mac == mac(1) || headers.destination_mac == mac(2));
            assert!([ip("10.0.0.1"), ip("10.0.0.2")].contains(&headers.id.destination));
            if number % 64 == 0 {
                assert_checksums(frame.bytes());
            }
            left += 1;
        }
    }
    (left, dropped)
}

#[test]
fn counts_add_up_and_nothing_is_torn() {
    let (bench, a, b) = Bench::pair(vec![]);
    let there: Vec<_> = (1..=16).map(|port| udp((1, 2), ("10.0.0.1", port), ("10.0.0.2", 53), b"question")).collect();
    let back: Vec<_> = (1..=16).map(|port| udp((2, 1), ("10.0.0.2", 53), ("10.0.0.1", port), b"answer")).collect();
    let done = AtomicBool::new(false);
    let (first, second) = std::thread::scope(|scope| {
        let (bench, done) = (&bench, &done);
        let first = scope.spawn(|| work(&bench.switch, a, &there, b));
        let second = scope.spawn(|| work(&bench.switch, b, &back, a));
        let changer = scope.spawn(move || {
            let mut generation = 0u64;
            while !done.load(Ordering::Relaxed) {
                let layers = (0..generation % 3).map(|n| layer(&format!("acl{n}"), true, vec![allow("all", 1, Conditions::any())], vec![]));
                bench.refilter(a, layers.collect());
                bench.switch.sweep(vfp::Instant(0), 100);
                assert!(bench.switch.flows().iter().all(|flow| flow.from != flow.to));
                generation += 1;
                std::thread::yield_now();
            }
            generation
        });
        let results = (first.join().expect("the first worker"), second.join().expect("the second worker"));
        done.store(true, Ordering::Relaxed);
        assert!(changer.join().expect("the changer") > 0);
        results
    });
    assert_eq!((first, second), ((PACKETS, 0), (PACKETS, 0)));
    for port in [a, b] {
        let counters = bench.switch.port_counters(port).expect("the port");
        assert_eq!((counters.packets_sent, counters.packets_received, counters.drops.len()), (PACKETS, PACKETS, 0));
    }
    let counters = bench.switch.counters();
    assert_eq!(counters.unified + counters.connection + counters.new, 2 * PACKETS);
    assert_eq!((counters.connections_made, counters.connections_revoked), (16, 0));
    let flows = bench.switch.flows();
    assert_eq!(flows.len(), 32);
    assert_eq!(flows.iter().map(|flow| flow.packets).sum::<u64>(), 2 * PACKETS);
}
