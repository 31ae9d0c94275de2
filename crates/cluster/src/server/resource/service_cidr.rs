//! ServiceCIDRs: the ranges that Services get their addresses from. There is one, made from what the server was started with.

use ipnet::IpNet;
use serde_json::Value;

use super::{Column, PLAIN, Resource, age, column, name};
use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::schema::as_original;

/// The one there is.
pub(crate) const DEFAULT_NAME: &str = "kubernetes";

const COLUMNS: &[Column] = &[column("Name"), column("CIDRs"), column("Age")];

const IMMUTABLE: &str = "field is immutable";

pub(crate) static SERVICE_CIDRS: Resource = Resource {
    storage: 15,
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    singular: "servicecidr",
    namespaced: false,
    has_status: true,
    columns: COLUMNS,
    cells: |document| vec![name(document), ranges(document).join(",").into(), age(document)],
    validate_new,
    validate_update,
    ..PLAIN
};

fn ranges(document: &Value) -> Vec<&str> {
    list(document, "/spec/cidrs").iter().filter_map(Value::as_str).collect()
}

fn validate_new(document: &Value, errors: &mut Errors) {
    validate_ranges(document, errors);
    if errors.0.is_empty() && text(document, "/metadata/name") != DEFAULT_NAME {
        errors.forbidden("spec.cidrs", "Services get their addresses from what this server was started with; use --service-cidr");
    }
}

fn validate_ranges(document: &Value, errors: &mut Errors) {
    let ranges = ranges(document);
    if ranges.is_empty() {
        return errors.required("spec.cidrs", "at least one CIDR required");
    }
    if ranges.len() > 2 {
        return errors.invalid("spec.cidrs", as_original("ServiceCIDRSpec", &document["spec"]), "may only hold up to 2 values");
    }
    for (index, range) in ranges.iter().enumerate() {
        errors.range(format!("spec.cidrs[{index}]"), range);
    }
    let families: Vec<bool> = ranges.iter().filter_map(|range| range.parse::<IpNet>().ok()).map(|range| range.addr().is_ipv4()).collect();
    if let [first, second] = families[..]
        && first == second
    {
        let cause = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid("spec.cidrs", document["spec"]["cidrs"].clone(), cause);
    }
}

/// Ranges stay what they are. One of the other family may come to the first.
fn validate_update(new: &Value, old: &Value, errors: &mut Errors) {
    let (ranges, before) = (ranges(new), ranges(old));
    let is_widened = before.len() == 1 && ranges.len() == 2;
    if ranges.len() != before.len() && !is_widened {
        return errors.invalid("spec.cidrs", ranges, IMMUTABLE);
    }
    for (index, (range, before)) in ranges.iter().zip(&before).enumerate() {
        if range != before {
            errors.invalid(format!("spec.cidrs[{index}]"), *range, IMMUTABLE);
        }
    }
    if is_widened {
        validate_ranges(new, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mistakes(new: &[&str], old: &[&str]) -> Vec<String> {
        let document = |ranges: &[&str]| json!({"spec": {"cidrs": ranges}});
        let mut errors = Errors::default();
        validate_update(&document(new), &document(old), &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_second_family_may_come() {
        assert!(mistakes(&["10.0.0.0/16", "fd00::/112"], &["10.0.0.0/16"]).is_empty());
        assert_eq!(
            mistakes(&["10.1.0.0/16", "fd00::/112"], &["10.0.0.0/16"]),
            [r#"spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable"#]
        );
        assert_eq!(mistakes(&["10.0.0.0/16", "10.1.0.0/16"], &["10.0.0.0/16"]).len(), 1);
    }
}
