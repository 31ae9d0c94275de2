//! `QOS`: how fast a pod may send.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::document::policy;
use crate::harness::serve::PORT;
use crate::harness::{PATIENCE, Place, World, probe, run, udp};
use crate::l2bridge::{routed, routed_pod};

/// Bytes a second.
const RATE: usize = 2_000_000;

/// How long it takes to send and to receive so much.
fn transfer(from: &Place, to: IpAddr, up: usize, down: usize) -> Duration {
    let begin = Instant::now();
    let talked =
        from.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, PORT), PATIENCE).and_then(|stream| probe::talk(stream, up, down)));
    talked.unwrap_or_else(|error| panic!("{} talks to {to}: {error}", from.name));
    begin.elapsed()
}

#[test]
fn a_pod_sends_at_its_rate_and_receives_at_any() {
    run("qos::a_pod_sends_at_its_rate_and_receives_at_any", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let slow = routed_pod(node, network, 11, &[policy("QOS", json!({ "MaximumOutgoingBandwidthInBytes": RATE }))]);
        let other = routed_pod(node, network, 12, &[]);
        for to in [other.v4(), other.v6()] {
            let took = transfer(&slow, to, 3 * RATE, 0).as_secs_f64();
            // What may be sent at once after a pause, and what TCP's headers take, are within these bounds; a busy machine adds to the second.
            assert!((2.8..4.0).contains(&took), "three seconds' worth took {took:.2} s");
        }
        assert!(transfer(&slow, other.v4(), 0, 3 * RATE) < Duration::from_secs(2), "receiving is not bounded");
        assert!(transfer(&other, slow.v4(), 3 * RATE, 0) < Duration::from_secs(2), "others are not bounded");
    });
}

#[test]
fn a_rate_is_changed_and_lifted_while_the_pod_runs() {
    run("qos::a_rate_is_changed_and_lifted_while_the_pod_runs", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        assert!(transfer(&one, two.v4(), 2 * RATE, 0) < Duration::from_secs(1));
        let change = |request: &str| {
            let settings = json!({ "Policies": [policy("QOS", json!({ "MaximumOutgoingBandwidthInBytes": RATE }))] });
            node.modify_endpoint(one.endpoint, &json!({ "ResourceType": "Policy", "RequestType": request, "Settings": settings }));
        };
        change("Add");
        assert!(transfer(&one, two.v4(), 2 * RATE, 0) > Duration::from_millis(1700));
        // A few packets pass at once all the same.
        assert_eq!(udp(&one, two.v4(), 1000).ip(), one.v4());
        change("Remove");
        assert!(transfer(&one, two.v4(), 2 * RATE, 0) < Duration::from_secs(1));
    });
}

/// What a place has received by its NIC, in bytes of frames.
fn received(place: &Place) -> u64 {
    let table = place.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).expect("the counters");
    let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("the NIC");
    line.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("a number")
}

/// Sends datagrams to a place as fast as it goes until it is told to stop.
fn flood(from: &Place, to: IpAddr, stop: &AtomicBool) {
    let socket = from.run(|| probe::socket_like(SocketAddr::new(to, PORT + 1))).expect("a socket");
    while !stop.load(Ordering::Relaxed) {
        // Nobody listens there, and that is told now and then.
        _ = socket.send(&[0; 1200]);
    }
}

#[test]
fn over_ten_seconds_a_rate_is_kept_within_a_twentieth() {
    run("qos::over_ten_seconds_a_rate_is_kept_within_a_twentieth", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let limited = |number: usize, rate: usize| {
            routed_pod(node, network, number, &[policy("QOS", json!({ "MaximumOutgoingBandwidthInBytes": rate }))])
        };
        // Two at a time, one of each family.
        let rates = [RATE, 5 * RATE];
        let senders = [limited(11, rates[0]), limited(12, rates[1])];
        let receivers = [13, 14].map(|number| routed_pod(node, network, number, &[]));
        let targets = [receivers[0].v4(), receivers[1].v6()];
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (sender, target) in senders.iter().zip(targets) {
                scope.spawn(move || flood(sender, target, stop));
            }
            // What may be sent at once after a pause is over by then.
            std::thread::sleep(Duration::from_secs(1));
            let (begin, before) = (Instant::now(), receivers.each_ref().map(|pod| received(pod)));
            std::thread::sleep(Duration::from_secs(10));
            let (seconds, after) = (begin.elapsed().as_secs_f64(), receivers.each_ref().map(|pod| received(pod)));
            stop.store(true, Ordering::Relaxed);
            for ((rate, before), after) in rates.into_iter().zip(before).zip(after) {
                let measured = (after - before) as f64 / seconds / rate as f64;
                assert!((0.95..1.05).contains(&measured), "{measured:.3} of {rate} bytes a second");
            }
        });
    });
}
