//! Policies in a configuration: their shape, the limits of a build, and what OutBoundNAT leaves untranslated.

use ipnet::IpNet;

use super::located::Node;
use super::{Linter, Subject};
use crate::flannel::SubnetEnv;
use crate::object::quote;

/// In which shape a plugin wants policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// All keys beside `Type`.
    Flat,
    /// `Type` and `Settings`.
    Settings,
}

/// Types that have another name with settings than without.
const RENAMED: [(&str, &str); 3] = [("ROUTE", "SDNRoute"), ("NAT", "PortMapping"), ("PA", "ProviderAddress")];
/// The highest VXLAN network identifier.
const HIGHEST_VNI: i64 = 0xFF_FFFF;
const VXLAN_PORT: i64 = 4789;

/// What a plugin leaves untranslated, as far as the configuration says it.
#[derive(Default)]
struct Exceptions {
    /// Where to complain; nothing if nothing is translated.
    at: Option<usize>,
    prefixes: Vec<IpNet>,
}

impl Linter<'_> {
    pub(super) fn policies(&mut self, subject: &Subject<'_>) {
        let (key, shape) = match subject.plugin {
            "win-bridge" | "win-overlay" if subject.node.get("apiVersion").and_then(Node::as_whole) == Some(2) => {
                ("policies", Shape::Settings)
            }
            "win-bridge" | "win-overlay" => ("policies", Shape::Flat),
            "azure-vnet" => ("additionalArgs", Shape::Flat),
            _ => ("additionalArgs", Shape::Settings),
        };
        let mut exceptions = self.implied(subject);
        let mut routes = Vec::new();
        for (index, entry) in subject.node.get(key).map(Node::elements).unwrap_or_default().iter().enumerate() {
            let path = format!("{}[{index}]", subject.path(key));
            if !self.is_policy(subject, entry, &path) {
                continue;
            }
            let path = format!("{path}.value");
            let Some(value) = entry.get("value") else {
                self.error(entry.at, format!("{path} is missing"), "write the policy there");
                continue;
            };
            let Some(kind) = self.kind(subject, value, &path) else { continue };
            self.shape(value, &path, kind, shape, subject.plugin);
            // Whatever the shape should be, the keys may be in either place.
            let settings = value.get("Settings").unwrap_or(value);
            self.limits(settings, &path, kind);
            match kind.to_ascii_uppercase().as_str() {
                "OUTBOUNDNAT" => self.exceptions(settings, &path, &mut exceptions),
                "ROUTE" | "SDNROUTE" => routes.extend(settings.text("DestinationPrefix").and_then(|text| text.parse::<IpNet>().ok())),
                _ => {}
            }
        }
        self.lacking(subject, &exceptions, &routes);
    }

    /// Whether an entry is one that the plugin takes for a policy.
    fn is_policy(&mut self, subject: &Subject<'_>, entry: &Node, path: &str) -> bool {
        if !entry.is_object() {
            return false;
        }
        let name = entry.text("name").unwrap_or_default();
        let taken = match subject.plugin {
            "win-bridge" | "win-overlay" => name.eq_ignore_ascii_case("EndpointPolicy"),
            _ => name.contains("Policy"),
        };
        if !taken {
            let at = entry.get("name").unwrap_or(entry).at;
            self.warning(at, format!("{path}.name: nobody reads an entry named {}", quote(name)), "name it \"EndpointPolicy\"");
        }
        taken
    }

    /// The type of a policy.
    fn kind<'n>(&mut self, subject: &Subject<'_>, value: &'n Node, path: &str) -> Option<&'n str> {
        let member = value.member("Type").filter(|_| value.is_object());
        let Some((member, kind)) = member.and_then(|member| Some((member, member.node.as_text()?))) else {
            self.error(
                value.at,
                format!("{path}: a policy with a Type is expected, but there is {}", value.says()),
                "write an object with Type",
            );
            return None;
        };
        if member.key != "Type" && subject.plugin.starts_with("win-") {
            let message = format!("{path}.{}: policies are compared by the key \"Type\", in this spelling", member.key);
            self.warning(member.at, message, "write \"Type\"");
        }
        Some(kind)
    }

    fn shape(&mut self, value: &Node, path: &str, kind: &str, shape: Shape, plugin: &str) {
        let settings = value.get("Settings");
        let renamed = RENAMED.iter().find(|(old, _)| old.eq_ignore_ascii_case(kind)).map(|(_, new)| *new);
        match (shape, settings) {
            (Shape::Settings, Some(settings)) if !settings.is_object() => {
                self.error(
                    settings.at,
                    format!("{path}.Settings: an object is expected, but there is {}", settings.says()),
                    "write an object",
                );
            }
            (Shape::Settings, Some(_)) => {
                if let Some(new) = renamed {
                    self.error(value.at, format!("{path}: HCN knows no policy {}", quote(kind)), format!("set Type to {new:?}"));
                }
            }
            (Shape::Settings, None) if value.members().len() > 1 || renamed.is_some() => {
                let why = if plugin.starts_with("win-") { "apiVersion is 2, and" } else { "this plugin speaks HCN, and" };
                let message = format!("{path}: {why} a policy of apiVersion 1 reaches HCN without its settings");
                self.error(value.at, message, rewrite(value, kind, renamed.unwrap_or(kind)));
            }
            (Shape::Flat, Some(settings)) if !kind.eq_ignore_ascii_case("PortMapping") => {
                let (message, fix) = match plugin {
                    "azure-vnet" => ("azure-vnet reads policies without Settings", "put the keys of Settings beside Type"),
                    _ => (
                        "apiVersion is not 2, and HNS knows no Settings there",
                        "set apiVersion to 2, or put the keys of Settings beside Type",
                    ),
                };
                self.error(settings.at, format!("{path}.Settings: {message}"), fix);
            }
            _ => {}
        }
    }

    /// Numbers that a build refuses.
    fn limits(&mut self, settings: &Node, path: &str, kind: &str) {
        let build = self.surroundings.build.clone();
        match kind.to_ascii_uppercase().as_str() {
            "VSID" | "REMOTESUBNETROUTE" => {
                let node = settings.get("IsolationId").or_else(|| settings.get("VSID"));
                let Some((node, vni)) = node.and_then(|node| Some((node, node.as_whole()?))) else { return };
                if !(build.lowest_vni..=HIGHEST_VNI).contains(&vni) {
                    let message = format!("{path}: {vni} is no VXLAN network identifier of {}", build.name);
                    self.error(node.at, message, format!("choose one from {} to {HIGHEST_VNI}", build.lowest_vni));
                }
            }
            "VXLANPORT" => {
                let Some((node, port)) = settings.get("Port").and_then(|node| Some((node, node.as_whole()?))) else { return };
                if !(1..=65535).contains(&port) || (port != VXLAN_PORT && !build.vxlan_port) {
                    let fix = if build.vxlan_port { "choose one from 1 to 65535" } else { "use 4789, the only one" };
                    self.error(node.at, format!("{path}: {port} is no VXLAN port of {}", build.name), fix);
                }
            }
            _ => {}
        }
    }

    fn exceptions(&mut self, settings: &Node, path: &str, exceptions: &mut Exceptions) {
        let Some(list) = settings.get("Exceptions").or_else(|| settings.get("ExceptionList")) else { return };
        exceptions.at = exceptions.at.or(Some(list.at));
        for (index, node) in list.elements().iter().enumerate() {
            match node.as_text().and_then(|text| text.parse::<IpNet>().ok()) {
                Some(prefix) => exceptions.prefixes.push(prefix.trunc()),
                None => {
                    let message = format!("{path}: exception {index} is no prefix, but {}", node.says());
                    self.error(node.at, message, "write a prefix such as \"10.244.0.0/16\"");
                }
            }
        }
    }

    /// What the plugin adds by itself.
    fn implied(&self, subject: &Subject<'_>) -> Exceptions {
        let member = |key: &str| subject.node.member(key);
        let mut exceptions = Exceptions::default();
        match (subject.plugin, &subject.flannel) {
            ("win-bridge", Some(env)) => {
                exceptions.prefixes.extend(env.all_networks().next());
            }
            ("win-bridge", None) => {
                let network = member("ipMasqNetwork").and_then(|member| Some((member.at, member.node.as_text()?.parse::<IpNet>().ok()?)));
                exceptions.at = network.map(|(at, _)| at);
                exceptions.prefixes.extend(network.map(|(_, prefix)| prefix.trunc()));
            }
            ("win-overlay", Some(env)) if env.ip_masq => exceptions.prefixes.extend(env.subnet),
            ("win-overlay", None) if subject.node.flag("ipMasq") => {
                exceptions.at = member("ipMasq").map(|member| member.at);
                exceptions.prefixes.extend(pod_subnets(subject));
            }
            _ => {}
        }
        exceptions
    }

    /// Subnets that must be reached with pods' own addresses, and are not among the exceptions.
    fn lacking(&mut self, subject: &Subject<'_>, exceptions: &Exceptions, routes: &[IpNet]) {
        let Some(at) = exceptions.at else { return };
        let surroundings = self.surroundings;
        if subject.is_overlay() && !surroundings.build.overlay_exceptions {
            let message = format!("{}: {} refuses exceptions on overlay networks", subject.path("policies"), surroundings.build.name);
            return self.error(at, message, "leave the exceptions out, or choose another build");
        }
        let flannel = subject.flannel.iter().flat_map(SubnetEnv::all_networks);
        // A route to a whole prefix is to Services; one to a single address is to the node.
        let services = routes.iter().copied().filter(|route| route.prefix_len() < route.max_prefix_len());
        let named = subject.node.text("serviceCidrs").unwrap_or_default().split(',').filter_map(|text| text.trim().parse().ok());
        let mut needed: Vec<(&str, IpNet)> = Vec::new();
        needed.extend(surroundings.cluster.iter().copied().chain(flannel).chain(pod_subnets(subject)).map(|prefix| ("cluster", prefix)));
        needed.extend(surroundings.service.iter().copied().chain(services).chain(named).map(|prefix| ("Service", prefix)));
        if subject.is_bridge() {
            needed.extend(surroundings.management.iter().map(|prefix| ("management", *prefix)));
        }
        let mut told: Vec<IpNet> = Vec::new();
        for (what, prefix) in needed.into_iter().map(|(what, prefix)| (what, prefix.trunc())) {
            let is_in = |prefixes: &[IpNet]| prefixes.iter().any(|other| other.contains(&prefix));
            if !is_in(&exceptions.prefixes) && !is_in(&told) {
                let message = format!(
                    "the exceptions of OutBoundNAT lack the {what} subnet {prefix}, so that what pods send there gets the node's address"
                );
                self.error(at, message, format!("add \"{prefix}\" to the exceptions"));
                told.push(prefix);
            }
        }
    }
}

/// The subnets that host-local gives pods addresses from. They are part of the cluster's.
fn pod_subnets(subject: &Subject<'_>) -> Vec<IpNet> {
    let Some(ipam) = subject.node.get("ipam").filter(|ipam| ipam.text("type") == Some("host-local")) else { return Vec::new() };
    let ranges = ipam.get("ranges").map(Node::elements).unwrap_or_default().iter().flat_map(Node::elements);
    ranges.chain([ipam]).filter_map(|range| range.text("subnet")?.parse::<IpNet>().ok()).map(|subnet| subnet.trunc()).collect()
}

/// The policy in the shape that HCN reads.
fn rewrite(value: &Node, kind: &str, renamed: &str) -> String {
    let keys = value.members().iter().map(|member| member.key.as_str()).filter(|key| !key.eq_ignore_ascii_case("Type"));
    let in_hcn = |key: &str| match (kind.to_ascii_uppercase().as_str(), key) {
        ("OUTBOUNDNAT", "ExceptionList") => "Exceptions".to_owned(),
        ("PA", "PA") => "ProviderAddress".to_owned(),
        ("VSID", "VSID") => "IsolationId".to_owned(),
        (_, key) => key.to_owned(),
    };
    let settings: Vec<String> = keys.take(8).map(|key| format!("\"{}\": …", in_hcn(key))).collect();
    format!("write {{\"Type\": \"{renamed}\", \"Settings\": {{{}}}}}", settings.join(", "))
}
