//! Containers of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{containers, environment, lifecycle, resources, security};
use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::field::PROTOCOLS;
use crate::server::name::label;

/// What only containers that keep running can have.
const NOT_FOR_INIT: &[&str] = &["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];

/// Objects to what is wrong with the containers of a spec.
pub(super) fn validate_all(spec: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    if list(spec, "/containers").is_empty() {
        errors.required(format!("{path}.containers"), "");
    }
    let mut names = BTreeSet::new();
    for (path, container) in containers(spec, "containers", path) {
        validate(container, &path, volumes, errors);
        if !names.insert(text(container, "/name")) {
            errors.duplicate(format!("{path}.name"), text(container, "/name"));
        }
        lifecycle::validate(container, &path, errors);
    }
    unique_host_ports(list(spec, "/containers"), &format!("{path}.containers"), errors);
    for (at, container) in containers(spec, "initContainers", path) {
        validate(container, &at, volumes, errors);
        let name = text(container, "/name");
        if !names.insert(name) && !name.is_empty() {
            errors.duplicate(format!("{at}.name"), name);
        }
        unique_host_ports(std::slice::from_ref(container), &format!("{path}.initContainers"), errors);
        if container["restartPolicy"] == "Always" {
            lifecycle::validate(container, &at, errors);
            continue;
        }
        for key in NOT_FOR_INIT.iter().filter(|key| !container[**key].is_null()) {
            errors.forbidden(format!("{at}.{key}"), "may not be set for init containers without restartPolicy=Always");
        }
    }
}

fn validate(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    match text(container, "/name") {
        "" => errors.required(format!("{path}.name"), ""),
        name => errors.name(format!("{path}.name"), name, label),
    }
    if text(container, "/image").is_empty() {
        errors.required(format!("{path}.image"), "");
    }
    let policy = &container["terminationMessagePolicy"];
    errors.one_of(format!("{path}.terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    validate_ports(container, path, errors);
    environment::validate(container, path, errors);
    validate_mounts(container, path, volumes, errors);
    errors.one_of(format!("{path}.imagePullPolicy"), &container["imagePullPolicy"], &["Always", "IfNotPresent", "Never"]);
    resources::validate(container, path, errors);
    security::validate_container(container, path, errors);
}

fn validate_ports(container: &Value, path: &str, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "/ports").iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, "/name");
        let before = errors.0.len();
        if !name.is_empty() {
            errors.port_name(format!("{path}.name"), name);
        }
        if !name.is_empty() && errors.0.len() == before && !names.insert(name) {
            errors.duplicate(format!("{path}.name"), name);
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => errors.required(format!("{path}.containerPort"), ""),
            Some(_) => errors.port(format!("{path}.containerPort"), &port["containerPort"]),
        }
        if port["hostPort"].as_i64().is_some_and(|number| number != 0) {
            errors.port(format!("{path}.hostPort"), &port["hostPort"]);
        }
        errors.one_of(format!("{path}.protocol"), &port["protocol"], PROTOCOLS);
    }
}

/// Containers that run at the same time cannot have the same port of the host.
fn unique_host_ports(containers: &[Value], path: &str, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (number, container) in containers.iter().enumerate() {
        for (index, port) in list(container, "/ports").iter().enumerate() {
            let Some(host_port) = port["hostPort"].as_i64().filter(|port| *port != 0) else { continue };
            let claim = format!("{}/{}/{host_port}", text(port, "/protocol"), text(port, "/hostIP"));
            if !taken.insert(claim.clone()) {
                errors.duplicate(format!("{path}[{number}].ports[{index}].hostPort"), claim);
            }
        }
    }
}

fn validate_mounts(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Errors) {
    let mut places = BTreeSet::new();
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (name, place) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        if !volumes.contains(name) {
            errors.not_found(format!("{path}.name"), name);
        }
        if place.is_empty() {
            errors.required(format!("{path}.mountPath"), "");
        }
        if !places.insert(place) {
            errors.invalid(format!("{path}.mountPath"), place, "must be unique");
        }
    }
}
