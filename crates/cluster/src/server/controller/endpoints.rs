//! Endpoints objects, for clients that do not read slices.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::endpoint_slices::{backends, families, ports_of, selects, services_concerned};
use super::{Controller, keys_of};
use crate::server::allocation::Ranges;
use crate::server::document::{as_map, metadata, text, texts};
use crate::server::operation::create_in;
use crate::server::resource::{ENDPOINTS, SERVICES};
use crate::server::status::Result;
use crate::server::store::{Draft, Event, Key, State};

pub(super) struct Endpoints;

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "endpoints"
    }

    fn concerned(&self, state: &State, event: &Event) -> Vec<Key> {
        let key = &event.current.key;
        match key.storage == ENDPOINTS.storage {
            true => vec![Key::new(&SERVICES, &key.namespace, &key.name)],
            false => services_concerned(state, event),
        }
    }

    fn everything(&self, state: &State) -> Vec<Key> {
        keys_of(state, &SERVICES)
    }

    fn reconcile(&self, draft: &mut Draft, ranges: &Ranges, key: &Key) -> Result<()> {
        let own = Key::new(&ENDPOINTS, &key.namespace, &key.name);
        let stored = draft.state.get(&own).cloned();
        let Some(service) = draft.state.get(key).map(|service| service.document()) else {
            // Its name is the Service's, so it is of no use to anybody else.
            if let Some(stored) = stored {
                draft.remove(&ENDPOINTS, &stored);
            }
            return Ok(());
        };
        if !selects(&service) {
            return Ok(());
        }
        let (labels, subsets) = (labels(&service), subsets(&draft.state, &service));
        match stored {
            Some(stored) => {
                let mut document = stored.document();
                metadata(&mut document).insert("labels".into(), labels);
                as_map(&mut document).insert("subsets".into(), subsets);
                draft.put(&ENDPOINTS, &own, document).map(drop)
            }
            None => {
                let document =
                    json!({"metadata": {"name": &*key.name, "namespace": &*key.namespace, "labels": labels}, "subsets": subsets});
                create_in(draft, ranges, &ENDPOINTS, document).map(drop)
            }
        }
    }
}

fn labels(service: &Value) -> Value {
    let mut labels: Map<String, Value> = texts(service, "/metadata/labels").map(|(key, value)| (key.to_owned(), value.into())).collect();
    labels.insert("endpoints.kubernetes.io/managed-by".into(), "endpoint-controller".into());
    if text(service, "/spec/clusterIP") == "None" {
        labels.insert("service.kubernetes.io/headless".into(), "".into());
    }
    labels.into()
}

/// Backends with the same ports make a subset. This older form knows one family of addresses, and nothing that terminates.
fn subsets(state: &State, service: &Value) -> Value {
    let family = families(service).into_iter().next().unwrap_or_default();
    let mut groups: BTreeMap<String, (Value, Vec<Value>, Vec<Value>)> = BTreeMap::new();
    for backend in backends(state, service).iter().filter(|backend| !backend.is_terminating || backend.is_ready) {
        let Some(address) = backend.address(&family) else { continue };
        let mut ports = ports_of(service, backend);
        // Here a port without a name has none, and not an empty one.
        ports.iter_mut().map(as_map).for_each(|port| port.retain(|_, value| *value != ""));
        let ports = Value::from(ports);
        let group = groups.entry(ports.to_string()).or_insert_with(|| (ports, Vec::new(), Vec::new()));
        let mut entry = json!({"ip": address, "targetRef": backend.reference()});
        if let Some(node) = backend.pod["spec"]["nodeName"].as_str() {
            entry["nodeName"] = node.into();
        }
        if backend.is_ready { group.1.push(entry) } else { group.2.push(entry) }
    }
    let subset = |(ports, ready, waiting): (Value, Vec<Value>, Vec<Value>)| {
        let lists = [("addresses", Value::from(ready)), ("notReadyAddresses", Value::from(waiting)), ("ports", ports)];
        let filled = lists.into_iter().filter(|(_, list)| list.as_array().is_some_and(|list| !list.is_empty()));
        filled.map(|(key, list)| (key.to_owned(), list)).collect::<Map<_, _>>().into()
    };
    groups.into_values().map(subset).collect::<Vec<Value>>().into()
}
