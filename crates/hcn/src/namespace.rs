//! Namespaces: the network compartment of a container, and what is in it.

use crate::Guid;
use crate::base::{Health, SchemaVersion};
use crate::document::Any;
use crate::error::Result;

open_enum! {
    /// Whose namespace it is.
    pub enum NamespaceType as text {
        /// A container of the host.
        Host = 0 "Host",
        /// The host itself.
        HostDefault = 1 "HostDefault",
        /// A container inside a virtual machine.
        Guest = 2 "Guest",
        /// The virtual machine itself.
        GuestDefault = 3 "GuestDefault",
    }
}

impl NamespaceType {
    /// Whether this is a machine's own namespace rather than a container's.
    pub fn is_default(&self) -> bool {
        matches!(self, Self::HostDefault | Self::GuestDefault)
    }
}

open_enum! {
    /// What a namespace can hold.
    pub enum ResourceType as text {
        /// A container, by its id.
        Container = 0 "Container",
        /// An endpoint, by its GUID.
        Endpoint = 1 "Endpoint",
    }
}

document! {
    /// Which thing a resource is.
    pub struct ResourceData {
        "Id" | "ID" id: String,
    }
}

document! {
    /// A thing in a namespace.
    pub struct Resource {
        "Type" resource_type: ResourceType => always,
        "Data" data: ResourceData,
    }
}

document! {
    /// A namespace, as HostComputeNamespace.
    pub struct Namespace {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "NamespaceId" compartment_id: u32,
        "NamespaceGuid" compartment_guid: Guid,
        "Type" namespace_type: NamespaceType => always,
        "Resources" resources: Vec<Resource>,
        "CreateWithCompartment" create_with_compartment: bool,
        "AdditionalParams" additional_params: Any,
        "Health" health: Health,
        "Telemetry" telemetry: Any,
        "State" state: u16,
        "SchemaVersion" schema_version: SchemaVersion => always,
    }
}

impl Namespace {
    /// The endpoints in the namespace.
    pub fn endpoints(&self) -> impl Iterator<Item = Result<Guid>> + '_ {
        self.resource_ids(ResourceType::Endpoint).map(|id| crate::document::parse_guid(id).ok_or_else(|| crate::document::not_a_guid(id)))
    }

    /// The ids of the containers in the namespace.
    pub fn containers(&self) -> impl Iterator<Item = &str> {
        self.resource_ids(ResourceType::Container)
    }

    fn resource_ids(&self, resource_type: ResourceType) -> impl Iterator<Item = &str> {
        self.resources.iter().filter(move |resource| resource.resource_type == resource_type).map(|resource| resource.data.id.as_str())
    }
}
