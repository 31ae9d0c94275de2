//! Nodes and namespaces.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn ranges_of_nodes() {
    refuses(
        "nodes",
        json!({"spec": {"podCIDR": "nonsense"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.podCIDRs[0]",
            "Invalid value: \"nonsense\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        )],
    );
}

#[test]
fn two_ranges_of_one_family() {
    refuses(
        "nodes",
        json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.podCIDRs",
            "Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for each IP family",
        )],
    );
}

#[test]
fn taints_are_unique() {
    refuses(
        "nodes",
        json!({
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueDuplicate",
            "metadata.taints[1]",
            "Duplicate value: {\"Key\":\"a\",\"Value\":\"\",\"Effect\":\"NoSchedule\",\"TimeAdded\":null}: taints must be unique by key and effect pair",
        )],
    );
}

#[test]
fn effects_of_taints() {
    refuses(
        "nodes",
        json!({
            "spec": {"taints": [{"key": "a", "effect": "Never"}, {"key": "bad key", "effect": "NoSchedule"}, {"key": "a"}]},
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueNotSupported",
                "metadata.taints[0].effect",
                "Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (
                "FieldValueInvalid",
                "metadata.taints[1].key",
                "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            ("FieldValueRequired", "metadata.taints[2].effect", "Required value"),
        ],
    );
}

#[test]
fn names_of_nodes() {
    refuses(
        "nodes",
        json!({"metadata": {"name": "Bad_Name"}}),
        &[(
            "FieldValueInvalid",
            "metadata.name",
            "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )],
    );
}

#[test]
fn a_node_keeps_its_range() {
    refuses_change(
        "nodes",
        json!({"spec": {"podCIDR": "10.0.0.0/24"}, "metadata": {"generateName": "semantics-"}}),
        json!({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}}),
        &[("FieldValueForbidden", "spec.podCIDRs", "Forbidden: node updates may not change podCIDR except from \"\" to valid")],
    );
}

#[test]
fn a_node_keeps_its_provider() {
    refuses_change(
        "nodes",
        json!({"spec": {"providerID": "a"}, "metadata": {"generateName": "semantics-"}}),
        json!({"spec": {"providerID": "b"}}),
        &[("FieldValueInvalid", "spec.providerID", "Invalid value: null: field cannot be modified once set")],
    );
}

#[test]
fn names_in_finalizers_of_namespaces() {
    refuses(
        "namespaces",
        json!({"spec": {"finalizers": ["bad"]}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.finalizers",
            "Invalid value: \"bad\": name is neither a standard finalizer name nor is it fully qualified",
        )],
    );
}
