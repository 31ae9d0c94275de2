//! How long connections live.

use vfp::{Limits, Switch, TcpState, Timeouts};

use super::bench::{Bench, Carries, echo, frame, ip, mac, tcp, udp};

const FIN: u8 = 17;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Sends these flags there and back, and tells the state and after how many seconds the connection is gone.
fn life(steps: &[(bool, u8)]) -> (Option<TcpState>, u64) {
    let (mut bench, a, b) = Bench::pair(vec![]);
    for (there, flags) in steps {
        match there {
            true => bench.pass(a, &tcp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 80), *flags)),
            false => bench.pass(b, &tcp((2, 1), ("10.0.0.2", 80), ("10.0.0.1", 1000), *flags)),
        };
    }
    let state = bench.switch.flows()[0].tcp;
    (state, lives(&mut bench))
}

/// After how many seconds without a packet everything is gone.
fn lives(bench: &mut Bench) -> u64 {
    for seconds in [10, 30, 120, 180, 4 * 3600] {
        let start = bench.now;
        bench.now = vfp::Instant(start.0 + seconds * 1_000_000 - 1);
        bench.sweep();
        assert!(!bench.switch.flows().is_empty(), "it lives until {seconds} seconds have passed");
        bench.now = vfp::Instant(start.0 + seconds * 1_000_000);
        bench.sweep();
        let gone = bench.switch.flows().is_empty();
        bench.now = start;
        if gone {
            assert_eq!(bench.switch.counters().connections_expired, 1);
            return seconds;
        }
    }
    panic!("it lives for ever");
}

#[test]
fn tcp_lives_by_its_state() {
    let open = [(true, SYN), (false, SYN | ACK), (true, ACK)];
    let after = |more: &[(bool, u8)]| life(&[&open, more].concat());
    assert_eq!(life(&open[..1]), (Some(TcpState::Opening), 30));
    assert_eq!(life(&open[..2]), (Some(TcpState::Opening), 30));
    assert_eq!(life(&open), (Some(TcpState::Open), 4 * 3600));
    assert_eq!(after(&[(true, ACK), (false, ACK), (true, ACK)]), (Some(TcpState::Open), 4 * 3600));
    assert_eq!(after(&[(true, FIN)]), (Some(TcpState::Closing), 120));
    assert_eq!(after(&[(true, FIN), (false, FIN), (true, ACK)]), (Some(TcpState::Closed), 10));
    assert_eq!(after(&[(false, RST)]), (Some(TcpState::Closed), 10));
    assert_eq!(life(&[(true, SYN), (false, RST | ACK)]), (Some(TcpState::Closed), 10));
}

#[test]
fn others_live_by_whether_they_were_answered() {
    for (answered, seconds) in [(false, 30), (true, 180)] {
        let (mut bench, a, b) = Bench::pair(vec![]);
        bench.pass(a, &udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), b"q"));
        if answered {
            bench.pass(b, &udp((2, 1), ("10.0.0.2", 53), ("10.0.0.1", 1000), b"a"));
        }
        assert_eq!(lives(&mut bench), seconds);
    }
}

#[test]
fn queries_live_shortly_answered_or_not() {
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (mut bench, a, b) = Bench::pair(vec![]);
        bench.pass(a, &echo((1, 2), from, to, 5));
        bench.pass(b, &frame((mac(2), mac(1)), ip(to), ip(from), Carries::EchoReply(5), b"pong"));
        assert_eq!(bench.switch.counters().connections_made, 1);
        assert_eq!(lives(&mut bench), 30);
    }
}

#[test]
fn a_known_flow_keeps_its_connection_alive() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    let there = udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), b"q");
    for _ in 0..5 {
        bench.pass(a, &there);
        bench.wait(20);
        bench.sweep();
    }
    assert_eq!((bench.switch.counters().unified, bench.switch.counters().connections_made), (4, 1));
}

#[test]
fn timeouts_can_be_chosen() {
    let timeouts = Timeouts { unanswered: std::time::Duration::from_secs(1), ..Timeouts::default() };
    let (mut bench, a, _) = Bench::pair(vec![]);
    bench.switch = Switch::new(Limits { ports: 8, connections: 64, flows: 64 }, timeouts, 1);
    let domain = bench.domain("switch");
    let (again, b) = (bench.nic("a", domain, 1, "10.0.0.1"), bench.nic("b", domain, 2, "10.0.0.2"));
    assert_eq!(again, a);
    bench.deliver(domain, "10.0.0.2", b, 2);
    bench.pass(a, &udp((1, 2), ("10.0.0.1", 1000), ("10.0.0.2", 53), b"q"));
    bench.wait(1);
    bench.sweep();
    assert!(bench.switch.flows().is_empty());
}

#[test]
fn a_sweep_goes_in_pieces_and_comes_around() {
    let (mut bench, a, _) = Bench::pair(vec![]);
    for port in 1..=10 {
        bench.pass(a, &udp((1, 2), ("10.0.0.1", port), ("10.0.0.2", 53), b"q"));
    }
    bench.wait(31);
    let rounds: Vec<(bool, usize)> = (0..4).map(|_| (bench.switch.sweep(bench.now, 3), bench.switch.flows().len() / 2)).collect();
    assert_eq!(rounds, [(false, 7), (false, 4), (false, 1), (true, 0)]);
    assert_eq!(bench.switch.counters().connections_expired, 10);
}
