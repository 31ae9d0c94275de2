//! EndpointSlices follow the pods that a Service selects.

mod backend;
mod packing;
mod topology;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Controller, controller_reference, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::{as_map, list, metadata, text, texts};
use crate::server::operation::create_in;
use crate::server::resource::{ENDPOINT_SLICES, NODES, PODS, SERVICES};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State, Stored};
use packing::Wanted;

pub(super) use backend::{backends, ports_of};

/// Who manages a slice.
const MANAGER: &str = "endpointslice-controller.k8s.io";

pub(super) struct EndpointSlices;

impl Controller for EndpointSlices {
    fn name(&self) -> &'static str {
        "endpoint slices"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        if key.storage == ENDPOINT_SLICES.storage {
            let service = event.current.labels.get("kubernetes.io/service-name");
            return service.map(|name| Key::new(&SERVICES, &key.namespace, name)).into_iter().collect();
        }
        if key.storage == NODES.storage {
            return sharing_services(state, event);
        }
        services_concerned(state, event)
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &SERVICES)
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let Some(service) = draft.state.get(key).filter(|service| !service.is_deleting).map(|stored| stored.document()) else {
            return Ok(());
        };
        if !selects(&service) {
            return Ok(());
        }
        let existing = slices_of(&draft.state, text(&service, "/metadata/uid"));
        let wanted = Wanted::of(&draft.state, &service);
        let (mut kept, gone) = packing::pack(existing, wanted);
        if topology::is_wanted(&service) {
            for family in families(&service) {
                let mut slices: Vec<_> = kept.iter_mut().filter(|slice| slice.family == family).collect();
                topology::add_hints(&draft.state, &mut slices);
            }
        }
        for stored in gone {
            draft.remove(&ENDPOINT_SLICES, &stored);
        }
        for slice in kept {
            store(draft, ranges, &service, slice)?;
        }
        Ok(())
    }
}

/// The Services whose hints follow from what nodes have, if an event of a node changes that.
fn sharing_services(state: &State, event: &Event) -> Vec<Key> {
    let now = (!event.is_removal()).then(|| topology::capacity(&event.current)).flatten();
    if now == event.previous.as_ref().and_then(|previous| topology::capacity(previous)) {
        return Vec::new();
    }
    let services = state.list(&SERVICES, None, None).filter(|service| topology::is_wanted(&service.document()));
    services.map(|service| service.key.clone()).collect()
}

/// The Services that an event of a Service or a pod concerns.
pub(super) fn services_concerned(state: &State, event: &Event) -> Vec<Key> {
    let key = &event.current.key;
    if key.storage == SERVICES.storage {
        return vec![key.clone()];
    }
    if key.storage != PODS.storage {
        return Vec::new();
    }
    let services = state.list(&SERVICES, Some(&key.namespace), None).filter(|service| {
        let selector = &service.selector;
        let was = event.previous.as_ref().is_some_and(|previous| selector.are_among(&previous.labels));
        !selector.is_empty() && (was || selector.are_among(&event.current.labels))
    });
    services.map(|service| service.key.clone()).collect()
}

/// Whether the backends of a Service are ours to say.
pub(super) fn selects(service: &Value) -> bool {
    let has_selector = texts(service, "/spec/selector").next().is_some();
    has_selector && text(service, "/spec/type") != "ExternalName"
}

/// The slices of a Service that this controller manages.
fn slices_of(state: &State, service_uid: &str) -> Vec<Arc<Stored>> {
    let owned = state.dependents(service_uid).filter(|owned| owned.key.storage == ENDPOINT_SLICES.storage);
    let is_ours =
        |slice: &&Arc<Stored>| slice.labels.get("endpointslice.kubernetes.io/managed-by").is_some_and(|manager| manager == MANAGER);
    owned.filter(is_ours).cloned().collect()
}

/// The labels of a Service's slices.
fn labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> = texts(service, "/metadata/labels").map(|(key, value)| (key.to_owned(), value.into())).collect();
    labels.insert("kubernetes.io/service-name".into(), service["metadata"]["name"].clone());
    labels.insert("endpointslice.kubernetes.io/managed-by".into(), MANAGER.into());
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert("service.kubernetes.io/headless".into(), "".into());
    }
    labels.into()
}

/// Stores a slice: changed, or new.
fn store(draft: &mut Draft, ranges: &Ranges, service: &Value, slice: packing::Slice) -> Result<()> {
    let name = text(service, "/metadata/name");
    let content = json!({"addressType": slice.family, "endpoints": if slice.endpoints.is_empty() { Value::Null } else { slice.endpoints.into() }, "ports": slice.ports});
    let Some(stored) = slice.stored else {
        let mut document = content;
        as_map(&mut document).insert(
            "metadata".into(),
            json!({
                "generateName": format!("{name}-"), "namespace": service["metadata"]["namespace"], "labels": labels(service),
                "ownerReferences": [controller_reference(&SERVICES, service)],
            }),
        );
        return create_in(draft, ranges, &ENDPOINT_SLICES, document).map(drop);
    };
    let mut document = stored.document();
    let before = document.clone();
    metadata(&mut document).insert("labels".into(), labels(service));
    for key in ["addressType", "endpoints", "ports"] {
        as_map(&mut document).insert(key.into(), content[key].clone());
    }
    if document != before {
        let generation = document["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        metadata(&mut document).insert("generation".into(), generation.into());
        draft.put(&ENDPOINT_SLICES, &stored.key, document)?;
    }
    Ok(())
}

/// The families of addresses that a Service has.
pub(super) fn families(service: &Value) -> Vec<String> {
    let families = list(service, "/spec/ipFamilies").iter().filter_map(|family| family.as_str().map(str::to_owned));
    families.collect()
}
