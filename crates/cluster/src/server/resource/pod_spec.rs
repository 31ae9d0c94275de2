//! What pods and templates of pods have in common.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::server::document::{default, items_mut, list, text};
use crate::server::field::Errors;
use crate::server::name::{label, port_name, subdomain};

/// Completes a pod's spec as the original does.
pub(super) fn complete(spec: &mut Map<String, Value>) {
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "enableServiceLinks", true);
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
    let untagged = !image.rsplit('/').next().unwrap_or_default().contains([':', '@']);
    let policy = if untagged || image.ends_with(":latest") { "Always" } else { "IfNotPresent" };
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
pub(super) fn quality(spec: &Value) -> &'static str {
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

/// Objects to what is wrong with a pod's spec that stands at a path.
pub(super) fn validate(spec: &Value, path: &str, errors: &mut Errors) {
    if list(spec, "/containers").is_empty() {
        errors.required(format!("{path}.containers"), "");
    }
    errors.one_of(format!("{path}.restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    errors.one_of(format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    if let Some(seconds) = spec["terminationGracePeriodSeconds"].as_i64().filter(|seconds| *seconds < 0) {
        errors.invalid(format!("{path}.terminationGracePeriodSeconds"), seconds, "must be greater than or equal to 0");
    }
    for key in ["nodeName", "serviceAccountName"] {
        let name = text(spec, &format!("/{key}"));
        if let Some(cause) = subdomain(name).filter(|_| !name.is_empty()) {
            errors.invalid(format!("{path}.{key}"), name, cause);
        }
    }
    let volumes = validate_volumes(spec, path, errors);
    let mut names = BTreeSet::new();
    for key in ["containers", "initContainers"] {
        for (index, container) in list(spec, &format!("/{key}")).iter().enumerate() {
            validate_container(container, &format!("{path}.{key}[{index}]"), &mut names, &volumes, errors);
        }
    }
}

fn validate_volumes<'a>(spec: &'a Value, path: &str, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in list(spec, "/volumes").iter().enumerate() {
        let (name, field) = (text(volume, "/name"), format!("{path}.volumes[{index}].name"));
        match label(name) {
            _ if name.is_empty() => errors.required(field, ""),
            Some(cause) => errors.invalid(field, name, cause),
            None if !names.insert(name) => errors.duplicate(field, name),
            None => {}
        }
    }
    names
}

fn validate_container<'a>(container: &'a Value, path: &str, names: &mut BTreeSet<&'a str>, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let name = text(container, "/name");
    match label(name) {
        _ if name.is_empty() => errors.required(format!("{path}.name"), ""),
        Some(cause) => errors.invalid(format!("{path}.name"), name, cause),
        None if !names.insert(name) => errors.duplicate(format!("{path}.name"), name),
        None => {}
    }
    if text(container, "/image").is_empty() {
        errors.required(format!("{path}.image"), "");
    }
    errors.one_of(format!("{path}.imagePullPolicy"), &container["imagePullPolicy"], &["Always", "IfNotPresent", "Never"]);
    validate_ports(container, path, errors);
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let name = text(mount, "/name");
        if !volumes.contains(name) {
            errors.invalid(format!("{path}.volumeMounts[{index}].name"), name, "not found");
        }
    }
}

fn validate_ports(container: &Value, path: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "/name");
        match port_name(name).filter(|_| !name.is_empty()) {
            Some(cause) => errors.invalid(format!("{path}.name"), name, cause),
            None if !name.is_empty() && !names.insert(name) => errors.duplicate(format!("{path}.name"), name),
            None => {}
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => errors.required(format!("{path}.containerPort"), ""),
            Some(number) => port_number(number, format!("{path}.containerPort"), errors),
        }
        if let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) {
            port_number(number, format!("{path}.hostPort"), errors);
        }
        errors.one_of(format!("{path}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

/// Objects to what is no transport port.
pub(super) fn port_number(number: i64, field: String, errors: &mut Errors) {
    if !(1..=65_535).contains(&number) {
        errors.invalid(field, number, "must be between 1 and 65535, inclusive");
    }
}
