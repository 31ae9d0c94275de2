//! The documents that callers see, in either schema.

use hcn::Field;
use hcn::network::Network;
use hcn::v1::endpoint::{EndpointFacts, HnsEndpoint, NamespaceFacts};
use hcn::v1::namespace::HnsNamespace;
use hcn::v1::network::{HnsNetwork, NetworkFacts};
use hcn::v1::policy_list::PolicyList;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::record::{AnyRecord, Inside, Record};
use crate::state::State;

/// The document in schema 2. `detailed` adds what only the service knows.
pub(crate) fn v2(state: &State, record: &AnyRecord, detailed: bool) -> Value {
    let mut document = record.document();
    let inside = record.inside();
    let Some(map) = document.as_object_mut() else {
        return document;
    };
    let health = map.entry("Health").or_insert_with(|| json!({}));
    health["Data"] = health_of(inside);
    if detailed {
        health["Extra"]["Resources"] = resources(state, record);
    }
    document
}

fn health_of(inside: &Inside) -> Value {
    json!({"LastErrorCode": 0, "LastUpdateTime": inside.updated})
}

fn resources(state: &State, record: &AnyRecord) -> Value {
    let inside = record.inside();
    let mut resources = json!({"Sequence": inside.sequence, "Revision": inside.revision});
    match record {
        AnyRecord::Network(network) => {
            resources["Adapter"] = json!(inside.adapter);
            resources["Endpoints"] = json!(state.endpoints.of_network(network.document.id).count());
            resources["Degraded"] = json!(state.degraded.contains(&network.document.id));
        }
        AnyRecord::Endpoint(endpoint) => {
            resources["Containers"] = json!(inside.containers);
            resources["Compartment"] = json!(inside.compartment);
            resources["VmPort"] = inside.vm_port.clone();
            resources["LoadBalancers"] = json!(ids(state.balancers_of(endpoint.document.id)));
            resources["Routes"] = json!(ids(state.routes_of(endpoint.document.id)));
        }
        _ => {}
    }
    resources
}

fn ids(ids: Vec<hcn::Guid>) -> Vec<String> {
    ids.iter().map(hcn::Guid::to_string).collect()
}

/// The document in schema 1.
pub(crate) fn v1(state: &State, record: &AnyRecord) -> Value {
    let health = health_of(record.inside());
    match record {
        AnyRecord::Network(record) => network_v1(state, record, health),
        AnyRecord::Endpoint(record) => endpoint_v1(state, record, health),
        AnyRecord::Namespace(record) => {
            let mut namespace = HnsNamespace::from_v2(&record.document);
            namespace.health = health;
            namespace.write()
        }
        AnyRecord::LoadBalancer(record) => with_health(PolicyList::from_load_balancer(&record.document), health),
        AnyRecord::Route(record) => with_health(PolicyList::from_route(&record.document), health),
        AnyRecord::GuestNetworkService(record) => record.document.write(),
    }
}

fn with_health(mut list: PolicyList, health: Value) -> Value {
    list.health = health;
    list.is_applied = true;
    list.write()
}

fn network_v1(state: &State, record: &Record<Network>, health: Value) -> Value {
    let network = &record.document;
    let endpoints = state.endpoints.of_network(network.id).count() as u64;
    let facts = NetworkFacts {
        type_spelling: record.inside.type_spelling.clone(),
        current_endpoints: endpoints,
        total_endpoints: endpoints,
        max_endpoints: most_endpoints(network),
        health,
    };
    HnsNetwork::from_v2(network, &facts).write()
}

/// How many IPv4 addresses there are to give out.
fn most_endpoints(network: &Network) -> u64 {
    let hosts = |prefix: IpNet| match prefix {
        IpNet::V4(prefix) => (1u64 << (32 - prefix.prefix_len())).saturating_sub(3),
        IpNet::V6(_) => 0,
    };
    network.subnets().filter_map(|subnet| subnet.ip_address_prefix.parse().ok()).map(hosts).sum()
}

fn endpoint_v1(state: &State, record: &Record<hcn::endpoint::Endpoint>, health: Value) -> Value {
    let endpoint = &record.document;
    let network = state.networks.get(endpoint.network);
    let spelling = |network: &Record<Network>| match network.inside.type_spelling.as_str() {
        "" => network.document.network_type.to_string(),
        spelling => spelling.to_owned(),
    };
    let namespace = state.namespaces.get(endpoint.namespace).map(|record| NamespaceFacts {
        id: record.document.id,
        is_default: record.document.namespace_type.is_default(),
        compartment_id: record.document.compartment_id,
        compartment_guid: record.document.compartment_guid,
    });
    let in_namespace = state.namespaces.get(endpoint.namespace).into_iter().flat_map(|record| record.document.containers());
    let containers = record.inside.containers.iter().map(String::as_str).chain(in_namespace).map(str::to_owned).collect();
    let facts = EndpointFacts {
        network_name: network.map(|network| network.document.name.clone()).unwrap_or_default(),
        network_type: network.map(|network| spelling(network)).unwrap_or_default(),
        containers,
        namespace,
        health,
    };
    HnsEndpoint::from_v2(endpoint, &facts).write()
}
