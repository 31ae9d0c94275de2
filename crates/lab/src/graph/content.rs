//! What is written on the cards.

use std::net::IpAddr;

use super::canvas::Class;
use super::card::Card;
use crate::status::{NodeStatus, PodStatus, ServiceStatus, Status};

/// The router.
pub(super) fn router(status: &Status) -> Card {
    let card = Card::new(Class::Host, "router", "");
    card.line(Class::Line, &status.router.join("  ")).line(Class::Line, &status.far_router.join("  "))
}

/// The host outside.
pub(super) fn outside(status: &Status) -> Card {
    Card::new(Class::Host, "outside", "").line(Class::Line, &list(&status.outside))
}

/// The cluster as a whole.
pub(super) fn cluster(status: &Status) -> Card {
    let cluster = &status.cluster;
    let dns = cluster.dns.map(|address| format!("names     {address}  {}", cluster.domain)).unwrap_or_default();
    Card::new(Class::Host, "cluster", &cluster.network)
        .line(Class::Line, &labelled("pods", &cluster.pod_subnets.join("  ")))
        .line(Class::Line, &labelled("Services", &cluster.service_subnets.join("  ")))
        .line(Class::Line, &dns)
}

/// A node with its pods.
pub(super) fn node(status: &Status, node: &NodeStatus) -> Card {
    let class = if node.os == "windows" { Class::Windows } else { Class::Linux };
    let note = [node.os.as_str(), &node.build].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    let trouble: Vec<&str> = node.daemons.iter().filter(|daemon| !daemon.is_ready).map(|daemon| daemon.name.as_str()).collect();
    let trouble = if trouble.is_empty() { String::new() } else { format!("not ready: {}", trouble.join(", ")) };
    let pods = status.pods.iter().filter(|pod| pod.node == node.name).map(|it| pod(status, it)).collect();
    Card::new(class, &node.name, &note)
        .line(Class::Line, &list(&node.addresses))
        .line(Class::Faint, &node.network)
        .line(Class::Faint, &labelled("pods", &node.subnets.join("  ")))
        .line(Class::Bad, &trouble)
        .inner(pods)
}

fn pod(status: &Status, pod: &PodStatus) -> Card {
    let leads_here = |service: &ServiceStatus| service.namespace == pod.namespace && service.backends.contains(&pod.name);
    let badges = status.services.iter().enumerate().filter(|(_, service)| leads_here(service)).map(|(number, _)| number).collect();
    let class = if pod.is_ready { Class::Pod } else { Class::Unready };
    let phase = if pod.is_ready { String::new() } else { format!("{}, not ready", pod.phase) };
    let card = Card::new(class, &pod.name, other_namespace(&pod.namespace)).line(Class::Line, &list(&pod.addresses));
    card.line(Class::Bad, &phase).badges(badges)
}

/// A Service by its position in the list.
pub(super) fn service(position: usize, service: &ServiceStatus) -> Card {
    let note =
        [other_namespace(&service.namespace), &service.kind].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    let mut card = Card::new(Class::Service, &service.name, &note).badges(vec![position]);
    card = match (service.external_name.as_str(), service.addresses.is_empty()) {
        ("", false) => card.line(Class::Line, &list(&service.addresses)),
        ("", true) => card.line(Class::Line, "headless"),
        (name, _) => card.line(Class::Line, &format!("stands for {name}")),
    };
    if !service.outside.is_empty() {
        card = card.line(Class::Line, &format!("outside {}", list(&service.outside)));
    }
    for port in &service.ports {
        card = card.line(Class::Line, &port.to_string());
    }
    card.line(Class::Faint, &backends(service))
}

fn backends(service: &ServiceStatus) -> String {
    match (service.external_name.as_str(), service.backends.len()) {
        ("", 0) => "leads to no pod".to_owned(),
        ("", 1) => format!("leads to {}", service.backends[0]),
        ("", count) => format!("leads to {count} pods"),
        _ => String::new(),
    }
}

/// A Kubernetes namespace, unless it is the usual one.
fn other_namespace(namespace: &str) -> &str {
    if namespace == "default" { "" } else { namespace }
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join("  ")
}

fn labelled(label: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{label:<9} {text}") }
}
