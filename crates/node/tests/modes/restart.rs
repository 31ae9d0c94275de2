//! Daemons die: what they leave behind works on, and what comes back takes it up.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hcn::{Hcn, Kind};

use crate::harness::document::outbound_nat;
use crate::harness::probe::talk;
use crate::harness::serve::PORT;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{Node, Place, World, answers, eventually, exchange, pings, run, tcp};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

/// More than is through before the daemon is killed.
const LONG: usize = 96 << 20;

/// A conversation that goes on while other things happen.
pub(crate) struct Conversation(JoinHandle<std::io::Result<SocketAddr>>);

impl Conversation {
    /// Begins one, and comes back when it is under way.
    pub(crate) fn begin(from: &Place, to: IpAddr) -> Self {
        let stream = from.run(|| TcpStream::connect(SocketAddr::new(to, PORT))).expect("a connection");
        let conversation = Self(thread::spawn(move || talk(stream, LONG, LONG)));
        thread::sleep(Duration::from_millis(30));
        assert!(conversation.is_under_way(), "the conversation ended too early");
        conversation
    }

    fn is_under_way(&self) -> bool {
        !self.0.is_finished()
    }

    /// Expects that everything arrives.
    pub(crate) fn ends_well(self) {
        self.0.join().expect("the conversation did not panic").expect("every byte arrives");
    }
}

/// The node is where it always was, for everybody around.
fn node_is_reachable(world: &World) {
    for (at, own) in [world.one().v4(), world.one().v6()].into_iter().enumerate() {
        pings(&world.underlay, own);
        pings(world.one(), ROUTER[at]);
        exchange(&world.outside, SocketAddr::new(own, PORT), 1 << 20);
        exchange(world.one(), SocketAddr::new(OUTSIDE[at], PORT), 1 << 20);
    }
}

pub(crate) fn kill_vswitchd(node: &mut Node) {
    node.vswitchd.take().expect("vswitchd runs").kill();
}

#[test]
fn hnsd_is_killed_and_nothing_is_lost() {
    run("restart::hnsd_is_killed_and_nothing_is_lost", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        let conversation = Conversation::begin(&one, two.v4());
        world.nodes[0].hnsd.take().expect("hnsd runs").kill();
        assert!(conversation.is_under_way());
        pings(&one, two.v6());
        world.nodes[0].start_hnsd(&[]);
        conversation.ends_well();
        let three = routed_pod(world.one(), network, 13, &[]);
        tcp(&one, three.v4());
        assert_eq!(world.one().drops("pod1-11", "port-gone"), 0);
    });
}

#[test]
fn vswitchd_is_killed_and_connections_go_on_when_it_is_back() {
    run("restart::vswitchd_is_killed_and_connections_go_on_when_it_is_back", || {
        let mut world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let one = overlay.pod(world.one(), first, 11, &[outbound_nat(&["10.244.0.0/16"])]);
        let two = overlay.pod(world.two(), second, 11, &[]);
        let addresses = one.addresses("eth0");
        let conversation = Conversation::begin(&one, two.v4());
        kill_vswitchd(&mut world.nodes[0]);
        assert!(answers(&world.underlay, world.one().v4()), "the node is stranded");
        node_is_reachable(&world);
        assert_eq!(one.addresses("eth0"), addresses, "the pod has lost its NIC");
        assert!(conversation.is_under_way());
        world.nodes[0].start_vswitchd();
        conversation.ends_well();
        tcp(&one, two.v6());
        tcp(&one, OUTSIDE[0]);
        node_is_reachable(&world);
    });
}

#[test]
fn vswitchd_is_killed_under_bridged_pods() {
    run("restart::vswitchd_is_killed_under_bridged_pods", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        let conversation = Conversation::begin(&one, two.v6());
        kill_vswitchd(&mut world.nodes[0]);
        node_is_reachable(&world);
        world.nodes[0].start_vswitchd();
        conversation.ends_well();
        tcp(&world.outside, one.v4());
        node_is_reachable(&world);
    });
}

#[test]
fn both_daemons_are_killed_at_once() {
    run("restart::both_daemons_are_killed_at_once", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        let conversation = Conversation::begin(&one, two.v4());
        kill_vswitchd(&mut world.nodes[0]);
        world.nodes[0].hnsd.take().expect("hnsd runs").kill();
        node_is_reachable(&world);
        world.nodes[0].start_hnsd(&[]);
        world.nodes[0].start_vswitchd();
        conversation.ends_well();
        let three = routed_pod(world.one(), network, 13, &[]);
        tcp(&three, one.v4());
        node_is_reachable(&world);
    });
}

#[test]
fn vswitchd_that_stops_gives_the_adapter_back_and_takes_it_again() {
    run("restart::vswitchd_that_stops_gives_the_adapter_back_and_takes_it_again", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        pings(&one, two.v4());
        world.nodes[0].vswitchd.take().expect("vswitchd runs").stop();
        assert!(world.one().find_link("vEth-eth0").is_none());
        node_is_reachable(&world);
        world.nodes[0].start_vswitchd();
        pings(&one, two.v4());
        tcp(&one, two.v6());
    });
}

#[test]
fn an_address_that_the_adapter_gets_later_is_the_nodes_too() {
    run("restart::an_address_that_the_adapter_gets_later_is_the_nodes_too", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let pod = routed_pod(world.one(), network, 11, &[outbound_nat(&[])]);
        let later: IpAddr = "192.168.0.77".parse().expect("an address");
        world.one().ip("addr add 192.168.0.77/24 dev eth0");
        pings(&world.underlay, later);
        pings(&pod, later);
        tcp(&world.outside, later);
        world.one().ip("addr del 192.168.0.77/24 dev eth0");
        eventually("the address is gone", || !answers(&world.underlay, later));
        tcp(&pod, OUTSIDE[0]);
    });
}

#[test]
fn the_last_network_gives_the_adapter_back() {
    run("restart::the_last_network_gives_the_adapter_back", || {
        let world = World::new(1);
        let node = world.one();
        let before = (node.ip("route"), node.ip("-6 route"), node.ip("-o addr"));
        let network = routed(&world, node);
        let pod = routed_pod(node, network, 11, &[]);
        pings(&pod, node.v4());
        assert!(node.find_link("vEth-eth0").is_some());
        node.client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
        assert!(pod.find_link("eth0").is_none(), "the pod has kept its NIC");
        node.client.delete(Kind::Namespace, pod.namespace).expect("the namespace goes");
        node.client.delete(Kind::Network, network).expect("the network goes");
        eventually("the vNIC is gone", || node.find_link("vEth-eth0").is_none());
        assert_eq!((node.ip("route"), node.ip("-6 route"), node.ip("-o addr")), before);
        node_is_reachable(&world);
        let again = routed_pod(node, routed_again(node), 12, &[]);
        pings(&again, node.v4());
        tcp(&world.outside, again.v4());
    });
}

/// The network once more; the underlay still has the routes to it.
fn routed_again(node: &Node) -> hcn::Guid {
    use crate::harness::document::{network, subnet};
    let subnets = [subnet("10.244.1.0/24", "10.244.1.1"), subnet("fd00:244:1::/64", "fd00:244:1::1")];
    node.network(&network("bridge", "L2Bridge", &subnets, &[]))
}
