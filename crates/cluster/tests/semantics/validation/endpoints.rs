//! Endpoints and endpoint slices.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn subsets_need_addresses() {
    refuses(
        "endpoints",
        json!({"subsets": [{"ports": [{"port": 80}]}], "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "subsets[0]", "Required value: must specify `addresses` or `notReadyAddresses`")],
    );
}

#[test]
fn addresses_of_endpoints() {
    refuses(
        "endpoints",
        json!({
            "subsets": [
                {
                    "addresses": [
                        {"ip": "nonsense"},
                        {"ip": "127.0.0.1"},
                        {"ip": "169.254.1.1"},
                        {"ip": "224.0.0.1"},
                        {"ip": "0.0.0.0"},
                        {"ip": "10.0.0.1", "hostname": "Bad_Name"},
                        {"ip": "10.0.0.2", "nodeName": "Bad_Name"},
                    ],
                },
            ],
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "subsets[0].addresses[0].ip",
                "Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            ("FieldValueInvalid", "subsets[0].addresses[0].ip", "Invalid value: \"nonsense\": must be a valid IP address"),
            (
                "FieldValueInvalid",
                "subsets[0].addresses[1].ip",
                "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                "FieldValueInvalid",
                "subsets[0].addresses[2].ip",
                "Invalid value: \"169.254.1.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ),
            (
                "FieldValueInvalid",
                "subsets[0].addresses[3].ip",
                "Invalid value: \"224.0.0.1\": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
            ),
            ("FieldValueInvalid", "subsets[0].addresses[4].ip", "Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)"),
            (
                "FieldValueInvalid",
                "subsets[0].addresses[5].hostname",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            (
                "FieldValueInvalid",
                "subsets[0].addresses[6].nodeName",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ],
    );
}

#[test]
fn ports_of_endpoints() {
    refuses(
        "endpoints",
        json!({
            "subsets": [
                {
                    "addresses": [{"ip": "10.0.0.1"}],
                    "ports": [{"port": 0}, {"port": 80, "name": "Bad_Name", "protocol": "ICMP"}],
                },
            ],
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "subsets[0].ports[0].name", "Required value"),
            ("FieldValueInvalid", "subsets[0].ports[0].port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
            (
                "FieldValueInvalid",
                "subsets[0].ports[1].name",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            (
                "FieldValueNotSupported",
                "subsets[0].ports[1].protocol",
                "Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ),
        ],
    );
}

#[test]
fn slices_have_a_type() {
    refuses(
        "endpointslices",
        json!({"endpoints": [], "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "addressType", "Required value")],
    );
}

#[test]
fn types_of_slices() {
    refuses(
        "endpointslices",
        json!({"addressType": "IPv5", "endpoints": [], "metadata": {"name": "one"}}),
        &[("FieldValueNotSupported", "addressType", "Unsupported value: \"IPv5\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"")],
    );
}

#[test]
fn addresses_of_slices() {
    refuses(
        "endpointslices",
        json!({
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": []},
                {"addresses": ["nonsense"]},
                {"addresses": ["2001:db8::1"]},
                {"addresses": ["127.0.0.1"]},
                {"addresses": ["10.0.0.1"], "hostname": "Bad_Name", "nodeName": "Bad_Name"},
            ],
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "endpoints[1].addresses[0]",
                "Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            ("FieldValueInvalid", "endpoints[2].addresses", "Invalid value: \"2001:db8::1\": must be an IPv4 address"),
            (
                "FieldValueInvalid",
                "endpoints[3].addresses[0]",
                "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
            (
                "FieldValueInvalid",
                "endpoints[4].nodeName",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            (
                "FieldValueInvalid",
                "endpoints[4].hostname",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            ("FieldValueRequired", "endpoints[0].addresses", "Required value"),
        ],
    );
}

#[test]
fn addresses_of_six() {
    refuses(
        "endpointslices",
        json!({
            "addressType": "IPv6",
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["fe80::1"]}],
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "endpoints[0].addresses", "Invalid value: \"10.0.0.1\": must be an IPv6 address"),
            (
                "FieldValueInvalid",
                "endpoints[1].addresses[0]",
                "Invalid value: \"fe80::1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
            ),
        ],
    );
}

#[test]
fn names_in_slices() {
    refuses(
        "endpointslices",
        json!({
            "addressType": "FQDN",
            "endpoints": [{"addresses": ["Bad_Name"]}, {"addresses": ["10.0.0.1"]}],
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "endpoints[0].addresses[0]",
            "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )],
    );
}

#[test]
fn ports_of_slices() {
    refuses(
        "endpointslices",
        json!({
            "addressType": "IPv4",
            "endpoints": [],
            "ports": [
                {"name": "a", "port": 0},
                {"name": "Bad_Name", "port": 80},
                {"name": "b", "port": 80, "protocol": "ICMP"},
                {"name": "b", "port": 81},
                {"name": "c", "port": 81, "appProtocol": "bad protocol"},
            ],
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "ports[1].name",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
            ("FieldValueNotSupported", "ports[2].protocol", "Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\""),
            ("FieldValueDuplicate", "ports[3].name", "Duplicate value: \"b\""),
            (
                "FieldValueInvalid",
                "ports[4].appProtocol",
                "Invalid value: \"bad protocol\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
        ],
    );
}

#[test]
fn hints() {
    refuses(
        "endpointslices",
        json!({
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": ""}, {"name": "a"}, {"name": "a"}]}}],
            "metadata": {"name": "one"},
        }),
        &[("FieldValueDuplicate", "endpoints[0].hints.forZones[2].name", "Duplicate value: \"a\"")],
    );
}

#[test]
fn a_slice_keeps_its_type() {
    refuses_change(
        "endpointslices",
        json!({"addressType": "IPv4", "endpoints": [], "metadata": {"name": "one"}}),
        json!({"addressType": "IPv6"}),
        &[("FieldValueInvalid", "addressType", "Invalid value: null: field is immutable")],
    );
}
