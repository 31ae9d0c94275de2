//! Services that are programmed, changed and left alone while connections go through them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use hcn::{Guid, Hcn, Kind};

use crate::harness::balancer::{Balancer, fronts};
use crate::harness::probe::meet;
use crate::harness::{Pod, World, run};
use crate::services::bridge;

/// After so many connections the other side of a test begins.
const BEGUN: usize = 50;

/// Makes a connection after the other through a service until it is told to stop and has made at least so many; none may fail.
fn connect(client: &Pod, least: usize, stop: &AtomicBool, begun: &Barrier, made: &AtomicUsize) {
    let mut number = 0;
    while number < least || !stop.load(Ordering::Relaxed) {
        let met = meet(client, fronts()[number % 2]);
        met.unwrap_or_else(|error| panic!("connection {number}: {error}"));
        number += 1;
        made.store(number, Ordering::Relaxed);
        if number == BEGUN {
            begun.wait();
        }
    }
}

/// Does something while connections are made, and answers how many there were.
fn meanwhile(client: &Pod, least: usize, task: impl FnOnce()) -> usize {
    let (stop, begun, made) = (AtomicBool::new(false), Barrier::new(2), AtomicUsize::new(0));
    thread::scope(|scope| {
        let connections = scope.spawn(|| connect(client, least, &stop, &begun, &made));
        begun.wait();
        task();
        stop.store(true, Ordering::Relaxed);
        connections.join().expect("no connection is lost");
    });
    made.into_inner()
}

#[test]
fn the_death_of_hnsd_costs_none_of_a_thousand_connections() {
    run("reprogramming::the_death_of_hnsd_costs_none_of_a_thousand_connections", || {
        let mut world = World::new(1);
        let (_, [client, one, two]) = bridge(&world);
        Balancer { backends: vec![one.endpoint, two.endpoint], ..Balancer::default() }.on(world.one());
        let made = meanwhile(&client, 1000, || {
            world.nodes[0].hnsd.take().expect("hnsd runs").kill();
            world.nodes[0].start_hnsd(&[]);
        });
        assert!(made >= 1000, "{made} connections");
    });
}

/// How many load balancers a crowd is.
const CROWD: usize = 5000;

#[test]
fn five_thousand_others_are_programmed_and_cost_no_connection() {
    run("reprogramming::five_thousand_others_are_programmed_and_cost_no_connection", || {
        let world = World::new(1);
        let (_, [client, one, two]) = bridge(&world);
        let node = world.one();
        let backends = vec![one.endpoint, two.endpoint];
        Balancer { backends: backends.clone(), ..Balancer::default() }.on(node);
        let with = |number: usize, backends: &[Guid]| {
            let vip = format!("10.97.{}.{}", number / 256, number % 256);
            Balancer { vips: &[&vip], backends: backends.to_vec(), ..Balancer::default() }.document()
        };
        let mut crowd = Vec::with_capacity(CROWD);
        let made = meanwhile(&client, 1000, || {
            crowd.extend((0..CROWD).map(|number| node.load_balancer(&with(number, &backends))));
            // Each again, with one backend less.
            for (number, id) in crowd.iter().enumerate() {
                let changed = node.client.modify(Kind::LoadBalancer, *id, &with(number, &backends[..1]).to_string());
                changed.expect("the load balancer is changed");
            }
        });
        assert_eq!(crowd.len(), CROWD);
        assert!(made >= 1000, "{made} connections");
        let at = |number: usize| format!("10.97.{}.{}:80", number / 256, number % 256).parse().expect("an address");
        for number in [0, 1, CROWD / 2, CROWD - 1] {
            let (name, _) = meet(&client, at(number)).expect("the service answers");
            assert_eq!(name, one.name, "service {number} has one backend left");
        }
    });
}
