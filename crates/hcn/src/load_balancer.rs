//! Load balancers: virtual addresses in front of endpoints.

use crate::Guid;
use crate::base::{Health, SchemaVersion};
use crate::document::Any;

flags! {
    /// Options of a load balancer.
    pub struct LoadBalancerFlags {
        /// Answers go straight to the client (DSR).
        DSR = 1 "EnableDirectServerReturn" | "DSR",
        /// The frontend is IPv6.
        IPV6 = 2 "EnableIPv6" | "IPv6",
    }
}

flags! {
    /// Options of a port mapping of a load balancer.
    pub struct PortMappingFlags {
        /// Internal load balancer (ILB).
        ILB = 1 "EnableInternalLoadBalancer" | "ILB",
        /// The virtual address is routed on this host.
        LOCAL_ROUTED_VIP = 2 "LocalRoutedVIP",
        /// Packets come through the software load balancer's mux.
        USE_MUX = 4 "UseMux",
        /// The destination address is kept.
        PRESERVE_DIP = 8 "EnablePreserveDip" | "PreserveDIP",
        /// The virtual address is an external one.
        VIP_EXTERNAL_IP = 16 "VipExternalIP",
    }
}

open_enum! {
    /// Which part of a packet decides about the backend.
    pub enum DistributionType as number {
        /// The whole five tuple: per connection.
        None = 0 "None",
        /// Source, destination and protocol.
        SourceIpProtocol = 1 "SourceIPProtocol",
        /// Source and destination: session affinity.
        SourceIp = 2 "SourceIP",
    }
}

open_enum! {
    /// Transport protocols by their IP protocol number.
    pub enum ProtocolType as number {
        /// Any or none.
        Unknown = 0 "Unknown",
        /// ICMP.
        IcmpV4 = 1 "ICMPv4",
        /// IGMP.
        Igmp = 2 "IGMP",
        /// TCP.
        Tcp = 6 "TCP",
        /// UDP.
        Udp = 17 "UDP",
        /// ICMPv6.
        IcmpV6 = 58 "ICMPv6",
        /// SCTP.
        Sctp = 132 "SCTP",
    }
}

document! {
    /// One port of a load balancer.
    pub struct LoadBalancerPortMapping {
        "Protocol" protocol: ProtocolType,
        "InternalPort" internal_port: u16,
        "ExternalPort" external_port: u16,
        "DistributionType" distribution_type: DistributionType,
        "Flags" flags: PortMappingFlags,
    }
}

document! {
    /// A load balancer, as HostComputeLoadBalancer.
    pub struct LoadBalancer {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "HostComputeNetwork" network: Guid,
        "HostComputeEndpoints" endpoints: Vec<Guid>,
        "SourceVIP" source_vip: String,
        "FrontendVIPs" | "VirtualIPs" frontend_vips: Vec<String>,
        "PortMappings" port_mappings: Vec<LoadBalancerPortMapping>,
        "Flags" flags: LoadBalancerFlags,
        "AdditionalParams" additional_params: Any,
        "Health" health: Health,
        "Telemetry" telemetry: Any,
        "State" state: u16,
        "SchemaVersion" schema_version: SchemaVersion,
    }
}
