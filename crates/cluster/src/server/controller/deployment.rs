//! Deployments: one ReplicaSet for each template there has been, and the newest takes over from the others.

mod progress;
mod rollout;
mod status;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{Controller, controller_reference, controller_uid, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::{child, list, metadata, number, text};
use crate::server::operation::{DeleteOptions, create_in, delete_in};
use crate::server::resource::{DEPLOYMENTS, REPLICA_SETS};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};
use rollout::Set;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        "deployments"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        if key.storage == DEPLOYMENTS.storage {
            return vec![key.clone()];
        }
        if key.storage != REPLICA_SETS.storage {
            return Vec::new();
        }
        let owners = event.current.owners.iter().filter_map(|uid| state.with_uid(uid));
        owners.filter(|owner| owner.key.storage == DEPLOYMENTS.storage).map(|owner| owner.key.clone()).collect()
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &DEPLOYMENTS)
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let Some(stored) = draft.state.get(key).cloned().filter(|stored| !stored.is_deleting) else { return Ok(()) };
        let deployment = stored.document();
        let is_paused = deployment["spec"]["paused"] == Value::Bool(true);
        let sets = sets_of(&draft.state, &stored);
        let newest = sets.iter().position(|set| template_of(&set.document) == template_of(&deployment));
        let is_begun = newest.is_none() && !is_paused;
        if is_begun {
            create_set(draft, ranges, &deployment, &sets)?;
        } else if let Some(newest) = newest.filter(|_| !is_paused) {
            mark_newest(draft, &deployment, &sets, newest)?;
        }
        let mut sets = sets_of(&draft.state, &stored);
        sets.sort_by_key(|set| template_of(&set.document) != template_of(&deployment));
        let has_newest = sets.first().is_some_and(|set| template_of(&set.document) == template_of(&deployment));
        if has_newest && !is_paused {
            for (set, replicas) in rollout::plan(&deployment, &sets) {
                scale(draft, &sets[set], replicas, &deployment)?;
            }
            clean_up(draft, &deployment, &sets)?;
        }
        let sets = sets_of(&draft.state, &stored);
        status::report(draft, key, deployment, &sets, is_begun)
    }

    fn due(&self, state: &State, key: &Key) -> Option<OffsetDateTime> {
        progress::deadline(&state.get(key).filter(|stored| !stored.is_deleting)?.document())
    }
}

/// The ReplicaSets of a Deployment.
fn sets_of(state: &State, deployment: &Stored) -> Vec<Set> {
    let sets = state.dependents(&deployment.uid).filter(|set| set.key.storage == REPLICA_SETS.storage && !set.is_deleting);
    let sets = sets.map(|stored| Set { document: stored.document(), stored: stored.clone() });
    sets.filter(|set| controller_uid(&set.document) == Some(&*deployment.uid)).collect()
}

/// A template without the label that tells templates apart.
fn template_of(document: &Value) -> Value {
    let mut template = document["spec"]["template"].clone();
    let meta = metadata(&mut template);
    if let Some(Value::Object(labels)) = meta.get_mut("labels") {
        labels.shift_remove(HASH);
    }
    // Absent and empty are the same here.
    meta.retain(|key, value| key != "creationTimestamp" && value.as_object().is_none_or(|map| !map.is_empty()));
    template
}

/// A short name for a template, of letters that make no words. The number of a collision makes it another.
fn hash(template: &Value, collisions: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = format!("{template}{}", if collisions > 0 { collisions.to_string() } else { String::new() });
    let sum = text.bytes().fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    sum.to_string().bytes().map(|digit| LETTERS[digit as usize % LETTERS.len()] as char).collect()
}

fn revision(document: &Value) -> i64 {
    document["metadata"]["annotations"][REVISION].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn create_set(draft: &mut Draft, ranges: &Ranges, deployment: &Value, sets: &[Set]) -> Result<()> {
    let name = text(deployment, "/metadata/name");
    let namespace = text(deployment, "/metadata/namespace");
    let is_free = |hash: &String| draft.state.get(&Key::new(&REPLICA_SETS, namespace, &format!("{name}-{hash}"))).is_none();
    let template = template_of(deployment);
    let hash = (0..16).map(|collisions| hash(&template, collisions)).find(is_free).unwrap_or_default();
    let with_hash = |labels: &Value| {
        let mut labels = labels.as_object().cloned().unwrap_or_default();
        labels.insert(HASH.into(), hash.as_str().into());
        Value::from(labels)
    };
    let mut template = deployment["spec"]["template"].clone();
    let labels = with_hash(&template["metadata"]["labels"]);
    metadata(&mut template).insert("labels".into(), labels.clone());
    let mut selector = deployment["spec"]["selector"].clone();
    let matched = with_hash(&selector["matchLabels"]);
    crate::server::document::as_map(&mut selector).insert("matchLabels".into(), matched);
    let next = sets.iter().map(|set| revision(&set.document)).max().unwrap_or(0) + 1;
    let mut spec = Map::new();
    spec.insert("replicas".into(), 0.into());
    spec.insert("selector".into(), selector);
    spec.insert("template".into(), template);
    if let Some(seconds) = deployment["spec"].get("minReadySeconds") {
        spec.insert("minReadySeconds".into(), seconds.clone());
    }
    let document = json!({
        "metadata": {
            "name": format!("{name}-{hash}"), "namespace": namespace, "labels": labels, "annotations": {REVISION: next.to_string()},
            "ownerReferences": [controller_reference(&DEPLOYMENTS, deployment)],
        },
        "spec": spec,
    });
    create_in(draft, ranges, &REPLICA_SETS, document).map(drop)
}

/// The newest set has the highest revision, also if its template comes back, and waits for its pods as the Deployment says.
fn mark_newest(draft: &mut Draft, deployment: &Value, sets: &[Set], newest: usize) -> Result<()> {
    let highest = sets.iter().enumerate().filter(|(index, _)| *index != newest).map(|(_, set)| revision(&set.document)).max().unwrap_or(0);
    let set = &sets[newest];
    let mut document = set.document.clone();
    if revision(&document) <= highest {
        let annotations = metadata(&mut document).entry("annotations").or_insert_with(|| json!({}));
        crate::server::document::as_map(annotations).insert(REVISION.into(), (highest + 1).to_string().into());
    }
    let seconds = deployment["spec"].get("minReadySeconds");
    if seconds != document["spec"].get("minReadySeconds") {
        let spec = child(&mut document, "spec");
        match seconds {
            Some(seconds) => _ = spec.insert("minReadySeconds".into(), seconds.clone()),
            None => _ = spec.shift_remove("minReadySeconds"),
        }
        count_generation(&mut document);
    }
    draft.put(&REPLICA_SETS, &set.stored.key, document).map(drop)
}

fn count_generation(document: &mut Value) {
    let generation = document["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
    metadata(document).insert("generation".into(), generation.into());
}

fn scale(draft: &mut Draft, set: &Set, replicas: i64, deployment: &Value) -> Result<()> {
    let stored = draft.get(&REPLICA_SETS, &set.stored.key)?;
    let mut document = stored.document();
    let desired = number(deployment, "/spec/replicas").unwrap_or(1);
    if number(&document, "/spec/replicas") != Some(replicas) {
        child(&mut document, "spec").insert("replicas".into(), replicas.into());
        count_generation(&mut document);
    }
    let annotations = metadata(&mut document).entry("annotations").or_insert_with(|| json!({}));
    let annotations = crate::server::document::as_map(annotations);
    annotations.insert("deployment.kubernetes.io/desired-replicas".into(), desired.to_string().into());
    annotations.insert("deployment.kubernetes.io/max-replicas".into(), rollout::most(deployment).to_string().into());
    draft.put(&REPLICA_SETS, &stored.key, document).map(drop)
}

/// Deletes old sets that have no pods, all but the last few.
fn clean_up(draft: &mut Draft, deployment: &Value, sets: &[Set]) -> Result<()> {
    let limit = usize::try_from(number(deployment, "/spec/revisionHistoryLimit").unwrap_or(10)).unwrap_or(0);
    let is_idle = |set: &&Set| set.replicas() == 0 && set.pods() == 0 && list(&set.document, "/metadata/finalizers").is_empty();
    let mut idle: Vec<&Set> = sets.iter().skip(1).filter(is_idle).collect();
    idle.sort_by_key(|set| std::cmp::Reverse(revision(&set.document)));
    for set in idle.into_iter().skip(limit) {
        if let Some(stored) = draft.state.get(&set.stored.key).cloned() {
            delete_in(draft, &REPLICA_SETS, &stored, &DeleteOptions::default())?;
        }
    }
    Ok(())
}
