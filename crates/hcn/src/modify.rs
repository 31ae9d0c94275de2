//! Modify requests: an envelope that says what of an object to change and how.

use serde_json::Value;

use crate::Guid;
use crate::network::{IpSubnet, Subnet};
use crate::policy::Policy;

open_enum! {
    /// How to change it.
    pub enum RequestType as text {
        /// Put it in.
        Add = 0 "Add",
        /// Take it out.
        Remove = 1 "Remove",
        /// Replace it.
        Update = 2 "Update",
        /// Apply it anew.
        Refresh = 3 "Refresh",
        /// Back to the start.
        Reset = 4 "Reset",
    }
}

open_enum! {
    /// Parts of a network.
    pub enum NetworkResource as text {
        /// DNS settings.
        Dns = 0 "DNS",
        /// A switch extension.
        Extension = 1 "Extension",
        /// Policies.
        Policy = 2 "Policy",
        /// Subnets.
        Subnet = 3 "Subnet",
        /// IP subnets of a subnet.
        IpSubnet = 4 "IPSubnet",
    }
}

open_enum! {
    /// Parts of an endpoint.
    pub enum EndpointResource as text {
        /// The switch port.
        Port = 0 "Port",
        /// Policies.
        Policy = 1 "Policy",
    }
}

document! {
    /// A modify request.
    pub struct ModifyRequest {
        "ResourceUri" resource_uri: String,
        "ResourceType" resource_type: Value,
        "RequestType" request_type: Option<RequestType>,
        "Settings" settings: Value,
    }
}

document! {
    /// Policies to add, remove or update.
    pub struct PolicySettings {
        "Policies" policies: Vec<Policy>,
    }
}

document! {
    /// Subnets to add or remove.
    pub struct SubnetSettings {
        "Subnets" subnets: Vec<Subnet>,
    }
}

document! {
    /// IP subnets to add or remove.
    pub struct IpSubnetSettings {
        "SubnetId" subnet_id: Guid,
        "IpSubnets" ip_subnets: Vec<IpSubnet>,
    }
}

document! {
    /// A switch port for a virtual machine.
    pub struct PortSettings {
        "PortId" | "PortName" port_id: Guid,
        "VirtualNicName" virtual_nic_name: String,
        "VirtualMachineId" virtual_machine_id: Guid,
    }
}

document! {
    /// The endpoint or container that a namespace or load balancer gains or loses.
    pub struct MemberSettings {
        "EndpointId" endpoint_id: Guid,
        "ContainerId" container_id: String,
    }
}
