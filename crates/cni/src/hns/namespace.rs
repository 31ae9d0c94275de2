//! Namespaces of containers: one that HNS has, or an object that stands for a Linux namespace by its path.
//!
//! For a Linux namespace an HCN object is made, whose `AdditionalParams.NetworkNamespace` and `Name` are the path. By the name
//! it is found again; it goes with its last endpoint.

use std::path::Path;

use hcn::base::SchemaVersion;
use hcn::endpoint::Endpoint;
use hcn::namespace::{Namespace, NamespaceType, Resource, ResourceData, ResourceType};
use hcn::{Guid, Hcn, HcnExt, Kind};
use serde_json::{Value, json};

use super::{OWNER, failed, is_gone, unless_gone};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::netns::Netns;
use crate::object::quote;

/// Where an endpoint belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A namespace of HNS.
    Namespace(Guid),
    /// A Linux namespace.
    Path(String),
}

impl Target {
    /// What CNI_NETNS names. Runtimes from before HCN namespaces name none that could be meant.
    pub(crate) fn read(environment: &Environment) -> Result<Self> {
        let text = &environment.netns;
        match environment.namespace() {
            Netns::Namespace(id) => Ok(Self::Namespace(id)),
            Netns::Path(path) if path.is_absolute() && cfg!(unix) => Ok(Self::Path(text.clone())),
            _ => Err(Error::invalid_netns(format!("CNI_NETNS is {}, which is no namespace of HNS", quote(text)))
                .details("set it to the GUID of an HCN namespace, or on Linux to the path of a network namespace")),
        }
    }
}

/// The namespace object of a target, if there is one.
pub(crate) fn find(hcn: &dyn Hcn, target: &Target) -> Result<Option<Namespace>> {
    match target {
        Target::Namespace(id) => get(hcn, *id),
        Target::Path(path) => {
            let named: hcn::Result<Vec<Namespace>> = hcn.objects(&[("Name", path)]);
            let named = named.map_err(|error| failed(format!("looking for the namespace of {path}"), &error))?;
            Ok(named.into_iter().find(|namespace| self::path(namespace) == Some(path)))
        }
    }
}

fn get(hcn: &dyn Hcn, id: Guid) -> Result<Option<Namespace>> {
    match hcn.object(id) {
        Ok(namespace) => Ok(Some(namespace)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(failed(format!("asking for the namespace {id}"), &error)),
    }
}

/// The namespace object that an endpoint is in, if it is in one.
pub(crate) fn of(hcn: &dyn Hcn, endpoint: &Endpoint) -> Result<Option<Namespace>> {
    match endpoint.namespace.is_nil() {
        true => Ok(None),
        false => get(hcn, endpoint.namespace),
    }
}

/// The Linux namespace that an object stands for.
fn path(namespace: &Namespace) -> Option<&str> {
    namespace.additional_params.as_deref()?.get("NetworkNamespace").and_then(Value::as_str)
}

/// Whether an object was made by [`enter`].
pub(crate) fn is_ours(namespace: &Namespace) -> bool {
    namespace.owner == OWNER && path(namespace).is_some()
}

/// Puts an endpoint into its namespace, unless it is there.
pub(crate) fn enter(hcn: &dyn Hcn, target: &Target, endpoint: &Endpoint) -> Result<()> {
    if let Target::Path(path) = target {
        require_file(path)?;
    }
    let found = find(hcn, target)?;
    if found.as_ref().is_some_and(|found| found.id == endpoint.namespace) {
        return Ok(());
    }
    let entered = match (&found, target) {
        (Some(namespace), _) => hcn.modify(Kind::Namespace, namespace.id, &member_request("Add", endpoint.id)),
        (None, Target::Path(path)) => hcn.create(Kind::Namespace, None, None, &hcn::print(&object_with(path, endpoint.id))).map(|_| ()),
        (None, Target::Namespace(id)) => {
            return Err(Error::invalid_netns(format!("CNI_NETNS: HNS has no namespace {id}"))
                .details("make the namespace before calling ADD, as the runtime does"));
        }
    };
    entered.map_err(|error| failed(format!("putting the endpoint {:?} into its namespace", endpoint.name), &error))
}

/// Without it the switch would try for ever to make a NIC in a place that is not there.
fn require_file(path: &str) -> Result<()> {
    match Path::new(path).exists() {
        true => Ok(()),
        false => Err(Error::invalid_netns(format!("CNI_NETNS: there is no file {path}"))
            .details("name the file of a network namespace that exists, such as /run/netns/NAME")),
    }
}

/// The object for a Linux namespace, with its first endpoint in it, so that there is never one without.
fn object_with(path: &str, endpoint: Guid) -> Namespace {
    let data = ResourceData { id: endpoint.to_string(), ..ResourceData::default() };
    Namespace {
        owner: OWNER.to_owned(),
        name: path.to_owned(),
        namespace_type: NamespaceType::Host,
        resources: vec![Resource { resource_type: ResourceType::Endpoint, data, ..Resource::default() }],
        additional_params: Some(Box::new(json!({"NetworkNamespace": path}))),
        schema_version: SchemaVersion::v2(),
        ..Namespace::default()
    }
}

/// Takes an endpoint out of a namespace, if it is in.
pub(crate) fn leave(hcn: &dyn Hcn, namespace: Guid, endpoint: Guid) -> Result<()> {
    let left = unless_gone(hcn.modify(Kind::Namespace, namespace, &member_request("Remove", endpoint)));
    left.map_err(|error| failed(format!("taking the endpoint {endpoint} out of its namespace"), &error))
}

fn member_request(how: &str, endpoint: Guid) -> String {
    json!({"ResourceType": "Endpoint", "RequestType": how, "Settings": {"EndpointId": endpoint.to_string()}}).to_string()
}

/// Deletes a namespace object of ours that nothing is in any more.
pub(crate) fn sweep(hcn: &dyn Hcn, id: Guid) -> Result<()> {
    match get(hcn, id)? {
        Some(namespace) if is_ours(&namespace) && namespace.resources.is_empty() => {
            unless_gone(hcn.delete(Kind::Namespace, id)).map_err(|error| failed(format!("deleting the namespace {id}"), &error))
        }
        _ => Ok(()),
    }
}
