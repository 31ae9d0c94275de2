//! What every object shares: schema version, health, DNS settings and routes.

use crate::Guid;
use crate::document::Any;

document! {
    /// Which shape a document has. Major 2 is the HCN schema; 0 and 1 mean the older HNS schema.
    pub struct SchemaVersion {
        "Major" major: u32 => always,
        "Minor" minor: u32 => always,
    }
}

impl SchemaVersion {
    /// Schema 2.0, what every current client sends.
    pub fn v2() -> Self {
        Self { major: 2, ..Self::default() }
    }
}

document! {
    /// Internals of an object that some clients read.
    pub struct ExtraParams {
        "Resources" resources: Any,
        "SharedContainers" shared_containers: Any,
        /// The layer below a network, named when another network is stacked on it.
        "LayeredOn" layered_on: Guid,
        "SwitchGuid" switch_guid: Guid,
        "UtilityVM" utility_vm: Guid,
        "VirtualMachine" virtual_machine: Guid,
    }
}

document! {
    /// Health of an object.
    pub struct Health {
        "Data" data: Any,
        "Extra" extra_params: ExtraParams,
    }
}

document! {
    /// Name resolution settings of a network or endpoint.
    pub struct Dns {
        "Domain" | "Suffix" domain: String,
        "Search" search: Vec<String>,
        "ServerList" server_list: Vec<String>,
        "Options" options: Vec<String>,
    }
}

document! {
    /// A route of a subnet or endpoint.
    pub struct Route {
        "NextHop" next_hop: String,
        "DestinationPrefix" destination_prefix: String,
        "Metric" metric: u16,
    }
}

impl Route {
    /// Whether this is a default route. Microsoft's own samples also write it without a prefix length.
    pub fn is_default(&self) -> bool {
        matches!(self.destination_prefix.as_str(), "0.0.0.0/0" | "::/0" | "0.0.0.0" | "::")
    }
}
