//! Small objects to begin with.

use serde_json::{Value, json};

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
}

/// A config map with one label.
pub(crate) fn labelled(name: &str, key: &str, value: &str) -> Value {
    let mut map = config_map(name);
    map["metadata"]["labels"] = json!({ key: value });
    map
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "registry.test/main:1"}]},
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.test/main:1"}]},
            },
        },
    })
}

pub(crate) fn replica_set(name: &str, replicas: u32) -> Value {
    let mut set = deployment(name, replicas);
    set["kind"] = json!("ReplicaSet");
    set
}
