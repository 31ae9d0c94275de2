//! A small switch for tests: ports by name, frames in, frames out.

use std::collections::VecDeque;

use ipnet::IpNet;
use vfp::{
    Action, Conditions, DomainId, DomainSpec, DropReason, Egress, GroupSpec, Instant, LayerSpec, Limits, Outcome, PortId, PortKind,
    PortSpec, ProgramSpec, RuleSpec, Sink, Stage, Switch, Timeouts, UnderlayId, Verdict,
};
use wire::{Encapsulation, Frame, Headers, Ip};

pub(crate) use super::frames::{Carries, assert_checksums, assert_sound, frame, ip, mac};

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
        self.switch.add_port(port_spec(name, kind, domain, last, addresses, program)).expect("a free port")
    }

    /// Two NICs that reach each other, the first of which filters by these layers: 10.0.0.1 and fd00::1, 10.0.0.2 and fd00::2.
    pub(crate) fn pair(layers: Vec<LayerSpec>) -> (Self, PortId, PortId) {
        let bench = Self::new();
        let domain = bench.domain("switch");
        let a = bench.port("a", PortKind::Nic, domain, 1, &["10.0.0.1", "fd00::1"], ProgramSpec { layers });
        let b = bench.port("b", PortKind::Nic, domain, 2, &["10.0.0.2", "fd00::2"], ProgramSpec::default());
        for (address, port, last) in [("10.0.0.1", a, 1), ("fd00::1", a, 1), ("10.0.0.2", b, 2), ("fd00::2", b, 2)] {
            bench.deliver(domain, address, port, last);
        }
        (bench, a, b)
    }

    /// Gives the first NIC of a pair other layers.
    pub(crate) fn refilter(&self, a: PortId, layers: Vec<LayerSpec>) {
        let spec = port_spec("a", PortKind::Nic, self.first_domain(), 1, &["10.0.0.1", "fd00::1"], ProgramSpec { layers });
        self.switch.change_port(a, spec).expect("the port");
    }

    /// The domain that was made first.
    pub(crate) fn first_domain(&self) -> DomainId {
        DomainId(1)
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

    pub(crate) fn send_frame(&mut self, port: PortId, frame: &Frame) -> Verdict {
        self.now = Instant(self.now.0 + 1000);
        self.switch.process(self.now, port, &mut frame.clone(), None, &mut self.out)
    }

    /// Sends a frame that must arrive somewhere, and answers what arrived.
    pub(crate) fn pass(&mut self, port: PortId, bytes: &[u8]) -> (Egress, Frame, Headers) {
        let verdict = self.send(port, bytes);
        assert!(matches!(verdict.outcome, Outcome::Forwarded(_)), "{verdict:?}");
        self.next()
    }

    /// Why a frame is dropped, which it must be. What a refused sender is told is not looked at.
    pub(crate) fn fail(&mut self, port: PortId, bytes: &[u8]) -> DropReason {
        let reason = self.send(port, bytes).drop_reason().expect("it is dropped");
        if matches!(reason, DropReason::Refused | DropReason::NoBackend) {
            self.out.sent.clear();
        }
        assert!(self.out.sent.is_empty() || reason == DropReason::PacketTooBig);
        reason
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now.after(std::time::Duration::from_secs(seconds));
    }

    /// Looks at every connection once.
    pub(crate) fn sweep(&self) {
        assert!(self.switch.sweep(self.now, usize::MAX));
    }

    /// Where the rule of a verdict stands.
    pub(crate) fn place(&self, verdict: &Verdict) -> String {
        self.switch.place(verdict.rule).map(|place| place.to_string()).unwrap_or_default()
    }

    /// The next frame that left, with its headers.
    pub(crate) fn next(&mut self) -> (Egress, Frame, Headers) {
        let (egress, frame) = self.out.sent.pop_front().expect("a frame left the switch");
        let headers = Headers::parse(frame.bytes()).expect("it is sound");
        (egress, frame, headers)
    }
}

pub(crate) fn port_spec(name: &str, kind: PortKind, domain: DomainId, last: u8, addresses: &[&str], program: ProgramSpec) -> PortSpec {
    PortSpec {
        name: name.into(),
        kind,
        mac: mac(last),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        domain,
        mtu: 1500,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program,
    }
}

/// A TCP segment, with checksums.
pub(crate) fn tcp(macs: (u8, u8), from: (&str, u16), to: (&str, u16), flags: u8) -> Vec<u8> {
    frame((mac(macs.0), mac(macs.1)), ip(from.0), ip(to.0), Carries::Tcp(from.1, to.1, flags), b"payload")
}

/// A UDP datagram, with checksums.
pub(crate) fn udp(macs: (u8, u8), from: (&str, u16), to: (&str, u16), payload: &[u8]) -> Vec<u8> {
    frame((mac(macs.0), mac(macs.1)), ip(from.0), ip(to.0), Carries::Udp(from.1, to.1), payload)
}

/// An echo request.
pub(crate) fn echo(macs: (u8, u8), from: &str, to: &str, id: u16) -> Vec<u8> {
    frame((mac(macs.0), mac(macs.1)), ip(from), ip(to), Carries::Echo(id), b"ping")
}

/// A layer with one group in each direction.
pub(crate) fn layer(name: &str, stateful: bool, outward: Vec<RuleSpec>, inward: Vec<RuleSpec>) -> LayerSpec {
    let group = |name: &str, rules: Vec<RuleSpec>| if rules.is_empty() { vec![] } else { vec![GroupSpec { name: name.into(), rules }] };
    LayerSpec { name: name.into(), stateful, outward: group("out", outward), inward: group("in", inward), ..LayerSpec::default() }
}

pub(crate) fn rule(name: &str, priority: u16, conditions: Conditions, action: Action) -> RuleSpec {
    RuleSpec::new(name, priority, conditions, action)
}

pub(crate) fn block(name: &str, priority: u16, conditions: Conditions) -> RuleSpec {
    rule(name, priority, conditions, Action::Block(DropReason::AclBlock))
}

pub(crate) fn allow(name: &str, priority: u16, conditions: Conditions) -> RuleSpec {
    rule(name, priority, conditions, Action::Allow)
}

pub(crate) fn prefix(text: &str) -> IpNet {
    text.parse().expect("a prefix")
}
