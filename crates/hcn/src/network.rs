//! Networks: a virtual switch with subnets, an address pool and policies.

use crate::Guid;
use crate::base::{Dns, Health, Route, SchemaVersion};
use crate::document::Any;
use crate::policy::Policy;

open_enum! {
    /// How a network moves packets.
    pub enum NetworkType as text {
        /// Internal switch; sources become the host's.
        Nat = 0 "NAT",
        /// Internet Connection Sharing, what WSL uses.
        Ics = 1 "ICS",
        /// Packets unchanged on the external switch.
        Transparent = 2 "Transparent",
        /// One MAC address on the wire for all pods of a host.
        L2Bridge = 3 "L2Bridge",
        /// As L2Bridge, but even local packets go out to the fabric.
        L2Tunnel = 4 "L2Tunnel",
        /// VXLAN between hosts.
        Overlay = 5 "Overlay",
        /// Containers among themselves.
        Private = 6 "Private",
        /// Containers and their host.
        Internal = 7 "Internal",
        /// The host's own interfaces, mirrored into a guest.
        Mirrored = 8 "Mirrored",
        /// An InfiniBand fabric.
        Infiniband = 9 "Infiniband",
        /// ICS for one constrained guest.
        ConstrainedIcs = 10 "ConstrainedICS",
        /// Stacked on another network (v1 only).
        Layered = 11 "Layered",
    }
}

impl NetworkType {
    /// Whether networks of this type are bound to an adapter of the host.
    pub fn is_external(&self) -> bool {
        matches!(self, Self::Transparent | Self::L2Bridge | Self::L2Tunnel | Self::Overlay)
    }
}

flags! {
    /// Options of a network.
    pub struct NetworkFlags {
        /// HNS answers DNS queries at the gateway.
        ENABLE_DNS = 1 "EnableDns" | "EnableDnsProxy",
        /// HNS serves DHCP.
        ENABLE_DHCP = 2 "EnableDhcp" | "EnableDhcpServer",
        /// The host's configuration is mirrored.
        ENABLE_MIRRORING = 4 "EnableMirroring",
        /// The network does not outlive a reboot.
        ENABLE_NON_PERSISTENT = 8 "EnableNonPersistent",
        /// The network outlives a reboot.
        ENABLE_PERSISTENT = 16 "EnablePersistent",
        /// The switch is not shared.
        ISOLATE_VSWITCH = 32 "IsolateVSwitch" | "IsolateSwitch",
        /// Ports are shared between host and guest by flow.
        ENABLE_FLOW_STEERING = 64 "EnableFlowSteering",
        /// Endpoints are not shared between containers.
        DISABLE_SHARING = 128 "DisableSharing",
        /// Host firewall rules apply.
        ENABLE_FIREWALL = 256 "EnableFirewall",
        /// The host vNIC never reports a lost medium.
        SUPPRESS_MEDIA_DISCONNECT = 512 "SuppressMediaDisconnect",
        /// No vNIC for the host.
        DISABLE_HOST_PORT = 1024 "DisableHostPort",
        /// Weak host model for receiving.
        WEAK_HOST_RECEIVE = 2048 "WeakHostReceiveAdapter",
        /// Weak host model for sending.
        WEAK_HOST_SEND = 4096 "WeakHostSendAdapter",
        /// Single-root I/O virtualization.
        ENABLE_IOV = 8192 "EnableIov",
    }
}

flags! {
    /// Options of a subnet.
    pub struct SubnetFlags {
        /// The gateway address may be given out, for instance because it is the host's own.
        DO_NOT_RESERVE_GATEWAY = 1 "DoNotReserveGatewayAddress",
    }
}

flags! {
    /// Options of an IP subnet.
    pub struct IpSubnetFlags {
        /// Broadcasts are delivered.
        ENABLE_BROADCAST = 1 "EnableBroadcast",
        /// The network address is not given out.
        RESERVE_NETWORK_ADDRESS = 2 "ReserveNetworkAddress",
    }
}

open_enum! {
    /// Who gives out addresses.
    pub enum IpamType as text {
        /// HNS or the caller.
        Static = 0 "Static",
        /// A DHCP server on the wire.
        Dhcp = 1 "DHCP",
    }
}

document! {
    /// A block of Ethernet addresses, both ends included.
    pub struct MacRange {
        "StartMacAddress" start: String,
        "EndMacAddress" end: String,
    }
}

document! {
    /// The Ethernet addresses a network gives out.
    pub struct MacPool {
        "Ranges" ranges: Vec<MacRange>,
    }
}

document! {
    /// A part of a subnet from which endpoints take addresses.
    pub struct IpSubnet {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "IpAddressPrefix" ip_address_prefix: String,
        "Flags" flags: IpSubnetFlags,
    }
}

document! {
    /// A subnet of a network.
    pub struct Subnet {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "IpAddressPrefix" ip_address_prefix: String,
        "Policies" policies: Vec<Policy>,
        "Routes" routes: Vec<Route>,
        "IpSubnets" ip_subnets: Vec<IpSubnet>,
        "Flags" flags: SubnetFlags,
    }
}

impl Subnet {
    /// The next hop of the default route.
    pub fn gateway(&self) -> Option<&str> {
        self.routes.iter().find(|route| route.is_default() && !route.next_hop.is_empty()).map(|route| route.next_hop.as_str())
    }
}

document! {
    /// A source of addresses.
    pub struct Ipam {
        "Type" ipam_type: IpamType => always,
        "Subnets" subnets: Vec<Subnet>,
    }
}

document! {
    /// A network, as HostComputeNetwork.
    pub struct Network {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "Type" network_type: NetworkType => always,
        "Policies" policies: Vec<Policy>,
        "MacPool" mac_pool: MacPool,
        "Dns" dns: Dns,
        "Ipams" ipams: Vec<Ipam>,
        "Flags" flags: NetworkFlags,
        "AdditionalParams" additional_params: Any,
        "Health" health: Health,
        "Telemetry" telemetry: Any,
        "State" state: u16,
        "SchemaVersion" schema_version: SchemaVersion,
    }
}

impl Network {
    /// All subnets, whichever IPAM they stand under.
    pub fn subnets(&self) -> impl Iterator<Item = &Subnet> {
        self.ipams.iter().flat_map(|ipam| &ipam.subnets)
    }
}
