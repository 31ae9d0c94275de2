//! What a client believes the service holds.
//!
//! An operation is a request and its whole effect, stated as facts. That makes the question after a crash a simple one: the
//! facts are either those of before the operation in flight or those of after it, and nothing else will do.

use std::collections::{BTreeMap, BTreeSet};

use hcn::{Error, Guid, Hcn, Kind};
use serde_json::Value;

/// An object of the service.
pub(crate) type Key = (Kind, Guid);

/// The kinds that the clients use.
pub(crate) const KINDS: [Kind; 5] = [Kind::Network, Kind::Endpoint, Kind::Namespace, Kind::LoadBalancer, Kind::Route];

/// What operations change about an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact {
    Network { remote_subnets: BTreeSet<String> },
    Endpoint { network: Guid, place: Place, rules: BTreeSet<String> },
    Namespace { endpoints: BTreeSet<Guid> },
    LoadBalancer { endpoints: BTreeSet<Guid>, vip: String, port: u64 },
    Route { endpoints: BTreeSet<Guid>, prefix: String },
}

/// Where an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// It was never anywhere.
    New,
    /// In a namespace.
    In(Guid),
    /// It was in a namespace, and so has lost its port: a load balancer no longer takes it.
    Out,
}

impl Place {
    /// The state that Windows calls Detached.
    const DETACHED: u64 = 4;

    fn of(endpoint: &Value) -> Self {
        match guid(&endpoint["HostComputeNamespace"]) {
            Some(namespace) => Self::In(namespace),
            None if endpoint["State"] == Self::DETACHED => Self::Out,
            None => Self::New,
        }
    }
}

impl Fact {
    /// Reads the fact off an object's document, in schema 2.
    pub(crate) fn of(kind: Kind, document: &Value) -> Result<Self, String> {
        let fact = match kind {
            Kind::Network => Some(Self::Network { remote_subnets: policies(document, "RemoteSubnetRoute", "DestinationPrefix") }),
            Kind::Endpoint => guid(&document["HostComputeNetwork"]).map(|network| Self::Endpoint {
                network,
                place: Place::of(document),
                rules: policies(document, "ACL", "RemoteAddresses"),
            }),
            Kind::Namespace => Some(Self::Namespace { endpoints: members(document) }),
            Kind::LoadBalancer => load_balancer(document),
            Kind::Route => text(&document["Routes"][0]["DestinationPrefix"])
                .map(|prefix| Self::Route { endpoints: guids(&document["HostComputeEndpoints"]), prefix }),
            Kind::GuestNetworkService => None,
        };
        fact.ok_or_else(|| format!("the document of a {} lacks what belongs there: {document}", kind.name()))
    }
}

fn load_balancer(document: &Value) -> Option<Fact> {
    Some(Fact::LoadBalancer {
        endpoints: guids(&document["HostComputeEndpoints"]),
        vip: text(&document["FrontendVIPs"][0])?,
        port: document["PortMappings"][0]["ExternalPort"].as_u64()?,
    })
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// An id, unless it is absent, empty or zero.
pub(crate) fn guid(value: &Value) -> Option<Guid> {
    value.as_str().and_then(hcn::parse_guid).filter(|id| !id.is_nil())
}

/// The ids in an array.
pub(crate) fn guids(value: &Value) -> BTreeSet<Guid> {
    elements(value).filter_map(guid).collect()
}

/// The endpoints that a namespace's document lists.
pub(crate) fn members(document: &Value) -> BTreeSet<Guid> {
    let endpoints = elements(&document["Resources"]).filter(|resource| resource["Type"] == "Endpoint");
    endpoints.filter_map(|resource| guid(&resource["Data"]["Id"]).or_else(|| guid(&resource["Data"]["ID"]))).collect()
}

/// One setting of all policies of a type.
fn policies(document: &Value, policy_type: &str, setting: &str) -> BTreeSet<String> {
    let policies = elements(&document["Policies"]).filter(|policy| policy["Type"] == policy_type);
    policies.filter_map(|policy| text(&policy["Settings"][setting])).collect()
}

/// A request to the service.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Create(Value),
    Modify(Value),
    Delete,
}

/// A request about an object and all that it changes, at this object and at others.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) key: Key,
    pub(crate) request: Request,
    /// Every object that is different afterwards, with its new fact; none if it is gone.
    pub(crate) effect: Vec<(Key, Option<Fact>)>,
}

impl Operation {
    /// Sends the request.
    pub(crate) fn perform(&self, hcn: &dyn Hcn) -> Result<(), Error> {
        let (kind, id) = self.key;
        match &self.request {
            Request::Create(settings) => hcn.create(kind, None, None, &settings.to_string()).map(drop),
            Request::Modify(settings) => hcn.modify(kind, id, &settings.to_string()),
            Request::Delete => hcn.delete(kind, id),
        }
    }
}

/// Facts about all objects of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) facts: BTreeMap<Key, Fact>,
}

impl Model {
    /// What the model is after an operation.
    pub(crate) fn after(&self, operation: &Operation) -> Self {
        let mut after = self.clone();
        after.apply(operation);
        after
    }

    /// Takes the effect of an operation in.
    pub(crate) fn apply(&mut self, operation: &Operation) {
        for (key, fact) in &operation.effect {
            match fact {
                Some(fact) => self.facts.insert(*key, fact.clone()),
                None => self.facts.remove(key),
            };
        }
    }

    /// The objects of a kind.
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (Guid, &Fact)> {
        self.facts.iter().filter(move |((found, _), _)| *found == kind).map(|((_, id), fact)| (*id, fact))
    }

    /// Where this model and another differ, for people.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let keys: BTreeSet<&Key> = self.facts.keys().chain(other.facts.keys()).collect();
        let differing = keys.into_iter().filter(|key| self.facts.get(key) != other.facts.get(key));
        let line = |key: &Key| {
            let side = |model: &Self| model.facts.get(key).map_or("absent".to_owned(), |fact| format!("{fact:?}"));
            format!("\n    {} {}: expected {}, found {}", key.0.name(), key.1, side(self), side(other))
        };
        differing.map(line).collect()
    }
}
