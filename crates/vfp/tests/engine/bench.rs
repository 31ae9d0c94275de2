//! A small switch for tests: ports by name, frames in, frames out.

use std::collections::VecDeque;

use vfp::{
    Action, Conditions, DomainId, DomainSpec, Egress, Instant, Limits, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Sink, Stage,
    Switch, Timeouts, UnderlayId, Verdict,
};
use wire::{Encapsulation, Frame, Headers, Ip, MacAddress};

/// What left the switch.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) sent: VecDeque<(Egress, Frame)>,
    pub(crate) wanted: Vec<(UnderlayId, Ip)>,
    scratch: Frame,
}

impl Sink for Out {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        self.sent.push_back((*egress, frame.clone()));
    }

    fn resolve(&mut self, underlay: UnderlayId, next_hop: Ip, _port: PortId, _frame: &Frame) {
        self.wanted.push((underlay, next_hop));
    }

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

pub(crate) struct Bench {
    pub(crate) switch: Switch,
    pub(crate) out: Out,
    pub(crate) now: Instant,
}

pub(crate) fn mac(last: u8) -> MacAddress {
    MacAddress([0x00, 0x15, 0x5d, 0, 0, last])
}

pub(crate) fn ip(text: &str) -> Ip {
    Ip::from(text.parse::<std::net::IpAddr>().expect("an address"))
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits { ports: 64, connections: 1024, flows: 2048 })
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self { switch: Switch::new(limits, Timeouts::default(), 42), out: Out::default(), now: Instant(1_000_000) }
    }

    pub(crate) fn domain(&self, name: &str) -> DomainId {
        self.switch.add_domain(DomainSpec { name: name.into(), ..DomainSpec::default() })
    }

    pub(crate) fn nic(&self, name: &str, domain: DomainId, last: u8, address: &str) -> PortId {
        self.port(name, PortKind::Nic, domain, last, &[address], ProgramSpec::default())
    }

    pub(crate) fn port(&self, name: &str, kind: PortKind, domain: DomainId, last: u8, addresses: &[&str], program: ProgramSpec) -> PortId {
        let spec = PortSpec {
            name: name.into(),
            kind,
            mac: mac(last),
            addresses: addresses.iter().map(|address| ip(address)).collect(),
            domain,
            mtu: 1500,
            hidden_behind: None,
            hairpin: false,
            program,
        };
        self.switch.add_port(spec).expect("a free port")
    }

    /// Packets to an address go to a port, under its hardware address.
    pub(crate) fn deliver(&self, domain: DomainId, address: &str, port: PortId, last: u8) {
        let forward = Action::Forward { port, source_mac: None, destination_mac: Some(mac(last)) };
        let rule = |stage| (stage, RuleSpec::new(format!("to {address}"), 10, Conditions::to(ip(address)), forward.clone()));
        self.switch.put_rules(domain, [rule(Stage::ForwardOut), rule(Stage::ForwardIn)]).expect("the domain");
    }

    pub(crate) fn send(&mut self, port: PortId, bytes: &[u8]) -> Verdict {
        self.send_wrapped(port, bytes, None)
    }

    pub(crate) fn send_wrapped(&mut self, port: PortId, bytes: &[u8], outer: Option<&Encapsulation>) -> Verdict {
        self.now = Instant(self.now.0 + 1000);
        self.switch.process(self.now, port, &mut Frame::from_bytes(bytes), outer, &mut self.out)
    }

    /// The next frame that left, with its headers.
    pub(crate) fn next(&mut self) -> (Egress, Frame, Headers) {
        let (egress, frame) = self.out.sent.pop_front().expect("a frame left the switch");
        let headers = Headers::parse(frame.bytes()).expect("it is sound");
        (egress, frame, headers)
    }
}

/// A TCP segment, with checksums.
pub(crate) fn tcp(macs: (u8, u8), from: (&str, u16), to: (&str, u16), flags: u8) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2(mac(macs.0).0, mac(macs.1).0).ip(ip_header(from.0, to.0)).tcp(from.1, to.1, 1, 1024);
    let has = |flag: u8| flags & flag != 0;
    let builder = if has(2) { builder.syn() } else { builder };
    let builder = if has(16) { builder.ack(7) } else { builder };
    let builder = if has(1) { builder.fin() } else { builder };
    let builder = if has(4) { builder.rst() } else { builder };
    let mut bytes = Vec::new();
    builder.write(&mut bytes, b"payload").expect("it fits");
    bytes
}

/// A UDP datagram, with checksums.
pub(crate) fn udp(macs: (u8, u8), from: (&str, u16), to: (&str, u16), payload: &[u8]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2(mac(macs.0).0, mac(macs.1).0).ip(ip_header(from.0, to.0)).udp(from.1, to.1);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).expect("it fits");
    bytes
}

fn ip_header(from: &str, to: &str) -> etherparse::IpHeaders {
    use std::net::IpAddr;
    match (from.parse().expect("an address"), to.parse().expect("an address")) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = etherparse::Ipv4Header { time_to_live: 64, source: from.octets(), destination: to.octets(), ..Default::default() };
            etherparse::IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = etherparse::Ipv6Header { hop_limit: 64, source: from.octets(), destination: to.octets(), ..Default::default() };
            etherparse::IpHeaders::Ipv6(header, Default::default())
        }
        _ => panic!("both of one family"),
    }
}

/// Whether the checksums of a frame are right, judged by another implementation.
pub(crate) fn assert_checksums(frame: &[u8]) {
    let packet = etherparse::PacketHeaders::from_ethernet_slice(frame).expect("it is sound");
    let (Some(net), Some(transport)) = (&packet.net, &packet.transport) else { return };
    let payload = packet.payload.slice();
    let (etherparse::NetHeaders::Ipv4(..) | etherparse::NetHeaders::Ipv6(..)) = net else { return };
    match (net, transport) {
        (etherparse::NetHeaders::Ipv4(ip, _), etherparse::TransportHeader::Tcp(tcp)) => {
            assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(ip, payload).expect("it fits"));
        }
        (etherparse::NetHeaders::Ipv6(ip, _), etherparse::TransportHeader::Tcp(tcp)) => {
            assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(ip, payload).expect("it fits"));
        }
        (etherparse::NetHeaders::Ipv4(ip, _), etherparse::TransportHeader::Udp(udp)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv4(ip, payload).expect("it fits"));
        }
        (etherparse::NetHeaders::Ipv6(ip, _), etherparse::TransportHeader::Udp(udp)) => {
            assert_eq!(udp.checksum, udp.calc_checksum_ipv6(ip, payload).expect("it fits"));
        }
        _ => {}
    }
}
