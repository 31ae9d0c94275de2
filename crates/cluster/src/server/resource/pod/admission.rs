//! What every new pod is given or denied, whoever makes it.

use serde_json::{Value, json};

use crate::server::document::{child, default, list, text};

/// How long a pod stays on a node that is in trouble.
const PATIENCE: i64 = 300;

/// The troubles of nodes that come and go.
const TROUBLES: &[&str] = &["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The priority of pods that ask for none: there are no classes of priority here.
const PRIORITY: i64 = 0;

/// Completes a new pod, or says why it is forbidden.
pub(super) fn admit(document: &mut Value) -> Result<(), String> {
    if let Some(priority) = document["spec"]["priority"].as_i64().filter(|priority| *priority != PRIORITY) {
        return Err(format!(
            "the integer value of priority ({priority}) must not be provided in pod spec; priority admission controller computed {PRIORITY} \
             from the given PriorityClass name"
        ));
    }
    let missing = missing_tolerations(document);
    let spec = child(document, "spec");
    spec.insert("priority".into(), PRIORITY.into());
    default(spec, "preemptionPolicy", "PreemptLowerPriority");
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(tolerations) = tolerations {
        tolerations.extend(missing);
    }
    Ok(())
}

fn missing_tolerations(document: &Value) -> Vec<Value> {
    let covers = |toleration: &Value, trouble: &str| {
        let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        (key.is_empty() || key == trouble) && (effect.is_empty() || effect == "NoExecute")
    };
    let tolerations = list(document, "/spec/tolerations");
    let missing = TROUBLES.iter().filter(|trouble| !tolerations.iter().any(|toleration| covers(toleration, trouble)));
    missing.map(|key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE})).collect()
}
