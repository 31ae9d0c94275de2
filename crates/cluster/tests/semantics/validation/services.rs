//! Services.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn a_service_needs_ports() {
    refuses("services", json!({"spec": {}, "metadata": {"name": "one"}}), &[("FieldValueRequired", "spec.ports", "Required value")]);
}

#[test]
fn ports_of_services() {
    refuses(
        "services",
        json!({
            "spec": {
                "ports": [
                    {"name": "a", "port": 0},
                    {"name": "b", "port": 70000},
                    {"name": "c", "port": 1, "protocol": "ICMP"},
                    {"name": "d", "port": 2, "targetPort": "Bad_Name"},
                    {"name": "e", "port": 3, "targetPort": 70000},
                    {"name": "Bad_Name", "port": 4},
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.ports[0].port", "Invalid value: 0: must be between 1 and 65535, inclusive"),
            ("FieldValueInvalid", "spec.ports[0].targetPort", "Invalid value: 0: must be between 1 and 65535, inclusive"),
            ("FieldValueInvalid", "spec.ports[1].port", "Invalid value: 70000: must be between 1 and 65535, inclusive"),
            ("FieldValueInvalid", "spec.ports[1].targetPort", "Invalid value: 70000: must be between 1 and 65535, inclusive"),
            (
                "FieldValueNotSupported",
                "spec.ports[2].protocol",
                "Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ),
            (
                "FieldValueInvalid",
                "spec.ports[3].targetPort",
                "Invalid value: \"Bad_Name\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            ),
            ("FieldValueInvalid", "spec.ports[4].targetPort", "Invalid value: 70000: must be between 1 and 65535, inclusive"),
            (
                "FieldValueInvalid",
                "spec.ports[5].name",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ],
    );
}

#[test]
fn several_ports_need_names() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}, "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "spec.ports[0].name", "Required value"), ("FieldValueRequired", "spec.ports[1].name", "Required value")],
    );
}

#[test]
fn ports_of_services_are_unique() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}, {"name": "b", "port": 80}]},
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueDuplicate", "spec.ports[1].name", "Duplicate value: \"a\""),
            (
                "FieldValueDuplicate",
                "spec.ports[2]",
                "Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
            ),
        ],
    );
}

#[test]
fn types_of_services() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "type": "Sometimes"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueNotSupported",
            "spec.type",
            "Unsupported value: \"Sometimes\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        )],
    );
}

#[test]
fn affinities() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "sessionAffinity": "Sometimes"}, "metadata": {"name": "one"}}),
        &[("FieldValueNotSupported", "spec.sessionAffinity", "Unsupported value: \"Sometimes\": supported values: \"ClientIP\", \"None\"")],
    );
}

#[test]
fn affinity_has_a_time() {
    refuses(
        "services",
        json!({
            "spec": {
                "ports": [{"port": 80}],
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 0}},
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            "Invalid value: 0: must be greater than 0 and less than 86400",
        )],
    );
}

#[test]
fn an_external_name_is_a_name() {
    refuses(
        "services",
        json!({"spec": {"type": "ExternalName"}, "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "spec.externalName", "Required value")],
    );
}

#[test]
fn an_external_name_is_a_good_name() {
    refuses(
        "services",
        json!({"spec": {"type": "ExternalName", "externalName": "Bad_Name!"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.externalName",
            "Invalid value: \"Bad_Name!\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )],
    );
}

#[test]
fn an_external_name_has_no_address() {
    refuses(
        "services",
        json!({
            "spec": {"type": "ExternalName", "externalName": "a.test", "clusterIP": "10.96.0.77"},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueForbidden", "spec.clusterIPs", "Forbidden: may not be set for ExternalName services")],
    );
}

#[test]
fn addresses_of_services_are_addresses() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "clusterIP": "300.1.1.1"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.clusterIPs[0]",
            "Invalid value: \"300.1.1.1\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        )],
    );
}

#[test]
fn addresses_of_services_agree() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.78"]},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueInvalid", "spec.clusterIPs", "Invalid value: [\"10.96.0.78\"]: first value must match `clusterIP`")],
    );
}

#[test]
fn two_addresses_of_one_family() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "clusterIPs": ["10.96.0.77", "10.96.0.78"], "ipFamilyPolicy": "PreferDualStack"},
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.clusterIPs",
                "Invalid value: [\"10.96.0.77\",\"10.96.0.78\"]: must be empty when `clusterIP` is not specified",
            ),
            (
                "FieldValueInvalid",
                "spec.clusterIPs",
                "Invalid value: [\"10.96.0.77\",\"10.96.0.78\"]: may specify no more than one IP for each IP family",
            ),
        ],
    );
}

#[test]
fn a_node_port_needs_its_type() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80, "nodePort": 30123}]}, "metadata": {"name": "one"}}),
        &[("FieldValueForbidden", "spec.ports[0].nodePort", "Forbidden: may not be used when `type` is 'ClusterIP'")],
    );
}

#[test]
fn a_headless_service_has_no_node_port() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "type": "NodePort", "clusterIP": "None"}, "metadata": {"name": "one"}}),
        &[("FieldValueInvalid", "spec.clusterIPs[0]", "Invalid value: \"None\": may not be set to 'None' for NodePort services")],
    );
}

#[test]
fn external_addresses() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "externalIPs": ["nonsense", "127.0.0.1"]}, "metadata": {"name": "one"}}),
        &[
            (
                "FieldValueInvalid",
                "spec.externalIPs[0]",
                "Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            (
                "FieldValueInvalid",
                "spec.externalIPs[1]",
                "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ),
        ],
    );
}

#[test]
fn external_traffic_is_for_external_types() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "externalTrafficPolicy": "Local"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.externalTrafficPolicy",
            "Invalid value: \"Local\": may only be set for externally-accessible services",
        )],
    );
}

#[test]
fn policies_of_traffic() {
    refuses(
        "services",
        json!({
            "spec": {
                "ports": [{"port": 80}],
                "type": "NodePort",
                "externalTrafficPolicy": "Sometimes",
                "internalTrafficPolicy": "Sometimes",
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueNotSupported",
                "spec.externalTrafficPolicy",
                "Unsupported value: \"Sometimes\": supported values: \"Cluster\", \"Local\"",
            ),
            (
                "FieldValueNotSupported",
                "spec.internalTrafficPolicy",
                "Unsupported value: \"Sometimes\": supported values: \"Cluster\", \"Local\"",
            ),
        ],
    );
}

#[test]
fn policies_of_families() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "ipFamilyPolicy": "Sometimes"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueNotSupported",
            "spec.ipFamilyPolicy",
            "Unsupported value: \"Sometimes\": supported values: \"PreferDualStack\", \"RequireDualStack\", \"SingleStack\"",
        )],
    );
}

#[test]
fn families() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "ipFamilies": ["IPv5"]}, "metadata": {"name": "one"}}),
        &[("FieldValueNotSupported", "spec.ipFamilies[0]", "Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"")],
    );
}

#[test]
fn families_are_unique() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "PreferDualStack"},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueDuplicate", "spec.ipFamilies[1]", "Duplicate value: \"IPv4\"")],
    );
}

#[test]
fn one_stack_has_one_family() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.ipFamilyPolicy",
            "Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        )],
    );
}

#[test]
fn names_of_services_have_no_dots() {
    refuses(
        "services",
        json!({"metadata": {"name": "with.dot"}, "spec": {"ports": [{"port": 80}]}}),
        &[("FieldValueInvalid", "metadata.name", "Invalid value: \"with.dot\": must not contain dots")],
    );
}

#[test]
fn selectors_of_services() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "selector": {"bad key": "x"}}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.selector",
            "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        )],
    );
}

#[test]
fn source_ranges() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "type": "LoadBalancer", "loadBalancerSourceRanges": ["nonsense"]},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.LoadBalancerSourceRanges[0]",
            "Invalid value: \"nonsense\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        )],
    );
}

#[test]
fn source_ranges_are_for_load_balancers() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "loadBalancerSourceRanges": ["192.0.2.0/24"]}, "metadata": {"name": "one"}}),
        &[("FieldValueForbidden", "spec.LoadBalancerSourceRanges", "Forbidden: may only be used when `type` is 'LoadBalancer'")],
    );
}

#[test]
fn classes_are_for_load_balancers() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "loadBalancerClass": "test/one", "allocateLoadBalancerNodePorts": true},
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueForbidden", "spec.allocateLoadBalancerNodePorts", "Forbidden: may only be used when `type` is 'LoadBalancer'"),
            ("FieldValueForbidden", "spec.loadBalancerClass", "Forbidden: may only be used when `type` is 'LoadBalancer'"),
        ],
    );
}

#[test]
fn health_checks_are_for_local_traffic() {
    refuses(
        "services",
        json!({
            "spec": {"ports": [{"port": 80}], "type": "LoadBalancer", "healthCheckNodePort": 31234},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.healthCheckNodePort",
            "Invalid value: 31234: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )],
    );
}

#[test]
fn distributions() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "trafficDistribution": "Sometimes"}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueNotSupported",
            "spec.trafficDistribution",
            "Unsupported value: \"Sometimes\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
        )],
    );
}

#[test]
fn protocols_of_applications() {
    refuses(
        "services",
        json!({"spec": {"ports": [{"port": 80, "appProtocol": "bad protocol"}]}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.ports[0].appProtocol",
            "Invalid value: \"bad protocol\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        )],
    );
}

#[test]
fn a_service_keeps_its_address() {
    refuses_change(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.210"}, "metadata": {"name": "one"}}),
        json!({"spec": {"clusterIP": "10.96.0.211", "clusterIPs": ["10.96.0.211"]}}),
        &[("FieldValueInvalid", "spec.clusterIPs[0]", "Invalid value: [\"10.96.0.211\"]: may not change once set")],
    );
}

#[test]
fn a_service_stays_headless() {
    refuses_change(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "clusterIP": "None"}, "metadata": {"name": "one"}}),
        json!({"spec": {"clusterIP": "10.96.0.212", "clusterIPs": ["10.96.0.212"]}}),
        &[("FieldValueInvalid", "spec.clusterIPs[0]", "Invalid value: [\"10.96.0.212\"]: may not change once set")],
    );
}

#[test]
fn a_service_keeps_its_first_family() {
    refuses_change(
        "services",
        json!({"spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.213"}, "metadata": {"name": "one"}}),
        json!({"spec": {"ipFamilies": ["IPv6"]}}),
        &[(
            "FieldValueInvalid",
            "spec.clusterIPs[0]",
            "Invalid value: \"10.96.0.213\": expected an IPv6 value as indicated by `ipFamilies[0]`",
        )],
    );
}

#[test]
fn a_service_cannot_lose_its_ports() {
    refuses_change(
        "services",
        json!({"spec": {"ports": [{"port": 80}]}, "metadata": {"name": "one"}}),
        json!({"spec": {"ports": []}}),
        &[("FieldValueRequired", "spec.ports", "Required value")],
    );
}
