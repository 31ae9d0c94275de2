//! How a pod sees the network: names, name servers, and ports of its host.

use serde_json::Value;

use super::containers;
use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::name::{label, subdomain, underscored_subdomain};

const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;
const LONGEST_SEARCHES: usize = 2048;

/// On the host's network there is no other port than the host's.
pub(super) fn validate_host_ports(spec: &Value, path: &str, errors: &mut Errors) {
    if spec["hostNetwork"] != Value::Bool(true) {
        return;
    }
    for (path, container) in containers(spec, "containers", path) {
        for (index, port) in list(container, "/ports").iter().enumerate() {
            let host_port = port["hostPort"].as_i64().unwrap_or(0);
            if host_port != port["containerPort"].as_i64().unwrap_or(0) {
                let cause = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(format!("{path}.ports[{index}].hostPort"), host_port, cause);
            }
        }
    }
}

pub(super) fn validate_dns(spec: &Value, path: &str, errors: &mut Errors) {
    let (path, config) = (format!("{path}.dnsConfig"), &spec["dnsConfig"]);
    let (servers, searches) = (list(config, "/nameservers"), list(config, "/searches"));
    if spec["dnsPolicy"] == "None" && config.is_null() {
        return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
    }
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        return errors.required(format!("{path}.nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
    if servers.len() > MOST_SERVERS {
        let cause = format!("must not have more than {MOST_SERVERS} nameservers");
        errors.invalid(format!("{path}.nameservers"), servers.to_vec(), cause);
    }
    for (index, server) in servers.iter().enumerate() {
        errors.address(format!("{path}.nameservers[{index}]"), server.as_str().unwrap_or_default());
    }
    validate_searches(searches, &format!("{path}.searches"), errors);
    for (index, option) in list(config, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            errors.required(format!("{path}.options[{index}]"), "must not be empty");
        }
    }
}

fn validate_searches(searches: &[Value], path: &str, errors: &mut Errors) {
    if searches.len() > MOST_SEARCHES {
        errors.invalid(path, searches.to_vec(), format!("must not have more than {MOST_SEARCHES} search paths"));
    }
    let texts: Vec<&str> = searches.iter().filter_map(Value::as_str).collect();
    if texts.join(" ").len() > LONGEST_SEARCHES {
        let cause = format!("must not have more than {LONGEST_SEARCHES} characters (including spaces) in the search list");
        errors.invalid(path, searches.to_vec(), cause);
    }
    for (index, search) in texts.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        errors.name(format!("{path}[{index}]"), search.strip_suffix('.').unwrap_or(search), underscored_subdomain);
    }
}

pub(super) fn validate_host_names(spec: &Value, path: &str, errors: &mut Errors) {
    for key in ["hostname", "subdomain"] {
        errors.name_if_any(format!("{path}.{key}"), text(spec, &format!("/{key}")), label);
    }
}

pub(super) fn validate_host_aliases(spec: &Value, path: &str, errors: &mut Errors) {
    for (index, alias) in list(spec, "/hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{index}]");
        errors.address(format!("{path}.ip"), text(alias, "/ip"));
        for (number, name) in list(alias, "/hostnames").iter().enumerate() {
            errors.name(format!("{path}.hostnames[{number}]"), name.as_str().unwrap_or_default(), subdomain);
        }
    }
}
