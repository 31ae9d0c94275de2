//! What a pod has when nothing was said about it.

use serde_json::{Map, Value, json};

use crate::server::document::{default, items_mut, list};

/// Completes a pod's spec as the original does.
pub(in crate::server::resource) fn complete(spec: &mut Map<String, Value>) {
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        default(spec, "serviceAccount", account);
    } else if let Some(account) = spec.get("serviceAccount").cloned() {
        default(spec, "serviceAccountName", account);
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for key in ["containers", "initContainers"] {
        items_mut(spec, key).for_each(|container| complete_container(container, host_network));
    }
    items_mut(spec, "volumes").for_each(complete_volume);
}

fn complete_container(container: &mut Map<String, Value>, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let is_untagged = !image.is_empty() && !image.rsplit('/').next().unwrap_or_default().contains([':', '@']);
    let policy = if is_untagged || image.ends_with(":latest") { "Always" } else { "IfNotPresent" };
    default(container, "resources", json!({}));
    complete_requests(container);
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    default(container, "imagePullPolicy", policy);
    for port in items_mut(container, "ports") {
        default(port, "protocol", "TCP");
        if let Some(number) = port.get("containerPort").cloned().filter(|_| host_network) {
            default(port, "hostPort", number);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            complete_probe(probe);
        }
    }
    for variable in items_mut(container, "env") {
        let field = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef")).and_then(Value::as_object_mut);
        if let Some(field) = field {
            default(field, "apiVersion", "v1");
        }
    }
}

/// Who has a limit and asks for nothing asks for the limit.
fn complete_requests(container: &mut Map<String, Value>) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Value::Object(requests) = requests {
        limits.into_iter().for_each(|(name, limit)| default(requests, &name, limit));
    }
}

fn complete_probe(probe: &mut Map<String, Value>) {
    for (key, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)] {
        default(probe, key, value);
    }
    if let Some(get) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn complete_volume(volume: &mut Map<String, Value>) {
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            default(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        default(path, "type", "");
    }
    if volume.len() == 1 && volume.contains_key("name") {
        volume.insert("emptyDir".into(), json!({}));
    }
}

/// How a pod is treated when its node runs out of something: by what its containers ask for.
pub(in crate::server::resource) fn quality(spec: &Value) -> &'static str {
    let mut is_guaranteed = true;
    let mut asks = false;
    for container in list(spec, "/containers").iter().chain(list(spec, "/initContainers")) {
        let (limits, requests) = (&container["resources"]["limits"], &container["resources"]["requests"]);
        for resource in ["cpu", "memory"] {
            let is_set = |value: &Value| !value[resource].is_null() && value[resource] != "0";
            asks |= is_set(limits) || is_set(requests);
            is_guaranteed &= is_set(limits) && (!is_set(requests) || requests[resource] == limits[resource]);
        }
    }
    match (asks, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
