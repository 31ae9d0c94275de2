//! Services against a slow and obvious model: a list of rules walked in order, sets of backends, and a connection that keeps its
//! backend: over UDP while that is listed, over TCP for as long as the service is there.
//!
//! The model does not know how a backend is chosen, only what a choice must respect.

#[path = "common/frames.rs"]
mod frames;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use frames::{Carries, Out, frame, ip, mac};
use proptest::collection::vec;
use proptest::prelude::*;
use vfp::{
    Action, Backend, Backends, Conditions, Distribution, DomainSpec, DropReason, Egress, Instant, LayerSpec, Limits, Masquerade,
    NatPoolSpec, Outcome, PoolId, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Service, Stage, Switch, TableId, Timeouts, Verdict,
};
use wire::{Frame, Headers, Ip};

/// Pods 1 to 6; all are clients, and may be backends.
const PODS: u8 = 6;
/// Services 0 to 3.
const SERVICES: u8 = 4;
const AFFINITY: u64 = 60;
/// Ports of those whose source is translated, and of those whose answers could not have been told from others.
const POOL: std::ops::RangeInclusive<u16> = 40_000..=49_999;
const RENAMED: std::ops::RangeInclusive<u16> = 61_000..=65_535;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A pod sends a packet of one of its connections to a service.
    Ask { pod: u8, service: u8, port: u16, v4: bool, tcp: bool },
    /// A service gets these backends, one bit for each pod.
    Change { service: u8, backends: u8 },
    /// A service goes, and its rule with it.
    Remove { service: u8 },
    /// Time passes.
    Wait { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (1..=PODS, 0..SERVICES, 1000u16..1004, any::<bool>(), any::<bool>());
    let step = prop_oneof![
        8 => ask.prop_map(|(pod, service, port, v4, tcp)| Step::Ask { pod, service, port, v4, tcp }),
        2 => (0..SERVICES, 0u8..64).prop_map(|(service, backends)| Step::Change { service, backends }),
        1 => (0..SERVICES).prop_map(|service| Step::Remove { service }),
        1 => (1u64..100).prop_map(|seconds| Step::Wait { seconds }),
    ];
    vec(step, 1..150)
}

/// What services are like in one run.
#[derive(Clone, Copy, Debug)]
struct Kind {
    distribution: Distribution,
    affinity: bool,
    keep_destination: bool,
    /// Never, for whoever meets itself, or always.
    masquerade: Option<bool>,
}

impl Kind {
    /// Whether the same client may get another backend for another protocol.
    fn tells_protocols(&self) -> bool {
        self.distribution != Distribution::TwoTuple
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    let distribution = prop_oneof![Just(Distribution::FiveTuple), Just(Distribution::ThreeTuple), Just(Distribution::TwoTuple)];
    (distribution, any::<bool>(), any::<bool>(), any::<Option<bool>>())
        .prop_map(|(distribution, affinity, keep_destination, masquerade)| Kind { distribution, affinity, keep_destination, masquerade })
}

/// What a packet is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    pod: u8,
    service: u8,
    port: u16,
    v4: bool,
    tcp: bool,
}

/// The obvious switch.
#[derive(Default)]
struct Model {
    services: BTreeMap<u8, BTreeSet<u8>>,
    /// The backend of each connection.
    connections: BTreeMap<Asked, u8>,
    /// The backend that a client had last, and when it got it, per service, family and protocol.
    clients: BTreeMap<(u8, u8, bool, bool), (u8, u64)>,
    /// What was chosen for a client while the backends were these.
    chosen: BTreeMap<(u8, u8, bool, bool, BTreeSet<u8>), u8>,
}

/// What must become of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Drop(DropReason),
    /// It goes to this pod.
    To(u8),
    /// It goes to one of these.
    ToOneOf(BTreeSet<u8>),
}

impl Model {
    fn expect(&self, asked: &Asked, kind: &Kind, now: u64) -> Expected {
        let Some(backends) = self.services.get(&asked.service) else { return Expected::Drop(DropReason::NoRoute) };
        if let Some(kept) = self.connections.get(asked).filter(|kept| asked.tcp || backends.contains(kept)) {
            return Expected::To(*kept);
        }
        if backends.is_empty() {
            return Expected::Drop(DropReason::NoBackend);
        }
        let client = (asked.pod, asked.service, asked.v4, asked.tcp);
        let loyal = self.clients.get(&client).filter(|(backend, at)| kind.affinity && now - at < AFFINITY && backends.contains(backend));
        let former = self.chosen.get(&(asked.pod, asked.service, asked.v4, asked.tcp && kind.tells_protocols(), backends.clone()));
        match (loyal, former.filter(|_| kind.distribution != Distribution::FiveTuple && !kind.affinity)) {
            (Some((backend, _)), _) => Expected::To(*backend),
            (None, Some(backend)) => Expected::To(*backend),
            (None, None) => Expected::ToOneOf(backends.clone()),
        }
    }

    /// Notes where a packet went.
    fn went(&mut self, asked: &Asked, kind: &Kind, backend: u8, now: u64) {
        // The answers of a new one may be those of another that is led nowhere any more, which is forgotten for it.
        let is_masqueraded = kind.masquerade.is_some_and(|always| always || backend == asked.pod);
        let may_clash = !kind.keep_destination && !is_masqueraded && self.connections.get(asked) != Some(&backend);
        let is_alike = |other: &Asked| (other.pod, other.port, other.v4, other.tcp) == (asked.pod, asked.port, asked.v4, asked.tcp);
        let is_led = |other: &Asked| self.services.get(&other.service).is_some_and(|backends| other.tcp || backends.contains(&backend));
        self.connections.retain(|other, kept| other == asked || !may_clash || !is_alike(other) || *kept != backend || is_led(other));
        let client = (asked.pod, asked.service, asked.v4, asked.tcp);
        if self.connections.insert(*asked, backend) != Some(backend) {
            self.clients.insert(client, (backend, now));
            let backends = self.services.get(&asked.service).cloned().unwrap_or_default();
            self.chosen.insert((asked.pod, asked.service, asked.v4, asked.tcp && kind.tells_protocols(), backends), backend);
        }
    }
}

fn pod_address(pod: u8, v4: bool) -> Ip {
    Ip(ip(if v4 { "10.0.0.0" } else { "fd00::" }).0 + u128::from(pod))
}

fn vip(service: u8, v4: bool) -> Ip {
    Ip(ip(if v4 { "10.96.0.0" } else { "fd96::" }).0 + u128::from(service))
}

fn node_address(v4: bool) -> Ip {
    ip(if v4 { "192.168.0.1" } else { "2001:db8::1" })
}

/// The real switch, and the model beside it.
struct World {
    switch: Switch,
    table: TableId,
    pool: PoolId,
    ports: Vec<PortId>,
    kind: Kind,
    model: Model,
    now: u64,
}

impl World {
    fn new(kind: Kind) -> Self {
        // Connections do not end by themselves, as the model's do not.
        let ever = Duration::from_secs(1 << 30);
        let timeouts = Timeouts { tcp_opening: ever, tcp_open: ever, unanswered: ever, answered: ever, ..Timeouts::default() };
        let switch = Switch::new(Limits { ports: 16, connections: 4096, flows: 64 }, timeouts, 7);
        let domain = switch.add_domain(DomainSpec { name: "pods".into(), ..DomainSpec::default() });
        let (table, pool) = (switch.add_table("services"), switch.add_pool(NatPoolSpec { ports: POOL }));
        let layer = LayerSpec { name: "service".into(), stateful: true, tables: vec![table], ..LayerSpec::default() };
        let mut ports = Vec::new();
        for pod in 1..=PODS {
            let spec = PortSpec {
                name: format!("pod{pod}"),
                kind: PortKind::Nic,
                mac: mac(pod),
                addresses: vec![],
                domain,
                mtu: 1500,
                hidden_behind: None,
                hairpin: false,
                router_guard: false,
                program: ProgramSpec { layers: vec![layer.clone()] },
            };
            let port = switch.add_port(spec).expect("a free port");
            let forward = Action::Forward { port, source_mac: None, destination_mac: Some(mac(pod)) };
            let rule = |v4: bool| RuleSpec::new(format!("{pod} {v4}"), 1, Conditions::to(pod_address(pod, v4)), forward.clone());
            switch.put_rules(domain, [true, false].map(|v4| (Stage::ForwardOut, rule(v4)))).expect("the domain");
            ports.push(port);
        }
        Self { switch, table, pool, ports, kind, model: Model::default(), now: 1000 }
    }

    /// The rules of a service: one for each family and protocol.
    fn rules(&self, service: u8, backends: &BTreeSet<u8>) -> Vec<RuleSpec> {
        let Kind { distribution, affinity, keep_destination, masquerade } = self.kind;
        let rule = |v4: bool, protocol: u8| {
            let list = backends.iter().map(|pod| Backend { address: pod_address(*pod, v4), port: 8080 });
            let service_of = Service {
                backends: Backends::new(list.collect()),
                distribution,
                affinity: affinity.then(|| Duration::from_secs(AFFINITY)),
                keep_destination,
                masquerade: masquerade.map(|always| Masquerade { pool: self.pool, address: node_address(v4), always }),
                domain: None,
                underlay: None,
            };
            let conditions = Conditions { protocols: vec![protocol], destination_ports: vec![80..=80], ..Conditions::to(vip(service, v4)) };
            RuleSpec::new(format!("{service} {v4} {protocol}"), 1, conditions, Action::Redirect(Arc::new(service_of)))
        };
        vec![rule(true, 6), rule(true, 17), rule(false, 6), rule(false, 17)]
    }

    fn step(&mut self, step: &Step) {
        match *step {
            // All services are asked from the same ports, so that a backend of two would see two connections that differ in nothing.
            Step::Ask { pod, service, port, v4, tcp } => self.ask(Asked { pod, service, port, v4, tcp }),
            Step::Change { service, backends } => {
                let backends: BTreeSet<u8> = (1..=PODS).filter(|pod| backends >> (pod - 1) & 1 == 1).collect();
                self.switch.put_table_rules(self.table, self.rules(service, &backends)).expect("the table");
                self.model.services.insert(service, backends);
            }
            Step::Remove { service } => {
                let names: Vec<String> = self.rules(service, &BTreeSet::new()).into_iter().map(|rule| rule.name).collect();
                self.switch.remove_table_rules(self.table, names.iter().map(String::as_str)).expect("the table");
                self.model.services.remove(&service);
            }
            Step::Wait { seconds } => {
                self.now += seconds;
                self.switch.sweep(self.time(), usize::MAX);
            }
        }
    }

    fn time(&self) -> Instant {
        Instant(self.now * 1_000_000)
    }

    fn process(&self, port: PortId, bytes: &[u8]) -> (Verdict, Vec<(Egress, Frame)>) {
        let mut out = Out::default();
        let verdict = self.switch.process(self.time(), port, &mut Frame::from_bytes(bytes), None, &mut out);
        (verdict, out.sent)
    }

    fn ask(&mut self, asked: Asked) {
        let Asked { pod, service, port, v4, tcp } = asked;
        let carries = if tcp { Carries::Tcp(port, 80, 16) } else { Carries::Udp(port, 80) };
        let from = self.ports[usize::from(pod) - 1];
        let bytes = frame((mac(pod), mac(99)), pod_address(pod, v4), vip(service, v4), carries, b"question");
        let expected = self.model.expect(&asked, &self.kind, self.now);
        let (verdict, sent) = self.process(from, &bytes);
        let to = match verdict.outcome {
            Outcome::Dropped(DropReason::SamePort) => pod,
            Outcome::Dropped(reason) => {
                assert_eq!(expected, Expected::Drop(reason), "{asked:?}");
                assert_eq!(sent.len(), usize::from(reason == DropReason::NoBackend), "who is refused is told");
                self.model.connections.remove(&asked);
                return;
            }
            Outcome::Forwarded(egress) => self.check_packet(&asked, &egress, &sent),
            other => panic!("{other:?}"),
        };
        match expected {
            Expected::To(backend) => assert_eq!(to, backend, "{asked:?}"),
            Expected::ToOneOf(backends) => assert!(backends.contains(&to), "{asked:?}: {to} is none of {backends:?}"),
            Expected::Drop(reason) => panic!("{asked:?} should have been dropped: {reason}"),
        }
        if verdict.drop_reason().is_some() {
            // Whoever would meet itself under its own name is not sent, so nothing is remembered.
            assert!(self.kind.masquerade.is_none() && sent.is_empty());
            self.model.connections.remove(&asked);
            return;
        }
        self.model.went(&asked, &self.kind, to, self.now);
        let (_, left) = &sent[0];
        self.check_answer(&bytes, from, self.ports[usize::from(to) - 1], left);
    }

    /// What arrives is what the service promises. Answers which pod it arrived at.
    fn check_packet(&self, asked: &Asked, egress: &Egress, sent: &[(Egress, Frame)]) -> u8 {
        let [(to, left)] = sent else { panic!("one packet leaves") };
        assert_eq!(to, egress);
        frames::assert_sound(left);
        let id = Headers::parse(left.bytes()).expect("it is sound").id;
        let pod = self.ports.iter().position(|port| *port == egress.port).expect("a pod") as u8 + 1;
        let destination = match self.kind.keep_destination {
            true => (vip(asked.service, asked.v4), 80),
            false => (pod_address(pod, asked.v4), 8080),
        };
        assert_eq!((id.destination, id.destination_port), destination);
        let hidden = self.kind.masquerade.is_some_and(|always| always || pod == asked.pod);
        let source = if hidden { node_address(asked.v4) } else { pod_address(asked.pod, asked.v4) };
        assert_eq!(id.source, source);
        let pool = if hidden { POOL } else { RENAMED };
        assert!(pool.contains(&id.source_port) || (id.source_port == asked.port && !hidden), "{id}");
        pod
    }

    /// What the backend answers comes back as the service's own.
    fn check_answer(&self, question: &[u8], client: PortId, backend: PortId, arrived: &Frame) {
        let came = Headers::parse(arrived.bytes()).expect("it is sound");
        let id = came.id.reverse();
        let carries = match id.protocol {
            6 => Carries::Tcp(id.source_port, id.destination_port, 16),
            _ => Carries::Udp(id.source_port, id.destination_port),
        };
        let answer = frame((came.destination_mac, came.source_mac), id.source, id.destination, carries, b"answer");
        let (verdict, sent) = self.process(backend, &answer);
        assert!(matches!(verdict.outcome, Outcome::Forwarded(egress) if egress.port == client), "{verdict:?}");
        let (_, left) = &sent[0];
        frames::assert_sound(left);
        let asked = Headers::parse(question).expect("it is sound").id;
        assert_eq!(Headers::parse(left.bytes()).expect("it is sound").id, asked.reverse());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn services_do_what_the_model_says(kind in kinds(), steps in steps()) {
        let mut world = World::new(kind);
        steps.iter().for_each(|step| world.step(step));
    }
}
