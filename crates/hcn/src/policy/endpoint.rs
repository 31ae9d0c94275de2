//! Policies of endpoints.

use serde_json::Value;

use crate::Guid;
use crate::load_balancer::ProtocolType;

open_enum! {
    /// Types of endpoint policies.
    pub enum EndpointPolicyType as text {
        /// A port of the host led to the endpoint.
        PortMapping = 0 "PortMapping",
        /// A rule about which packets pass.
        Acl = 1 "ACL",
        /// A rate limit.
        Qos = 2 "QOS",
        /// HNS adds it itself on some networks.
        L2Driver = 3 "L2Driver",
        /// Sources become the host's.
        OutBoundNat = 4 "OutBoundNAT",
        /// Where packets for a prefix go.
        SdnRoute = 5 "SDNRoute",
        /// Redirection to a proxy.
        L4Proxy = 6 "L4Proxy",
        /// Redirection to a proxy by the host's filtering platform.
        L4WfpProxy = 7 "L4WFPPROXY",
        /// The host behind which a remote endpoint is.
        ProviderAddress = 8 "ProviderAddress",
        /// The name of the switch port.
        PortName = 9 "PortName",
        /// Bytes that encapsulation adds.
        EncapOverhead = 10 "EncapOverhead",
        /// Which interface of the host it is about.
        InterfaceConstraint = 11 "InterfaceConstraint",
        /// IPsec.
        Encryption = 12 "Encryption",
        /// A VLAN tag.
        Vlan = 13 "VLAN",
        /// Properties of the interface, such as its MTU.
        InterfaceParameters = 14 "InterfaceParameters",
        /// Single-root I/O virtualization.
        Iov = 15 "Iov",
        /// An ordered group of rules.
        TierAcl = 16 "TierAcl",
        /// Host firewall for virtual machines.
        Firewall = 18 "Firewall",
    }
}

flags! {
    /// Options of translations.
    pub struct NatFlags {
        /// The virtual address is routed on this host.
        LOCAL_ROUTED_VIP = 1 "LocalRoutedVip",
        /// IPv6.
        IPV6 = 2 "IPv6",
        /// The external port is reserved on the host.
        EXTERNAL_PORT_RESERVED = 4 "ExternalPortReserved",
    }
}

document! {
    /// Settings of `PortMapping`.
    pub struct PortMappingSettings {
        "Protocol" protocol: ProtocolType,
        "InternalPort" internal_port: u16,
        "ExternalPort" external_port: u16,
        "VIP" vip: String,
        "Flags" flags: NatFlags,
    }
}

document! {
    /// Settings of `QOS`.
    pub struct QosSettings {
        "MaximumOutgoingBandwidthInBytes" maximum_outgoing_bandwidth_in_bytes: u64,
    }
}

document! {
    /// Settings of `OutBoundNAT`.
    pub struct OutBoundNatSettings {
        "VirtualIP" virtual_ip: String,
        "Exceptions" | "ExceptionList" exceptions: Vec<String>,
        "Destinations" destinations: Vec<String>,
        "Flags" flags: NatFlags,
        "MaxPortPoolUsage" max_port_pool_usage: u16,
    }
}

document! {
    /// Settings of `SDNRoute`, and one entry of an SDN route.
    pub struct SdnRouteSettings {
        "DestinationPrefix" destination_prefix: String,
        "NextHop" next_hop: String,
        "NeedEncap" need_encap: bool,
        "AutomaticEndpointMonitor" automatic_endpoint_monitor: bool,
    }
}

document! {
    /// Which packets a proxy policy is about.
    pub struct FiveTuple {
        "Protocols" protocols: String,
        "LocalAddresses" local_addresses: String,
        "RemoteAddresses" remote_addresses: String,
        "LocalPorts" local_ports: String,
        "RemotePorts" remote_ports: String,
        "Priority" priority: u16,
    }
}

document! {
    /// Which packets a proxy leaves alone.
    pub struct ProxyExceptions {
        "IpAddressExceptions" ip_address_exceptions: Vec<String>,
        "PortExceptions" port_exceptions: Vec<String>,
    }
}

document! {
    /// Settings of `L4WFPPROXY`.
    pub struct L4WfpProxySettings {
        "InboundProxyPort" inbound_proxy_port: String,
        "OutboundProxyPort" outbound_proxy_port: String,
        "FilterTuple" filter_tuple: FiveTuple,
        "UserSID" user_sid: String,
        "InboundExceptions" inbound_exceptions: ProxyExceptions,
        "OutboundExceptions" outbound_exceptions: ProxyExceptions,
    }
}

document! {
    /// Settings of `PortName`.
    pub struct PortNameSettings {
        "Name" name: String => always,
    }
}

document! {
    /// Settings of `EncapOverhead`.
    pub struct EncapOverheadSettings {
        "Overhead" overhead: u16,
    }
}

open_enum! {
    /// How an encrypted connection is authenticated.
    pub enum AuthenticationType as text {
        /// A secret both sides know.
        PresharedKey = 0 "PresharedKey",
        /// A certificate.
        Certificate = 1 "Certificate",
    }
}

document! {
    /// One way of authentication.
    pub struct AuthenticationMethod {
        "Type" authentication_type: AuthenticationType => always,
        "Settings" settings: Value,
    }
}

document! {
    /// Settings of `Encryption`.
    pub struct EncryptionSettings {
        "EncryptionMethodType" encryption_method_type: Value,
        "AuthenticationMethods" authentication_methods: Vec<AuthenticationMethod>,
        "Name" name: String,
        "Endpoints1" endpoints1: Vec<String>,
        "Endpoints2" endpoints2: Vec<String>,
        "ProtocolType" protocol: ProtocolType,
        "Endpoint1Ports" endpoint1_ports: Vec<String>,
        "Endpoint2Ports" endpoint2_ports: Vec<String>,
    }
}

document! {
    /// Settings of `InterfaceParameters`.
    pub struct InterfaceParametersSettings {
        "Mtu" mtu: u16,
    }
}

open_enum! {
    /// How a virtual function signals packets.
    pub enum InterruptModeration as number {
        /// As the adapter likes.
        Default = 0 "Default",
        /// By load.
        Adaptive = 1 "Adaptive",
        /// Every packet.
        Off = 2 "Off",
        /// Little.
        Low = 100 "Low",
        /// Some.
        Medium = 200 "Medium",
        /// Much.
        High = 300 "High",
    }
}

document! {
    /// Settings of `Iov`.
    pub struct IovSettings {
        "IovOffloadWeight" offload_weight: u32,
        "QueuePairsRequested" queue_pairs_requested: u32,
        "InterruptModeration" interrupt_moderation: InterruptModeration,
    }
}

document! {
    /// Settings of `Firewall`, in the forms of WSL and of Microsoft's schema.
    pub struct FirewallSettings {
        "VmCreatorId" vm_creator_id: Guid,
        "PolicyFlags" policy_flags: Value,
        "VmType" vm_type: Value,
        "FirewallPolicyFlags" firewall_policy_flags: Value,
    }
}
