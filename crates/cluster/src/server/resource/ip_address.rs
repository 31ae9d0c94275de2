//! IPAddresses: who has which address of a Service. The one of a Service is made and removed with it.

use std::net::IpAddr;

use serde_json::Value;

use super::{Column, PLAIN, Resource, column, name};
use crate::server::document::text;
use crate::server::field::Errors;
use crate::server::name::{path_segment, subdomain};

/// The label of those that are made with their Services, and its value, which is what the original calls itself here.
pub(crate) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub(crate) const ALLOCATOR: &str = "ipallocator.k8s.io";

/// The original prints an age as well, and has no column for it.
const COLUMNS: &[Column] = &[column("Name"), column("ParentRef")];

pub(crate) static IP_ADDRESSES: Resource = Resource {
    storage: 16,
    group: "networking.k8s.io",
    kind: "IPAddress",
    plural: "ipaddresses",
    singular: "ipaddress",
    short_names: &["ip"],
    namespaced: false,
    name_rule: address,
    columns: COLUMNS,
    cells: |document| vec![name(document), parent(&document["spec"]["parentRef"]).into()],
    validate,
    validate_update: |new, old, errors| {
        if new["spec"]["parentRef"] != old["spec"]["parentRef"] {
            // The original shows no value here.
            errors.invalid("spec.parentRef", Value::Null, "field is immutable");
        }
    },
    ..PLAIN
};

/// Whether an object was made with its Service, and not by somebody who keeps an address.
pub(crate) fn is_managed(document: &Value) -> bool {
    document["metadata"]["labels"][MANAGED_BY] == ALLOCATOR
}

/// Whose address it is, in short: `services/default/kubernetes`.
fn parent(reference: &Value) -> String {
    let resource = match (text(reference, "/resource"), text(reference, "/group")) {
        ("", _) => return "<none>".into(),
        (resource, "") => resource.to_lowercase(),
        (resource, group) => format!("{resource}.{group}").to_lowercase(),
    };
    let owner = [text(reference, "/namespace"), text(reference, "/name")];
    owner.into_iter().filter(|part| !part.is_empty()).fold(resource, |whole, part| format!("{whole}/{part}"))
}

/// The name is the address.
fn address(name: &str) -> Option<String> {
    let has_zeros = |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit());
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => Some("must not be an IPv4-mapped IPv6 address".into()),
        Ok(_) => None,
        Err(_) if name.split('.').count() == 4 && name.split('.').any(has_zeros) => Some("must not have leading 0s".into()),
        Err(_) => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()),
    }
}

fn validate(document: &Value, errors: &mut Errors) {
    let reference = &document["spec"]["parentRef"];
    if reference.is_null() {
        return errors.required("spec.parentRef", "");
    }
    errors.name_if_any("spec.parentRef.group", text(reference, "/group"), subdomain);
    for key in ["resource", "name"] {
        match text(reference, &format!("/{key}")) {
            "" => errors.required(format!("spec.parentRef.{key}"), ""),
            part => errors.name(format!("spec.parentRef.{key}"), part, path_segment),
        }
    }
    errors.name_if_any("spec.parentRef.namespace", text(reference, "/namespace"), path_segment);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whose_it_is() {
        assert_eq!(parent(&json!({"resource": "services", "namespace": "default", "name": "a"})), "services/default/a");
        assert_eq!(parent(&json!({"group": "Example.com", "resource": "gateways", "name": "a"})), "gateways.example.com/a");
        assert_eq!(parent(&Value::Null), "<none>");
    }
}
