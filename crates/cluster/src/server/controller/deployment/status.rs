//! What a Deployment says about how far it has come.

use serde_json::{Map, Value, json};

use super::progress::{self, Counts};
use super::rollout::Set;
use super::{REVISION, revision, template_of};
use crate::server::document::{as_map, list, metadata, now, number, text};
use crate::server::resource::DEPLOYMENTS;
use crate::server::status::Result;
use crate::server::store::{Draft, Key};

/// Writes the status of a Deployment.
pub(super) fn report(draft: &mut Draft, key: &Key, mut document: Value, sets: &[Set], is_begun: bool) -> Result<()> {
    let desired = number(&document, "/spec/replicas").unwrap_or(1);
    let newest = sets.iter().find(|set| template_of(&set.document) == template_of(&document));
    let total: i64 = sets.iter().map(Set::pods).sum();
    let ready: i64 = sets.iter().map(|set| number(&set.document, "/status/readyReplicas").unwrap_or(0)).sum();
    let available: i64 = sets.iter().map(Set::available).sum();
    let updated = newest.map_or(0, Set::pods);
    let mut status = Map::new();
    status.insert("observedGeneration".into(), document["metadata"]["generation"].clone());
    let counts = [
        ("replicas", total),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", available),
        ("unavailableReplicas", (desired - available).max(0)),
    ];
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        status.insert(name.into(), count.into());
    }
    let counts = Counts { desired, total, updated, ready, available };
    let set_name = newest.map(|set| text(&set.document, "/metadata/name"));
    let mut conditions = vec![condition(&document, available_condition(&document, desired, available))];
    conditions.extend(progress::condition(&document, &counts, set_name, is_begun));
    status.insert("conditions".into(), conditions.into());
    if let Some(newest) = newest {
        let annotations = metadata(&mut document).entry("annotations").or_insert_with(|| json!({}));
        as_map(annotations).insert(REVISION.into(), revision(&newest.document).to_string().into());
    }
    as_map(&mut document).insert("status".into(), status.into());
    draft.put(&DEPLOYMENTS, key, document).map(drop)
}

/// A condition: type, status, reason, message.
pub(super) type Condition = (&'static str, &'static str, &'static str, String);

fn available_condition(document: &Value, desired: i64, available: i64) -> Condition {
    let unavailable = match &document["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => text.trim_end_matches('%').parse::<i64>().unwrap_or(0).saturating_mul(desired) / 100,
        _ => 0,
    };
    match available >= desired - unavailable {
        true => ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.".into()),
        false => ("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.".into()),
    }
}

/// The condition as a document. One that says the same as before keeps its times.
pub(super) fn condition(document: &Value, (kind, status, reason, message): Condition) -> Value {
    let before = list(document, "/status/conditions").iter().find(|condition| condition["type"] == kind);
    let is_same = |before: &&Value| before["status"] == status && before["reason"] == reason && before["message"] == message;
    if let Some(before) = before.filter(is_same) {
        return before.clone();
    }
    let turned = before.filter(|before| before["status"] == status).map(|before| before["lastTransitionTime"].clone());
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": now(), "lastTransitionTime": turned.unwrap_or_else(|| now().into()),
    })
}
