//! Network policies.

use serde_json::json;

use super::refuses;

#[test]
fn ports_of_policies() {
    refuses(
        "networkpolicies",
        json!({
            "spec": {
                "podSelector": {},
                "ingress": [
                    {
                        "ports": [
                            {"port": 0},
                            {"port": "Bad_Name"},
                            {"port": 80, "protocol": "ICMP"},
                            {"port": 80, "endPort": 79},
                            {"endPort": 80},
                            {"port": "web", "endPort": 80},
                        ],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.ingress[0].ports[0].port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
            (
                "FieldValueInvalid",
                "spec.ingress[0].ports[1].port",
                "Invalid value: \"Bad_Name\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            ),
            (
                "FieldValueNotSupported",
                "spec.ingress[0].ports[2].protocol",
                "Unsupported value: \"ICMP\": supported values: \"TCP\", \"UDP\", \"SCTP\"",
            ),
            ("FieldValueInvalid", "spec.ingress[0].ports[3].endPort", "Invalid value: 79: must be greater than or equal to `port`"),
            (
                "FieldValueInvalid",
                "spec.ingress[0].ports[4].endPort",
                "Invalid value: 80: may not be specified when `port` is not specified",
            ),
            ("FieldValueInvalid", "spec.ingress[0].ports[5].endPort", "Invalid value: 80: may not be specified when `port` is non-numeric"),
        ],
    );
}

#[test]
fn peers_of_policies() {
    refuses(
        "networkpolicies",
        json!({
            "spec": {
                "podSelector": {},
                "ingress": [
                    {
                        "from": [
                            {},
                            {"ipBlock": {"cidr": "nonsense"}},
                            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.0.2.0/24", "10.0.0.0/8"]}},
                            {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}},
                        ],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.ingress[0].from[0]", "Required value: must specify a peer"),
            (
                "FieldValueInvalid",
                "spec.ingress[0].from[1].ipBlock.cidr",
                "Invalid value: \"nonsense\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
            (
                "FieldValueInvalid",
                "spec.ingress[0].from[2].ipBlock.except[0]",
                "Invalid value: \"192.0.2.0/24\": must be a strict subset of `cidr`",
            ),
            (
                "FieldValueInvalid",
                "spec.ingress[0].from[2].ipBlock.except[1]",
                "Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
            ),
            ("FieldValueForbidden", "spec.ingress[0].from[3]", "Forbidden: may not specify both ipBlock and another peer"),
        ],
    );
}

#[test]
fn peers_of_outgoing_policies() {
    refuses(
        "networkpolicies",
        json!({"spec": {"podSelector": {}, "egress": [{"to": [{}, {"ipBlock": {"cidr": ""}}]}]}, "metadata": {"name": "one"}}),
        &[
            ("FieldValueRequired", "spec.egress[0].to[0]", "Required value: must specify a peer"),
            ("FieldValueRequired", "spec.egress[0].to[1].ipBlock.cidr", "Required value"),
        ],
    );
}

#[test]
fn types_of_policies() {
    refuses(
        "networkpolicies",
        json!({"spec": {"podSelector": {}, "policyTypes": ["Sideways"]}, "metadata": {"name": "one"}}),
        &[("FieldValueNotSupported", "spec.policyTypes[0]", "Unsupported value: \"Sideways\": supported values: \"Ingress\", \"Egress\"")],
    );
}

#[test]
fn number_of_types_of_policies() {
    refuses(
        "networkpolicies",
        json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress", "Ingress"]}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.policyTypes",
            "Invalid value: [\"Ingress\",\"Egress\",\"Ingress\"]: may not specify more than two policyTypes",
        )],
    );
}

#[test]
fn selectors_of_policies() {
    refuses(
        "networkpolicies",
        json!({
            "spec": {
                "podSelector": {
                    "matchLabels": {"bad key": "x"},
                    "matchExpressions": [
                        {"key": "a", "operator": "In"},
                        {"key": "a", "operator": "Sometimes"},
                        {"key": "a", "operator": "Exists", "values": ["x"]},
                    ],
                },
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.podSelector.matchLabels",
                "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "FieldValueRequired",
                "spec.podSelector.matchExpressions[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                "FieldValueInvalid",
                "spec.podSelector.matchExpressions[1].operator",
                "Invalid value: \"Sometimes\": not a valid selector operator",
            ),
            (
                "FieldValueForbidden",
                "spec.podSelector.matchExpressions[2].values",
                "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
        ],
    );
}
