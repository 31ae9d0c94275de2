//! The resources the server has, as a table of data. One file describes one resource.

mod configmap;
mod deployment;
mod endpoints;
mod endpointslice;
mod event;
pub(crate) mod ip_address;
mod lease;
mod namespace;
mod network_policy;
mod node;
mod pod;
mod pod_spec;
mod replicaset;
mod secret;
pub(crate) mod service;
mod service_account;
mod service_cidr;

use serde_json::Value;

use super::field::Errors;
use super::name::{NameRule, subdomain};

/// A column of a server-side table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// 0 is always shown, higher ones only in wide tables.
    pub(crate) priority: u8,
}

/// A column with text.
pub(crate) const fn column(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 0 }
}

/// A column with a number.
pub(crate) const fn integer(name: &'static str) -> Column {
    Column { name, kind: "integer", priority: 0 }
}

/// A column of wide tables.
pub(crate) const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", priority: 1 }
}

/// The shape that one API version gives to documents that another one stores.
#[derive(Debug)]
pub(crate) struct View {
    /// From what clients of this version send to what is stored.
    pub(crate) inward: fn(&mut Value),
    /// From what is stored to what they get.
    pub(crate) outward: fn(&mut Value),
}

/// A resource: what it is called and what its documents must look like.
#[derive(Debug)]
pub(crate) struct Resource {
    /// The number of its storage; part of the file's format.
    pub(crate) storage: u8,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    pub(crate) has_scale: bool,
    /// Whether `metadata.generation` counts the changes of the desired state.
    pub(crate) has_generation: bool,
    pub(crate) can_delete_collection: bool,
    pub(crate) name_rule: NameRule,
    pub(crate) columns: &'static [Column],
    pub(crate) cells: fn(&Value) -> Vec<Value>,
    /// The fields that selectors may name besides `metadata.name` and `metadata.namespace`.
    pub(crate) field_names: &'static [&'static str],
    pub(crate) fields: fn(&Value) -> Vec<(&'static str, String)>,
    /// What no two objects may have at the same time.
    pub(crate) claims: fn(&Value) -> Vec<String>,
    pub(crate) default: fn(&mut Value),
    /// Completes a new document further, or says why it is forbidden.
    pub(crate) admit: fn(&mut Value) -> Result<(), String>,
    /// What a new object's status begins with; whatever the client sent there is dropped.
    pub(crate) first_status: fn(&Value) -> Value,
    pub(crate) validate: fn(&Value, &mut Errors),
    /// Objects to what only new documents must not have.
    pub(crate) validate_new: fn(&Value, &mut Errors),
    /// Compares a changed document with the old one.
    pub(crate) validate_update: fn(new: &Value, old: &Value, &mut Errors),
    pub(crate) view: Option<&'static View>,
}

/// A resource with nothing special about it.
const PLAIN: Resource = Resource {
    storage: 0,
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    has_status: false,
    has_scale: false,
    has_generation: false,
    can_delete_collection: true,
    name_rule: subdomain,
    columns: &[column("Name"), column("Age")],
    cells: |document| vec![name(document), age(document)],
    field_names: &[],
    fields: |_| Vec::new(),
    claims: |_| Vec::new(),
    default: |_| {},
    admit: |_| Ok(()),
    first_status: |_| Value::Null,
    validate: |_, _| {},
    validate_new: |_, _| {},
    validate_update: |_, _, _| {},
    view: None,
};

/// All resources. Where two share a storage, the first one is how it is stored.
pub(crate) static ALL: &[&Resource] = &[
    &namespace::NAMESPACES,
    &node::NODES,
    &pod::PODS,
    &service::SERVICES,
    &endpoints::ENDPOINTS,
    &configmap::CONFIGMAPS,
    &secret::SECRETS,
    &service_account::SERVICE_ACCOUNTS,
    &event::CORE_EVENTS,
    &event::EVENTS,
    &endpointslice::ENDPOINT_SLICES,
    &lease::LEASES,
    &network_policy::NETWORK_POLICIES,
    &service_cidr::SERVICE_CIDRS,
    &ip_address::IP_ADDRESSES,
    &deployment::DEPLOYMENTS,
    &replicaset::REPLICA_SETS,
];

pub(crate) use deployment::DEPLOYMENTS;
pub(crate) use endpoints::ENDPOINTS;
pub(crate) use endpointslice::ENDPOINT_SLICES;
pub(crate) use ip_address::IP_ADDRESSES;
pub(crate) use namespace::NAMESPACES;
pub(crate) use node::NODES;
pub(crate) use pod::{PODS, is_ready as is_pod_ready};
pub(crate) use replicaset::REPLICA_SETS;
pub(crate) use service::SERVICES;
pub(crate) use service_account::SERVICE_ACCOUNTS;
pub(crate) use service_cidr::{DEFAULT_NAME as DEFAULT_SERVICE_CIDR, SERVICE_CIDRS};

impl Resource {
    /// The plural with its group, as messages have it.
    pub(crate) fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Group and version as documents have them.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// What can be done with it.
    pub(crate) fn verbs(&self) -> Vec<&'static str> {
        let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        all.into_iter().filter(|verb| self.can_delete_collection || *verb != "deletecollection").collect()
    }

    /// The beginning of every document of this resource: `{"kind":…,"apiVersion":…,`.
    pub(crate) fn opening(&self) -> String {
        format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", self.kind, self.api_version())
    }
}

/// The resource with a name in a group and version.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.group == group && resource.version == version && resource.plural == plural)
}

/// The resource as which a storage is kept.
pub(crate) fn stored_as(storage: u8) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.storage == storage)
}

/// The resource that an owner reference or an `apiVersion` and `kind` name.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.kind == kind && resource.api_version() == api_version)
}

fn name(document: &Value) -> Value {
    super::document::text(document, "/metadata/name").into()
}

fn age(document: &Value) -> Value {
    super::document::age(super::document::text(document, "/metadata/creationTimestamp")).into()
}

/// A cell for what may be missing.
fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_whole() {
        for resource in ALL {
            assert!(resource.storage > 0 && !resource.kind.is_empty() && !resource.plural.is_empty() && !resource.singular.is_empty());
            let document = serde_json::json!({"metadata": {"name": "x"}});
            assert_eq!((resource.cells)(&document).len(), resource.columns.len(), "{}", resource.kind);
            let stored = stored_as(resource.storage).unwrap();
            assert!(std::ptr::eq(stored, *resource) || resource.view.is_some());
        }
    }
}
