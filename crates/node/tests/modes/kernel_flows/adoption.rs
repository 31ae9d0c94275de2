//! A vswitchd that finds flows in the kernel: they are its own from then on, as they were.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use crate::harness::balancer::{Balancer, fronts};
use crate::harness::document::outbound_nat;
use crate::harness::probe::{ask, ask_once, greet, socket_like, talk};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, World, eventually, exchange};
use crate::kernel_flows::{are_in_the_kernel, by_the_kernel, over_the_kernel};
use crate::restart::kill_vswitchd;

/// A connection that is kept, and whom it reached.
struct Held {
    stream: TcpStream,
    name: String,
    seen_as: SocketAddr,
}

impl Held {
    fn open(from: &Place, to: SocketAddr) -> Self {
        let mut stream = from.run(|| TcpStream::connect(to)).expect("a connection");
        let (name, seen_as) = greet(&mut stream).expect("a greeting");
        Self { stream, name, seen_as }
    }

    fn own(&self) -> String {
        self.stream.local_addr().expect("an address").to_string()
    }

    /// The flow of the engine that is its own.
    fn flow(&self, node: &Node) -> Option<serde_json::Value> {
        let (flows, own) = (node.look("/flows"), self.own());
        flows.as_array().into_iter().flatten().find(|flow| flow["Source"] == own.as_str() && flow["Reply"] == false).cloned()
    }
}

/// A socket that only listens to one client and sends back what that sends.
fn echo(place: &Place, port: u16) {
    let listener = place.run(|| std::net::TcpListener::bind(SocketAddr::new([0, 0, 0, 0].into(), port))).expect("a place to listen");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// One byte there and back.
fn speaks(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])
}

#[test]
fn translated_connections_are_adopted_as_they_were() {
    over_the_kernel("kernel_flows::adoption::translated_connections_are_adopted_as_they_were", || {
        let mut world = World::new(1);
        let network = crate::l2bridge::routed(&world, world.one());
        let pod = |world: &World, number: usize, policies: &[serde_json::Value]| {
            crate::l2bridge::routed_pod(world.one(), network, number, policies)
        };
        let client = pod(&world, 11, &[outbound_nat(&["10.244.0.0/16"])]);
        let backends = [12, 13, 14].map(|number| pod(&world, number, &[]));
        Balancer { backends: backends.iter().map(|pod| pod.endpoint).collect(), ..Balancer::default() }.on(world.one());
        const ECHO: u16 = 7007;
        echo(&world.outside, ECHO);
        let front = fronts()[0];
        // Whoever is asked twelve times is chosen by some of them.
        let mut asked: Vec<Held> = (0..12).map(|_| Held::open(&client, front)).collect();
        let mut outside = client.run(|| TcpStream::connect(SocketAddr::new(OUTSIDE[0], ECHO))).expect("a connection");
        (0..3).for_each(|_| speaks(&mut outside).expect("an echo"));
        // These have yet to say something, and will say much.
        let silent: Vec<TcpStream> = (0..3).map(|_| client.run(|| TcpStream::connect(front)).expect("a connection")).collect();
        let datagrams: Vec<UdpSocket> = (0..3).map(|_| client.run(|| socket_like(front)).expect("a socket")).collect();
        datagrams.iter().for_each(|socket| _ = ask(socket, 100).expect("an answer"));
        eventually("the engine has heard of them", || asked.iter().all(|held| held.flow(world.one()).is_some()));
        let flows_before: Vec<_> = asked.iter().map(|held| held.flow(world.one()).expect("a flow")).collect();
        kill_vswitchd(&mut world.nodes[0]);
        (0..20).for_each(|_| speaks(&mut outside).expect("it goes on without vswitchd, translated"));
        for stream in silent {
            talk(stream, 4 << 20, 4 << 20).expect("so do connections to a Service");
        }
        for socket in datagrams.iter().cycle().take(300) {
            assert!(ask_once(socket, 100).is_some(), "not one packet is lost");
        }
        world.nodes[0].start_vswitchd();
        let node = world.one();
        eventually("they are adopted", || node.log("vswitchd").contains("connections that the kernel has kept go on"));
        (0..20).for_each(|_| speaks(&mut outside).expect("and with the next one"));
        for (held, before) in asked.iter_mut().zip(&flows_before) {
            let flow = held.flow(node).unwrap_or_else(|| panic!("{} is known: {}", held.own(), node.look("/flows")));
            assert_eq!(flow["Translated"], before["Translated"], "{} is still at {}", held.own(), held.name);
            assert_eq!(flow["State"], "open");
            // What the engine itself had counted, a first packet, is gone with it.
            assert!(flow["Packets"].as_u64().map(|packets| packets + 1) >= before["Packets"].as_u64(), "{flow} went on from {before}");
            assert!(held.seen_as.ip() == client.v4());
        }
        assert!(are_in_the_kernel(node, front.port()));
        let before = by_the_kernel(node);
        exchange(&client, SocketAddr::new(backends[0].v4(), PORT), 8 << 20);
        assert!(by_the_kernel(node) - before > 64);
        // And once more, to see that the place behind the last one is free again.
        kill_vswitchd(&mut world.nodes[0]);
        (0..20).for_each(|_| speaks(&mut outside).expect("it goes on"));
        world.nodes[0].start_vswitchd();
        let node = world.one();
        let said = || node.log("vswitchd").matches("connections that the kernel has kept go on").count();
        eventually("they are adopted again", || said() == 2);
        (0..20).for_each(|_| speaks(&mut outside).expect("and on"));
        let adapter = node.link("eth0");
        assert_eq!(node.netlink().ingress_filters(adapter.index).expect("filters").len(), 1, "one program, that of the last");
    });
}
