//! `ELB`: one port of a load balancer. It stands in policy lists only.

use crate::load_balancer::{DistributionType, LoadBalancerFlags, LoadBalancerPortMapping, PortMappingFlags, ProtocolType};
use crate::v1::homeless;

document! {
    /// `ELB`. `DistributionType` and `Flags` are v2's, kept so that they survive.
    pub struct ElbPolicy {
        "Type" policy_type: String => always,
        "Protocol" protocol: ProtocolType,
        "InternalPort" internal_port: u16,
        "ExternalPort" external_port: u16,
        "VIPs" vips: Vec<String>,
        "SourceVIP" source_vip: String,
        "ILB" ilb: bool,
        "IsDSR" is_dsr: bool,
        "DistributionType" distribution_type: DistributionType,
        "Flags" flags: PortMappingFlags,
    }
}

impl ElbPolicy {
    /// The v2 port mapping: what is special about this policy among those of its list.
    pub fn mapping(self) -> LoadBalancerPortMapping {
        let ilb = if self.ilb { PortMappingFlags::ILB } else { PortMappingFlags::default() };
        LoadBalancerPortMapping {
            protocol: self.protocol,
            internal_port: self.internal_port,
            external_port: self.external_port,
            distribution_type: self.distribution_type,
            flags: self.flags.with(ilb),
            extra: self.extra,
        }
    }

    /// The load balancer's flags that this policy says.
    pub fn load_balancer_flags(&self) -> LoadBalancerFlags {
        LoadBalancerFlags::default().set(LoadBalancerFlags::DSR, self.is_dsr)
    }

    /// The policy for a port mapping; addresses are still missing.
    pub fn from_mapping(mapping: &LoadBalancerPortMapping) -> Self {
        Self {
            policy_type: "ELB".to_owned(),
            protocol: mapping.protocol.clone(),
            internal_port: mapping.internal_port,
            external_port: mapping.external_port,
            ilb: mapping.flags.has(PortMappingFlags::ILB),
            distribution_type: mapping.distribution_type.clone(),
            flags: mapping.flags.set(PortMappingFlags::ILB, false),
            extra: homeless::unknown_to(mapping.extra.clone(), Self::FIELDS),
            ..Self::default()
        }
    }
}
