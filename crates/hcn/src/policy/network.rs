//! Policies of networks.

use serde_json::Value;

use crate::Guid;
use crate::load_balancer::ProtocolType;

open_enum! {
    /// Types of network policies.
    pub enum NetworkPolicyType as text {
        /// The MAC address packets leave with.
        SourceMacAddress = 0 "SourceMacAddress",
        /// The host adapter to bind, by name.
        NetAdapterName = 1 "NetAdapterName",
        /// The host adapter to bind, by other properties.
        InterfaceConstraint = 2 "InterfaceConstraint",
        /// A switch extension switched on or off.
        VSwitchExtension = 3 "VSwitchExtension",
        /// On input picks the adapter by address; on output the management address.
        ProviderAddress = 4 "ProviderAddress",
        /// The distributed router's MAC address.
        DrMacAddress = 5 "DrMacAddress",
        /// HNS serves DNS for the network.
        AutomaticDns = 6 "AutomaticDNS",
        /// A pod subnet behind another host.
        RemoteSubnetRoute = 7 "RemoteSubnetRoute",
        /// The UDP port of VXLAN.
        VxlanPort = 8 "VxlanPort",
        /// The host can reach the network.
        HostRoute = 9 "HostRoute",
        /// A named set of addresses.
        SetPolicy = 10 "SetPolicy",
        /// Redirection to a proxy.
        L4Proxy = 11 "L4Proxy",
        /// The network is stacked on a layer.
        LayerConstraint = 12 "LayerConstraint",
        /// A rule for all endpoints of the network.
        NetworkAcl = 13 "NetworkACL",
        /// A neighbour known beforehand.
        NeighborDiscovery = 14 "NeighborDiscovery",
    }
}

document! {
    /// Settings of `SourceMacAddress`.
    pub struct SourceMacAddressSettings {
        "SourceMacAddress" source_mac_address: String,
    }
}

document! {
    /// Settings of `NetAdapterName`.
    pub struct NetAdapterNameSettings {
        "NetworkAdapterName" name: String,
    }
}

document! {
    /// Settings of `InterfaceConstraint`, on networks and endpoints.
    pub struct InterfaceConstraintSettings {
        "InterfaceGuid" interface_guid: Guid,
        "InterfaceLuid" interface_luid: u64,
        "InterfaceIndex" interface_index: u32,
        "InterfaceMediaType" interface_media_type: u32,
        "InterfaceAlias" interface_alias: String,
        "InterfaceDescription" interface_description: String,
    }
}

document! {
    /// Settings of `VSwitchExtension`.
    pub struct VSwitchExtensionSettings {
        "ExtensionID" extension_id: Guid,
        "Enable" enable: bool => always,
    }
}

document! {
    /// Settings of `ProviderAddress`, on networks and endpoints.
    pub struct ProviderAddressSettings {
        "ProviderAddress" provider_address: String,
    }
}

document! {
    /// Settings of `DrMacAddress`.
    pub struct DrMacAddressSettings {
        "Address" address: String,
    }
}

document! {
    /// Settings of `AutomaticDNS`.
    pub struct AutomaticDnsSettings {
        "Enable" enable: bool => always,
    }
}

document! {
    /// Settings of `RemoteSubnetRoute`.
    pub struct RemoteSubnetRouteSettings {
        "DestinationPrefix" destination_prefix: String => always,
        "IsolationId" isolation_id: u32 => always,
        "ProviderAddress" provider_address: String => always,
        "DistributedRouterMacAddress" distributed_router_mac_address: String => always,
    }
}

document! {
    /// Settings of `VxlanPort`.
    pub struct VxlanPortSettings {
        "Port" port: u16,
    }
}

document! {
    /// Settings of policies that have none, such as `HostRoute`.
    pub struct NoSettings {}
}

open_enum! {
    /// What a set holds.
    pub enum SetPolicyType as text {
        /// Addresses and prefixes.
        IpSet = 0 "IPSET",
        /// Ids of other sets.
        NestedIpSet = 1 "NESTEDIPSET",
    }
}

document! {
    /// Settings of `SetPolicy`.
    pub struct SetPolicySettings {
        "Id" id: String,
        "Name" name: String,
        "PolicyType" policy_type: SetPolicyType => always,
        "Values" values: String => always,
    }
}

document! {
    /// Settings of `L4Proxy`, on networks and endpoints.
    pub struct L4ProxySettings {
        "IP" ip: String,
        "Port" port: String,
        "Protocol" protocol: ProtocolType,
        "Exceptions" | "ExceptionList" exceptions: Vec<String>,
        "Destination" destination: String => always,
        "OutboundNAT" outbound_nat: bool,
    }
}

document! {
    /// Settings of `LayerConstraint`.
    pub struct LayerConstraintSettings {
        "LayerId" layer_id: Guid,
    }
}

document! {
    /// Settings of `NeighborDiscovery`.
    pub struct NeighborDiscoverySettings {
        "TargetIpPrefix" target_ip_prefix: String,
        "SenderIpAddress" sender_ip_address: String,
        "SenderMacAddress" sender_mac_address: String,
    }
}

document! {
    /// A switch extension switched on or off by a modify request.
    pub struct ExtensionSettings {
        "Id" id: Guid,
        "IsEnabled" is_enabled: bool => always,
        "Name" name: Value,
    }
}
