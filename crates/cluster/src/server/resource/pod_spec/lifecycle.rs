//! What is done with a container while it runs: hooks and probes.

use serde_json::Value;

use crate::server::document::text;
use crate::server::field::Errors;

/// The ways in which something can be done or asked.
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// The numbers of a probe.
const NUMBERS: &[&str] = &["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

pub(super) fn validate(container: &Value, path: &str, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if !handler.is_null() {
            validate_handler(handler, &format!("{path}.lifecycle.{hook}"), errors);
        }
    }
    // One success is enough for a container to be alive or to have started.
    for (key, needs_one) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        let probe = &container[key];
        if !probe.is_null() {
            validate_probe(probe, &format!("{path}.{key}"), needs_one, errors);
        }
    }
}

fn validate_probe(probe: &Value, path: &str, needs_one: bool, errors: &mut Errors) {
    validate_handler(probe, path, errors);
    for key in NUMBERS {
        errors.not_negative(format!("{path}.{key}"), &probe[*key]);
    }
    if let Some(seconds) = probe["terminationGracePeriodSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.invalid(format!("{path}.terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
    if let Some(number) = probe["successThreshold"].as_i64().filter(|number| needs_one && *number != 1) {
        errors.invalid(format!("{path}.successThreshold"), number, "must be 1");
    }
}

fn validate_handler(handler: &Value, path: &str, errors: &mut Errors) {
    let mut given = HANDLERS.iter().filter(|key| !handler[**key].is_null());
    match given.next() {
        None => errors.required(path, "must specify a handler type"),
        Some(key) => validate_action(key, &handler[*key], &format!("{path}.{key}"), errors),
    }
    for key in given {
        errors.forbidden(format!("{path}.{key}"), "may not specify more than 1 handler type");
    }
}

fn validate_action(kind: &str, action: &Value, path: &str, errors: &mut Errors) {
    match kind {
        "exec" if action["command"].as_array().is_none_or(Vec::is_empty) => errors.required(format!("{path}.command"), ""),
        "httpGet" => {
            if text(action, "/path").is_empty() {
                errors.required(format!("{path}.path"), "");
            }
            errors.port_or_name(format!("{path}.port"), &action["port"]);
            errors.one_of(format!("{path}.scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
        }
        "tcpSocket" => errors.port_or_name(format!("{path}.port"), &action["port"]),
        "grpc" => errors.port(format!("{path}.port"), &action["port"]),
        _ => {}
    }
}
