//! A Kubernetes namespace that is being deleted takes what is in it along.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Controller, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::{child, list, now};
use crate::server::operation::{DeleteOptions, delete_in, put_or_finish};
use crate::server::resource::{ALL, NAMESPACES};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};

pub(super) struct Namespaces;

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespaces"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        let around = match key.storage == NAMESPACES.storage {
            true => key.clone(),
            false => Key::new(&NAMESPACES, "", &key.namespace),
        };
        state.get(&around).filter(|stored| stored.is_deleting).map(|stored| stored.key.clone()).into_iter().collect()
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &NAMESPACES)
    }

    fn reconcile(&self, draft: &mut Draft, _: &Ranges, key: &Key) -> Result<()> {
        let Some(stored) = draft.state.get(key).cloned().filter(|stored| stored.is_deleting) else { return Ok(()) };
        for resource in ALL.iter().filter(|resource| resource.namespaced && resource.view.is_none()) {
            let before = draft.state.clone();
            let inside: Vec<Arc<Stored>> = before.list(resource, Some(&key.name), None).cloned().collect();
            for object in inside.iter().filter(|object| !object.is_deleting) {
                delete_in(draft, resource, object, &DeleteOptions::default())?;
            }
        }
        let mut document = stored.document();
        let remaining = Remaining::of(&draft.state, &key.name);
        if remaining.resources.is_empty() {
            child(&mut document, "spec").insert("finalizers".into(), json!([]));
        } else {
            remaining.tell(&mut document);
        }
        put_or_finish(draft, &NAMESPACES, &stored, document).map(drop)
    }
}

/// What a namespace waits for, in numbers.
#[derive(Default)]
struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    fn of(state: &State, namespace: &str) -> Self {
        let mut remaining = Self::default();
        for resource in ALL.iter().filter(|resource| resource.namespaced && resource.view.is_none()) {
            for object in state.list(resource, Some(namespace), None) {
                *remaining.resources.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
                for finalizer in list(&object.document(), "/metadata/finalizers").iter().filter_map(Value::as_str) {
                    *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        remaining
    }

    /// Writes the conditions that tell people why the namespace is still there.
    fn tell(&self, document: &mut Value) {
        let listed = |counts: &BTreeMap<String, usize>, between: &str| {
            let all: Vec<String> = counts.iter().map(|(what, count)| format!("{what}{between}{count} resource instances")).collect();
            all.join(", ")
        };
        let contents = format!("Some resources are remaining: {}", listed(&self.resources, " has "));
        let finalizers = match self.finalizers.is_empty() {
            true => ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned()),
            false => {
                let list = listed(&self.finalizers, " in ");
                ("True", "SomeFinalizersRemain", format!("Some content in the namespace has finalizers remaining: {list}"))
            }
        };
        let fine = |reason, message: &str| ("False", reason, message.to_owned());
        for (kind, (status, reason, message)) in [
            ("NamespaceDeletionDiscoveryFailure", fine("ResourcesDiscovered", "All resources successfully discovered")),
            ("NamespaceDeletionGroupVersionParsingFailure", fine("ParsedGroupVersions", "All legacy kube types successfully parsed")),
            ("NamespaceDeletionContentFailure", fine("ContentDeleted", "All content successfully deleted, may be waiting on finalization")),
            ("NamespaceContentRemaining", ("True", "SomeResourcesRemain", contents)),
            ("NamespaceFinalizersRemaining", finalizers),
        ] {
            set_condition(document, kind, status, reason, &message);
        }
    }
}

/// Sets a condition. Its time is that of its last change.
fn set_condition(document: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = child(document, "status").entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    let position = conditions.iter().position(|condition| condition["type"] == kind);
    let since = position.map(|at| &conditions[at]).filter(|condition| condition["status"] == status);
    let since = since.map_or_else(|| now().into(), |condition| condition["lastTransitionTime"].clone());
    let condition = json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message});
    match position {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
