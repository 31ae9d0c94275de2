//! Endpoints: a NIC of a container, here or on another host.

use crate::Guid;
use crate::base::{Dns, Health, Route, SchemaVersion};
use crate::document::Any;
use crate::policy::Policy;

flags! {
    /// Options of an endpoint.
    pub struct EndpointFlags {
        /// The endpoint is on another host; it has no port here.
        REMOTE = 1 "RemoteEndpoint",
        /// No traffic to other containers.
        DISABLE_ICC = 2 "DisableInterComputeCommunication" | "DisableICC",
        /// The host's configuration is mirrored.
        ENABLE_MIRRORING = 4 "EnableMirroring",
        /// The interface is preferred over others.
        ENABLE_LOW_METRIC = 8 "EnableLowInterfaceMetric" | "EnableLowMetric",
        /// The order of DNS servers is the endpoint's.
        OVERRIDE_DNS_ORDER = 16 "OverrideDNSServerOrder",
        /// The address comes from a DHCP server.
        ENABLE_DHCP = 32 "EnableDhcp",
    }
}

open_enum! {
    /// How far an endpoint has come in its life.
    pub enum EndpointState as number {
        /// Not ready.
        Uninitialized = 0 "Uninitialized",
        /// Made, with no port on the switch yet.
        Created = 1 "Created",
        /// On the switch.
        Attached = 2 "Attached",
        /// On the switch, for several containers.
        AttachedSharing = 3 "AttachedSharing",
        /// No longer on the switch.
        Detached = 4 "Detached",
        /// Something below it failed.
        Degraded = 5 "Degraded",
        /// Gone.
        Destroyed = 6 "Destroyed",
    }
}

document! {
    /// An address of an endpoint.
    pub struct IpConfiguration {
        "IpAddress" ip_address: String,
        "PrefixLength" prefix_length: u8,
        "IpSubnetId" ip_subnet_id: Guid,
    }
}

document! {
    /// An endpoint, as HostComputeEndpoint.
    pub struct Endpoint {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "HostComputeNetwork" | "VirtualNetwork" network: Guid,
        "HostComputeNamespace" namespace: Guid,
        "Policies" policies: Vec<Policy>,
        "IpConfigurations" ip_configurations: Vec<IpConfiguration>,
        "Dns" dns: Dns,
        "Routes" routes: Vec<Route>,
        "MacAddress" mac_address: String,
        "Flags" flags: EndpointFlags,
        "AdditionalParams" additional_params: Any,
        "Health" health: Health,
        "Telemetry" telemetry: Any,
        "State" state: EndpointState,
        "SchemaVersion" schema_version: SchemaVersion,
    }
}

impl Endpoint {
    /// Whether the endpoint is on another host.
    pub fn is_remote(&self) -> bool {
        self.flags.has(EndpointFlags::REMOTE)
    }
}
