//! What a container asks for, and the most it gets.

use serde_json::Value;

use crate::server::document::texts;
use crate::server::field::Errors;
use crate::server::name::qualified_causes;
use crate::server::quantity::Quantity;

/// The resources that containers can have without a domain in their name.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// Those that exist besides, for quotas.
const OF_QUOTAS: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Objects to requests and limits of a container.
pub(super) fn validate(container: &Value, path: &str, errors: &mut Errors) {
    let resources = &container["resources"];
    for kind in ["limits", "requests"] {
        let path = format!("{path}.resources.{kind}");
        for (name, amount) in texts(resources, &format!("/{kind}")) {
            validate_name(name, &format!("{path}[{name}]"), errors);
            let Ok(amount) = Quantity::parse(amount) else { continue };
            validate_amount(name, amount, &format!("{path}[{name}]"), errors);
            if kind == "requests" {
                validate_request(name, amount, &resources["limits"][name], &path, errors);
            }
        }
    }
}

fn validate_name(name: &str, path: &str, errors: &mut Errors) {
    let causes = qualified_causes(name);
    let is_known = OF_CONTAINERS.contains(&name) || is_huge_pages(name);
    if !causes.is_empty() {
        errors.qualified(path, name);
    } else if !name.contains('/') && !is_known && !OF_QUOTAS.contains(&name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
    if !name.contains('/') && !is_known {
        errors.invalid(path, name, "must be a standard resource for containers");
    } else if !is_native(name) && (name.starts_with("requests.") || !qualified_causes(&format!("requests.{name}")).is_empty()) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

fn validate_amount(name: &str, amount: Quantity, path: &str, errors: &mut Errors) {
    if amount.is_negative() {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if !is_native(name) && !amount.is_whole() {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

/// Only what the kernel can share may be promised twice.
fn validate_request(name: &str, amount: Quantity, limit: &Value, path: &str, errors: &mut Errors) {
    let is_shareable = is_native(name) && !is_huge_pages(name);
    let Some(limit) = limit.as_str().and_then(|limit| Quantity::parse(limit).ok()) else {
        if !is_shareable {
            let limits = path.replace(".requests", ".limits");
            errors.required(limits, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    if !is_shareable && amount != limit {
        errors.invalid(path, amount.to_string(), format!("must be equal to {name} limit of {limit}"));
    } else if amount > limit {
        errors.invalid(path, amount.to_string(), format!("must be less than or equal to {name} limit of {limit}"));
    }
}
