//! The environment of a container: variables, and where their values come from.

use serde_json::Value;

use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::name::{data_key, subdomain, variable};

/// Where a value can come from.
const SOURCES: &[&str] = &["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// The fields of a pod that a variable can have.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of a pod that exist, and that only files can have.
const FIELDS_OF_FILES: &[&str] = &["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

/// The resources of a container that a variable can have, besides those of huge pages.
const AMOUNTS: &[&str] =
    &["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];

/// Fields with a key of their own.
const MAPS: &[&str] = &["metadata.annotations", "metadata.labels"];

pub(super) fn validate(container: &Value, path: &str, errors: &mut Errors) {
    for (index, entry) in list(container, "/env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        match text(entry, "/name") {
            "" => errors.required(format!("{path}.name"), ""),
            name => errors.name(format!("{path}.name"), name, variable),
        }
        if !entry["valueFrom"].is_null() {
            validate_source(entry, &format!("{path}.valueFrom"), errors);
        }
    }
    let path = format!("{path}.envFrom");
    for (index, source) in list(container, "/envFrom").iter().enumerate() {
        errors.name_if_any(format!("{path}[{index}].prefix"), text(source, "/prefix"), variable);
        validate_many(source, &path, index, errors);
    }
}

/// A whole ConfigMap or Secret as variables.
fn validate_many(source: &Value, path: &str, index: usize, errors: &mut Errors) {
    let given = ["configMapRef", "secretRef"].into_iter().filter(|key| !source[*key].is_null()).collect::<Vec<_>>();
    for key in &given {
        let field = format!("{path}[{index}].{key}.name");
        match text(&source[*key], "/name") {
            "" => errors.required(field, ""),
            name => errors.name(field, name, subdomain),
        }
    }
    match given.len() {
        0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn validate_source(entry: &Value, path: &str, errors: &mut Errors) {
    let from = &entry["valueFrom"];
    if !from["fieldRef"].is_null() {
        validate_field(&from["fieldRef"], &format!("{path}.fieldRef"), errors);
    }
    if !from["resourceFieldRef"].is_null() {
        validate_amount(&from["resourceFieldRef"], &format!("{path}.resourceFieldRef"), errors);
    }
    for key in ["configMapKeyRef", "secretKeyRef"].iter().filter(|key| !from[**key].is_null()) {
        validate_key(&from[*key], &format!("{path}.{key}"), errors);
    }
    match SOURCES.iter().filter(|source| !from[**source].is_null()).count() {
        0 => {
            let cause = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            errors.invalid(path, "", cause);
        }
        _ if !text(entry, "/value").is_empty() => errors.invalid(path, "", "may not be specified when `value` is not empty"),
        1 => {}
        _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
    }
}

fn validate_field(reference: &Value, path: &str, errors: &mut Errors) {
    let field = text(reference, "/fieldPath");
    let keyed = field.strip_suffix("']").and_then(|field| field.split_once("['"));
    match keyed {
        _ if field.is_empty() => errors.required(format!("{path}.fieldPath"), ""),
        Some((map, key)) if MAPS.contains(&map) => errors.qualified(path, key),
        Some(_) => {
            let cause = format!("error converting fieldPath: field label does not support subscript: {field}");
            errors.invalid(format!("{path}.fieldPath"), field, cause);
        }
        None if FIELDS.contains(&field) => {}
        None if FIELDS_OF_FILES.contains(&field) => errors.not_supported(format!("{path}.fieldPath"), field, FIELDS),
        None => {
            let cause = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(format!("{path}.fieldPath"), field, cause);
        }
    }
}

fn validate_amount(reference: &Value, path: &str, errors: &mut Errors) {
    let field = format!("{path}.resource");
    match text(reference, "/resource") {
        "" => errors.required(field, ""),
        name if name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-") => {}
        _ => errors.one_of(field, &reference["resource"], AMOUNTS),
    }
}

fn validate_key(reference: &Value, path: &str, errors: &mut Errors) {
    errors.name(format!("{path}.name"), text(reference, "/name"), subdomain);
    match text(reference, "/key") {
        "" => errors.required(format!("{path}.key"), ""),
        key => errors.name(format!("{path}.key"), key, data_key),
    }
}
