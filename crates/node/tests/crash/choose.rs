//! What a client does next.

use std::collections::BTreeSet;

use hcn::{Guid, Kind};
use serde_json::{Value, json};

use crate::model::{Fact, Key, Model, Operation, Place, Request};
use crate::random::Random;

/// How many objects of a kind a client keeps at most, so that every kind is also deleted often.
const NETWORKS_MAX: usize = 3;
const ENDPOINTS_MAX: usize = 16;
const NAMESPACES_MAX: usize = 4;
const LOAD_BALANCERS_MAX: usize = 6;
const ROUTES_MAX: usize = 4;
const POLICIES_MAX: usize = 3;

/// The network on which all clients make endpoints.
pub(crate) const SHARED_NETWORK: Guid = Guid::from_u128(0x5A4E_D000_0000_4000_8000_0000_0000_0001);

/// The document of the network that all clients share.
pub(crate) fn shared_network() -> Value {
    overlay(SHARED_NETWORK, "shared", "10.0.0.0/16", "10.0.0.1", 4096)
}

fn overlay(id: Guid, name: &str, prefix: &str, gateway: &str, isolation_id: u64) -> Value {
    json!({
        "ID": id.to_string(),
        "Name": name,
        "Type": "Overlay",
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": prefix,
            "Routes": [{"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": isolation_id}}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

/// Chooses operations that the service must accept, for one client.
#[derive(Debug)]
pub(crate) struct Chooser {
    client: u64,
    counter: u64,
    random: Random,
    /// Ids of deleted objects, some of which are used again.
    retired: Vec<Key>,
}

/// What the ids of the first client's objects begin with; the next client's begin with the next number.
const FIRST_CLIENT: u64 = 0xC11E_0000;

/// Whose object it is: ids carry the number of their client.
pub(crate) fn client_of(id: Guid) -> Option<u64> {
    let number = u64::try_from(id.as_u128() >> 96).ok()?;
    number.checked_sub(FIRST_CLIENT).filter(|client| *client < 0x1_0000)
}

fn number_of(id: Guid) -> u64 {
    u64::try_from(id.as_u128() & 0xFFFF_FFFF).unwrap_or(0)
}

type Choice = fn(&mut Chooser, &Model) -> Option<Operation>;

/// What can be done, more often where it is listed more often.
const CHOICES: &[Choice] = &[
    Chooser::create_network,
    Chooser::delete_network,
    Chooser::change_network_policy,
    Chooser::create_endpoint,
    Chooser::create_endpoint,
    Chooser::create_endpoint,
    Chooser::delete_endpoint,
    Chooser::change_endpoint_policy,
    Chooser::create_namespace,
    Chooser::delete_namespace,
    Chooser::attach,
    Chooser::attach,
    Chooser::detach,
    Chooser::create_load_balancer,
    Chooser::create_load_balancer,
    Chooser::update_load_balancer,
    Chooser::delete_load_balancer,
    Chooser::create_route,
    Chooser::delete_route,
];

impl Chooser {
    pub(crate) fn new(client: u64, random: Random) -> Self {
        Self { client, counter: 0, random, retired: Vec::new() }
    }

    /// The next operation.
    pub(crate) fn choose(&mut self, model: &Model) -> Operation {
        loop {
            let choice = CHOICES[self.random.below(CHOICES.len())];
            if let Some(operation) = choice(self, model) {
                return operation;
            }
        }
    }

    /// Remembers that objects are gone for certain, so that their ids may come again.
    pub(crate) fn retire(&mut self, operation: &Operation) {
        let gone = operation.effect.iter().filter(|(_, fact)| fact.is_none()).map(|(key, _)| *key);
        self.retired.extend(gone);
    }

    fn create_network(&mut self, model: &Model) -> Option<Operation> {
        let id = self.room(model, Kind::Network, NETWORKS_MAX)?;
        // Subnets and isolation ids go by the number, so two networks must not have numbers that are alike in them.
        let block = number_of(id) % 200;
        if model.of_kind(Kind::Network).any(|(other, _)| number_of(other) % 200 == block) {
            return None;
        }
        let third = format!("10.{}.{block}", 1 + self.client);
        let isolation_id = 5000 + self.client * 200 + block;
        let settings = overlay(id, &name(id), &format!("{third}.0/24"), &format!("{third}.1"), isolation_id);
        Some(create(Kind::Network, id, settings, Fact::Network { remote_subnets: BTreeSet::new() }))
    }

    /// Deletes a network of this client's own, and with it the endpoints on it. Those that are attached or used would
    /// keep it alive.
    fn delete_network(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::Network, |_, _| true)?;
        let on_it = |fact: &Fact| matches!(fact, Fact::Endpoint { network, .. } if *network == id);
        let endpoints: Vec<Guid> = model.of_kind(Kind::Endpoint).filter(|(_, fact)| on_it(fact)).map(|(id, _)| id).collect();
        if endpoints.iter().any(|endpoint| !is_free(model, *endpoint)) {
            return None;
        }
        let mut effect = vec![((Kind::Network, id), None)];
        effect.extend(endpoints.into_iter().map(|endpoint| ((Kind::Endpoint, endpoint), None)));
        Some(Operation { key: (Kind::Network, id), request: Request::Delete, effect })
    }

    fn change_network_policy(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::Network, |_, _| true)?;
        let Some(Fact::Network { remote_subnets }) = model.facts.get(&(Kind::Network, id)) else {
            return None;
        };
        let mut remote_subnets = remote_subnets.clone();
        let (request, prefix) = match self.grow(remote_subnets.len()) {
            true => ("Add", format!("10.200.{}.0/24", self.random.below(250))),
            false => ("Remove", self.random.pick(&Vec::from_iter(remote_subnets.clone()))?.clone()),
        };
        match request {
            "Add" if !remote_subnets.insert(prefix.clone()) => return None,
            "Remove" => _ = remote_subnets.remove(&prefix),
            _ => {}
        }
        let settings = json!({
            "DestinationPrefix": prefix,
            "IsolationId": 4096,
            "ProviderAddress": "192.0.2.77",
            "DistributedRouterMacAddress": "00-15-5D-00-77-01",
        });
        let policies = json!([{"Type": "RemoteSubnetRoute", "Settings": settings}]);
        Some(modify((Kind::Network, id), "Policy", request, json!({"Policies": policies}), Fact::Network { remote_subnets }))
    }

    fn create_endpoint(&mut self, model: &Model) -> Option<Operation> {
        let id = self.room(model, Kind::Endpoint, ENDPOINTS_MAX)?;
        let own = self.any(model, Kind::Network, |_, _| true).filter(|_| self.random.once_in(3));
        let network = own.unwrap_or(SHARED_NETWORK);
        let settings = json!({
            "ID": id.to_string(),
            "Name": name(id),
            "HostComputeNetwork": network.to_string(),
            "SchemaVersion": {"Major": 2, "Minor": 0},
        });
        Some(create(Kind::Endpoint, id, settings, Fact::Endpoint { network, place: Place::New, rules: BTreeSet::new() }))
    }

    fn delete_endpoint(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::Endpoint, |id, _| is_free(model, id))?;
        Some(delete(Kind::Endpoint, id))
    }

    fn change_endpoint_policy(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::Endpoint, |_, _| true)?;
        let Some(Fact::Endpoint { network, place, rules }) = model.facts.get(&(Kind::Endpoint, id)) else {
            return None;
        };
        let mut rules = rules.clone();
        let new = format!("10.99.{}.0/24", self.random.below(250));
        let (request, sent) = match self.random.below(3) {
            0 => ("Update", BTreeSet::from([new, "10.98.0.0/16".to_owned()])),
            _ if self.grow(rules.len()) => ("Add", BTreeSet::from([new])),
            _ => ("Remove", BTreeSet::from([self.random.pick(&Vec::from_iter(rules.clone()))?.clone()])),
        };
        match request {
            "Update" => rules = sent.clone(),
            "Add" if !rules.is_disjoint(&sent) => return None,
            "Add" => rules.extend(sent.iter().cloned()),
            _ => rules.retain(|rule| !sent.contains(rule)),
        }
        let policies: Vec<Value> = sent.iter().map(|addresses| acl(addresses)).collect();
        let fact = Fact::Endpoint { network: *network, place: *place, rules };
        Some(modify((Kind::Endpoint, id), "Policy", request, json!({"Policies": policies}), fact))
    }

    fn create_namespace(&mut self, model: &Model) -> Option<Operation> {
        let id = self.room(model, Kind::Namespace, NAMESPACES_MAX)?;
        let settings = json!({"ID": id.to_string(), "Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}});
        Some(create(Kind::Namespace, id, settings, Fact::Namespace { endpoints: BTreeSet::new() }))
    }

    fn delete_namespace(&mut self, model: &Model) -> Option<Operation> {
        let empty = |fact: &Fact| matches!(fact, Fact::Namespace { endpoints } if endpoints.is_empty());
        let id = self.any(model, Kind::Namespace, |_, fact| empty(fact))?;
        Some(delete(Kind::Namespace, id))
    }

    fn attach(&mut self, model: &Model) -> Option<Operation> {
        let detached = |fact: &Fact| matches!(fact, Fact::Endpoint { place: Place::New | Place::Out, .. });
        let endpoint = self.any(model, Kind::Endpoint, |_, fact| detached(fact))?;
        let namespace = self.any(model, Kind::Namespace, |_, _| true)?;
        move_endpoint(model, endpoint, namespace, "Add")
    }

    fn detach(&mut self, model: &Model) -> Option<Operation> {
        let attached = |fact: &Fact| matches!(fact, Fact::Endpoint { place: Place::In(_), .. });
        let endpoint = self.any(model, Kind::Endpoint, |_, fact| attached(fact))?;
        let Some(Fact::Endpoint { place: Place::In(namespace), .. }) = model.facts.get(&(Kind::Endpoint, endpoint)) else {
            return None;
        };
        move_endpoint(model, endpoint, *namespace, "Remove")
    }

    fn create_load_balancer(&mut self, model: &Model) -> Option<Operation> {
        let id = self.room(model, Kind::LoadBalancer, LOAD_BALANCERS_MAX)?;
        let endpoints = self.backends(model)?;
        // A client's own frontend address, and a port by the number: nobody else has both.
        let vip = format!("11.0.0.{}", 1 + self.client);
        let port = 1 + number_of(id) % 60_000;
        let taken = |fact: &Fact| matches!(fact, Fact::LoadBalancer { port: other, .. } if *other == port);
        if model.of_kind(Kind::LoadBalancer).any(|(_, fact)| taken(fact)) {
            return None;
        }
        let settings = load_balancer(id, &endpoints, &vip, port, 8080);
        Some(create(Kind::LoadBalancer, id, settings, Fact::LoadBalancer { endpoints, vip, port }))
    }

    /// Replaces the backends, as kube-proxy does it: with the whole document.
    fn update_load_balancer(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::LoadBalancer, |_, _| true)?;
        let endpoints = self.backends(model)?;
        let key = (Kind::LoadBalancer, id);
        let Some(Fact::LoadBalancer { vip, port, .. }) = model.facts.get(&key) else {
            return None;
        };
        let settings = load_balancer(id, &endpoints, vip, *port, 9090);
        let fact = Fact::LoadBalancer { endpoints, vip: vip.clone(), port: *port };
        Some(Operation { key, request: Request::Modify(settings), effect: vec![(key, Some(fact))] })
    }

    fn delete_load_balancer(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::LoadBalancer, |_, _| true)?;
        Some(delete(Kind::LoadBalancer, id))
    }

    fn create_route(&mut self, model: &Model) -> Option<Operation> {
        let id = self.room(model, Kind::Route, ROUTES_MAX)?;
        let endpoints = self.backends(model)?;
        let prefix = format!("12.{}.{}.0/24", self.client, number_of(id) % 250);
        let settings = json!({
            "ID": id.to_string(),
            "HostComputeNetwork": SHARED_NETWORK.to_string(),
            "HostComputeEndpoints": texts(&endpoints),
            "Routes": [{"DestinationPrefix": prefix, "NextHop": "10.0.0.1", "NeedEncap": false}],
            "SchemaVersion": {"Major": 2, "Minor": 0},
        });
        Some(create(Kind::Route, id, settings, Fact::Route { endpoints, prefix }))
    }

    fn delete_route(&mut self, model: &Model) -> Option<Operation> {
        let id = self.any(model, Kind::Route, |_, _| true)?;
        Some(delete(Kind::Route, id))
    }

    /// An id for a new object, if there is room for one: a new id, or now and then that of an object long gone.
    fn room(&mut self, model: &Model, kind: Kind, max: usize) -> Option<Guid> {
        if model.of_kind(kind).count() >= max {
            return None;
        }
        let again = self.retired.iter().position(|(retired, _)| *retired == kind);
        if let Some(index) = again.filter(|_| self.random.once_in(4)) {
            return Some(self.retired.swap_remove(index).1);
        }
        self.counter += 1;
        Some(Guid::from_u128(u128::from(FIRST_CLIENT + self.client) << 96 | u128::from(self.counter)))
    }

    /// One of this client's objects.
    fn any(&mut self, model: &Model, kind: Kind, suits: impl Fn(Guid, &Fact) -> bool) -> Option<Guid> {
        let suitable: Vec<Guid> = model.of_kind(kind).filter(|(id, fact)| suits(*id, fact)).map(|(id, _)| id).collect();
        self.random.pick(&suitable).copied()
    }

    /// One to three endpoints on the shared network that a load balancer takes.
    fn backends(&mut self, model: &Model) -> Option<BTreeSet<Guid>> {
        let suits = |fact: &Fact| match fact {
            Fact::Endpoint { network, place, .. } => *network == SHARED_NETWORK && *place != Place::Out,
            _ => false,
        };
        let count = 1 + self.random.below(3);
        let chosen: BTreeSet<Guid> = (0..count).filter_map(|_| self.any(model, Kind::Endpoint, |_, fact| suits(fact))).collect();
        (!chosen.is_empty()).then_some(chosen)
    }

    /// Whether a list of policies should gain one rather than lose one.
    fn grow(&mut self, length: usize) -> bool {
        length == 0 || (length < POLICIES_MAX && self.random.once_in(2))
    }
}

fn create(kind: Kind, id: Guid, settings: Value, fact: Fact) -> Operation {
    Operation { key: (kind, id), request: Request::Create(settings), effect: vec![((kind, id), Some(fact))] }
}

fn delete(kind: Kind, id: Guid) -> Operation {
    Operation { key: (kind, id), request: Request::Delete, effect: vec![((kind, id), None)] }
}

fn modify(key: Key, resource_type: &str, request_type: &str, settings: Value, fact: Fact) -> Operation {
    let request = json!({"ResourceType": resource_type, "RequestType": request_type, "Settings": settings});
    Operation { key, request: Request::Modify(request), effect: vec![(key, Some(fact))] }
}

/// Puts an endpoint into a namespace or takes it out: one request, and two objects that must change together.
fn move_endpoint(model: &Model, endpoint: Guid, namespace: Guid, request_type: &str) -> Option<Operation> {
    let key = (Kind::Namespace, namespace);
    let (Some(Fact::Endpoint { network, rules, .. }), Some(Fact::Namespace { endpoints })) =
        (model.facts.get(&(Kind::Endpoint, endpoint)), model.facts.get(&key))
    else {
        return None;
    };
    let mut endpoints = endpoints.clone();
    let place = match request_type {
        "Add" => Place::In(namespace),
        _ => Place::Out,
    };
    match place {
        Place::In(_) => endpoints.insert(endpoint),
        _ => endpoints.remove(&endpoint),
    };
    let mut operation = modify(key, "Endpoint", request_type, json!({"EndpointId": endpoint.to_string()}), Fact::Namespace { endpoints });
    let fact = Fact::Endpoint { network: *network, place, rules: rules.clone() };
    operation.effect.push(((Kind::Endpoint, endpoint), Some(fact)));
    Some(operation)
}

/// Whether nothing holds an endpoint: no namespace, no load balancer, no route.
fn is_free(model: &Model, endpoint: Guid) -> bool {
    let holds = |fact: &Fact| match fact {
        Fact::LoadBalancer { endpoints, .. } | Fact::Route { endpoints, .. } | Fact::Namespace { endpoints } => {
            endpoints.contains(&endpoint)
        }
        Fact::Network { .. } | Fact::Endpoint { .. } => false,
    };
    !model.facts.values().any(holds)
}

fn name(id: Guid) -> String {
    format!("client-{}-{}", client_of(id).unwrap_or_default(), number_of(id))
}

fn texts(ids: &BTreeSet<Guid>) -> Vec<String> {
    ids.iter().map(Guid::to_string).collect()
}

fn acl(remote_addresses: &str) -> Value {
    json!({"Type": "ACL", "Settings": {
        "Protocols": "6",
        "Action": "Allow",
        "Direction": "In",
        "RemoteAddresses": remote_addresses,
        "LocalPorts": "80,8080",
        "RuleType": "Switch",
        "Priority": 200,
    }})
}

fn load_balancer(id: Guid, endpoints: &BTreeSet<Guid>, vip: &str, port: u64, internal_port: u64) -> Value {
    json!({
        "ID": id.to_string(),
        "HostComputeEndpoints": texts(endpoints),
        "SourceVIP": "192.0.2.10",
        "FrontendVIPs": [vip],
        "PortMappings": [{"Protocol": 6, "InternalPort": internal_port, "ExternalPort": port}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}
