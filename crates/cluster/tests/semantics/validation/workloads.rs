//! Deployments and replica sets.

use serde_json::json;

use super::{refuses, refuses_change};

#[test]
fn a_deployment_needs_a_selector() {
    refuses(
        "deployments",
        json!({
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}},
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.selector", "Required value"),
            (
                "FieldValueInvalid",
                "spec.template.metadata.labels",
                "Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
            ),
        ],
    );
}

#[test]
fn an_empty_selector_of_a_deployment() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueInvalid", "spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
    );
}

#[test]
fn the_selector_of_a_deployment_matches_its_template() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.template.metadata.labels",
            "Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        )],
    );
}

#[test]
fn a_deployment_restarts_always() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"},
                },
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueNotSupported", "spec.template.spec.restartPolicy", "Unsupported value: \"Never\": supported values: \"Always\"")],
    );
}

#[test]
fn counts_of_a_deployment() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "replicas": -1,
                "minReadySeconds": -1,
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
            ("FieldValueInvalid", "spec.minReadySeconds", "Invalid value: -1: must be greater than or equal to 0"),
        ],
    );
}

#[test]
fn the_template_of_a_deployment() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueRequired", "spec.template.spec.containers", "Required value")],
    );
}

#[test]
fn a_deployment_keeps_its_selector() {
    refuses_change(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "replicas": 0,
            },
            "metadata": {"name": "one"},
        }),
        json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}}),
        &[("FieldValueInvalid", "spec.selector", "Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable")],
    );
}

#[test]
fn a_replica_set_needs_a_selector() {
    refuses(
        "replicasets",
        json!({
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}},
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueRequired", "spec.selector", "Required value"),
            (
                "FieldValueInvalid",
                "spec.template.metadata.labels",
                "Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
            ),
        ],
    );
}

#[test]
fn an_empty_selector_of_a_replica_set() {
    refuses(
        "replicasets",
        json!({
            "spec": {
                "selector": {},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueInvalid", "spec.selector", "Invalid value: {}: empty selector is invalid for deployment")],
    );
}

#[test]
fn the_selector_of_a_replica_set_matches_its_template() {
    refuses(
        "replicasets",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueInvalid",
            "spec.template.metadata.labels",
            "Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        )],
    );
}

#[test]
fn a_replica_set_restarts_always() {
    refuses(
        "replicasets",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"},
                },
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueNotSupported", "spec.template.spec.restartPolicy", "Unsupported value: \"Never\": supported values: \"Always\"")],
    );
}

#[test]
fn counts_of_a_replica_set() {
    refuses(
        "replicasets",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "replicas": -1,
                "minReadySeconds": -1,
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
            ("FieldValueInvalid", "spec.minReadySeconds", "Invalid value: -1: must be greater than or equal to 0"),
        ],
    );
}

#[test]
fn the_template_of_a_replica_set() {
    refuses(
        "replicasets",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueRequired", "spec.template.spec.containers", "Required value")],
    );
}

#[test]
fn a_replica_set_keeps_its_selector() {
    refuses_change(
        "replicasets",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "replicas": 0,
            },
            "metadata": {"name": "one"},
        }),
        json!({"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}}),
        &[("FieldValueInvalid", "spec.selector", "Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable")],
    );
}

#[test]
fn a_rollout_must_move() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueInvalid", "spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: 0: may not be 0 when `maxSurge` is 0")],
    );
}

#[test]
fn numbers_of_a_rollout() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "strategy": {"rollingUpdate": {"maxUnavailable": "half", "maxSurge": -1}},
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.strategy.rollingUpdate.maxUnavailable",
                "Invalid value: \"half\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ),
            ("FieldValueInvalid", "spec.strategy.rollingUpdate.maxSurge", "Invalid value: -1: must be greater than or equal to 0"),
        ],
    );
}

#[test]
fn a_rollout_of_more_than_all() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "strategy": {"rollingUpdate": {"maxUnavailable": "101%", "maxSurge": "1"}},
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueInvalid",
                "spec.strategy.rollingUpdate.maxSurge",
                "Invalid value: \"1\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ),
            ("FieldValueInvalid", "spec.strategy.rollingUpdate.maxUnavailable", "Invalid value: \"101%\": must not be greater than 100%"),
        ],
    );
}

#[test]
fn strategies() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "strategy": {"type": "Sometimes"},
            },
            "metadata": {"name": "one"},
        }),
        &[(
            "FieldValueNotSupported",
            "spec.strategy",
            "Unsupported value: {\"Type\":\"Sometimes\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"",
        )],
    );
}

#[test]
fn recreating_needs_no_numbers() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            },
            "metadata": {"name": "one"},
        }),
        &[("FieldValueForbidden", "spec.strategy.rollingUpdate", "Forbidden: may not be specified when strategy `type` is 'Recreate'")],
    );
}

#[test]
fn deadlines_of_a_rollout() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
                "minReadySeconds": 10,
                "progressDeadlineSeconds": 5,
                "revisionHistoryLimit": -1,
            },
            "metadata": {"name": "one"},
        }),
        &[
            ("FieldValueInvalid", "spec.revisionHistoryLimit", "Invalid value: -1: must be greater than or equal to 0"),
            ("FieldValueInvalid", "spec.progressDeadlineSeconds", "Invalid value: 5: must be greater than minReadySeconds"),
        ],
    );
}

#[test]
fn expressions_of_selectors() {
    refuses(
        "deployments",
        json!({
            "spec": {
                "selector": {"matchExpressions": [{"key": "bad key", "operator": "In", "values": []}]},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            },
            "metadata": {"name": "one"},
        }),
        &[
            (
                "FieldValueRequired",
                "spec.selector.matchExpressions[0].values",
                "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                "FieldValueInvalid",
                "spec.selector.matchExpressions[0].key",
                "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
            (
                "FieldValueInvalid",
                "spec.selector",
                "Invalid value: {\"matchExpressions\":[{\"key\":\"bad key\",\"operator\":\"In\"}]}: invalid label selector",
            ),
        ],
    );
}
