//! Which objects a query asks for.
//!
//! Ids, names and networks are looked up in indexes; any other property is compared object by object, with the schema 1
//! shape first, because that is what HNS itself compares, and with the schema 2 shape after it. Names are compared exactly,
//! ids in any spelling. A property that no object has matches nothing.

use hcn::api::Kind;
use hcn::query::Filter;
use hcn::{Guid, parse_guid};
use serde_json::Value;

use crate::record::Stored;
use crate::state::State;
use crate::table::Table;
use crate::view;

/// The ids of the objects that meet a filter, oldest first.
pub(crate) fn enumerate(state: &State, kind: Kind, filter: Filter) -> Vec<Guid> {
    match kind {
        Kind::Network => in_table(state, &state.networks, filter),
        Kind::Endpoint => in_table(state, &state.endpoints, filter),
        Kind::Namespace => in_table(state, &state.namespaces, filter),
        Kind::LoadBalancer => in_table(state, &state.load_balancers, filter),
        Kind::Route => in_table(state, &state.routes, filter),
        Kind::GuestNetworkService => in_table(state, &state.guest_network_services, filter),
    }
}

fn in_table<T: Stored>(state: &State, table: &Table<T>, mut filter: Filter) -> Vec<Guid> {
    // No object has a property that is null, and `take` would take it for one that is not asked for.
    if filter.properties.values().any(Value::is_null) {
        return Vec::new();
    }
    let id = filter.take(&["ID"]);
    let name = filter.take(&["Name"]);
    let network = filter.take(&["VirtualNetwork", "HostComputeNetwork"]);
    let network_name = filter.take(&["VirtualNetworkName"]);
    let candidates: Vec<Guid> = match (&id, &name, &network) {
        (Some(id), _, _) => guid(id).into_iter().filter(|id| table.contains(*id)).collect(),
        (None, Some(name), _) => name.as_str().map(|name| table.named(name).collect()).unwrap_or_default(),
        (None, None, Some(network)) => guid(network).map(|network| table.of_network(network).collect()).unwrap_or_default(),
        (None, None, None) => table.ids().collect(),
    };
    let meets = |id: &Guid| {
        let Some(record) = table.get(*id) else { return false };
        let document = &record.document;
        name.as_ref().is_none_or(|name| name.as_str() == Some(document.name()))
            && network.as_ref().is_none_or(|network| guid(network) == Some(document.network()))
            && network_name.as_ref().is_none_or(|name| name.as_str() == name_of_network(state, document.network()))
            && filter.properties.iter().all(|(key, wanted)| has_property(state, T::KIND, *id, key, wanted))
    };
    candidates.into_iter().filter(meets).collect()
}

/// An id that is no GUID is no object's.
fn guid(value: &Value) -> Option<Guid> {
    value.as_str().and_then(parse_guid)
}

fn name_of_network(state: &State, network: Guid) -> Option<&str> {
    state.networks.get(network).map(|record| record.document.name.as_str())
}

fn has_property(state: &State, kind: Kind, id: Guid, key: &str, wanted: &Value) -> bool {
    let Some(record) = state.get(kind, id) else { return false };
    let in_view = |view: Value| {
        let found =
            view.as_object().and_then(|map| map.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.clone()));
        found.is_some_and(|found| is_same(&found, wanted))
    };
    let is_default = wanted.as_u64() == Some(0) && key.eq_ignore_ascii_case("Flags");
    in_view(view::v1(state, &record)) || in_view(record.document()) || (is_default && record.document().get("Flags").is_none())
}

fn is_same(found: &Value, wanted: &Value) -> bool {
    match (found.as_str().and_then(parse_guid), wanted.as_str().and_then(parse_guid)) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => found == wanted,
    }
}
