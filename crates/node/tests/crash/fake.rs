//! A service in memory that loses answers, and on request does what a service must never do. It shows that the checks of
//! this test see what they are there for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hcn::api::Events;
use hcn::error::detail;
use hcn::{Error, Guid, Hcn, Kind, Result};
use serde_json::{Value, json};

use crate::model::{Key, guid};
use crate::random::Random;

/// What is wrong with a service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The last acknowledged change is gone after a restart.
    Forget,
    /// A change of two objects that was cut off has reached only one of them.
    Half,
    /// An object is not quite the same after a restart.
    Alter,
}

type Objects = BTreeMap<Key, Value>;

/// The fake.
#[derive(Debug)]
pub(crate) struct Fake {
    fault: Fault,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    objects: Objects,
    /// The objects before the last acknowledged change.
    before: Objects,
    random: Random,
    is_down: bool,
}

impl Fake {
    pub(crate) fn new(fault: Fault, random: Random) -> Self {
        Self { fault, state: Mutex::new(State { objects: Objects::new(), before: Objects::new(), random, is_down: false }) }
    }

    /// Brings it up again after it went down.
    pub(crate) fn restart(&self) {
        let mut state = self.state();
        state.is_down = false;
        match self.fault {
            Fault::Forget => state.objects = state.before.clone(),
            Fault::Alter => {
                for document in state.objects.values_mut() {
                    document["Owner"] = json!("somebody else");
                }
            }
            Fault::None | Fault::Half => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state();
        if state.is_down { Err(silence()) } else { Ok(state) }
    }

    /// Makes a change; now and then goes down before or after it, without an answer.
    fn change(&self, change: impl FnOnce(&mut Objects)) -> Result<()> {
        let mut state = self.up()?;
        let crashes = state.random.once_in(30);
        let comes_too_late = state.random.once_in(2);
        if crashes && comes_too_late {
            state.is_down = true;
            return Err(silence());
        }
        let before = state.objects.clone();
        change(&mut state.objects);
        if crashes {
            state.is_down = true;
            if self.fault == Fault::Half {
                halve(&before, &mut state.objects);
            }
            return Err(silence());
        }
        state.before = before;
        Ok(())
    }
}

fn silence() -> Error {
    Error::ServiceUnavailable(detail("gone"))
}

/// Takes back the change of one object, if several changed.
fn halve(before: &Objects, now: &mut Objects) {
    let keys: BTreeSet<Key> = before.keys().chain(now.keys()).copied().collect();
    let changed: Vec<Key> = keys.into_iter().filter(|key| before.get(key) != now.get(key)).collect();
    if let [first, _, ..] = changed[..] {
        match before.get(&first) {
            Some(document) => now.insert(first, document.clone()),
            None => now.remove(&first),
        };
    }
}

impl Hcn for Fake {
    fn enumerate(&self, kind: Kind, _query: &str) -> Result<Vec<Guid>> {
        Ok(self.up()?.objects.keys().filter(|(found, _)| *found == kind).map(|(_, id)| *id).collect())
    }

    fn create(&self, kind: Kind, _network: Option<Guid>, _id: Option<Guid>, settings: &str) -> Result<Guid> {
        let mut document = hcn::parse_value(settings)?;
        let id = guid(&document["ID"]).unwrap_or_default();
        if kind == Kind::Endpoint {
            // Every id has an address of its own.
            document["IpConfigurations"] = json!([{"IpAddress": format!("address of {id}")}]);
        }
        self.change(|objects| _ = objects.insert((kind, id), document)).map(|()| id)
    }

    fn query(&self, kind: Kind, id: Guid, _query: &str) -> Result<Value> {
        self.up()?.objects.get(&(kind, id)).cloned().ok_or_else(|| kind.not_found(id))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        let request = hcn::parse_value(settings)?;
        self.change(|objects| match kind {
            Kind::LoadBalancer => _ = objects.insert((kind, id), request),
            Kind::Namespace => move_endpoint(objects, id, &request),
            _ => change_policies(objects, (kind, id), &request),
        })
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        let on_it = |document: &Value| kind == Kind::Network && guid(&document["HostComputeNetwork"]) == Some(id);
        self.change(|objects| objects.retain(|key, document| *key != (kind, id) && !on_it(document)))
    }

    fn call(&self, _method: &str, _path: &str, _request: &str) -> Result<Value> {
        Err(Error::NotImplemented(detail("only documents")))
    }

    fn events(&self) -> Result<Events> {
        Err(Error::NotImplemented(detail("only documents")))
    }
}

fn move_endpoint(objects: &mut Objects, namespace: Guid, request: &Value) {
    let endpoint = request["Settings"]["EndpointId"].clone();
    let adds = request["RequestType"] == "Add";
    if let Some(document) = objects.get_mut(&(Kind::Namespace, namespace)) {
        let mut resources = document["Resources"].as_array().cloned().unwrap_or_default();
        match adds {
            true => resources.push(json!({"Type": "Endpoint", "Data": {"Id": endpoint}})),
            false => resources.retain(|resource| resource["Data"]["Id"] != endpoint),
        }
        document["Resources"] = Value::Array(resources);
    }
    if let Some(document) = guid(&endpoint).and_then(|endpoint| objects.get_mut(&(Kind::Endpoint, endpoint))) {
        document["HostComputeNamespace"] = if adds { json!(namespace.to_string()) } else { Value::Null };
        document["State"] = if adds { json!(2) } else { json!(4) };
    }
}

fn change_policies(objects: &mut Objects, key: Key, request: &Value) {
    let sent = request["Settings"]["Policies"].as_array().cloned().unwrap_or_default();
    if let Some(document) = objects.get_mut(&key) {
        let mut policies = document["Policies"].as_array().cloned().unwrap_or_default();
        match request["RequestType"].as_str() {
            Some("Add") => policies.extend(sent),
            Some("Remove") => policies.retain(|policy| !sent.contains(policy)),
            _ => policies = sent,
        }
        document["Policies"] = Value::Array(policies);
    }
}
