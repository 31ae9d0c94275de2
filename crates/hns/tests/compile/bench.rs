//! A node in memory: an adapter, networks and endpoints, put into a switch as vswitchd does it.
//!
//! The adapter is at 192.0.2.10 and fd01::10, with the hardware address `host`. `gw`, at 192.0.2.1 and fd01::1, leads everywhere; `peer` is
//! 192.0.2.20 and fd01::20. The ports are called `uplink`, `host`, `tunnel`, `gateway NETWORK`, and as the endpoints.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hns::compile::network::{Mode, Overlay};
use hns::compile::{self, AdapterSite, CompileError, Placed, Realm, Site};
use hns::profile::Limit;
use ipnet::IpNet;
use serde_json::Value;
use vfp::{
    Action, Conditions, DomainId, DomainSpec, DropReason, Egress, Flood, GroupSpec, Instant, LayerSpec, Limits, NatPoolSpec, NextHop,
    Outcome, PortId, PortKind, PortSpec, ProgramSpec, RuleSpec, Sink, Stage, Switch, Timeouts, UnderlayId, UnderlaySpec, Verdict,
};
use wire::{Frame, Headers, Ip, MacAddress};

use crate::documents::read;
use crate::frames::{assert_checksums, ip, mac};
use crate::packet::{NAT_PORTS, Names};

/// The hardware address of the node, of its gateway, and of another machine on the link.
pub(crate) const HOST: u8 = 0x01;
const GATEWAY: u8 = 0xfe;
const PEER: u8 = 0xfd;

/// What left the switch.
#[derive(Default)]
struct Out {
    sent: VecDeque<(Egress, Frame)>,
    wanted: Vec<Ip>,
    scratch: Frame,
}

impl Sink for Out {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        self.sent.push_back((*egress, frame.clone()));
    }

    fn resolve(&mut self, _underlay: UnderlayId, next_hop: Ip, _port: PortId, _frame: &Frame) {
        self.wanted.push(next_hop);
    }

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

/// The rules of a document that are in force.
#[derive(Default)]
struct Installed(BTreeSet<(DomainId, Stage, String)>);

/// A tunnel: its port and which virtual networks it leads where.
struct Tunnel {
    port: PortId,
    spec: PortSpec,
    domains: BTreeMap<u32, DomainId>,
}

struct NetworkState {
    document: Network,
    site: Site,
    rules: Installed,
}

struct EndpointState {
    port: Option<PortId>,
    rules: Installed,
}

/// A node.
pub(crate) struct Node {
    pub(crate) switch: Switch,
    pub(crate) names: Names,
    out: Out,
    now: Instant,
    adapter: AdapterSite,
    limits: Vec<Limit>,
    networks: BTreeMap<String, NetworkState>,
    endpoints: BTreeMap<String, EndpointState>,
    tunnels: BTreeMap<(IpAddr, u16), Tunnel>,
    ports: BTreeMap<String, PortId>,
}

impl Node {
    /// A node without limits.
    pub(crate) fn new() -> Self {
        Self::with(&[], &["192.0.2.10/24", "fd01::10/64", "fe80::10/64"])
    }

    /// A node of a build with these limits.
    pub(crate) fn limited(limits: &[Limit]) -> Self {
        Self::with(limits, &["192.0.2.10/24", "fd01::10/64", "fe80::10/64"])
    }

    /// A node of a build with these limits, whose adapter has these addresses.
    pub(crate) fn with(limits: &[Limit], addresses: &[&str]) -> Self {
        let switch = Switch::new(Limits { ports: 64, connections: 1024, flows: 2048 }, Timeouts::default(), 42);
        let addresses: Vec<IpNet> = addresses.iter().map(|text| text.parse().expect("a prefix")).collect();
        let adapter = take_adapter(&switch, addresses);
        let mut names = Names::default();
        for (name, last) in [("host", HOST), ("gw", GATEWAY), ("peer", PEER)] {
            names.put(name, mac(last));
        }
        names.put("all", MacAddress([0xff; 6]));
        let ports = [("uplink", adapter.uplink), ("host", adapter.host)].map(|(name, port)| (name.to_owned(), port)).into();
        let node = Self {
            switch,
            names,
            out: Out::default(),
            now: Instant(1_000_000),
            adapter,
            limits: limits.to_vec(),
            networks: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            ports,
        };
        let rules = compile::adapter::rules(&node.adapter);
        let site = node.site(None);
        Installed::default().replace(&node.switch, &site, rules);
        node
    }

    fn site(&self, domain: Option<DomainId>) -> Site {
        Site {
            domain,
            adapter: Some(self.adapter.clone()),
            tunnel: None,
            services: None,
            gateway: None,
            limits: self.limits.clone(),
            defects: Vec::new(),
        }
    }

    /// Puts a network in force, or changes the one of that name.
    pub(crate) fn network(&mut self, document: &Value) {
        self.try_network(document).unwrap_or_else(|error| panic!("{document}: {error}"));
    }

    /// As [`Self::network`], if the document can become rules.
    pub(crate) fn try_network(&mut self, document: &Value) -> Result<(), CompileError> {
        let document: Network = read(document);
        let mode = Mode::of(&document)?;
        let known = self.networks.remove(&document.name);
        let domain = match &known {
            Some(state) => state.site.domain,
            None => mode.has_domain().then(|| self.switch.add_domain(compile::network::domain(&document, mode))),
        };
        let mut site = self.site(domain);
        if !mode.has_adapter() {
            site.adapter = None;
        }
        self.prepare(&document, mode, &mut site)?;
        let mut rules = known.map(|state| state.rules).unwrap_or_default();
        rules.replace(&self.switch, &site, compile::network::rules(&document, &site)?);
        self.networks.insert(document.name.clone(), NetworkState { document, site, rules });
        Ok(())
    }

    fn prepare(&mut self, document: &Network, mode: Mode, site: &mut Site) -> Result<(), CompileError> {
        match (mode, site.domain) {
            (Mode::Overlay, Some(domain)) => {
                let overlay = compile::network::overlay(document, self.adapter.addresses.first().map(IpNet::addr))?;
                site.tunnel = Some(self.tunnel(document, &overlay, domain));
                self.names.put(&format!("router {}", document.name), overlay.router_mac);
            }
            (Mode::Transparent, _) => {
                let spec = DomainSpec { name: "eth0".into(), flood: Flood::Everybody, other_protocols: true };
                self.switch.change_domain(self.adapter.wire_domain, spec).expect("the domain");
            }
            (Mode::Nat | Mode::Internal, Some(domain)) => site.gateway = Some(self.gateway(&document.name, domain)),
            _ => {}
        }
        Ok(())
    }

    fn tunnel(&mut self, document: &Network, overlay: &Overlay, domain: DomainId) -> PortId {
        let at = (IpAddr::from(overlay.provider), overlay.port);
        if !self.tunnels.contains_key(&at) {
            let name = if at == (IpAddr::from([192, 0, 2, 10]), 4789) { "tunnel".to_owned() } else { format!("tunnel {}:{}", at.0, at.1) };
            let overhead = if overlay.provider.is_v4() { 50 } else { 70 };
            let mut spec = port_spec(&name, PortKind::Tunnel, HOST, self.adapter.wire_domain);
            spec.mtu = self.adapter.mtu - overhead;
            let port = self.switch.add_port(spec.clone()).expect("a free port");
            self.ports.insert(name, port);
            self.tunnels.insert(at, Tunnel { port, spec, domains: BTreeMap::new() });
        }
        let tunnel = self.tunnels.get_mut(&at).expect("it was made");
        tunnel.domains.extend(compile::network::vnis(document).into_iter().map(|vni| (vni, domain)));
        tunnel.spec.program = tunnel_program(&tunnel.domains);
        self.switch.change_port(tunnel.port, tunnel.spec.clone()).expect("the port");
        tunnel.port
    }

    fn gateway(&mut self, network: &str, domain: DomainId) -> (PortId, MacAddress) {
        let (name, last) = (format!("gateway {network}"), 0xa0);
        let port = match self.ports.get(&name) {
            Some(port) => *port,
            None => self.switch.add_port(port_spec(&name, PortKind::Nic, last, domain)).expect("a free port"),
        };
        self.names.put(&name, mac(last));
        self.ports.insert(name, port);
        (port, mac(last))
    }

    /// Puts an endpoint in force, with a port unless it is on another node.
    pub(crate) fn endpoint(&mut self, network: &str, document: &Value) {
        self.try_endpoint(network, document).unwrap_or_else(|error| panic!("{document}: {error}"));
    }

    /// As [`Self::endpoint`], if the document can become rules. The port is known by the name and the last byte of the hardware address where
    /// the name is taken.
    pub(crate) fn try_endpoint(&mut self, network: &str, document: &Value) -> Result<(), CompileError> {
        let document: Endpoint = read(document);
        let NetworkState { document: network, site, .. } = &self.networks[network];
        let name = match self.ports.contains_key(&document.name) {
            true => format!("{} {}", document.name, &document.mac_address[15..]),
            false => document.name.clone(),
        };
        let (port, rules) = match document.is_remote() {
            true => (None, compile::endpoint::remote_rules(&document, network, site)?),
            false => {
                let port = self.switch.add_port(compile::endpoint::port(&document, network, site)?).expect("a free port");
                if Mode::of(network)? == Mode::Transparent {
                    self.switch.list_port(self.adapter.host_domain, port, true).expect("the domain");
                }
                (Some(port), compile::endpoint::rules(&document, network, site, port)?)
            }
        };
        let mut installed = Installed::default();
        installed.replace(&self.switch, site, rules);
        self.names.put(&name, compile::endpoint::hardware_address(&document)?);
        self.ports.extend(port.map(|port| (name.clone(), port)));
        self.endpoints.insert(name, EndpointState { port, rules: installed });
        Ok(())
    }

    /// Changes an endpoint that is there, with its port. Nothing changes if the document cannot become rules.
    pub(crate) fn change_endpoint(&mut self, network: &str, document: &Value) {
        let document: Endpoint = read(document);
        let NetworkState { document: network, site, .. } = &self.networks[network];
        let port = self.ports[&document.name];
        self.switch.change_port(port, compile::endpoint::port(&document, network, site).expect("sound documents")).expect("the port");
        let state = self.endpoints.get_mut(&document.name).expect("the endpoint");
        state.rules.replace(&self.switch, site, compile::endpoint::rules(&document, network, site, port).expect("sound documents"));
    }

    /// Takes an endpoint away.
    pub(crate) fn remove_endpoint(&mut self, name: &str) {
        let state = self.endpoints.remove(name).expect("the endpoint");
        state.rules.remove(&self.switch);
        if let Some(port) = state.port {
            self.switch.remove_port(port).expect("the port");
            self.ports.remove(name);
        }
    }

    /// What the network asks of the node's own routes.
    pub(crate) fn host_routes(&self, network: &str) -> Vec<String> {
        let NetworkState { document, site, .. } = &self.networks[network];
        compile::network::host_routes(document, site).expect("sound documents").iter().map(ToString::to_string).collect()
    }

    /// The network and the place of it, to compile something else by.
    pub(crate) fn place(&self, network: &str) -> (&Network, &Site) {
        let state = &self.networks[network];
        (&state.document, &state.site)
    }

    /// Sends packets, each by a port, and compares what becomes of them.
    #[track_caller]
    pub(crate) fn check(&mut self, table: &[(&str, &str, &str)]) {
        let found: Vec<String> = table.iter().map(|(port, packet, _)| format!("{port}: {packet} => {}", self.send(port, packet))).collect();
        let expected: Vec<String> = table.iter().map(|(port, packet, end)| format!("{port}: {packet} => {end}")).collect();
        assert!(expected == found, "\nexpected:\n{}\n\nfound:\n{}\n", expected.join("\n"), found.join("\n"));
    }

    /// Sends a packet, and says what became of it.
    pub(crate) fn send(&mut self, port: &str, text: &str) -> String {
        let id = *self.ports.get(port).unwrap_or_else(|| panic!("no port is called {port}"));
        let own = self.switch.ports().into_iter().find(|view| view.id == id).expect("the port").mac;
        let packet = self.names.read(text, own);
        self.now = self.now.after(std::time::Duration::from_millis(1));
        let verdict =
            self.switch.process(self.now, id, &mut Frame::from_bytes(&packet.bytes), packet.encapsulation.as_ref(), &mut self.out);
        self.print(&verdict)
    }

    fn print(&mut self, verdict: &Verdict) -> String {
        let sent: Vec<(Egress, Frame)> = self.out.sent.drain(..).collect();
        for (_, frame) in sent.iter().filter(|(_, frame)| Headers::parse(frame.bytes()).is_ok_and(|headers| headers.ether_type != 0x88b5)) {
            assert_checksums(frame.bytes());
        }
        let wanted = std::mem::take(&mut self.out.wanted);
        match (verdict.outcome, sent.as_slice()) {
            (Outcome::Dropped(DropReason::NoNeighbour), []) => format!("asks for {}", wanted[0]),
            (Outcome::Dropped(reason), _) => match self.switch.place(verdict.rule) {
                Some(place) => format!("drop {reason} by {place}"),
                None => format!("drop {reason}"),
            },
            (Outcome::Flooded(_), copies) => self.print_copies(copies),
            (Outcome::Answered, [(_, frame)]) => format!("is at {}", self.names.print_answer(frame)),
            (Outcome::Forwarded(_), [(egress, frame)]) => format!("{}: {}", self.print_egress(egress), self.names.print(frame)),
            (outcome, sent) => panic!("{outcome:?} with {} frames", sent.len()),
        }
    }

    fn print_copies(&self, copies: &[(Egress, Frame)]) -> String {
        let mut ports: Vec<String> = copies.iter().map(|(egress, _)| self.port_name(egress.port)).collect();
        ports.sort();
        format!("flood {}", ports.join(", "))
    }

    fn print_egress(&self, egress: &Egress) -> String {
        let port = self.port_name(egress.port);
        egress.encapsulation.map_or_else(
            || port.clone(),
            |outer| format!("{port} {} of {} from {} to {} port {}", outer.kind, outer.vni, outer.local, outer.remote, outer.port),
        )
    }

    fn port_name(&self, port: PortId) -> String {
        self.ports.iter().find(|(_, id)| **id == port).map_or_else(|| port.to_string(), |(name, _)| name.clone())
    }
}

impl Installed {
    /// Puts these rules in force, and takes away those of before that are not among them.
    fn replace(&mut self, switch: &Switch, site: &Site, rules: Vec<Placed>) {
        let mut after = BTreeSet::new();
        for Placed { realm, stage, rule } in rules {
            let adapter = site.adapter.as_ref();
            let domain = match realm {
                Realm::Own => site.domain,
                Realm::Wire => adapter.map(|adapter| adapter.wire_domain),
                Realm::Host => adapter.map(|adapter| adapter.host_domain),
            };
            let domain = domain.unwrap_or_else(|| panic!("{realm:?} has no domain here"));
            assert!(after.insert((domain, stage, rule.name.clone())), "two rules are called {:?}", rule.name);
            switch.put_rules(domain, [(stage, rule)]).expect("the domain");
        }
        for (domain, stage, name) in self.0.difference(&after) {
            switch.remove_rules(*domain, [(*stage, name.as_str())]).expect("the domain");
        }
        self.0 = after;
    }

    fn remove(self, switch: &Switch) {
        for (domain, stage, name) in self.0 {
            switch.remove_rules(domain, [(stage, name.as_str())]).expect("the domain");
        }
    }
}

/// Makes domains, ports and all that an adapter needs in the switch.
fn take_adapter(switch: &Switch, addresses: Vec<IpNet>) -> AdapterSite {
    let domain = |name: &str| switch.add_domain(DomainSpec { name: name.into(), flood: Flood::Listed, other_protocols: false });
    let (wire_domain, host_domain) = (domain("eth0"), domain("vEthernet (eth0)"));
    let uplink = switch.add_port(port_spec("eth0", PortKind::Uplink, HOST, wire_domain)).expect("a free port");
    let host = switch.add_port(port_spec("vEthernet (eth0)", PortKind::Nic, HOST, host_domain)).expect("a free port");
    switch.list_port(wire_domain, host, true).expect("the domain");
    switch.list_port(host_domain, uplink, true).expect("the domain");
    let route = |prefix: &str, hop: NextHop| (prefix.parse().expect("a prefix"), hop);
    let via = |gateway: &str| NextHop::Gateway(ip(gateway));
    let routes = vec![
        route("192.0.2.0/24", NextHop::Link),
        route("0.0.0.0/0", via("192.0.2.1")),
        route("fd01::/64", NextHop::Link),
        route("::/0", via("fd01::1")),
    ];
    let underlay = switch.add_underlay(UnderlaySpec { uplink, mac: mac(HOST), routes });
    for (address, last) in [("192.0.2.1", GATEWAY), ("fd01::1", GATEWAY), ("192.0.2.20", PEER), ("fd01::20", PEER)] {
        switch.set_neighbour(underlay, ip(address), Some(mac(last))).expect("the underlay");
    }
    let pool = switch.add_pool(NatPoolSpec { ports: NAT_PORTS });
    let [node_services, outside_services] = ["node", "outside"].map(|of| switch.add_table(of));
    AdapterSite {
        uplink,
        host,
        wire_domain,
        host_domain,
        underlay,
        pool,
        node_services,
        outside_services,
        mac: mac(HOST),
        addresses,
        mtu: 1500,
    }
}

fn port_spec(name: &str, kind: PortKind, last: u8, domain: DomainId) -> PortSpec {
    PortSpec {
        name: name.into(),
        kind,
        mac: mac(last),
        addresses: Vec::new(),
        domain,
        mtu: 1500,
        hidden_behind: None,
        hairpin: false,
        router_guard: false,
        program: ProgramSpec::default(),
    }
}

/// Frames of a virtual network are popped into its domain; those of any other are dropped.
fn tunnel_program(domains: &BTreeMap<u32, DomainId>) -> ProgramSpec {
    let pop =
        |(vni, domain): (&u32, &DomainId)| RuleSpec::new(vni.to_string(), 10, Conditions::of_vni(*vni), Action::Pop { domain: *domain });
    let mut rules: Vec<RuleSpec> = domains.iter().map(pop).collect();
    rules.push(RuleSpec::new("unknown", 1000, Conditions::any(), Action::Block(DropReason::UnknownVni)));
    let outward = vec![GroupSpec { name: "vni".into(), rules }];
    ProgramSpec { layers: vec![LayerSpec { name: "encapsulation".into(), stateful: false, outward, ..LayerSpec::default() }] }
}
