//! Config maps, secrets, service accounts, events and leases.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn keys_of_config_maps() {
    refuses(
        "configmaps",
        json!({"data": {"bad key": "x"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "data[bad key]",
            "Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        )],
    );
}

#[test]
fn keys_of_config_maps_are_unique() {
    refuses(
        "configmaps",
        json!({"data": {"a": "x"}, "binaryData": {"a": "eA=="}, "metadata": {"name": "one"}}),
        &[("FieldValueInvalid", "data[a]", "Invalid value: \"a\": duplicate of key present in binaryData")],
    );
}

#[test]
fn a_config_map_that_does_not_change() {
    refuses_change(
        "configmaps",
        json!({"immutable": true, "data": {"a": "x"}, "metadata": {"name": "one"}}),
        json!({"data": {"a": "y"}}),
        &[("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set")],
    );
}

#[test]
fn a_config_map_stays_as_it_is() {
    refuses_change(
        "configmaps",
        json!({"immutable": true, "data": {"a": "x"}, "metadata": {"name": "one"}}),
        json!({"immutable": false}),
        &[("FieldValueForbidden", "immutable", "Forbidden: field is immutable when `immutable` is set")],
    );
}

#[test]
fn keys_of_secrets() {
    refuses(
        "secrets",
        json!({"data": {"bad key": "eA=="}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "data[bad key]",
            "Invalid value: \"bad key\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        )],
    );
}

#[test]
fn secrets_for_tls() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/tls", "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "data[tls.crt]", "Required value"), ("FieldValueRequired", "data[tls.key]", "Required value")],
    );
}

#[test]
fn secrets_for_registries() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/dockerconfigjson", "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "data[.dockerconfigjson]", "Required value")],
    );
}

#[test]
fn secrets_for_registries_are_json() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "data[.dockerconfigjson]",
            "Invalid value: \"<secret contents redacted>\": invalid character 'x' looking for beginning of value",
        )],
    );
}

#[test]
fn secrets_for_users() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/basic-auth", "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "data[username]", "Required value"), ("FieldValueRequired", "data[password]", "Required value")],
    );
}

#[test]
fn secrets_for_shells() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/ssh-auth", "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "data[ssh-privatekey]", "Required value")],
    );
}

#[test]
fn secrets_for_accounts() {
    refuses(
        "secrets",
        json!({"type": "kubernetes.io/service-account-token", "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "metadata.annotations[kubernetes.io/service-account.name]", "Required value")],
    );
}

#[test]
fn a_secret_keeps_its_type() {
    refuses_change(
        "secrets",
        json!({"type": "test/one", "metadata": {"name": "one"}}),
        json!({"type": "test/two"}),
        &[("FieldValueInvalid", "type", "Invalid value: \"test/two\": field is immutable")],
    );
}

#[test]
fn a_secret_that_does_not_change() {
    refuses_change(
        "secrets",
        json!({"immutable": true, "data": {"a": "eA=="}, "metadata": {"name": "one"}}),
        json!({"data": {"a": "eQ=="}}),
        &[("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set")],
    );
}

#[test]
fn names_of_accounts() {
    refuses(
        "serviceaccounts",
        json!({"metadata": {"name": "Bad_Name"}}),
        &[(
            "FieldValueInvalid",
            "metadata.name",
            "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )],
    );
}

#[test]
fn events_are_where_their_object_is() {
    refuses(
        "events",
        json!({"involvedObject": {"namespace": "elsewhere"}, "metadata": {"name": "one"}}),
        &[("FieldValueInvalid", "involvedObject.namespace", "Invalid value: \"elsewhere\": does not match event.namespace")],
    );
}

#[test]
fn new_events_say_who_reports() {
    refuses(
        "events",
        json!({
            "involvedObject": {"namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "reportingComponent", "Required value"),
            ("FieldValueInvalid", "reportingComponent", "Invalid value: \"\": name part must be non-empty"),
            (
                "FieldValueInvalid",
                "reportingComponent",
                "Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            ("FieldValueRequired", "reportingInstance", "Required value"),
            ("FieldValueRequired", "action", "Required value"),
            ("FieldValueRequired", "reason", "Required value"),
        ],
    );
}

#[test]
fn leases() {
    refuses(
        "leases",
        json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1, "holderIdentity": ""}, "metadata": {"name": "one"}}),
        &[
            ("FieldValueInvalid", "spec.leaseDurationSeconds", "Invalid value: 0: must be greater than 0"),
            ("FieldValueInvalid", "spec.leaseTransitions", "Invalid value: -1: must be greater than or equal to 0"),
        ],
    );
}
