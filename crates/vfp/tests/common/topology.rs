//! The switch that scripts run on: two to four NICs, an uplink, a tunnel, and another virtual network.

use std::sync::Arc;
use std::time::Duration;

use vfp::{
    Action, AddressMatch, Backend, Backends, Conditions, Distribution, DomainId, DomainSpec, DropReason, Flood, GroupSpec, Instant,
    LayerSpec, Limits, Masquerade, NatPoolSpec, NextHop, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Service, Stage, Switch,
    Timeouts, UnderlayId, UnderlaySpec,
};

use super::super::frames::{Out, ip, mac};
use super::{PLAN, World, nic_address, outer, pick};

const NICS: usize = 4;
const LAYERS: usize = 3;
const MTU: u16 = 1500;

/// Conditions of many shapes.
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

/// A layer that lets some pass and some not.
fn acl(name: &str, bytes: [u8; 2], stateful: bool) -> LayerSpec {
    let action = |byte: u8| match byte % 6 {
        0 | 1 => Action::Allow,
        2 => Action::Block(DropReason::AclBlock),
        3 => Action::Pass,
        4 => Action::Refuse,
        _ => Action::Count,
    };
    let rule = |name: &str, byte: u8| RuleSpec::new(name, u16::from(byte >> 6), condition(byte), action(byte / 12));
    let groups = |a: u8, b: u8| vec![group("one", vec![rule("a", a), rule("b", b)]), group("two", vec![rule("c", a ^ b)])];
    LayerSpec {
        name: name.into(),
        stateful,
        outward: groups(bytes[0], bytes[1]),
        inward: groups(bytes[1].rotate_left(3), bytes[0].rotate_left(5)),
        ..LayerSpec::default()
    }
}

impl World {
    pub(super) fn new(plan: &[u8; PLAN]) -> Self {
        // A small flow table, so that flows are displaced.
        let switch = Switch::new(Limits { ports: 16, connections: 1024, flows: 16 }, Timeouts::default(), 7);
        let flood = pick(&[Flood::Nobody, Flood::Listed, Flood::Everybody], plan[0]);
        let domain = |name: &str, flood| switch.add_domain(DomainSpec { name: name.into(), flood, other_protocols: plan[0] & 64 != 0 });
        let (pods, wire, far) = (domain("pods", flood), domain("wire", Flood::Nobody), domain("other", Flood::Nobody));
        let uplink_domain = if plan[1] & 1 == 0 { pods } else { wire };
        let pool = switch.add_pool(NatPoolSpec { ports: 40000..=40255 });
        let table = switch.add_table("services");
        let mut world = Self {
            out: Out::default(),
            now: Instant(1_000_000),
            pods,
            nics: Vec::new(),
            mtus: Vec::new(),
            uplink: PortId(0),
            tunnel: PortId(0),
            other: PortId(0),
            underlay: UnderlayId(0),
            pool,
            table,
            recent: Vec::new(),
            past: Vec::new(),
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
            ..LayerSpec::default()
        };
        world.tunnel = world.port("tunnel", PortKind::Tunnel, wire, 101, 1450, ProgramSpec { layers: vec![layer] });
        world.other = world.port("other", PortKind::Nic, far, 50, MTU, ProgramSpec::default());
        for number in 0..2 + usize::from(plan[2] % 3) {
            world.add_nic(number, &plan[4..]);
        }
        world.change_uplink(plan[1]);
        world.change_table([plan[3], plan[8]]);
        (0..12).for_each(|rule| world.set_rule(rule, true, plan[3]));
        world.connect_other(plan[0] & 16 != 0);
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
    pub(super) fn nic_spec(&self, number: usize, bytes: &[u8]) -> PortSpec {
        let detail = [bytes[3], bytes[4]];
        // Source translation comes last, as in every real program: the port it chooses must not choose the backend.
        let mut kinds: [u8; LAYERS] = [bytes[0] % 8, bytes[1] % 8, bytes[2] % 8];
        kinds.sort_by_key(|kind| *kind == 5);
        let layers = kinds.iter().enumerate().filter_map(|(at, kind)| self.layer(at, *kind, detail)).collect();
        let mtu = if bytes[0] & 128 != 0 { 1300 } else { MTU };
        let mut spec = port_spec(&format!("nic{number}"), PortKind::Nic, self.pods, number as u8 + 1, mtu, ProgramSpec { layers });
        spec.addresses = vec![nic_address(number, true), nic_address(number, false)];
        spec.hidden_behind = (bytes[1] & 128 != 0).then(|| mac(100));
        spec.hairpin = bytes[2] & 128 != 0;
        spec.router_guard = bytes[3] & 128 != 0;
        spec
    }

    fn layer(&self, at: usize, kind: u8, detail: [u8; 2]) -> Option<LayerSpec> {
        let name = format!("layer{at}");
        let stateful =
            |rules| LayerSpec { name: name.clone(), stateful: true, outward: vec![group("rules", rules)], ..LayerSpec::default() };
        Some(match kind {
            0 => return None,
            1 => LayerSpec { name: "service".into(), stateful: true, tables: vec![self.table], ..LayerSpec::default() },
            2 => acl(&name, detail, true),
            3 => acl(&name, detail, false),
            4 => stateful(self.services(detail)),
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

    /// A service with some of the NICs behind it, of a kind that the second byte says.
    fn service(&self, byte: u8, kind: u8, v4: bool) -> Arc<Service> {
        let list = (0..NICS).filter(|nic| byte >> (nic + 2) & 1 == 1).map(|nic| Backend { address: nic_address(nic, v4), port: 8080 });
        let address = ip(if v4 { "192.168.0.1" } else { "2001:db8::1" });
        let masquerade = |always| Some(Masquerade { pool: self.pool, address, always });
        Arc::new(Service {
            backends: Backends::new(list.collect()),
            distribution: pick(&[Distribution::FiveTuple, Distribution::ThreeTuple, Distribution::TwoTuple], kind),
            affinity: (kind & 4 != 0).then(|| Duration::from_secs(60)),
            keep_destination: kind & 24 == 24,
            masquerade: pick(&[None, masquerade(false), masquerade(true), masquerade(true)], kind >> 5),
            domain: None,
            underlay: (byte & 3 == 3).then_some(self.underlay),
        })
    }

    fn services(&self, [byte, kind]: [u8; 2]) -> Vec<RuleSpec> {
        let service = |name: &str, address: &str, protocol: u8, port: u16| {
            let conditions = Conditions { protocols: vec![protocol], destination_ports: vec![port..=port], ..Conditions::to(ip(address)) };
            let action = match port == 8080 {
                true => Action::Refuse,
                false => Action::Redirect(self.service(byte, kind, !address.contains(':'))),
            };
            RuleSpec::new(name, 1, conditions, action)
        };
        vec![
            service("web", "10.96.0.1", 6, 80),
            service("dns", "10.96.0.1", 17, 53),
            service("web6", "fd96::1", 6, 80),
            service("dns6", "fd96::1", 17, 53),
            service("echo", "10.96.0.1", 1, 1000),
            service("sctp", "10.96.0.1", 132, 80),
            service("closed", "10.96.0.1", 6, 8080),
            service("closed6", "fd96::1", 17, 8080),
        ]
    }

    /// Gives the table other services, or takes one away.
    pub(super) fn change_table(&self, [byte, kind]: [u8; 2]) {
        let mut rules = self.services([byte, kind]);
        let gone = rules.swap_remove(usize::from(byte & 7));
        self.switch.put_table_rules(self.table, rules).expect("the table");
        if byte & 128 != 0 {
            self.switch.remove_table_rules(self.table, [gone.name.as_str()]).expect("the table");
        }
    }

    /// From the wire, a port of the node leads to the NICs, or is shut.
    pub(super) fn change_uplink(&self, byte: u8) {
        let conditions = Conditions { destination_ports: vec![80..=80], ..Conditions::to(ip("192.168.0.1")) };
        let service = self.service(byte, byte.rotate_left(3), true);
        // Its backends may be in a network of their own.
        let domain = (byte & 64 != 0).then_some(self.pods);
        let action = match byte & 2 {
            0 => Action::Refuse,
            _ => Action::Redirect(Arc::new(Service { domain, ..(*service).clone() })),
        };
        let rules = if byte & 3 == 0 { vec![] } else { vec![RuleSpec::new("node port", 1, conditions, action)] };
        let layer = LayerSpec { name: "service".into(), stateful: true, outward: vec![group("ports", rules)], ..LayerSpec::default() };
        let domain = self.switch.ports().iter().find(|port| port.id == self.uplink).map(|port| port.domain.clone());
        let domain = if domain.as_deref() == Some("pods") { self.pods } else { DomainId(self.pods.0 + 1) };
        let spec = port_spec("uplink", PortKind::Uplink, domain, 100, MTU, ProgramSpec { layers: vec![layer] });
        self.switch.change_port(self.uplink, spec).expect("the uplink");
    }

    /// One of the rules of the domain, there or not.
    pub(super) fn set_rule(&self, number: u8, there: bool, variant: u8) {
        let name = format!("rule {number}");
        let prefix = |text: &str| Conditions::to_prefix(text.parse().expect("a prefix"));
        let push =
            |last| Action::Push { port: self.tunnel, encapsulation: outer(7, 0), source_mac: None, destination_mac: Some(mac(last)) };
        let out = match variant & 9 {
            // The other NIC is that of a node, which sends on what it gets.
            8.. => Action::Forward { port: self.other, source_mac: None, destination_mac: Some(mac(50)) },
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

    /// Another virtual network with an address that the first one has too. What comes from there may go to the first NIC at once.
    pub(super) fn connect_other(&self, past: bool) {
        let far = DomainId(self.pods.0 + 2);
        let port = if past { self.nics[0] } else { self.other };
        let forward = Action::Forward { port, source_mac: None, destination_mac: Some(mac(50)) };
        let push = Action::Push { port: self.tunnel, encapsulation: outer(8, 1), source_mac: None, destination_mac: Some(mac(62)) };
        let rules = [
            (Stage::ForwardIn, RuleSpec::new("own", 1, Conditions::to(ip("10.0.0.1")), forward)),
            (Stage::ForwardOut, RuleSpec::new("far", 1, Conditions::any(), push)),
        ];
        self.switch.put_rules(far, rules).expect("the domain");
    }

    pub(super) fn know_gateway(&self, last: Option<u8>) {
        for gateway in ["192.168.0.254", "2001:db8::fe"] {
            self.switch.set_neighbour(self.underlay, ip(gateway), last.map(mac)).expect("the underlay");
        }
    }
}

fn port_spec(name: &str, kind: PortKind, domain: DomainId, last: u8, mtu: u16, program: ProgramSpec) -> PortSpec {
    PortSpec {
        name: name.into(),
        kind,
        mac: mac(last),
        addresses: vec![],
        domain,
        mtu,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program,
    }
}
