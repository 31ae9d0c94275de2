//! The guest network service: how a utility VM follows its host's networking.

use serde_json::Value;

use crate::Guid;
use crate::base::{Health, SchemaVersion};
use crate::document::Any;

open_enum! {
    /// How far a guest has come in following its host.
    pub enum GuestState as text {
        /// Not known.
        None = 0 "None",
        /// Made.
        Created = 1 "Created",
        /// Starting.
        Bootstrapping = 2 "Bootstrapping",
        /// Up to date.
        Synchronized = 3 "Synchronized",
        /// Not following for now.
        Paused = 4 "Paused",
        /// Behind.
        Desynchronized = 5 "Desynchronized",
        /// Catching up.
        Rehydrating = 6 "Rehydrating",
        /// Something failed.
        Degraded = 7 "Degraded",
        /// Gone.
        Destroyed = 8 "Destroyed",
    }
}

flags! {
    /// Options of a guest network service.
    pub struct GuestNetworkServiceFlags {
        /// Ports are shared with the host by flow.
        IS_FLOWSTEERED = 1 "IsFlowsteered",
        /// As before, managed by the guest.
        IS_FLOWSTEERED_SELF_MANAGED = 2 "IsFlowsteeredSelfManaged",
    }
}

document! {
    /// A host interface that the guest mirrors.
    pub struct MirroredInterface {
        "EndpointId" endpoint_id: Guid,
        "InterfaceGuid" interface_guid: Guid,
        "State" state: Value,
        "MissedNotifications" missed_notifications: Value,
    }
}

document! {
    /// How the guest's service is reached.
    pub struct GnsRpcServerInformation {
        "NetworkAddress" network_address: String,
        "EndpointAddress" endpoint_address: String,
        "EndpointType" endpoint_type: Value,
        "ObjectUuid" object_uuid: Guid,
    }
}

document! {
    /// A guest network service.
    pub struct GuestNetworkService {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "VirtualMachineId" virtual_machine_id: Guid,
        "MirroredInterfaces" mirrored_interfaces: Vec<MirroredInterface>,
        "MirrorHostNetworking" mirror_host_networking: bool,
        "GnsRpcServerInformation" rpc_server: GnsRpcServerInformation,
        "Flags" flags: GuestNetworkServiceFlags,
        "State" state: GuestState,
        "AdditionalParams" additional_params: Any,
        "Health" health: Health,
        "Telemetry" telemetry: Any,
        "SchemaVersion" schema_version: SchemaVersion,
    }
}
