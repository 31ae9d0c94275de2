//! The generated parts of `docs/reference`: they say what the code does, or this fails. `TRANSOM_UPDATE=1` writes them anew.

use std::fmt::Write;
use std::path::PathBuf;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::{Field, Path};
use hns::compile::network::Mode;
use hns::compile::{self, AdapterSite, Placed, Realm, Site};
use serde_json::{Value, json};
use vfp::{DomainId, DropReason, GroupSpec, LayerSpec, PoolId, PortId, RuleSpec, Stage, TableId, UnderlayId};
use wire::MacAddress;

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Compares the generated part of a page with what it should be, or writes it.
fn check(page: &str, generated: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (found, after))) = parts else { panic!("{page} has no part that is generated") };
    let expected = format!("\n{generated}\n\n");
    if found == expected {
        return;
    }
    if std::env::var_os("TRANSOM_UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    panic!("{page} does not say what the code does; run `TRANSOM_UPDATE=1 cargo test -p hns --test reference`\n{expected}");
}

#[test]
fn policies() {
    check("policies.md", compile::support::table().trim_end());
}

#[test]
fn drop_reasons() {
    let mut text = String::from("| counter | what happened |\n|---|---|\n");
    for reason in DropReason::ALL {
        writeln!(text, "| `{}` | {} |", reason.key(), reason.text()).unwrap();
    }
    check("drop-reasons.md", text.trim_end());
}

#[test]
fn layers() {
    let parts: Vec<String> = ["L2Bridge", "L2Tunnel", "Overlay", "Transparent", "NAT"].into_iter().map(mode).collect();
    check("layers.md", &parts.join("\n\n"));
}

fn read<T: Field>(document: Value) -> T {
    T::read(document, &Path::Root).unwrap()
}

/// A network of a type with all that it can have, and an endpoint of it.
fn documents(network_type: &str) -> (Network, Endpoint) {
    let vsid = json!([{"Type": "VSID", "Settings": {"IsolationId": 5000}}]);
    let remote = json!({"DestinationPrefix": "10.244.2.0/24", "IsolationId": 5000, "ProviderAddress": "192.0.2.11",
        "DistributedRouterMacAddress": "02-00-00-00-0B-02"});
    let route = json!({"Type": "RemoteSubnetRoute", "Settings": remote});
    let acl = json!({"Type": "NetworkACL", "Settings": {"Action": "Block", "Direction": "In", "LocalPorts": "22", "Priority": 100}});
    let network = json!({
        "ID": "00000000-0000-4000-8000-000000000001", "Name": "net", "Type": network_type,
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "10.244.1.0/24", "Policies": if network_type == "Overlay" { vsid } else { json!([]) },
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "Policies": if network_type == "Overlay" { vec![acl, route] } else { vec![acl] },
    });
    let nat = |settings: Value| json!({"Type": "OutBoundNAT", "Settings": settings});
    let policies =
        [nat(json!({"VirtualIP": "192.0.2.99", "Destinations": ["198.51.100.0/24"]})), nat(json!({"Exceptions": ["10.0.0.0/8"]}))];
    let lists = [
        json!({"Type": "ACL", "Settings": {"Action": "Block", "Direction": "In", "Priority": 200, "Id": "rest"}}),
        json!({"Type": "ACL", "Settings": {"Action": "Allow", "Direction": "Out", "RuleType": "Host", "Priority": 100}}),
        json!({"Type": "TierAcl", "Settings": {"Name": "base", "Direction": "In", "Order": 1, "TierAclRules": [{"TierAclRuleAction": "Pass"}]}}),
    ];
    let translated = matches!(network_type, "L2Bridge" | "L2Tunnel" | "Overlay");
    let endpoint = json!({
        "ID": "00000000-0000-4000-8000-000000000002", "Name": "pod", "MacAddress": "00-15-5D-00-00-02",
        "IpConfigurations": [{"IpAddress": "10.244.1.2", "PrefixLength": 24}],
        "Policies": if translated { [&policies[..], &lists].concat() } else { lists.to_vec() },
    });
    (read(network), read(endpoint))
}

/// A place for a network: the numbers mean nothing here.
fn site(mode: Mode) -> Site {
    let mac = MacAddress([0x00, 0x15, 0x5d, 0, 0, 1]);
    let adapter = AdapterSite {
        uplink: PortId(0),
        host: PortId(1),
        wire_domain: DomainId(1),
        host_domain: DomainId(2),
        underlay: UnderlayId(3),
        pool: PoolId(4),
        node_services: TableId(7),
        outside_services: TableId(8),
        mac,
        addresses: vec!["192.0.2.10/24".parse().unwrap()],
        mtu: 1500,
    };
    Site {
        domain: mode.has_domain().then_some(DomainId(5)),
        adapter: mode.has_adapter().then_some(adapter),
        tunnel: (mode == Mode::Overlay).then_some(PortId(2)),
        services: mode.has_services().then_some(TableId(6)),
        gateway: mode.has_gateway_vnic().then_some((PortId(3), mac)),
        limits: Vec::new(),
        defects: Vec::new(),
    }
}

/// What a packet meets on a network of a type.
fn mode(network_type: &str) -> String {
    let (network, endpoint) = documents(network_type);
    let site = site(Mode::of(&network).unwrap());
    let mut text = format!("## {network_type}\n\n| where | layer | group | rules, in order |\n|---|---|---|---|\n");
    let port = compile::endpoint::port(&endpoint, &network, &site).unwrap();
    for layer in &port.program.layers {
        text.push_str(&layer_rows(layer, "the endpoint's port, sent", &layer.outward));
    }
    let mut placed = site.adapter.as_ref().map(compile::adapter::rules).unwrap_or_default();
    placed.extend(compile::network::rules(&network, &site).unwrap());
    placed.extend(compile::endpoint::rules(&endpoint, &network, &site, PortId(9)).unwrap());
    for (realm, name) in [(Realm::Own, "the network's domain"), (Realm::Wire, "the adapter's domain"), (Realm::Host, "the node's domain")] {
        for stage in [Stage::ForwardOut, Stage::ForwardIn, Stage::NeighbourOut, Stage::NeighbourIn] {
            text.push_str(&stage_row(&placed, realm, stage, name));
        }
    }
    for layer in port.program.layers.iter().rev() {
        text.push_str(&layer_rows(layer, "the endpoint's port, received", &layer.inward));
    }
    text.trim_end().to_owned()
}

fn layer_rows(layer: &LayerSpec, place: &str, groups: &[GroupSpec]) -> String {
    let kind = if layer.stateful { ", once per connection" } else { "" };
    groups.iter().map(|group| row(place, &format!("`{}`{kind}", layer.name), &group.name, group.rules.iter().collect())).collect()
}

fn stage_row(placed: &[Placed], realm: Realm, stage: Stage, place: &str) -> String {
    let rules: Vec<&RuleSpec> = placed.iter().filter(|rule| (rule.realm, rule.stage) == (realm, stage)).map(|rule| &rule.rule).collect();
    let (layer, group) = stage.names();
    if rules.is_empty() { String::new() } else { row(place, &format!("`{layer}`"), group, rules) }
}

fn row(place: &str, layer: &str, group: &str, mut rules: Vec<&RuleSpec>) -> String {
    rules.sort_by_key(|rule| rule.priority);
    let rules: Vec<String> = rules.iter().map(|rule| format!("{} `{}` {}", rule.priority, rule.name, rule.action.name())).collect();
    format!("| {place} | {layer} | `{group}` | {} |\n", rules.join(", "))
}
