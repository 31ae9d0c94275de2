//! The switch as its API shows it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use host::kernel_flows::Ways;
use vfp::{Action, AddressMatch, Conditions, FlowView, PortView, RuleView};

use super::worker::Shared;

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortRow {
    /// Its number.
    pub id: u32,
    /// What it is known by: the endpoint's name, the adapter's, or the tunnel's.
    pub name: String,
    /// What is behind it: `nic`, `uplink` or `tunnel`.
    pub kind: String,
    /// The address of its NIC.
    pub mac_address: String,
    /// The IP addresses of its NIC, where the switch knows them.
    pub addresses: Vec<String>,
    /// The domain that forwards what it sends.
    pub domain: String,
    /// The largest IP packet to its NIC.
    pub mtu: u16,
    /// The generation of its program.
    pub generation: u32,
    /// How many connections it has begun.
    pub connections: usize,
    /// Frames that its NIC sent.
    pub packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Frames that went to its NIC.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Frames that its NIC did not take.
    pub packets_lost: u64,
    /// What was dropped of what its NIC sent, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// A rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RuleRow {
    /// Its number.
    pub id: u32,
    /// The port or domain it belongs to.
    pub owner: String,
    /// The layer.
    pub layer: String,
    /// The group.
    pub group: String,
    /// The rule.
    pub rule: String,
    /// Its precedence; lower is earlier.
    pub priority: u16,
    /// Which packets.
    pub conditions: String,
    /// What happens to them.
    pub action: String,
    /// Packets it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FlowRow {
    /// The connection.
    pub connection: u32,
    /// Whether it answers.
    pub reply: bool,
    /// The port its packets come from.
    pub from: u32,
    /// The port they go to.
    pub to: u32,
    /// The protocol.
    pub protocol: u8,
    /// Its packets as they come.
    pub source: String,
    /// To whom.
    pub destination: String,
    /// Its packets as they go, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translated: Option<String>,
    /// The tunnel they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
    /// Whether it is in the unified flow table and up to date.
    pub unified: bool,
    /// Whether it is in the kernel too, and up to date there.
    #[serde(default)]
    pub kernel: bool,
    /// How far it is, for TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how long it has been idle.
    pub idle_ms: u64,
    /// The rules they meet, in order.
    pub rules: Vec<String>,
}

/// All counters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CounterSet {
    /// Of the switch as a whole.
    pub switch: BTreeMap<String, u64>,
    /// Drops over all ports, by reason.
    pub drops: BTreeMap<String, u64>,
    /// What each reason means.
    pub reasons: BTreeMap<String, String>,
}

/// Drops of a port by reason, with what its tunnel could not even read.
fn drops(shared: &Shared, port: &PortView) -> BTreeMap<String, u64> {
    let mut drops: BTreeMap<String, u64> = port.counters.drops.iter().map(|drop| (drop.reason.key().to_owned(), drop.packets)).collect();
    let malformed = shared.malformed.of(port.id);
    if malformed > 0 {
        *drops.entry(vfp::DropReason::Tunnel.key().to_owned()).or_default() += malformed;
    }
    drops
}

pub(super) fn port(shared: &Shared, view: PortView) -> PortRow {
    let drops = drops(shared, &view);
    let counters = view.counters;
    PortRow {
        id: view.id.0,
        name: view.name,
        kind: view.kind.name().to_owned(),
        mac_address: view.mac.to_string(),
        addresses: view.addresses.iter().map(ToString::to_string).collect(),
        domain: view.domain,
        mtu: view.mtu,
        generation: view.generation,
        connections: view.connections,
        packets_sent: counters.packets_sent,
        bytes_sent: counters.bytes_sent,
        packets_received: counters.packets_received,
        bytes_received: counters.bytes_received,
        packets_lost: shared.outlets.lost(view.id),
        drops,
    }
}

pub(super) fn rule(view: RuleView) -> RuleRow {
    RuleRow {
        id: view.id.0,
        owner: view.place.owner,
        layer: view.place.layer,
        group: view.place.group,
        rule: view.place.rule,
        priority: view.spec.priority,
        conditions: conditions(&view.spec.conditions),
        action: action(&view.spec.action),
        packets: view.packets,
        bytes: view.bytes,
    }
}

pub(super) fn flow(shared: &Shared, view: FlowView) -> FlowRow {
    let end = |address: wire::Ip, port: u16| std::net::SocketAddr::new(address.into(), port).to_string();
    let now = shared.now();
    FlowRow {
        connection: view.connection,
        reply: view.reply,
        from: view.from.0,
        to: view.to.0,
        protocol: view.id.protocol,
        source: end(view.id.source, view.id.source_port),
        destination: end(view.id.destination, view.id.destination_port),
        translated: (view.translated != view.id).then(|| {
            let id = view.translated;
            format!("{} > {}", end(id.source, id.source_port), end(id.destination, id.destination_port))
        }),
        tunnel: view.encapsulation.map(|outer| format!("{} {} to {}", outer.kind, outer.vni, outer.remote)),
        unified: view.unified,
        kernel: view.offloaded,
        state: view.tcp.map(|state| state.name().to_owned()),
        packets: view.packets,
        bytes: view.bytes,
        idle_ms: u64::try_from(now.since(view.last_seen).as_millis()).unwrap_or(u64::MAX),
        rules: view.rules.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn counters(shared: &Shared) -> CounterSet {
    let counters = shared.switch.counters();
    let (connections, capacity) = shared.switch.connection_usage();
    let switch = [
        ("packets-unified", counters.unified),
        ("packets-connection", counters.connection),
        ("packets-new", counters.new),
        ("flows-resimulated", counters.resimulated),
        ("flows-displaced", counters.flows_displaced),
        ("connections", connections as u64),
        ("connections-max", capacity as u64),
        ("connections-made", counters.connections_made),
        ("connections-expired", counters.connections_expired),
        ("connections-revoked", counters.connections_revoked),
        ("connections-evicted", counters.connections_evicted),
        ("connections-renamed", counters.connections_renamed),
        ("neighbours-answered", counters.neighbours_answered),
        ("errors-sent", counters.errors_sent),
    ];
    let kernel = shared.kernel.as_ref().map_or_else(Vec::new, |kernel| ways(&kernel.ways()));
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    for port in shared.switch.ports() {
        for (reason, packets) in self::drops(shared, &port) {
            *drops.entry(reason).or_default() += packets;
        }
    }
    let reasons = vfp::DropReason::ALL.iter().map(|reason| (reason.key().to_owned(), reason.text().to_owned())).collect();
    let switch = switch.into_iter().chain(kernel).map(|(name, value)| (name.to_owned(), value)).collect();
    CounterSet { switch, drops, reasons }
}

/// Packets that the kernel forwarded by itself, and why it left others to the engine.
fn ways(ways: &Ways) -> Vec<(&'static str, u64)> {
    vec![
        ("packets-kernel", ways.forwarded),
        ("kernel-unknown", ways.unknown),
        ("kernel-stale", ways.stale),
        ("kernel-opening", ways.opening),
        ("kernel-odd", ways.odd),
        ("kernel-large", ways.large),
        ("kernel-paused", ways.paused),
        ("kernel-opened", ways.opened),
    ]
}

/// Conditions as people write them.
fn conditions(conditions: &Conditions) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            parts.push(format!("{name} {}", values.join(",")));
        }
    };
    let addresses = |list: &[AddressMatch]| list.iter().flat_map(AddressMatch::prefixes).map(ToString::to_string).collect::<Vec<_>>();
    let ports = |list: &[vfp::PortRange]| {
        let one = |range: &vfp::PortRange| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{}-{}", range.start(), range.end()),
        };
        list.iter().map(one).collect::<Vec<_>>()
    };
    part("protocol", conditions.protocols.iter().map(ToString::to_string).collect());
    part("from", addresses(&conditions.sources));
    part("to", addresses(&conditions.destinations));
    part("from-port", ports(&conditions.source_ports));
    part("to-port", ports(&conditions.destination_ports));
    part("from-mac", conditions.source_macs.iter().map(ToString::to_string).collect());
    part("to-mac", conditions.destination_macs.iter().map(ToString::to_string).collect());
    part("vni", conditions.vni.iter().map(ToString::to_string).collect());
    part("ether-type", conditions.ether_types.iter().map(|number| format!("{number:#06x}")).collect());
    if parts.is_empty() { "any".to_owned() } else { parts.join(" ") }
}

/// An action as people write it.
fn action(action: &Action) -> String {
    let mut text = action.name().to_owned();
    let macs = |text: &mut String, source: &Option<wire::MacAddress>, destination: &Option<wire::MacAddress>| {
        source.iter().for_each(|mac| text.push_str(&format!(" from-mac {mac}")));
        destination.iter().for_each(|mac| text.push_str(&format!(" to-mac {mac}")));
    };
    match action {
        Action::Block(reason) => text.push_str(&format!(" {reason}")),
        Action::Modify { source_mac, destination_mac, source, destination, source_port, destination_port } => {
            macs(&mut text, source_mac, destination_mac);
            source.iter().for_each(|address| text.push_str(&format!(" from {address}")));
            source_port.iter().for_each(|port| text.push_str(&format!(" from-port {port}")));
            destination.iter().for_each(|address| text.push_str(&format!(" to {address}")));
            destination_port.iter().for_each(|port| text.push_str(&format!(" to-port {port}")));
        }
        Action::SourceNat { address, .. } => text.push_str(&format!(" as {address}")),
        Action::Redirect(service) => text.push_str(&format!(" to {} backends", service.backends.list().len())),
        Action::Forward { port, source_mac, destination_mac } => {
            text.push_str(&format!(" to port {port}"));
            macs(&mut text, source_mac, destination_mac);
        }
        Action::Push { port, encapsulation, source_mac, destination_mac } => {
            let wire::Encapsulation { kind, vni, remote, .. } = encapsulation;
            text.push_str(&format!(" {kind} {vni} to {remote} by port {port}"));
            macs(&mut text, source_mac, destination_mac);
        }
        Action::Answer(mac) => text.push_str(&format!(" {mac}")),
        Action::Allow | Action::Pass | Action::Count | Action::Refuse | Action::Pop { .. } | Action::Route(_) | Action::Flood => {}
    }
    text
}
