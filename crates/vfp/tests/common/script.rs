//! A switch that is driven by bytes, and asked before every packet what it is going to do.
//!
//! A script is a plan of the topology and then steps of [`STEP`] bytes each. Whatever the bytes are, they mean something, so that
//! chance and a fuzzer can write scripts. For every packet these must hold:
//!
//! - [`Switch::simulate`], which walks the layers afresh, says what [`Switch::process`] then does, to the byte;
//! - asking changes nothing;
//! - what leaves can be read, fits the port it leaves by, and has right checksums if the packet had;
//! - the counters of the ports account for every frame;
//! - when everything has expired, nothing is taken any more.

use vfp::{
    Action, AddressMatch, Backend, Backends, Conditions, DomainId, DomainSpec, DropReason, Egress, Flood, GroupSpec, Instant, LayerSpec,
    Limits, NatPoolSpec, NextHop, Outcome, PoolId, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Sink, Stage, Switch, SwitchCounters,
    Tier, Timeouts, UnderlayId, UnderlaySpec, Verdict,
};
use wire::icmp::{self, Problem};
use wire::{Encapsulation, Frame, Headers, Ip, Kind, MacAddress, Segmentation, SegmentationKind, TunnelKind, arp, neighbour};

use super::frames::{self, Carries, ip, mac};

/// Bytes of the plan of a topology.
pub(crate) const PLAN: usize = 24;
/// Bytes of a step.
pub(crate) const STEP: usize = 12;

const NICS: usize = 4;
const LAYERS: usize = 3;
const MTU: u16 = 1500;

/// Frames that left and can be answered.
const RECENT: usize = 12;

struct Out {
    sent: Vec<(Egress, Frame)>,
    scratch: Frame,
}

impl Sink for Out {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        self.sent.push((*egress, frame.clone()));
    }

    fn resolve(&mut self, _underlay: UnderlayId, _next_hop: Ip, _port: PortId, _frame: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

/// What asking must not change.
#[derive(Debug, PartialEq)]
struct Books {
    counters: SwitchCounters,
    connections: usize,
    leases: Option<usize>,
}

struct World {
    switch: Switch,
    out: Out,
    now: Instant,
    pods: DomainId,
    nics: Vec<PortId>,
    mtus: Vec<u16>,
    uplink: PortId,
    tunnel: PortId,
    other: PortId,
    underlay: UnderlayId,
    pool: PoolId,
    recent: Vec<(Egress, Frame)>,
}

/// Runs a script. Panics where something does not hold.
pub(crate) fn run(script: &[u8]) {
    let mut plan = [0; PLAN];
    let length = script.len().min(PLAN);
    plan[..length].copy_from_slice(&script[..length]);
    let mut world = World::new(&plan);
    for step in script[length..].as_chunks::<STEP>().0 {
        world.step(step);
    }
    world.settle();
}

fn pick<T: Copy>(list: &[T], byte: u8) -> T {
    list[usize::from(byte) % list.len()]
}

/// The address of a NIC in one family.
fn nic_address(number: usize, v4: bool) -> Ip {
    let base = if v4 { ip("10.0.0.1") } else { ip("fd00::1") };
    Ip(base.0 + number as u128)
}

fn outer(vni: u32, remote: u8) -> Encapsulation {
    Encapsulation {
        kind: TunnelKind::Vxlan,
        vni,
        local: ip("192.168.0.1"),
        remote: Ip(ip("192.168.0.2").0 + u128::from(remote)),
        port: 4789,
    }
}

/// Addresses that packets go to, of one family.
fn destination(byte: u8, v4: bool) -> Ip {
    let text = match (byte % 10, v4) {
        (number @ 0..4, v4) => return nic_address(usize::from(number), v4),
        (4 | 5, true) => "10.96.0.1",
        (4 | 5, false) => "fd96::1",
        (6, true) => "8.8.8.8",
        (6, false) => "2001:db8::8",
        (7, true) => "10.0.1.1",
        (7, false) => "fd01::1",
        (8, true) => "10.0.9.9",
        (8, false) => "fd09::9",
        (_, true) => "192.168.0.1",
        (_, false) => "2001:db8::1",
    };
    ip(text)
}

fn condition(byte: u8) -> Conditions {
    let host = |text: &str| AddressMatch::Prefix(text.parse().expect("a prefix"));
    let any = Conditions::any();
    match byte % 12 {
        0 => any,
        1 => Conditions { protocols: vec![6], ..any },
        2 => Conditions { protocols: vec![17, 1], ..any },
        3 => Conditions { sources: vec![host("10.0.0.1/32"), host("fd00::/64")], ..any },
        4 => Conditions { destinations: vec![host("10.0.0.0/30")], ..any },
        5 => Conditions { destination_ports: vec![80..=90], ..any },
        6 => Conditions { source_ports: vec![1000..=1001], protocols: vec![6], ..any },
        7 => Conditions { destinations: vec![host("::/0")], ..any },
        8 => Conditions { destination_macs: vec![mac(1)], ..any },
        9 => Conditions { sources: vec![AddressMatch::Set([].into())], ..any },
        10 => Conditions { ether_types: vec![0x86dd], ..any },
        _ => Conditions { protocols: vec![6], destinations: vec![host("10.0.0.2/32")], destination_ports: vec![80..=80], ..any },
    }
}

fn group(name: &str, rules: Vec<RuleSpec>) -> GroupSpec {
    GroupSpec { name: name.into(), rules }
}

fn acl(name: &str, bytes: [u8; 2], stateful: bool) -> LayerSpec {
    let action = |byte: u8| match byte % 5 {
        0 | 1 => Action::Allow,
        2 => Action::Block(DropReason::AclBlock),
        3 => Action::Pass,
        _ => Action::Count,
    };
    let rule = |name: &str, byte: u8| RuleSpec::new(name, u16::from(byte >> 6), condition(byte), action(byte / 12));
    let groups = |a: u8, b: u8| vec![group("one", vec![rule("a", a), rule("b", b)]), group("two", vec![rule("c", a ^ b)])];
    LayerSpec {
        name: name.into(),
        stateful,
        outward: groups(bytes[0], bytes[1]),
        inward: groups(bytes[1].rotate_left(3), bytes[0].rotate_left(5)),
    }
}

impl World {
    fn new(plan: &[u8; PLAN]) -> Self {
        // A small flow table, so that flows are displaced.
        let switch = Switch::new(Limits { ports: 16, connections: 1024, flows: 16 }, Timeouts::default(), 7);
        let flood = pick(&[Flood::Nobody, Flood::Listed, Flood::Everybody], plan[0]);
        let domain = |name: &str, flood| switch.add_domain(DomainSpec { name: name.into(), flood, other_protocols: plan[0] & 64 != 0 });
        let (pods, wire, far) = (domain("pods", flood), domain("wire", Flood::Nobody), domain("other", Flood::Nobody));
        let uplink_domain = if plan[1] & 1 == 0 { pods } else { wire };
        let pool = switch.add_pool(NatPoolSpec { ports: 40000..=40255 });
        let mut world = Self {
            out: Out { sent: Vec::new(), scratch: Frame::default() },
            now: Instant(1_000_000),
            pods,
            nics: Vec::new(),
            mtus: Vec::new(),
            uplink: PortId(0),
            tunnel: PortId(0),
            other: PortId(0),
            underlay: UnderlayId(0),
            pool,
            recent: Vec::new(),
            switch,
        };
        world.uplink = world.port("uplink", PortKind::Uplink, uplink_domain, 100, MTU, ProgramSpec::default());
        let routes = [("0.0.0.0/0", "192.168.0.254"), ("::/0", "2001:db8::fe")];
        let route = |(prefix, gateway): (&str, &str)| (prefix.parse().expect("a prefix"), NextHop::Gateway(ip(gateway)));
        let spec = UnderlaySpec { uplink: world.uplink, mac: mac(100), routes: routes.map(route).to_vec() };
        world.underlay = world.switch.add_underlay(spec);
        world.know_gateway(Some(254));
        let pop = |vni, domain| RuleSpec::new(format!("vni {vni}"), 1, Conditions::of_vni(vni), Action::Pop { domain });
        let unknown = RuleSpec::new("else", 9, Conditions::any(), Action::Block(DropReason::UnknownVni));
        let layer = LayerSpec {
            name: "tunnel".into(),
            stateful: false,
            outward: vec![group("vni", vec![pop(7, pods), pop(8, far), unknown])],
            inward: vec![],
        };
        world.tunnel = world.port("tunnel", PortKind::Tunnel, wire, 101, 1450, ProgramSpec { layers: vec![layer] });
        world.other = world.port("other", PortKind::Nic, far, 50, MTU, ProgramSpec::default());
        for number in 0..2 + usize::from(plan[2] % 3) {
            world.add_nic(number, &plan[4..]);
        }
        world.add_service(plan[1]);
        (0..12).for_each(|rule| world.set_rule(rule, true, plan[3]));
        world.connect_other();
        world
    }

    fn port(&mut self, name: &str, kind: PortKind, domain: DomainId, last: u8, mtu: u16, program: ProgramSpec) -> PortId {
        let spec = port_spec(name, kind, domain, last, mtu, program);
        let id = self.switch.add_port(spec).expect("a free port");
        self.mtus.resize(self.mtus.len().max(id.0 as usize + 1), MTU);
        self.mtus[id.0 as usize] = mtu;
        id
    }

    fn add_nic(&mut self, number: usize, bytes: &[u8]) {
        let spec = self.nic_spec(number, &bytes[number * 5..]);
        self.mtus.push(spec.mtu);
        let id = self.switch.add_port(spec).expect("a free port");
        assert_eq!(id.0 as usize + 1, self.mtus.len());
        self.nics.push(id);
    }

    /// A NIC with up to three layers, each by one byte, and one more for what the layers ask.
    fn nic_spec(&self, number: usize, bytes: &[u8]) -> PortSpec {
        let detail = [bytes[3], bytes[4]];
        let layers = bytes[..LAYERS].iter().enumerate().filter_map(|(at, byte)| self.layer(at, *byte, detail)).collect();
        let mtu = if bytes[0] & 128 != 0 { 1300 } else { MTU };
        let mut spec = port_spec(&format!("nic{number}"), PortKind::Nic, self.pods, number as u8 + 1, mtu, ProgramSpec { layers });
        spec.addresses = vec![nic_address(number, true), nic_address(number, false)];
        spec.hidden_behind = (bytes[1] & 128 != 0).then(|| mac(100));
        spec.hairpin = bytes[2] & 128 != 0;
        spec
    }

    fn layer(&self, at: usize, byte: u8, detail: [u8; 2]) -> Option<LayerSpec> {
        let name = format!("layer{at}");
        let stateful = |rules| LayerSpec { name: name.clone(), stateful: true, outward: vec![group("rules", rules)], inward: vec![] };
        Some(match byte % 8 {
            0 | 1 => return None,
            2 => acl(&name, detail, true),
            3 => acl(&name, detail, false),
            4 => stateful(services(detail[0])),
            5 => stateful(self.translations(detail[1])),
            6 => stateful(vec![self.destination_nat(detail[0])]),
            _ => stateful(vec![RuleSpec::new("routed", 1, condition(detail[1]), Action::Route(self.underlay))]),
        })
    }

    fn translations(&self, byte: u8) -> Vec<RuleSpec> {
        let rule = |name: &str, prefix: &str, address: &str| {
            let nat = Action::SourceNat { pool: self.pool, address: ip(address), underlay: self.underlay, most: None };
            RuleSpec::new(name, 5, Conditions::to_prefix(prefix.parse().expect("a prefix")), nat)
        };
        let exception = RuleSpec::new("inside", 1, Conditions::to_prefix("10.0.0.0/8".parse().expect("a prefix")), Action::Allow);
        let mut rules = vec![rule("v4", "0.0.0.0/0", "192.168.0.1"), rule("v6", "::/0", "2001:db8::1")];
        rules.extend(Some(exception).filter(|_| byte & 1 == 0));
        rules
    }

    fn destination_nat(&self, byte: u8) -> RuleSpec {
        let to = nic_address(usize::from(byte & 3), true);
        let modify = Action::Modify {
            source_mac: None,
            destination_mac: None,
            source: None,
            destination: Some(to),
            source_port: None,
            destination_port: (byte & 4 != 0).then_some(8080),
        };
        RuleSpec::new("dnat", 1, Conditions::to(ip("10.0.9.9")), modify)
    }

    /// From the wire, a port of the node leads to the NICs.
    fn add_service(&self, byte: u8) {
        if byte & 2 == 0 {
            return;
        }
        let conditions = Conditions { destination_ports: vec![80..=80], ..Conditions::to(ip("192.168.0.1")) };
        let rule = RuleSpec::new("node port", 1, conditions, Action::Redirect(backends(byte, true)));
        let layer = LayerSpec { name: "service".into(), stateful: true, outward: vec![group("ports", vec![rule])], inward: vec![] };
        let domain = self.switch.ports().iter().find(|port| port.id == self.uplink).map(|port| port.domain.clone());
        let domain = if domain.as_deref() == Some("pods") { self.pods } else { DomainId(self.pods.0 + 1) };
        let spec = port_spec("uplink", PortKind::Uplink, domain, 100, MTU, ProgramSpec { layers: vec![layer] });
        self.switch.change_port(self.uplink, spec).expect("the uplink");
    }

    /// One of the rules of the domain, there or not.
    fn set_rule(&self, number: u8, there: bool, variant: u8) {
        let name = format!("rule {number}");
        let prefix = |text: &str| Conditions::to_prefix(text.parse().expect("a prefix"));
        let push =
            |last| Action::Push { port: self.tunnel, encapsulation: outer(7, 0), source_mac: None, destination_mac: Some(mac(last)) };
        let out = match variant & 1 {
            0 => Action::Route(self.underlay),
            _ => Action::Forward { port: self.uplink, source_mac: None, destination_mac: Some(mac(254)) },
        };
        let (conditions, action) = match number % 12 {
            number @ 0..8 => {
                let nic = usize::from(number % 4);
                let port = *self.nics.get(nic).unwrap_or(&self.nics[0]);
                let forward = Action::Forward { port, source_mac: None, destination_mac: Some(mac(nic as u8 + 1)) };
                (Conditions::to(nic_address(nic, number < 4)), forward)
            }
            8 => (prefix("10.0.1.0/24"), push(60)),
            9 => (prefix("fd01::/64"), push(61)),
            10 => (prefix("0.0.0.0/0"), out),
            _ => (prefix("::/0"), out),
        };
        let priority = if number % 12 < 10 { 10 } else { 100 };
        for stage in [Stage::ForwardOut, Stage::ForwardIn, Stage::NeighbourOut, Stage::NeighbourIn] {
            let neighbours = matches!(stage, Stage::NeighbourOut | Stage::NeighbourIn);
            let action = match (neighbours, variant >> 1 & 3) {
                (false, _) => action.clone(),
                (true, 0 | 1) => Action::Answer(mac(99)),
                (true, 2) => Action::Flood,
                (true, _) => action.clone(),
            };
            let rule = RuleSpec::new(name.clone(), priority, conditions.clone(), action);
            let done = match there {
                true => self.switch.put_rules(self.pods, [(stage, rule)]),
                false => self.switch.remove_rules(self.pods, [(stage, name.as_str())]),
            };
            done.expect("the domain");
        }
    }

    /// Another virtual network with an address that the first one has too.
    fn connect_other(&self) {
        let far = DomainId(self.pods.0 + 2);
        let forward = Action::Forward { port: self.other, source_mac: None, destination_mac: Some(mac(50)) };
        let push = Action::Push { port: self.tunnel, encapsulation: outer(8, 1), source_mac: None, destination_mac: Some(mac(62)) };
        let rules = [
            (Stage::ForwardIn, RuleSpec::new("own", 1, Conditions::to(ip("10.0.0.1")), forward)),
            (Stage::ForwardOut, RuleSpec::new("far", 1, Conditions::any(), push)),
        ];
        self.switch.put_rules(far, rules).expect("the domain");
    }

    fn know_gateway(&self, last: Option<u8>) {
        for gateway in ["192.168.0.254", "2001:db8::fe"] {
            self.switch.set_neighbour(self.underlay, ip(gateway), last.map(mac)).expect("the underlay");
        }
    }
}

fn port_spec(name: &str, kind: PortKind, domain: DomainId, last: u8, mtu: u16, program: ProgramSpec) -> PortSpec {
    PortSpec { name: name.into(), kind, mac: mac(last), addresses: vec![], domain, mtu, hidden_behind: None, hairpin: false, program }
}

fn backends(byte: u8, v4: bool) -> std::sync::Arc<Backends> {
    let list = (0..NICS).filter(|nic| byte >> (nic + 2) & 1 == 1).map(|nic| Backend { address: nic_address(nic, v4), port: 8080 });
    std::sync::Arc::new(Backends { list: list.collect() })
}

fn services(byte: u8) -> Vec<RuleSpec> {
    let service = |name: &str, address: &str, protocol: u8, port: u16| {
        let conditions = Conditions { protocols: vec![protocol], destination_ports: vec![port..=port], ..Conditions::to(ip(address)) };
        RuleSpec::new(name, 1, conditions, Action::Redirect(backends(byte, !address.contains(':'))))
    };
    vec![
        service("web", "10.96.0.1", 6, 80),
        service("dns", "10.96.0.1", 17, 53),
        service("web6", "fd96::1", 6, 80),
        service("echo", "10.96.0.1", 1, 1000),
    ]
}

// Steps.

impl World {
    fn step(&mut self, step: &[u8; STEP]) {
        self.now = Instant(self.now.0 + 1000);
        match step[0] % 32 {
            0..12 => self.packet(step, false),
            12..19 => self.answer(step),
            19 | 20 => self.error(step),
            21 => self.neighbour(step),
            22 => self.packet(step, true),
            23 | 24 => self.change_program(step),
            25 | 26 => self.set_rule(step[1], step[2] & 1 == 0, step[3]),
            27 => self.know_gateway(pick(&[None, Some(254), Some(253)], step[1])),
            28 => self.now = self.now.after(std::time::Duration::from_secs(u64::from(step[1]))),
            29 => self.group(step),
            30 => self.change_underlay(step),
            _ => drop(self.switch.sweep(self.now, usize::from(step[1]))),
        }
    }

    fn change_program(&self, step: &[u8; STEP]) {
        let number = usize::from(step[1]) % self.nics.len();
        let mut spec = self.nic_spec(number, &step[2..]);
        spec.mtu = self.mtus[self.nics[number].0 as usize];
        self.switch.change_port(self.nics[number], spec).expect("the NIC");
    }

    fn change_underlay(&self, step: &[u8; STEP]) {
        let gateway = NextHop::Gateway(ip("192.168.0.254"));
        let routes = match step[1] % 3 {
            0 => vec![],
            1 => vec![("0.0.0.0/0".parse().expect("a prefix"), gateway)],
            _ => vec![("8.0.0.0/8".parse().expect("a prefix"), gateway), ("0.0.0.0/0".parse().expect("a prefix"), NextHop::Link)],
        };
        let spec = UnderlaySpec { uplink: self.uplink, mac: mac(100), routes };
        self.switch.change_underlay(self.underlay, spec).expect("the underlay");
    }

    fn any_port(&self, byte: u8) -> PortId {
        match byte % 8 {
            6 => self.uplink,
            7 => self.tunnel,
            5 => self.other,
            number => self.nics[usize::from(number) % self.nics.len()],
        }
    }

    /// A packet from a small choice, so that flows repeat; perhaps with a damage.
    fn packet(&mut self, step: &[u8; STEP], damaged: bool) {
        let [_, port, from, to, kind, ports, flags, size, offload, piece, vni, damage] = *step;
        let v4 = kind & 64 == 0;
        let port = self.any_port(port);
        let own = self.nics.iter().position(|nic| *nic == port).filter(|_| from < 224);
        let source = own.map_or_else(|| destination(from, v4), |own| nic_address(own, v4));
        let (source_port, destination_port) = (pick(&[1000, 1001, 8080], ports), pick(&[80, 53, 8080, 1000], ports >> 4));
        let carries = match kind % 8 {
            0..3 => Carries::Tcp(source_port, destination_port, pick(&[2, 16, 18, 17, 4, 24], flags)),
            3 | 4 => Carries::Udp(source_port, destination_port),
            5 => Carries::Echo(source_port),
            6 => Carries::Sctp(source_port, destination_port),
            _ => Carries::Raw(pick(&[47, 1, 58, 255], flags)),
        };
        let payload = vec![flags; pick(&[8, 1, 64, 1250, 1452, 1472, 2000], size)];
        let macs = (mac(pick(&[1, 2, 9], size >> 4)), mac(pick(&[9, 9, 1], from)));
        let mut bytes = frames::frame(macs, source, destination(to, v4), carries, &payload);
        if flags & 128 != 0 && v4 {
            bytes = frames::dont_fragment(bytes);
        }
        let pieces = if piece & 3 == 3 && payload.len() >= 64 { frames::pieces(&bytes, 32, 7).to_vec() } else { vec![bytes] };
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), vni >> 6));
        for (at, bytes) in pieces.iter().enumerate() {
            if at == 0 && piece & 7 == 7 {
                continue;
            }
            let mut frame = offloaded(bytes, offload, carries, pieces.len() == 1);
            if damaged {
                self.damage(&mut frame, [damage, offload, piece]);
            }
            // What claims to be ICMP and is not has no checksum to be judged.
            self.handle(port, &frame, outer.as_ref(), !damaged && !matches!(carries, Carries::Raw(_)));
        }
    }

    fn damage(&self, frame: &mut Frame, [at, value, how]: [u8; 3]) {
        match how & 1 {
            0 => frame.truncate(usize::from(at)),
            _ => {
                let at = usize::from(at) % frame.len().max(1);
                frame.bytes_mut()[at] = value;
            }
        }
        if how & 2 != 0 {
            frames::repair(frame.bytes_mut());
        }
    }

    /// The answer to one of the packets that left.
    fn answer(&mut self, step: &[u8; STEP]) {
        let Some((egress, frame)) = self.recent(step[1]) else { return };
        let Ok(headers) = Headers::parse(frame.bytes()) else { return };
        let id = headers.id;
        if headers.kind != Kind::Ip
            || id.source.is_multicast()
            || id.destination.is_multicast()
            || id.source.is_v4() != id.destination.is_v4()
        {
            return;
        }
        let carries = match id.protocol {
            6 => Carries::Tcp(id.destination_port, id.source_port, pick(&[18, 16, 17, 4, 24], step[2])),
            17 => Carries::Udp(id.destination_port, id.source_port),
            1 | 58 => Carries::EchoReply(id.source_port),
            132 => Carries::Sctp(id.destination_port, id.source_port),
            other => Carries::Raw(other),
        };
        let macs = (headers.destination_mac, headers.source_mac);
        let bytes = frames::frame(macs, id.destination, id.source, carries, &vec![1; pick(&[8, 1250, 1452], step[3])]);
        let frame = offloaded(&bytes, step[4], carries, true);
        self.handle(egress.port, &frame, egress.encapsulation.as_ref(), !matches!(carries, Carries::Raw(_)));
    }

    /// An error about one of the packets that left, by its receiver or by somebody on the way.
    fn error(&mut self, step: &[u8; STEP]) {
        let Some((egress, frame)) = self.recent(step[1]) else { return };
        let Ok(headers) = Headers::parse(frame.bytes()) else { return };
        let v4 = headers.id.source.is_v4();
        let router = ip(if v4 { "172.16.0.1" } else { "2001:db8:9::1" });
        let from = if step[2] & 1 == 0 { headers.id.destination } else { router };
        let problem = pick(&[Problem::PortUnreachable, Problem::TooLarge { mtu: 1400 }, Problem::HopLimit], step[3]);
        let mut error = Frame::default();
        if !from.is_multicast() && icmp::error(frame.bytes(), &headers, problem, from, headers.destination_mac, &mut error) {
            // A partial checksum inside stays what it is, so only the outside can be judged; which it is.
            self.handle(egress.port, &error, egress.encapsulation.as_ref(), true);
        }
    }

    fn neighbour(&mut self, step: &[u8; STEP]) {
        let [_, port, target, kind, from, vni, ..] = *step;
        let (v4, port) = (kind & 1 == 0, self.any_port(port));
        let target = destination(target, v4);
        let own = self.nics.iter().position(|nic| *nic == port);
        let speaker = own.map_or(destination(from, v4), |own| if from < 200 { nic_address(own, v4) } else { destination(from, v4) });
        let mut frame = Frame::default();
        match v4 {
            true => arp::request(speaker, mac(1), target, &mut frame),
            false => assert!(neighbour::request(speaker, mac(1), target, &mut frame)),
        }
        if kind & 2 != 0 {
            let headers = Headers::parse(frame.bytes()).expect("it is sound");
            let mut answer = Frame::default();
            let made = match v4 {
                true => arp::answer(frame.bytes(), &headers, mac(2), &mut answer),
                false => neighbour::answer(frame.bytes(), &headers, mac(2), false, &mut answer),
            };
            frame = if made { answer } else { frame };
        }
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), 0));
        self.handle(port, &frame, outer.as_ref(), true);
    }

    /// A packet to a group, or a frame that is not IP.
    fn group(&mut self, step: &[u8; STEP]) {
        let [_, port, kind, from, vni, ..] = *step;
        let port = self.any_port(port);
        let (source, group) =
            if kind & 1 == 0 { (nic_address(0, true), ip("224.0.0.251")) } else { (nic_address(0, false), ip("ff02::fb")) };
        let to = MacAddress(if kind & 2 == 0 { [0xff; 6] } else { mac(from).0 });
        let mut bytes = frames::frame((mac(1), to), source, group, Carries::Udp(5353, 5353), b"who");
        if kind & 4 != 0 {
            bytes[12..14].copy_from_slice(&[0x88, 0xcc]);
        }
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), 0));
        self.handle(port, &Frame::from_bytes(&bytes), outer.as_ref(), kind & 4 == 0);
    }

    fn recent(&self, byte: u8) -> Option<(Egress, Frame)> {
        let newest = self.recent.len().checked_sub(1)?;
        self.recent.get(newest.checked_sub(usize::from(byte) % RECENT)?).cloned()
    }
}

/// A frame with work left to do on it, of a kind that fits.
fn offloaded(bytes: &[u8], offload: u8, carries: Carries, whole: bool) -> Frame {
    let kind = match (carries, bytes[14] >> 4) {
        (Carries::Tcp(..), 4) => SegmentationKind::Tcp4 { ecn: false },
        (Carries::Tcp(..), _) => SegmentationKind::Tcp6 { ecn: false },
        (Carries::Udp(..), _) => SegmentationKind::Udp,
        _ => return Frame::from_bytes(bytes),
    };
    match offload % 4 {
        2 if whole => frames::partial(bytes),
        3 if whole => {
            let mut frame = frames::partial(bytes);
            frame.offload.segmentation = Some(Segmentation { kind, size: pick(&[500, 1400, 1460], offload >> 2), header_length: 54 });
            frame
        }
        _ => Frame::from_bytes(bytes),
    }
}

// What must hold.

impl World {
    fn books(&self) -> Books {
        let (connections, _) = self.switch.connection_usage();
        Books { counters: self.switch.counters(), connections, leases: self.switch.pool_usage(self.pool) }
    }

    /// How many frames the NICs have sent, and received, and how many were dropped.
    fn traffic(&self) -> [u64; 3] {
        let counters = (0..self.mtus.len()).filter_map(|number| self.switch.port_counters(PortId(number as u32)));
        counters.fold([0; 3], |[sent, received, dropped], port| {
            let drops: u64 = port.drops.iter().map(|count| count.packets).sum();
            [sent + port.packets_sent, received + port.packets_received, dropped + drops]
        })
    }

    fn handle(&mut self, port: PortId, frame: &Frame, outer: Option<&Encapsulation>, sound: bool) {
        let before = self.books();
        let mut asked = frame.clone();
        let said = self.switch.simulate(self.now, port, &mut asked, outer);
        assert_eq!(self.books(), before, "asking changes nothing");
        let [sent, received, dropped] = self.traffic();
        let verdict = self.switch.process(self.now, port, &mut frame.clone(), outer, &mut self.out);
        let left = std::mem::take(&mut self.out.sent);
        let drop = u64::from(verdict.drop_reason().is_some());
        assert_eq!(self.traffic(), [sent + 1, received + left.len() as u64, dropped + drop], "the ports count every frame");
        let after = self.books().counters;
        let ended = |counters: &SwitchCounters| (counters.connections_revoked, counters.connections_expired, counters.connections_evicted);
        let fresh = ended(&after) != ended(&before.counters);
        agree(&said, &verdict, fresh);
        if said.outcome == verdict.outcome {
            self.check_frames(port, &verdict, &asked, &left, fresh);
        }
        for (egress, frame) in left {
            self.check_sent(&egress, &frame, sound);
            self.recent.push((egress, frame));
        }
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
    }

    /// What left is what was said.
    fn check_frames(&self, port: PortId, verdict: &Verdict, asked: &Frame, left: &[(Egress, Frame)], fresh: bool) {
        match verdict.outcome {
            Outcome::Forwarded(egress) => {
                assert!(left.iter().all(|(to, _)| *to == egress));
                match left {
                    [(_, frame)] => assert_same(asked, frame, fresh),
                    pieces => {
                        assert_eq!(joined(pieces.iter().map(|(_, piece)| piece)).len(), completed(asked).len(), "the pieces are the whole")
                    }
                }
            }
            Outcome::Flooded(count) => assert_eq!(left.len(), count as usize),
            Outcome::Answered => {
                assert_eq!((left.len(), left[0].0.port), (1, port));
                assert_eq!(left[0].1.bytes(), asked.bytes());
            }
            Outcome::Dropped(DropReason::PacketTooBig) => assert!(left.len() <= 1 && left.iter().all(|(egress, _)| egress.port == port)),
            Outcome::Dropped(_) => assert!(left.is_empty(), "what is dropped does not leave"),
        }
    }

    fn check_sent(&self, egress: &Egress, frame: &Frame, sound: bool) {
        let headers = Headers::parse(frame.bytes()).expect("what leaves can be read");
        headers.check_offload(frame).expect("what is left to do fits");
        assert_eq!(egress.encapsulation.is_some(), egress.port == self.tunnel, "tunnels wrap, and nothing else does");
        let length = match frame.offload.segmentation {
            None => headers.end - u32::from(headers.l3),
            Some(segmentation) => u32::from(headers.payload - headers.l3) + u32::from(segmentation.size),
        };
        assert!(length <= u32::from(self.mtus[egress.port.0 as usize]), "it fits the way it goes");
        // Errors quote checksums that are not complete, and a protocol that is not of its family has none.
        if sound && headers.kind != Kind::Other {
            frames::assert_sound(frame);
        }
    }

    /// When everything is over, nothing is left.
    fn settle(&mut self) {
        self.now = self.now.after(std::time::Duration::from_secs(86_400));
        // The first round may have begun in the middle.
        for _ in 0..2 {
            while !self.switch.sweep(self.now, 7) {}
        }
        let books = self.books();
        assert_eq!((books.connections, books.leases), (0, Some(0)));
        assert!(self.switch.flows().is_empty());
    }
}

/// What was said and what happened are the same. Whether there is room was not asked, and a connection that ended with this very
/// packet had names that were not free before.
fn agree(said: &Verdict, verdict: &Verdict, fresh: bool) {
    let no_room = verdict.outcome == Outcome::Dropped(DropReason::NoNatPorts) && verdict.tier == Tier::New;
    let was_taken = fresh && said.outcome == Outcome::Dropped(DropReason::NoNatPorts);
    if no_room || was_taken {
        return;
    }
    assert_eq!(said.outcome, verdict.outcome);
    assert_eq!(said.rule, verdict.rule);
    let tier = if verdict.tier == Tier::Unified { Tier::Connection } else { verdict.tier };
    assert_eq!(said.tier, tier);
}

fn assert_same(asked: &Frame, frame: &Frame, fresh: bool) {
    let is_same = asked.bytes() == frame.bytes() || completed(asked) == frame.bytes();
    if is_same {
        return;
    }
    assert!(fresh, "what leaves is what was said\n{:x?}\n{:x?}", asked.bytes(), frame.bytes());
    assert_eq!(without_names(asked), without_names(frame), "but for the name that translation gave it");
}

fn completed(frame: &Frame) -> Vec<u8> {
    let mut whole = frame.clone();
    if let Ok(headers) = Headers::parse(frame.bytes()) {
        let _ = wire::segment::complete_checksum(&mut whole, &headers);
    }
    whole.bytes().to_vec()
}

/// A frame without what source translation chooses: the source port or identifier, and checksums.
fn without_names(frame: &Frame) -> Vec<u8> {
    let mut bytes = frame.bytes().to_vec();
    let Ok(headers) = Headers::parse(&bytes) else { return bytes };
    let l4 = usize::from(headers.l4);
    let zero: &[usize] = match headers.id.protocol {
        6 => &[0, 1, 16, 17],
        17 => &[0, 1, 6, 7],
        1 | 58 => &[2, 3, 4, 5],
        _ => &[],
    };
    zero.iter().for_each(|at| bytes[l4 + at] = 0);
    bytes
}

/// The packet that these pieces are, as far as its length and payload go.
fn joined<'a>(pieces: impl Iterator<Item = &'a Frame>) -> Vec<u8> {
    let mut whole: Vec<u8> = Vec::new();
    for piece in pieces {
        let headers = Headers::parse(piece.bytes()).expect("a piece can be read");
        let from = if whole.is_empty() { 0 } else { usize::from(headers.l4) };
        whole.extend(&piece.bytes()[from..headers.end as usize]);
    }
    whole
}
