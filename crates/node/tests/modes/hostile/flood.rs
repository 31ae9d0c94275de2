//! One pod that opens as much as it can, and the others beside it.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Scene, families, frame, in_world, send};
use crate::frames::Carries;
use crate::harness::document::{outbound_nat, outbound_nat_v6};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Place, World, eventually, exchange, probe, run};
use crate::l2bridge::{routed, routed_pod};

/// How many connections the switch remembers here: few enough to be used up soon.
const CONNECTIONS: u64 = 4096;

fn small_world(more: &[&str]) -> World {
    let mut world = World::bare(1);
    world.nodes[0].start_vswitchd_with(more);
    world.nodes[0].start_hnsd(&[]);
    world
}

/// Sends frames over and over, while something else happens.
fn while_flooding<T>(from: &Place, frames: &[Vec<u8>], happens: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                send(from, frames);
            }
        });
        thread::sleep(Duration::from_millis(300));
        let done = happens();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

impl Scene {
    /// Packets of the bad pod that each begin something, to the good pod.
    fn beginnings(&self, what: impl Fn(u16, u16) -> Carries) -> Vec<Vec<u8>> {
        let begin = |[from, to]: [IpAddr; 2], number: u16| {
            frame((self.bad.mac, self.good.mac), from, to, what(1024 + number * 5, 2000 + number % 7), b"")
        };
        families([&self.bad, &self.good]).into_iter().flat_map(|ends| (0..10_000).map(move |number| begin(ends, number))).collect()
    }

    /// Connections of others that are open stay so, new ones are made, and the bad pod has no more than its share.
    fn is_fair(&mut self, flood: &[Vec<u8>]) {
        let open: Vec<TcpStream> = families([&self.good, &self.other])
            .into_iter()
            .map(|[_, to]| self.good.run(|| TcpStream::connect(SocketAddr::new(to, PORT))).expect("a connection"))
            .collect();
        let (bad, made) = (self.bad.hold(), "connections-made");
        let count = |name: &str| self.world.one().look("/counters")["Switch"][name].as_u64().unwrap_or(0);
        let before = count(made);
        while_flooding(&bad, flood, || {
            eventually("the table is as full as it gets", || count(made) > before + 2 * CONNECTIONS);
            for stream in open {
                probe::talk(stream, 1 << 20, 1 << 20).expect("what was open goes on");
            }
            for [good, other] in families([&self.good, &self.other]) {
                exchange(&self.good, SocketAddr::new(other, PORT), 1 << 20);
                assert!(probe::try_udp(&self.other, SocketAddr::new(good, PORT), 100).is_some(), "new ones are made");
            }
            let held = self.world.one().port("pod1-11")["Connections"].as_u64().unwrap_or(0);
            assert!((1..=CONNECTIONS / 2).contains(&held), "{held} connections of {CONNECTIONS}");
        });
        assert!(count("connections-evicted") + self.dropped("no-flow-resources") > 0, "it is counted");
        self.others_are_fine();
    }
}

#[test]
fn a_flood_of_datagrams_leaves_room_for_the_others() {
    run("hostile::flood::a_flood_of_datagrams_leaves_room_for_the_others", || {
        let mut scene = in_world(small_world(&["--connections", &CONNECTIONS.to_string()]));
        let flood = scene.beginnings(Carries::Udp);
        scene.is_fair(&flood);
    });
}

#[test]
fn a_flood_of_syns_leaves_room_for_the_others() {
    run("hostile::flood::a_flood_of_syns_leaves_room_for_the_others", || {
        let mut scene = in_world(small_world(&["--connections", &CONNECTIONS.to_string()]));
        let flood = scene.beginnings(|from, to| Carries::Tcp(from, to, 2));
        scene.is_fair(&flood);
    });
}

#[test]
fn ports_for_translation_are_shared_fairly() {
    run("hostile::flood::ports_for_translation_are_shared_fairly", || {
        const PORTS: usize = 64;
        let world = small_world(&["--nat-ports", "61000-61063"]);
        let network = routed(&world, world.one());
        let translated = [outbound_nat(&[]), outbound_nat_v6(&[])];
        let [greedy, modest] = [11, 12].map(|number| routed_pod(world.one(), network, number, &translated));
        for outside in OUTSIDE {
            let to = SocketAddr::new(outside, PORT);
            let before = world.one().drops("pod1-11", "no-nat-ports");
            let mut sockets = Vec::new();
            let mut refused = 0;
            for _ in 0..2 * PORTS {
                let socket = greedy.run(|| probe::socket_like(to)).expect("a socket");
                socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                // The first may wait for neighbours to be found.
                let tries = if sockets.is_empty() { 20 } else { 2 };
                let answered = (0..tries).any(|_| socket.send(b"?").is_ok() && socket.recv(&mut [0; 256]).is_ok());
                refused += usize::from(!answered);
                sockets.push(socket);
                if refused > 3 {
                    break;
                }
            }
            let held = sockets.len() - refused;
            assert!((PORTS / 4..=PORTS / 2).contains(&held), "{held} of {PORTS} ports");
            assert!(world.one().drops("pod1-11", "no-nat-ports") > before);
            assert!(world.one().dropped("no-nat-ports") > 0);
            // As many as the greedy one may have, at most, are left; half of that are the other's.
            let others: Vec<_> = (0..PORTS / 8).map(|_| modest.run(|| probe::socket_like(to)).expect("a socket")).collect();
            let seen = others.iter().filter_map(|socket| probe::ask(socket, 50)).count();
            assert_eq!((seen, world.one().drops("pod1-12", "no-nat-ports")), (PORTS / 8, 0));
            exchange(&modest, to, 1 << 16);
            assert!(probe::ask(&sockets[0], 50).is_some(), "what is open goes on");
        }
    });
}
