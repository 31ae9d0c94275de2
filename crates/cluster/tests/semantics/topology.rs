//! Hints by capacity: zones get endpoints as they have processors.
//!
//! All nodes of a cluster count, so one test makes the only nodes that are ready.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::objects::{pod, service};
use crate::harness::{Scope, eventually, server};

/// A node that is ready, in a zone, with processors.
fn node(name: &str, zone: &str, processors: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    server().post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})).created();
    let status = json!({"allocatable": {"cpu": processors}, "conditions": [{"type": "Ready", "status": "True"}]});
    server().merge(format!("/api/v1/nodes/{name}/status"), &json!({ "status": status })).ok();
}

/// A pod that runs on a node.
fn run(scope: &Scope, number: usize, node: &str) {
    let mut made = pod(&format!("p{number}"));
    made["metadata"]["labels"] = json!({"app": "one"});
    made["spec"]["nodeName"] = json!(node);
    scope.post("pods", &made).created();
    let address = format!("10.1.7.{}", number + 1);
    let status = json!({
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": "True"}],
    });
    scope.merge(&format!("pods/p{number}/status"), &json!({ "status": status })).ok();
}

/// How many endpoints are in each zone and hinted at each.
fn hints(scope: &Scope) -> BTreeMap<(String, String), usize> {
    let list = scope.get("endpointslices").ok();
    let slices = list["items"].as_array().into_iter().flatten();
    let mut counts = BTreeMap::new();
    for endpoint in slices.flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let zones = endpoint["hints"]["forZones"].as_array();
        assert!(zones.is_none_or(|zones| zones.len() == 1), "{endpoint}");
        *counts.entry((text(&endpoint["zone"]), text(&endpoint["hints"]["forZones"][0]["name"]))).or_default() += 1;
    }
    counts
}

/// Waits for hints. The original looks at nodes a moment later and then not again, so the service is touched until it has.
#[track_caller]
fn until(scope: &Scope, what: &str, expected: &[(&str, &str, usize)]) {
    let expected: BTreeMap<_, _> = expected.iter().map(|(zone, hint, count)| (((*zone).to_owned(), (*hint).to_owned()), *count)).collect();
    let mut touched = 0;
    eventually(what, || {
        touched += 1;
        scope.merge("services/one", &json!({"metadata": {"labels": {"touched": touched.to_string()}}})).ok();
        let hints = hints(scope);
        if touched % 50 == 0 {
            println!("{what}: {hints:?}");
        }
        (hints == expected).then_some(())
    });
}

#[test]
fn endpoints_are_shared_as_processors_are() {
    let scope = Scope::new();
    let [a, b, c] = ["a", "b", "c"].map(|zone| format!("{}-{zone}", scope.name));
    node(&a, "za", "2");
    node(&b, "zb", "2000m");
    let mut shared = service("one");
    shared["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    shared["spec"]["trafficDistribution"] = json!("PreferSameZone");
    scope.post("services", &shared).created();
    for (number, node) in [&a, &a, &a, &b].into_iter().enumerate() {
        run(&scope, number, node);
    }
    until(&scope, "one of three goes to the other zone", &[("za", "za", 2), ("za", "zb", 1), ("zb", "zb", 1)]);
    scope.delete_with("pods/p0", &json!({"gracePeriodSeconds": 0})).ok();
    until(&scope, "three cannot be shared by two", &[("za", "", 2), ("zb", "", 1)]);
    node(&c, "za", "2");
    until(&scope, "but by two of whom one has twice as much", &[("za", "za", 2), ("zb", "zb", 1)]);
    scope.merge("services/one", &json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": "Disabled"}}})).ok();
    until(&scope, "then nearness alone counts", &[("za", "za", 2), ("zb", "zb", 1)]);
    for name in [a, b, c] {
        server().delete(format!("/api/v1/nodes/{name}")).ok();
    }
}
