//! Small switches, each with one thing to do.

use std::sync::Arc;

use vfp::{
    Action, AddressMatch, Backend, Backends, Conditions, DomainId, DomainSpec, DropReason, Egress, GroupSpec, LayerSpec, Limits,
    NatPoolSpec, NextHop, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Service, Sink, Stage, Switch, TableId, Timeouts, UnderlayId,
    UnderlaySpec,
};
use wire::{Encapsulation, Frame, Ip, MacAddress, TunnelKind};

/// A sink that keeps nothing.
#[derive(Default)]
pub(crate) struct Discard {
    scratch: Frame,
}

impl Sink for Discard {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        std::hint::black_box((egress, frame.bytes()));
    }

    fn resolve(&mut self, _underlay: UnderlayId, _next_hop: Ip, _port: PortId, _frame: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

/// A switch, the port that packets come from, and the packets.
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) switch: Switch,
    pub(crate) from: PortId,
    pub(crate) packets: Vec<Vec<u8>>,
}

/// Bytes of a slot of the unified flow table: four cache lines.
pub(crate) const SLOT: usize = 256;

/// What the switch has room for, as vswitchd does.
pub(crate) const CONNECTIONS: usize = 131_072;
pub(crate) const FLOWS: usize = 2 * CONNECTIONS;

const PEER: Ip = Ip::v4(0x0a00_0002);
const NODE: Ip = Ip::v4(0xc0a8_0001);
const REMOTE: Ip = Ip::v4(0xc0a8_0002);
/// The address of the first service.
const VIPS: u32 = 0x0a60_0000;
const GATEWAY: Ip = Ip::v4(0xc0a8_00fe);

fn mac(last: u8) -> MacAddress {
    MacAddress([0, 0x15, 0x5d, 0, 0, last])
}

/// A UDP packet of 64 bytes; the number decides its ports.
pub(crate) fn packet(number: u64) -> Vec<u8> {
    let (source, destination) = (1024 + (number % 60_000) as u16, 1 + (number / 60_000 % 60_000) as u16);
    let builder = etherparse::PacketBuilder::ethernet2(mac(1).0, mac(2).0).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(source, destination);
    let mut bytes = Vec::with_capacity(64);
    builder.write(&mut bytes, &[0; 22]).expect("it fits");
    bytes
}

/// A UDP packet of 64 bytes to one of so many services.
pub(crate) fn question(number: u64, services: u32) -> Vec<u8> {
    let [a, b, c, d] = (VIPS + (number % u64::from(services)) as u32).to_be_bytes();
    let [.., high, middle, low] = (number / 60_000).to_be_bytes();
    let source = 1024 + (number % 60_000) as u16;
    let builder = etherparse::PacketBuilder::ethernet2(mac(1).0, mac(2).0).ipv4([11, high, middle, low], [a, b, c, d], 64).udp(source, 80);
    let mut bytes = Vec::with_capacity(64);
    builder.write(&mut bytes, &[0; 22]).expect("it fits");
    bytes
}

fn switch() -> (Switch, DomainId) {
    let switch = Switch::new(Limits { ports: 64, connections: CONNECTIONS, flows: FLOWS }, Timeouts::default(), 42);
    let domain = switch.add_domain(DomainSpec { name: "bench".into(), ..DomainSpec::default() });
    (switch, domain)
}

fn port(switch: &Switch, domain: DomainId, kind: PortKind, last: u8, layers: Vec<LayerSpec>) -> PortId {
    let spec = PortSpec {
        name: format!("port {last}"),
        kind,
        mac: mac(last),
        addresses: Vec::new(),
        domain,
        mtu: 1500,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program: ProgramSpec { layers },
    };
    switch.add_port(spec).expect("a free port")
}

impl Scenario {
    /// Scenarios for known flows.
    pub(crate) fn known(flows: usize) -> Vec<Self> {
        vec![bridge(flows), translation(flows), tunnel(flows), service(flows)]
    }

    /// A scenario in which every packet is a new connection.
    pub(crate) fn fresh() -> Self {
        bridge(1)
    }

    /// A scenario in which every packet is a new connection to one of so many services, past so many rules of an access list.
    pub(crate) fn services(services: u32, rules: u32) -> Self {
        let (switch, domain) = switch();
        let table = Self::table(&switch, services);
        let blocked = (0..rules).map(|number| {
            let sources = vec![AddressMatch::host(Ip::v4(0x0a01_0000 + number))];
            let conditions = Conditions { sources, destination_ports: vec![80..=90], ..Conditions::default() };
            RuleSpec::new(format!("rule {number}"), 100, conditions, Action::Block(DropReason::AclBlock))
        });
        let acl = LayerSpec {
            name: "acl".into(),
            stateful: true,
            outward: vec![GroupSpec { name: "rules".into(), rules: blocked.collect() }],
            ..LayerSpec::default()
        };
        let from = port(&switch, domain, PortKind::Nic, 1, vec![acl, asking(table)]);
        let to = port(&switch, domain, PortKind::Nic, 2, Vec::new());
        forward(&switch, domain, Action::Forward { port: to, source_mac: None, destination_mac: Some(mac(9)) });
        let past = if rules == 0 { String::new() } else { format!(", {rules} ACL rules") };
        let name = format!("new connection, {services} services{past}");
        Self { name, switch, from, packets: Vec::new() }
    }

    /// A table with so many services, each with a backend of its own port.
    pub(crate) fn table(switch: &Switch, services: u32) -> TableId {
        let table = switch.add_table("services");
        let rule = |number: u32| {
            let backends = Backends::new(vec![Backend { address: PEER, port: 8080 + (number % 1024) as u16 }]);
            let service = Service { backends, ..Service::default() };
            let conditions = Conditions { protocols: vec![17], destination_ports: vec![80..=80], ..Conditions::to(Ip::v4(VIPS + number)) };
            RuleSpec::new(format!("service {number}"), 1, conditions, Action::Redirect(Arc::new(service)))
        };
        (0..services).for_each(|number| switch.put_table_rules(table, [rule(number)]).expect("the table"));
        table
    }

    /// A service with so many backends.
    pub(crate) fn large(backends: u32) -> Service {
        let backend = |number: u32| Backend { address: Ip::v4(0x0a00_0000 + number), port: 8080 };
        Service { backends: Backends::new((0..backends).map(backend).collect()), ..Service::default() }
    }
}

fn packets(flows: usize) -> Vec<Vec<u8>> {
    (0..flows as u64).map(packet).collect()
}

fn forward(switch: &Switch, domain: DomainId, action: Action) {
    switch.put_rules(domain, [(Stage::ForwardOut, RuleSpec::new("peer", 1, Conditions::to(PEER), action))]).expect("the domain");
}

/// Another NIC of the same domain: frame addresses change.
fn bridge(flows: usize) -> Scenario {
    let (switch, domain) = switch();
    let from = port(&switch, domain, PortKind::Nic, 1, Vec::new());
    let to = port(&switch, domain, PortKind::Nic, 2, Vec::new());
    forward(&switch, domain, Action::Forward { port: to, source_mac: None, destination_mac: Some(mac(9)) });
    Scenario { name: format!("known, bridge, {flows} flows"), switch, from, packets: packets(flows) }
}

/// The outside, by translation: frame addresses, source address and port, and checksums change.
fn translation(flows: usize) -> Scenario {
    let (switch, domain) = switch();
    let uplink = port(&switch, domain, PortKind::Uplink, 100, Vec::new());
    let everywhere = "0.0.0.0/0".parse().expect("a prefix");
    let underlay = switch.add_underlay(UnderlaySpec { uplink, mac: mac(100), routes: vec![(everywhere, NextHop::Gateway(GATEWAY))] });
    switch.set_neighbour(underlay, GATEWAY, Some(mac(254))).expect("the underlay");
    let pool = switch.add_pool(NatPoolSpec { ports: 1..=u16::MAX });
    let action = Action::SourceNat { pool, address: NODE, underlay, most: None };
    let group = GroupSpec { name: "outbound".into(), rules: vec![RuleSpec::new("all", 1, Conditions::any(), action)] };
    let layer = LayerSpec { name: "nat".into(), stateful: true, outward: vec![group], ..LayerSpec::default() };
    let from = port(&switch, domain, PortKind::Nic, 1, vec![layer]);
    // To as many places as there are flows, since the ports towards one place are finite.
    let spread = |number: u64| packet(number % 20_000 + number / 20_000 * 60_000);
    Scenario { name: format!("known, outbound NAT, {flows} flows"), switch, from, packets: (0..flows as u64).map(spread).collect() }
}

fn asking(table: TableId) -> LayerSpec {
    LayerSpec { name: "service".into(), stateful: true, tables: vec![table], ..LayerSpec::default() }
}

/// A service with one backend on this node: frame addresses, destination address and port, and checksums change.
fn service(flows: usize) -> Scenario {
    let scenario = Scenario::services(1, 0);
    let packets = (0..flows as u64).map(|number| question(number, 1)).collect();
    Scenario { name: format!("known, service, {flows} flows"), packets, ..scenario }
}

/// Another node, by VXLAN: inner frame addresses change, outer headers go along.
fn tunnel(flows: usize) -> Scenario {
    let (switch, domain) = switch();
    let from = port(&switch, domain, PortKind::Nic, 1, Vec::new());
    let to = port(&switch, domain, PortKind::Tunnel, 2, Vec::new());
    let encapsulation = Encapsulation { kind: TunnelKind::Vxlan, vni: 4096, local: NODE, remote: REMOTE, port: 4789 };
    forward(&switch, domain, Action::Push { port: to, encapsulation, source_mac: Some(mac(3)), destination_mac: Some(mac(4)) });
    Scenario { name: format!("known, overlay push, {flows} flows"), switch, from, packets: packets(flows) }
}
