//! Policies that change addresses and ports: `NAT`, `OutBoundNAT`, `PROXY`.

use serde_json::Value;

use super::Flat;
use crate::document::{Field, Path};
use crate::error::Result;
use crate::load_balancer::ProtocolType;
use crate::policy::endpoint::{NatFlags, OutBoundNatSettings, PortMappingSettings};
use crate::policy::network::L4ProxySettings;

/// A protocol in a `NAT` policy: printed as its name where v2 prints its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolName(pub ProtocolType);

impl Field for ProtocolName {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        ProtocolType::read(value, at).map(Self)
    }

    fn write(&self) -> Value {
        self.0.name().map_or_else(|| self.0.write(), Value::from)
    }

    fn is_absent(&self) -> bool {
        self.0.is_absent()
    }
}

document! {
    /// `NAT`: a port of the host led to the endpoint. `VIP` and `Flags` are v2's, kept so that they survive.
    pub struct NatPolicy {
        "Type" policy_type: String => always,
        "Protocol" protocol: ProtocolName,
        "InternalPort" internal_port: u16,
        "ExternalPort" external_port: u16,
        "ExternalPortReserved" external_port_reserved: bool,
        "VIP" vip: String,
        "Flags" flags: NatFlags,
    }
}

impl Flat for NatPolicy {
    const V2_TYPE: &'static str = "PortMapping";
    type Settings = PortMappingSettings;

    fn raise(self) -> PortMappingSettings {
        let reserved = if self.external_port_reserved { NatFlags::EXTERNAL_PORT_RESERVED } else { NatFlags::default() };
        PortMappingSettings {
            protocol: self.protocol.0,
            internal_port: self.internal_port,
            external_port: self.external_port,
            vip: self.vip,
            flags: self.flags.with(reserved),
            extra: self.extra,
        }
    }

    fn lower(settings: PortMappingSettings) -> Self {
        Self {
            policy_type: "NAT".to_owned(),
            protocol: ProtocolName(settings.protocol),
            internal_port: settings.internal_port,
            external_port: settings.external_port,
            external_port_reserved: settings.flags.has(NatFlags::EXTERNAL_PORT_RESERVED),
            vip: settings.vip,
            flags: settings.flags.set(NatFlags::EXTERNAL_PORT_RESERVED, false),
            extra: settings.extra,
        }
    }
}

document! {
    /// `OutBoundNAT`: sources become the host's. `Flags` is v2's.
    pub struct OutBoundNatPolicy {
        "Type" policy_type: String => always,
        "VIP" | "VirtualIP" vip: String,
        "ExceptionList" | "Exceptions" exception_list: Vec<String>,
        "Destinations" destinations: Vec<String>,
        "MaxPortPoolUsage" max_port_pool_usage: u16,
        "Flags" flags: NatFlags,
    }
}

impl Flat for OutBoundNatPolicy {
    const V2_TYPE: &'static str = "OutBoundNAT";
    type Settings = OutBoundNatSettings;

    fn raise(self) -> OutBoundNatSettings {
        OutBoundNatSettings {
            virtual_ip: self.vip,
            exceptions: self.exception_list,
            destinations: self.destinations,
            flags: self.flags,
            max_port_pool_usage: self.max_port_pool_usage,
            extra: self.extra,
        }
    }

    fn lower(settings: OutBoundNatSettings) -> Self {
        Self {
            policy_type: "OutBoundNAT".to_owned(),
            vip: settings.virtual_ip,
            exception_list: settings.exceptions,
            destinations: settings.destinations,
            max_port_pool_usage: settings.max_port_pool_usage,
            flags: settings.flags,
            extra: settings.extra,
        }
    }
}

document! {
    /// `PROXY`: redirection to a proxy. `Protocol` is v2's.
    pub struct ProxyPolicy {
        "Type" policy_type: String => always,
        "IP" ip: String,
        "Port" port: String,
        "Protocol" protocol: ProtocolType,
        "ExceptionList" | "Exceptions" exception_list: Vec<String>,
        "Destination" destination: String => always,
        "OutboundNat" outbound_nat: bool,
    }
}

impl Flat for ProxyPolicy {
    const V2_TYPE: &'static str = "L4Proxy";
    type Settings = L4ProxySettings;

    fn raise(self) -> L4ProxySettings {
        L4ProxySettings {
            ip: self.ip,
            port: self.port,
            protocol: self.protocol,
            exceptions: self.exception_list,
            destination: self.destination,
            outbound_nat: self.outbound_nat,
            extra: self.extra,
        }
    }

    fn lower(settings: L4ProxySettings) -> Self {
        Self {
            policy_type: "PROXY".to_owned(),
            ip: settings.ip,
            port: settings.port,
            protocol: settings.protocol,
            exception_list: settings.exceptions,
            destination: settings.destination,
            outbound_nat: settings.outbound_nat,
            extra: settings.extra,
        }
    }
}
