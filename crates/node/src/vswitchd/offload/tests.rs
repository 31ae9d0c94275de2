//! The kernel's program against the layers, walked afresh: whatever it forwards, it forwards as they say.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Clock;

use etherparse::PacketBuilder;
use ipnet::IpNet;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use vfp::{
    Action, Backend, Backends, Conditions, DomainId, DomainSpec, Egress, GroupSpec, Instant, LayerSpec, Limits, Outcome, PortId, PortKind,
    PortSpec, ProgramSpec, RuleSpec, Service, Sink, Stage, Switch, Timeouts, UnderlayId,
};
use wire::{Frame, Ip, MacAddress};

use super::{Beginning, Ends, KernelOffload, Openings};

/// What the program says of a packet that it hands on. What goes up is dropped here, where there is no TAP device.
const REDIRECT: u32 = 7;

/// The link that packets of a try come from, and one that nobody has.
const LOOPBACK: u32 = 1;
const OTHER: u32 = 77_777;

#[derive(Default)]
struct Nowhere {
    last: Option<Frame>,
    scratch: Frame,
}

impl Sink for Nowhere {
    fn send(&mut self, _: &Egress, frame: &mut Frame) {
        self.last = Some(frame.clone());
    }

    fn resolve(&mut self, _: UnderlayId, _: Ip, _: PortId, _: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

/// A policy: which ports are blocked, what is translated, and a service of some backends.
#[derive(Clone, Debug)]
struct Policy {
    blocked: Option<u16>,
    from_blocked: Option<u16>,
    moved: Option<(u16, u16)>,
    backends: Vec<u8>,
    rewrites_macs: bool,
}

/// A packet of the client: which family, protocol, ports and address, and whether it opens a connection or says that it is done.
#[derive(Clone, Debug)]
struct Question {
    v4: bool,
    tcp: bool,
    syn: bool,
    fin: bool,
    source_port: u16,
    port: u16,
    to_service: bool,
    payload: Vec<u8>,
}

fn policies() -> impl Strategy<Value = Policy> {
    let port = || 80..84_u16;
    (
        prop::option::of(port()),
        prop::option::weighted(0.2, 1000..1006_u16),
        prop::option::of((port(), 8000..8004_u16)),
        prop::collection::vec(1..40_u8, 1..11),
        any::<bool>(),
    )
        .prop_map(|(blocked, from_blocked, moved, backends, rewrites_macs)| Policy {
            blocked,
            from_blocked,
            moved,
            backends,
            rewrites_macs,
        })
}

fn questions() -> impl Strategy<Value = Question> {
    let kind = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (kind, 1000..1006_u16, 80..83_u16, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((v4, tcp, syn, fin), source_port, port, to_service, payload)| Question {
            v4,
            tcp,
            syn,
            fin: fin && !syn,
            source_port,
            port,
            to_service,
            payload,
        },
    )
}

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn address(v4: bool, last: u8) -> IpAddr {
    match v4 {
        true => Ipv4Addr::new(10, 0, 0, last).into(),
        false => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)).into(),
    }
}

const SERVICE: u8 = 200;

impl Question {
    fn bytes(&self) -> Vec<u8> {
        let link = PacketBuilder::ethernet2(CLIENT, ROUTER);
        let to = if self.to_service { SERVICE } else { 2 };
        let ip = match (address(self.v4, 1), address(self.v4, to)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => link.ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => link.ipv6(from.octets(), to.octets(), 64),
            _ => unreachable!("both are of one family"),
        };
        let mut bytes = Vec::new();
        let written = match (self.tcp, self.syn, self.fin) {
            (true, true, _) => ip.tcp(self.source_port, self.port, 7, 1000).syn().write(&mut bytes, &[]),
            (true, false, true) => ip.tcp(self.source_port, self.port, 7, 1000).ack(9).fin().write(&mut bytes, &self.payload),
            (true, false, false) => ip.tcp(self.source_port, self.port, 7, 1000).ack(9).write(&mut bytes, &self.payload),
            (false, ..) => ip.udp(self.source_port, self.port).write(&mut bytes, &self.payload),
        };
        written.expect("a packet");
        bytes
    }
}

fn layers(policy: &Policy) -> Vec<LayerSpec> {
    let block = |port: u16| Conditions { destination_ports: vec![port..=port], ..Conditions::any() };
    let from = |port: u16| Conditions { source_ports: vec![port..=port], ..Conditions::any() };
    let mut acl: Vec<RuleSpec> = Vec::new();
    acl.extend(policy.blocked.map(|port| RuleSpec::new("to".to_owned(), 10, block(port), Action::Block(vfp::DropReason::AclBlock))));
    acl.extend(policy.from_blocked.map(|port| RuleSpec::new("from".to_owned(), 20, from(port), Action::Block(vfp::DropReason::AclBlock))));
    let service = |v4: bool, port: u16| {
        let backends = policy.backends.iter().map(|last| Backend { address: address(v4, *last).into(), port: port + 1000 }).collect();
        let service = Service { backends: Backends::new(backends), ..Service::default() };
        let conditions = Conditions { destination_ports: vec![port..=port], ..Conditions::to(address(v4, SERVICE).into()) };
        RuleSpec::new(format!("{v4} {port}"), 10, conditions, Action::Redirect(Arc::new(service)))
    };
    let services =
        [true, false].into_iter().flat_map(|v4| (80..84).map(move |port| (v4, port))).map(|(v4, port)| service(v4, port)).collect();
    let moved = policy.moved.map(|(from, to)| {
        let action = Action::Modify {
            source_mac: None,
            destination_mac: None,
            source: None,
            destination: None,
            source_port: None,
            destination_port: Some(to),
        };
        RuleSpec::new("moved".to_owned(), 10, block(from), action)
    });
    let layer = |name: &str, rules: Vec<RuleSpec>| LayerSpec {
        name: name.to_owned(),
        stateful: true,
        outward: vec![GroupSpec { name: "rules".to_owned(), rules }],
        ..LayerSpec::default()
    };
    vec![layer("acl", acl), layer("service", services), layer("moved", moved.into_iter().collect())]
}

fn port(name: &str, mac: [u8; 6], domain: DomainId, layers: Vec<LayerSpec>) -> PortSpec {
    PortSpec {
        name: name.to_owned(),
        kind: PortKind::Nic,
        mac: MacAddress(mac),
        addresses: Vec::new(),
        domain,
        mtu: 1500,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program: ProgramSpec { layers },
    }
}

/// A switch with two NICs that the kernel reaches: the client's by the loopback.
fn world(policy: &Policy, kernel: &Arc<KernelOffload>) -> (Switch, DomainId, PortId) {
    let limits = Limits { ports: 8, connections: 256, flows: 512 };
    let switch = Switch::new(limits, Timeouts::default(), 42).with_offload(kernel.clone());
    let domain = switch.add_domain(DomainSpec { name: "switch".to_owned(), ..DomainSpec::default() });
    let client = switch.add_port(port("client", CLIENT, domain, layers(policy))).expect("a port");
    let server = switch.add_port(port("server", SERVER, domain, Vec::new())).expect("a port");
    kernel.add(client, LOOPBACK);
    kernel.add(server, OTHER);
    let macs = policy.rewrites_macs.then_some((MacAddress(ROUTER), MacAddress(SERVER)));
    let to = |port: PortId| Action::Forward { port, source_mac: macs.map(|(from, _)| from), destination_mac: macs.map(|(_, to)| to) };
    let own = |v4: bool| RuleSpec::new(format!("client {v4}"), 10, Conditions::to(address(v4, 1).into()), to(client));
    let others = RuleSpec::new("others".to_owned(), 1000, Conditions::any(), to(server));
    switch.put_rules(domain, [own(true), own(false), others].map(|rule| (Stage::ForwardOut, rule))).expect("rules");
    (switch, domain, client)
}

#[test]
fn the_kernels_program_agrees_with_the_layers() {
    let load = || KernelOffload::load(Limits { ports: 8, connections: 256, flows: 512 }, Clock::now(), Path::new("/nobody"));
    if let Err(error) = load() {
        return println!("skipped: {error}");
    }
    let (forwarded, opened) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let cases = (policies(), policies(), prop::collection::vec(questions(), 1..60));
    let mut runner = TestRunner::new(Config { cases: 100, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&cases, |(policy, later, questions)| {
        let kernel = Arc::new(load().expect("it could be loaded before"));
        let (switch, domain, client) = world(&policy, &kernel);
        for (at, question) in questions.iter().enumerate() {
            if at == 30 {
                switch.change_port(client, port("client", CLIENT, domain, layers(&later))).expect("the port");
            }
            let now = Instant(1_000_000 + at as u64 * 1000);
            let bytes = question.bytes();
            let before = kernel.ways().opened;
            // What the kernel has opened by itself is known here before anything is asked.
            let (verdict, left) = kernel.table().try_packet(&bytes).expect("the kernel runs it");
            opened.set(opened.get() + kernel.ways().opened - before);
            switch.take_up(now);
            let mut expected = Frame::from_bytes(&bytes);
            let said = switch.simulate(now, client, &mut expected, None);
            if verdict == REDIRECT {
                forwarded.set(forwarded.get() + 1);
                prop_assert!(matches!(said.outcome, Outcome::Forwarded(_)), "{question:?}: {said:?}");
                prop_assert_eq!(&left, expected.bytes(), "{:?}", question);
            } else {
                switch.process(now, client, &mut Frame::from_bytes(&bytes), None, &mut Nowhere::default());
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(forwarded.get() > 200 && opened.get() > 60, "{} forwarded, {} opened", forwarded.get(), opened.get());
}

#[test]
fn the_kernels_moments_are_those_of_the_switch() {
    let beginning = Beginning { kernel: 5_000_000_000, switch: 1_000_000 };
    assert_eq!(beginning.moment(5_000_000_000), Instant(1_000_000));
    assert_eq!(beginning.moment(5_000_250_000), Instant(1_000_250));
    // Before both began there is nothing.
    assert_eq!(beginning.moment(0), Instant(0));
}

#[test]
fn the_longest_prefix_says_who_is_next() {
    let prefix = |text: &str| text.parse::<IpNet>().expect("a prefix");
    let gateway: IpAddr = "192.168.0.254".parse().expect("an address");
    let routes = vec![(prefix("0.0.0.0/0"), Some(gateway)), (prefix("192.168.0.0/24"), None)];
    let ends = Ends { routes: HashMap::from([(3, routes)]), ..Ends::default() };
    let ip = |text: &str| Ip::from(text.parse::<IpAddr>().expect("an address"));
    assert_eq!(ends.next_hop(3, ip("192.168.0.9")), Some(ip("192.168.0.9")));
    assert_eq!(ends.next_hop(3, ip("10.0.0.1")), Some(ip("192.168.0.254")));
    assert_eq!(ends.next_hop(4, ip("10.0.0.1")), None);
}

#[test]
fn openings_are_noted_once_and_the_oldest_makes_room() {
    let mut openings = Openings::default();
    let key = |number: u64| [number; 8];
    for number in [1, 2, 1, 1, 2] {
        assert_eq!(openings.note(key(number), [1; 3], 2), None);
    }
    assert!(openings.has(&key(1), [1; 3]) && !openings.has(&key(1), [2; 3]));
    assert_eq!(openings.note(key(3), [1; 3], 2), Some(key(1)));
    openings.forget(&key(3));
    assert_eq!(openings.note(key(1), [1; 3], 2), None);
}
