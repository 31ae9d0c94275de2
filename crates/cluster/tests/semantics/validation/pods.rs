//! Pods.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn a_pod_needs_a_container() {
    refuses(
        "pods",
        json!({"spec": {"containers": []}, "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "spec.containers", "Required value")],
    );
}

#[test]
fn a_pod_needs_a_spec() {
    refuses("pods", json!({"metadata": {"name": "one"}}), &[("FieldValueRequired", "spec.containers", "Required value")]);
}

#[test]
fn a_container_needs_a_name_and_an_image() {
    refuses(
        "pods",
        json!({"spec": {"containers": [{}]}, "metadata": {"name": "one"}}),
        &[
            ("FieldValueRequired", "spec.containers[0].name", "Required value"),
            ("FieldValueRequired", "spec.containers[0].image", "Required value"),
        ],
    );
}

#[test]
fn names_of_containers_are_unique() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}],
                "initContainers": [{"name": "a", "image": "x"}],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueDuplicate", "spec.containers[1].name", "Duplicate value: \"a\""),
            ("FieldValueDuplicate", "spec.initContainers[0].name", "Duplicate value: \"a\""),
        ],
    );
}

#[test]
fn names_of_containers_are_labels() {
    refuses(
        "pods",
        json!({"spec": {"containers": [{"name": "Bad_Name", "image": "x"}]}, "metadata": {"name": "one"}}),
        &[(
            "FieldValueInvalid",
            "spec.containers[0].name",
            "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        )],
    );
}

#[test]
fn restart_policies() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Sometimes"},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueNotSupported",
            "spec.restartPolicy",
            "Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        )],
    );
}

#[test]
fn ports_of_containers() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "ports": [
                            {"containerPort": 0},
                            {"containerPort": 70000},
                            {"containerPort": 80, "protocol": "ICMP"},
                            {"containerPort": 80, "name": "Bad_Name"},
                            {"containerPort": 81, "hostPort": 70000},
                        ],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.containers[0].ports[0].containerPort", "Required value"),
            (
                "FieldValueInvalid",
                "spec.containers[0].ports[1].containerPort",
                "Invalid value: 70000: must be between 1 and 65535, inclusive",
            ),
            (
                "FieldValueNotSupported",
                "spec.containers[0].ports[2].protocol",
                "Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].ports[3].name",
                "Invalid value: \"Bad_Name\": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            ),
            ("FieldValueInvalid", "spec.containers[0].ports[4].hostPort", "Invalid value: 70000: must be between 1 and 65535, inclusive"),
        ],
    );
}

#[test]
fn names_of_ports_are_unique() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueDuplicate", "spec.containers[0].ports[1].name", "Duplicate value: \"a\"")],
    );
}

#[test]
fn host_ports_are_unique() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueDuplicate", "spec.containers[0].ports[1].hostPort", "Duplicate value: \"TCP//80\"")],
    );
}

#[test]
fn host_ports_of_the_host_network() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}],
                "hostNetwork": true,
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.containers[0].ports[0].hostPort",
            "Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
        )],
    );
}

#[test]
fn mounts_need_volumes() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "volumeMounts": [
                            {"name": "none", "mountPath": "/a"},
                            {"name": "v", "mountPath": "/a"},
                            {"name": "v", "mountPath": ""},
                        ],
                    },
                ],
                "volumes": [{"name": "v"}],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name", "Not found: \"none\""),
            ("FieldValueInvalid", "spec.containers[0].volumeMounts[1].mountPath", "Invalid value: \"/a\": must be unique"),
            ("FieldValueRequired", "spec.containers[0].volumeMounts[2].mountPath", "Required value"),
        ],
    );
}

#[test]
fn volumes_have_one_source_and_a_name() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "volumes": [
                    {"emptyDir": {}},
                    {"name": "a"},
                    {"name": "a"},
                    {"name": "b", "emptyDir": {}, "hostPath": {"path": "/"}},
                    {"name": "c", "configMap": {}},
                    {"name": "d", "secret": {}},
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.volumes[0].name", "Required value"),
            ("FieldValueDuplicate", "spec.volumes[2].name", "Duplicate value: \"a\""),
            ("FieldValueForbidden", "spec.volumes[3].hostPath", "Forbidden: may not specify more than 1 volume type"),
            ("FieldValueRequired", "spec.volumes[4].configMap.name", "Required value"),
            ("FieldValueRequired", "spec.volumes[5].secret.secretName", "Required value"),
        ],
    );
}

#[test]
fn variables() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "env": [
                            {"name": ""},
                            {"name": "a=b"},
                            {"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                            {"name": "B", "valueFrom": {}},
                            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "spec.nothing"}}},
                        ],
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.containers[0].env[0].name", "Required value"),
            (
                "FieldValueInvalid",
                "spec.containers[0].env[1].name",
                "Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].env[2].valueFrom",
                "Invalid value: \"\": may not be specified when `value` is not empty",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].env[3].valueFrom",
                "Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].env[4].valueFrom.fieldRef.fieldPath",
                "Invalid value: \"spec.nothing\": error converting fieldPath: field label not supported: spec.nothing",
            ),
        ],
    );
}

#[test]
fn requests_are_within_limits() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.containers[0].resources.requests",
            "Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        )],
    );
}

#[test]
fn resources_are_known() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"nonsense": "2"}}}]},
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.containers[0].resources.requests[nonsense]",
                "Invalid value: \"nonsense\": must be a standard resource type or fully qualified",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].resources.requests[nonsense]",
                "Invalid value: \"nonsense\": must be a standard resource for containers",
            ),
        ],
    );
}

#[test]
fn probes() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "x",
                        "readinessProbe": {"periodSeconds": -1},
                        "livenessProbe": {"httpGet": {"port": 80}, "tcpSocket": {"port": 80}},
                        "startupProbe": {"httpGet": {"port": 0, "scheme": "FTP"}, "successThreshold": 2},
                    },
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueForbidden", "spec.containers[0].livenessProbe.tcpSocket", "Forbidden: may not specify more than 1 handler type"),
            ("FieldValueRequired", "spec.containers[0].readinessProbe", "Required value: must specify a handler type"),
            (
                "FieldValueInvalid",
                "spec.containers[0].readinessProbe.periodSeconds",
                "Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                "FieldValueInvalid",
                "spec.containers[0].startupProbe.httpGet.port",
                "Invalid value: 0: must be between 1 and 65535, inclusive",
            ),
            (
                "FieldValueNotSupported",
                "spec.containers[0].startupProbe.httpGet.scheme",
                "Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
            ),
            ("FieldValueInvalid", "spec.containers[0].startupProbe.successThreshold", "Invalid value: 2: must be 1"),
        ],
    );
}

#[test]
fn dns_policies() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "dnsPolicy": "Sometimes"},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueNotSupported",
            "spec.dnsPolicy",
            "Unsupported value: \"Sometimes\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
        )],
    );
}

#[test]
fn no_dns_needs_a_server() {
    refuses(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": "x"}], "dnsPolicy": "None"}, "metadata": {"name": "one"}}),
        &[("FieldValueRequired", "spec.dnsConfig", "Required value: must provide `dnsConfig` when `dnsPolicy` is None")],
    );
}

#[test]
fn dns_settings() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "dnsConfig": {
                    "nameservers": ["nonsense", "1.1.1.1", "1.1.1.2", "1.1.1.3"],
                    "searches": ["Bad_Name"],
                    "options": [{"name": ""}],
                },
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.dnsConfig.nameservers",
                "Invalid value: [\"nonsense\",\"1.1.1.1\",\"1.1.1.2\",\"1.1.1.3\"]: must not have more than 3 nameservers",
            ),
            (
                "FieldValueInvalid",
                "spec.dnsConfig.nameservers[0]",
                "Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            (
                "FieldValueInvalid",
                "spec.dnsConfig.searches[0]",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
            ),
            ("FieldValueRequired", "spec.dnsConfig.options[0]", "Required value: must not be empty"),
        ],
    );
}

#[test]
fn aliases_of_hosts() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "hostAliases": [{"ip": "nonsense", "hostnames": ["Bad_Name"]}],
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.hostAliases[0].ip",
                "Invalid value: \"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ),
            (
                "FieldValueInvalid",
                "spec.hostAliases[0].hostnames[0]",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ],
    );
}

#[test]
fn names_of_hosts() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "hostname": "with.dot", "subdomain": "Bad_Name"},
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.hostname", "Invalid value: \"with.dot\": must not contain dots"),
            (
                "FieldValueInvalid",
                "spec.subdomain",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ],
    );
}

#[test]
fn times_of_pods() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "terminationGracePeriodSeconds": -5,
                "activeDeadlineSeconds": 0,
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueInvalid", "spec.activeDeadlineSeconds", "Invalid value: 0: must be between 1 and 2147483647, inclusive")],
    );
}

#[test]
fn tolerations() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "tolerations": [
                    {"key": "", "operator": "Equal"},
                    {"key": "a", "operator": "Sometimes"},
                    {"key": "a", "operator": "Exists", "value": "x"},
                    {"key": "a", "effect": "Never"},
                    {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1},
                ],
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.tolerations[0].operator",
                "Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ),
            (
                "FieldValueNotSupported",
                "spec.tolerations[1].operator",
                "Unsupported value: \"Sometimes\": supported values: \"Equal\", \"Exists\"",
            ),
            ("FieldValueInvalid", "spec.tolerations[2].operator", "Invalid value: \"x\": value must be empty when `operator` is 'Exists'"),
            (
                "FieldValueNotSupported",
                "spec.tolerations[3].effect",
                "Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ),
            (
                "FieldValueInvalid",
                "spec.tolerations[4].effect",
                "Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ),
        ],
    );
}

#[test]
fn selectors_of_nodes() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "nodeSelector": {"bad key": "x"}},
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.nodeSelector",
            "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        )],
    );
}

#[test]
fn names_of_nodes_and_accounts() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "nodeName": "Bad_Name", "serviceAccountName": "Bad_Name"},
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.serviceAccountName",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
            (
                "FieldValueInvalid",
                "spec.nodeName",
                "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ],
    );
}

#[test]
fn users() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x", "securityContext": {"runAsUser": -1}}],
                "securityContext": {"runAsGroup": -1, "fsGroup": -1},
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.containers[0].securityContext.runAsUser",
                "Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ),
            ("FieldValueInvalid", "spec.securityContext.fsGroup", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
            ("FieldValueInvalid", "spec.securityContext.runAsGroup", "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
        ],
    );
}

#[test]
fn pull_policies() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x", "imagePullPolicy": "Sometimes", "terminationMessagePolicy": "Never"}],
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueNotSupported",
                "spec.containers[0].terminationMessagePolicy",
                "Unsupported value: \"Never\": supported values: \"File\", \"FallbackToLogsOnError\"",
            ),
            (
                "FieldValueNotSupported",
                "spec.containers[0].imagePullPolicy",
                "Unsupported value: \"Sometimes\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ),
        ],
    );
}

#[test]
fn images_have_no_spaces() {
    refuses(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": " x "}]}, "metadata": {"name": "one"}}),
        &[("FieldValueInvalid", "spec.containers[0].image", "Invalid value: \" x \": must not have leading or trailing whitespace")],
    );
}

#[test]
fn commands_of_hooks() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x", "lifecycle": {"preStop": {}}}]},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueRequired", "spec.containers[0].lifecycle.preStop", "Required value: must specify a handler type")],
    );
}

#[test]
fn a_namespace_of_the_host_for_windows() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "os": {"name": "windows"}, "hostPID": true},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueForbidden", "spec.hostPID", "Forbidden: cannot be set for a windows pod")],
    );
}

#[test]
fn systems() {
    refuses(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": "x"}], "os": {"name": "plan9"}}, "metadata": {"name": "one"}}),
        &[("FieldValueNotSupported", "spec.os", "Unsupported value: \"plan9\": supported values: \"linux\", \"windows\"")],
    );
}

#[test]
fn gates() {
    refuses(
        "pods",
        json!({
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "readinessGates": [{"conditionType": "bad type"}],
                "schedulingGates": [{"name": "bad name"}, {"name": "bad name"}],
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.readinessGates[0].conditionType",
                "Invalid value: \"bad type\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "FieldValueInvalid",
                "spec.schedulingGates[0]",
                "Invalid value: \"bad name\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "FieldValueInvalid",
                "spec.schedulingGates[1]",
                "Invalid value: \"bad name\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            ("FieldValueDuplicate", "spec.schedulingGates[1]", "Duplicate value: \"bad name\""),
        ],
    );
}

#[test]
fn names_of_pods() {
    refuses(
        "pods",
        json!({"metadata": {"name": "Bad_Name"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}),
        &[(
            "FieldValueInvalid",
            "metadata.name",
            "Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        )],
    );
}

#[test]
fn ephemeral_containers_come_later() {
    refuses(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "ephemeralContainers": [{"name": "e", "image": "x"}]},
            "metadata": {"name": "one"},
        }),
        &[("FieldValueForbidden", "spec.ephemeralContainers", "Forbidden: cannot be set on create")],
    );
}

#[test]
fn a_pod_keeps_its_node() {
    refuses_change(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": "x"}], "nodeName": "here"}, "metadata": {"name": "one"}}),
        json!({"spec": {"nodeName": "there"}}),
        &[(
            "FieldValueForbidden",
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n@@ -43,7 +43,7 @@\n  \"ServiceAccountName\": \"\",\n  \"DeprecatedServiceAccount\": \"\",\n  \"AutomountServiceAccountToken\": null,\n- \"NodeName\": \"here\",\n+ \"NodeName\": \"there\",\n  \"HostNetwork\": false,\n  \"HostPID\": false,\n  \"HostIPC\": false,\n",
        )],
    );
}

#[test]
fn a_pod_keeps_its_deadline() {
    refuses_change(
        "pods",
        json!({
            "spec": {"containers": [{"name": "main", "image": "x"}], "activeDeadlineSeconds": 10},
            "metadata": {"name": "one"},
        }),
        json!({"spec": {"activeDeadlineSeconds": 20}}),
        &[("FieldValueInvalid", "spec.activeDeadlineSeconds", "Invalid value: 20: must be less than or equal to previous value")],
    );
}

#[test]
fn a_pod_keeps_its_image_name() {
    refuses_change(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": "x"}]}, "metadata": {"name": "one"}}),
        json!({"spec": {"containers": [{"name": "main", "image": ""}]}}),
        &[
            ("FieldValueRequired", "spec.containers[0].image", "Required value"),
            (
                "FieldValueForbidden",
                "spec",
                "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n@@ -27,7 +27,7 @@\n    \"Lifecycle\": null,\n    \"TerminationMessagePath\": \"/dev/termination-log\",\n    \"TerminationMessagePolicy\": \"File\",\n-   \"ImagePullPolicy\": \"Always\",\n+   \"ImagePullPolicy\": \"IfNotPresent\",\n    \"SecurityContext\": null,\n    \"Stdin\": false,\n    \"StdinOnce\": false,\n",
            ),
        ],
    );
}

#[test]
fn a_pod_keeps_its_number_of_containers() {
    refuses_change(
        "pods",
        json!({"spec": {"containers": [{"name": "main", "image": "x"}]}, "metadata": {"name": "one"}}),
        json!({"spec": {"containers": [{"name": "main", "image": "x"}, {"name": "b", "image": "x"}]}}),
        &[("FieldValueForbidden", "spec.containers", "Forbidden: pod updates may not add or remove containers")],
    );
}
