//! ReplicaSets have as many pods as they ask for.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use super::{Controller, controller_reference, controller_uid, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::{as_map, list, metadata, moment, number, text};
use crate::server::operation::{DeleteOptions, create_in, delete_in};
use crate::server::resource::{PODS, REPLICA_SETS, is_pod_ready};
use crate::server::selector::LabelSelector;
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};

/// How many pods are made or deleted at once; the rest follows with the next look.
const BURST: usize = 500;

pub(super) struct ReplicaSets;

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        "replica sets"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        if key.storage == REPLICA_SETS.storage {
            return vec![key.clone()];
        }
        if key.storage != PODS.storage {
            return Vec::new();
        }
        let owners = event.current.owners.iter().chain(event.previous.iter().flat_map(|previous| &previous.owners));
        let owned = owners.filter_map(|uid| state.with_uid(uid)).filter(|owner| owner.key.storage == REPLICA_SETS.storage);
        let mut keys: Vec<Key> = owned.map(|owner| owner.key.clone()).collect();
        if event.current.owners.is_empty() {
            // Somebody may want to adopt it.
            keys.extend(state.list(&REPLICA_SETS, Some(&key.namespace), None).map(|set| set.key.clone()));
        }
        keys
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &REPLICA_SETS)
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let Some(set) = draft.state.get(key).cloned() else { return Ok(()) };
        let document = set.document();
        if !set.is_deleting {
            adopt(draft, &set, &document)?;
            scale(draft, ranges, &set, &document)?;
        }
        report(draft, &set, document)
    }

    /// When the next of the ready pods has been ready for long enough.
    fn due(&self, state: &State, key: &Key) -> Option<OffsetDateTime> {
        let set = state.get(key)?;
        let seconds = least_seconds(&set.document()).filter(|seconds| *seconds > 0)?;
        let now = OffsetDateTime::now_utc();
        active(state, set).iter().filter_map(|(_, pod)| available_from(pod, seconds)).filter(|moment| *moment > now).min()
    }
}

/// How long a pod has to be ready before it counts.
fn least_seconds(set: &Value) -> Option<i64> {
    number(set, "/spec/minReadySeconds")
}

/// Since when a ready pod has been ready for long enough, or from when on it will have been.
fn available_from(pod: &Value, seconds: i64) -> Option<OffsetDateTime> {
    let is_ready = |condition: &&Value| condition["type"] == "Ready" && condition["status"] == "True";
    let ready = list(pod, "/status/conditions").iter().find(is_ready)?;
    moment(text(ready, "/lastTransitionTime"))?.checked_add(time::Duration::seconds(seconds))
}

fn is_available(pod: &Value, seconds: i64) -> bool {
    match seconds {
        0 => is_pod_ready(pod),
        _ => available_from(pod, seconds).is_some_and(|moment| moment <= OffsetDateTime::now_utc()),
    }
}

/// The pods that a set controls and that have not ended.
fn active(state: &State, set: &Stored) -> Vec<(Arc<Stored>, Value)> {
    let pods = state.dependents(&set.uid).filter(|pod| pod.key.storage == PODS.storage && !pod.is_deleting);
    let pods = pods.map(|pod| (pod.clone(), pod.document()));
    pods.filter(|(_, pod)| controller_uid(pod) == Some(&*set.uid) && !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        .collect()
}

/// Takes in pods that fit and that nobody controls, and lets go of those that fit no more.
fn adopt(draft: &mut Draft, set: &Stored, document: &Value) -> Result<()> {
    let selector = LabelSelector::of_document(&document["spec"]["selector"]);
    let state = draft.state.clone();
    let pods = state.list(&PODS, Some(&set.key.namespace), None).filter(|pod| !pod.is_deleting);
    for pod in pods.filter(|pod| selector.matches(&pod.labels) && !pod.owners.contains(&set.uid)) {
        let mut adopted = pod.document();
        if controller_uid(&adopted).is_none() {
            let owners = metadata(&mut adopted).entry("ownerReferences").or_insert_with(|| json!([]));
            if let Value::Array(owners) = owners {
                owners.push(controller_reference(&REPLICA_SETS, document));
            }
            draft.put(&PODS, &pod.key, adopted)?;
        }
    }
    for (pod, mut left) in active(&state, set) {
        if !selector.matches(&pod.labels) {
            metadata(&mut left).shift_remove("ownerReferences");
            draft.put(&PODS, &pod.key, left)?;
        }
    }
    Ok(())
}

fn scale(draft: &mut Draft, ranges: &Ranges, set: &Stored, document: &Value) -> Result<()> {
    let wanted = usize::try_from(number(document, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    let mut pods = active(&draft.state, set);
    for _ in 0..wanted.saturating_sub(pods.len()).min(BURST) {
        create_in(draft, ranges, &PODS, new_pod(document))?;
    }
    let extra = pods.len().saturating_sub(wanted).min(BURST);
    // Those that serve least go first: not on a node, not ready, youngest.
    pods.sort_by_key(|(stored, pod)| (!text(pod, "/spec/nodeName").is_empty(), is_pod_ready(pod), std::cmp::Reverse(stored.revision)));
    for (pod, _) in pods.iter().take(extra) {
        delete_in(draft, &PODS, pod, &DeleteOptions::default())?;
    }
    Ok(())
}

fn new_pod(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    let mut meta = Map::new();
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(key) {
            meta.insert(key.to_owned(), value.clone());
        }
    }
    meta.insert("generateName".into(), format!("{}-", text(set, "/metadata/name")).into());
    meta.insert("namespace".into(), set["metadata"]["namespace"].clone());
    meta.insert("ownerReferences".into(), json!([controller_reference(&REPLICA_SETS, set)]));
    json!({"metadata": meta, "spec": template["spec"]})
}

/// Says in the status how many there are.
fn report(draft: &mut Draft, set: &Stored, mut document: Value) -> Result<()> {
    let pods = active(&draft.state, set);
    let labels = LabelSelector::of_document(&json!({"matchLabels": document["spec"]["template"]["metadata"]["labels"]}));
    let labelled = pods.iter().filter(|(pod, _)| labels.matches(&pod.labels)).count();
    let ready = pods.iter().filter(|(_, pod)| is_pod_ready(pod)).count();
    let seconds = least_seconds(&document).unwrap_or(0);
    let available = pods.iter().filter(|(_, pod)| is_available(pod, seconds)).count();
    let mut status = Map::new();
    status.insert("replicas".into(), pods.len().into());
    for (key, count) in [("fullyLabeledReplicas", labelled), ("readyReplicas", ready), ("availableReplicas", available)] {
        if count > 0 {
            status.insert(key.into(), count.into());
        }
    }
    status.insert("observedGeneration".into(), document["metadata"]["generation"].clone());
    as_map(&mut document).insert("status".into(), status.into());
    draft.put(&REPLICA_SETS, &set.key, document).map(drop)
}
