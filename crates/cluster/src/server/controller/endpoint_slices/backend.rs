//! A pod as the backend of a Service.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::topology;
use crate::server::document::{list, text};
use crate::server::resource::{NODES, PODS, is_pod_ready};
use crate::server::selector::LabelSelector;
use crate::server::store::{Key, State};

/// A pod that a Service selects.
#[derive(Debug)]
pub(in crate::server::controller) struct Backend {
    pub(in crate::server::controller) pod: Value,
    pub(in crate::server::controller) is_ready: bool,
    is_serving: bool,
    pub(in crate::server::controller) is_terminating: bool,
    zone: Option<String>,
}

/// The backends of a Service, in the order of their names.
pub(in crate::server::controller) fn backends(state: &State, service: &Value) -> Vec<Backend> {
    let selector = LabelSelector::of_map(&service["spec"]["selector"]);
    let namespace = text(service, "/metadata/namespace");
    let publishes_all = service["spec"]["publishNotReadyAddresses"] == Value::Bool(true);
    let selected = state.list(&PODS, Some(namespace), None).filter(|pod| selector.matches(&pod.labels));
    selected.filter_map(|stored| backend(state, stored.document(), publishes_all)).collect()
}

/// A pod as a backend; none while it has no address, and none once it has ended.
fn backend(state: &State, pod: Value, publishes_all: bool) -> Option<Backend> {
    let has_ended = matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed");
    if has_ended || text(&pod, "/status/podIP").is_empty() {
        return None;
    }
    let is_terminating = !text(&pod, "/metadata/deletionTimestamp").is_empty();
    let is_serving = is_pod_ready(&pod);
    let name = text(&pod, "/spec/nodeName");
    let node = state.get(&Key::new(&NODES, "", name));
    // A node that is gone has taken its pods along, even if nobody has noticed.
    if !name.is_empty() && node.is_none() {
        return None;
    }
    let zone = node.and_then(|node| node.labels.get("topology.kubernetes.io/zone")).map(|zone| zone.to_string());
    Some(Backend { is_ready: publishes_all || (is_serving && !is_terminating), is_serving, is_terminating, zone, pod })
}

impl Backend {
    /// Its address in a family.
    pub(in crate::server::controller) fn address(&self, family: &str) -> Option<String> {
        let all = list(&self.pod, "/status/podIPs").iter().map(|address| text(address, "/ip"));
        let mut all = all.chain([text(&self.pod, "/status/podIP")]).filter_map(|address| address.parse::<IpAddr>().ok());
        all.find(|address| address.is_ipv4() == (family == "IPv4")).map(|address| address.to_string())
    }

    /// Where its object is.
    pub(in crate::server::controller) fn reference(&self) -> Value {
        let meta = &self.pod["metadata"];
        json!({"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]})
    }

    /// The entry in a slice.
    pub(super) fn endpoint(&self, service: &Value, address: &str) -> Value {
        let mut endpoint = Map::new();
        endpoint.insert("addresses".into(), json!([address]));
        let conditions = json!({"ready": self.is_ready, "serving": self.is_serving, "terminating": self.is_terminating});
        endpoint.insert("conditions".into(), conditions);
        let hostname = text(&self.pod, "/spec/hostname");
        if !hostname.is_empty() && self.pod["spec"]["subdomain"] == service["metadata"]["name"] {
            endpoint.insert("hostname".into(), hostname.into());
        }
        endpoint.insert("targetRef".into(), self.reference());
        let node = text(&self.pod, "/spec/nodeName");
        if !node.is_empty() {
            endpoint.insert("nodeName".into(), node.into());
        }
        if let Some(zone) = &self.zone {
            endpoint.insert("zone".into(), zone.as_str().into());
        }
        if let Some(hints) = self.hints(service).filter(|_| self.is_ready) {
            endpoint.insert("hints".into(), hints);
        }
        endpoint.into()
    }

    /// For whom this backend is near, where the Service prefers that.
    fn hints(&self, service: &Value) -> Option<Value> {
        let zones = self.zone.as_ref().map(|zone| json!([{"name": zone}]));
        let node = Some(text(&self.pod, "/spec/nodeName")).filter(|node| !node.is_empty());
        match text(service, "/spec/trafficDistribution") {
            // These depend on all backends together.
            _ if topology::is_wanted(service) => None,
            "PreferClose" | "PreferSameZone" => Some(json!({"forZones": zones?})),
            "PreferSameNode" => {
                let mut hints = json!({"forNodes": [{"name": node?}]});
                if let Some(zones) = zones {
                    hints["forZones"] = zones;
                }
                Some(hints)
            }
            _ => None,
        }
    }

    /// The transport port that a name or number of the Service means in this pod.
    fn target_port(&self, port: &Value) -> Option<i64> {
        match &port["targetPort"] {
            Value::Number(number) => number.as_i64(),
            Value::String(name) => name.parse().ok().or_else(|| self.named_port(name, text(port, "/protocol"))),
            _ => port["port"].as_i64(),
        }
    }

    fn named_port(&self, name: &str, protocol: &str) -> Option<i64> {
        let ports = list(&self.pod, "/spec/containers").iter().flat_map(|container| list(container, "/ports"));
        let mut fitting = ports.filter(|port| text(port, "/name") == name && text(port, "/protocol") == protocol);
        fitting.next()?["containerPort"].as_i64()
    }
}

/// The ports of a Service as they are in a backend.
pub(in crate::server::controller) fn ports_of(service: &Value, backend: &Backend) -> Vec<Value> {
    let ports = list(service, "/spec/ports").iter().filter_map(|port| {
        let mut resolved = json!({"name": text(port, "/name"), "port": backend.target_port(port)?, "protocol": port["protocol"]});
        if let Some(protocol) = port["appProtocol"].as_str() {
            resolved["appProtocol"] = protocol.into();
        }
        Some(resolved)
    });
    ports.collect()
}
