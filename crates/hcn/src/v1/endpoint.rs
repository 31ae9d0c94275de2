//! Endpoints as v1 shows them: one address and one gateway of each family, and the namespace as an object.

use std::net::IpAddr;

use serde_json::Value;

use crate::Guid;
use crate::base::{Dns, Route, SchemaVersion};
use crate::document::{Any, Extra, Field, Path};
use crate::endpoint::{self, EndpointFlags, EndpointState, IpConfiguration};
use crate::error::Result;
use crate::namespace::Resource;
use crate::policy::Policy;
use crate::policy::endpoint::{EncapOverheadSettings, EndpointPolicyType};
use crate::policy::network::InterfaceConstraintSettings;
use crate::v1::policy::{FlatPolicy, Holder};
use crate::v1::{address, dns, homeless, id, policy};

document! {
    /// The namespace an endpoint is in.
    pub struct EndpointNamespace {
        "ID" id: String,
        "IsDefault" is_default: bool => always,
        "CompartmentId" compartment_id: u32,
        "CompartmentGuid" compartment_guid: String,
        "ResourceList" resource_list: Vec<Resource>,
    }
}

document! {
    /// An endpoint, as HNSEndpoint.
    ///
    /// `IpConfigurations`, `Routes`, `Dns` and `Telemetry` are v2's, for what the fields above them cannot say.
    pub struct HnsEndpoint {
        "ActivityId" activity_id: String,
        "AdditionalParams" additional_params: Any,
        "DNSDomain" dns_domain: String,
        "DNSServerList" dns_server_list: String,
        "DNSSuffix" dns_suffix: String,
        "DisableICC" disable_icc: bool,
        "EnableInternalDNS" enable_internal_dns: bool,
        "EnableLowMetric" enable_low_metric: bool,
        "EncapOverhead" encap_overhead: u16,
        "Flags" flags: EndpointFlags,
        "GatewayAddress" gateway_address: String,
        "GatewayAddressV6" gateway_address_v6: String,
        "Health" health: Value,
        "ID" id: String,
        "IPAddress" ip_address: String,
        "IPv6Address" ipv6_address: String,
        "IPv6PrefixLength" ipv6_prefix_length: u8,
        "InterfaceConstraint" interface_constraint: InterfaceConstraintSettings,
        "IsRemoteEndpoint" is_remote_endpoint: bool,
        "MacAddress" mac_address: String,
        "Name" name: String,
        "Namespace" namespace: Option<EndpointNamespace>,
        "Owner" owner: String,
        "Policies" policies: Vec<FlatPolicy>,
        "PortFriendlyName" port_friendly_name: String,
        "PrefixLength" prefix_length: u8,
        "Resources" resources: Any,
        "SchemaVersion" schema_version: SchemaVersion,
        "SharedContainers" shared_containers: Vec<String> => always,
        "State" state: EndpointState,
        "Type" network_type: Value,
        "Version" version: u64,
        "VirtualNetwork" | "HostComputeNetwork" virtual_network: String,
        "VirtualNetworkName" virtual_network_name: String,
        "IpConfigurations" ip_configurations: Vec<IpConfiguration>,
        "Routes" routes: Vec<Route>,
        "Dns" dns: Dns,
        "Telemetry" telemetry: Any,
    }
}

/// The namespace that an endpoint is in, as far as the endpoint shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceFacts {
    /// Which namespace.
    pub id: Guid,
    /// Whether it is the host's own.
    pub is_default: bool,
    /// The compartment's number.
    pub compartment_id: u32,
    /// The compartment's GUID.
    pub compartment_guid: Guid,
}

/// What the service knows about an endpoint beside its v2 document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointFacts {
    /// The name of its network.
    pub network_name: String,
    /// The type of its network, in the spelling the network shows.
    pub network_type: String,
    /// The ids of the containers that have it.
    pub containers: Vec<String>,
    /// The namespace it is in; none until it is attached.
    pub namespace: Option<NamespaceFacts>,
    /// `{LastErrorCode, LastUpdateTime}`.
    pub health: Value,
}

impl HnsEndpoint {
    /// The name of the network, which may stand in place of its id.
    pub fn network_name(&self) -> &str {
        &self.virtual_network_name
    }

    /// The v2 document of an endpoint to make. A network given by name only is for the caller to find.
    pub fn to_v2(self) -> Result<endpoint::Endpoint> {
        let root = Path::Root;
        self.check_addresses()?;
        Ok(endpoint::Endpoint {
            id: id::parse(&self.id, &root.key("ID"))?,
            network: id::parse(&self.virtual_network, &root.key("VirtualNetwork"))?,
            namespace: self.v2_namespace()?,
            policies: self.v2_policies()?,
            ip_configurations: self.v2_ip_configurations(),
            routes: self.v2_routes(),
            dns: self.v2_dns(),
            flags: self.v2_flags(),
            extra: self.v2_extra(),
            owner: self.owner,
            name: self.name,
            mac_address: self.mac_address,
            additional_params: self.additional_params,
            telemetry: self.telemetry,
            schema_version: self.schema_version,
            ..endpoint::Endpoint::default()
        })
    }

    fn check_addresses(&self) -> Result<()> {
        let fields = [
            ("IPAddress", &self.ip_address),
            ("IPv6Address", &self.ipv6_address),
            ("GatewayAddress", &self.gateway_address),
            ("GatewayAddressV6", &self.gateway_address_v6),
        ];
        fields.iter().try_for_each(|(name, text)| address::check(text, &Path::Root.key(name)))
    }

    fn v2_namespace(&self) -> Result<Guid> {
        let root = Path::Root;
        let namespace = root.key("Namespace");
        self.namespace.as_ref().map_or(Ok(Guid::nil()), |given| id::parse(&given.id, &namespace.key("ID")))
    }

    fn v2_policies(&self) -> Result<Vec<Policy>> {
        let mut policies = Vec::new();
        if self.encap_overhead != 0 {
            let settings = EncapOverheadSettings { overhead: self.encap_overhead, ..Default::default() };
            policies.push(Policy::new(&EndpointPolicyType::EncapOverhead, &settings));
        }
        if !self.interface_constraint.is_absent() {
            policies.push(Policy::new(&EndpointPolicyType::InterfaceConstraint, &self.interface_constraint));
        }
        policies.extend(policy::to_v2(self.policies.clone(), &Path::Root.key("Policies"))?);
        Ok(policies)
    }

    fn v2_ip_configurations(&self) -> Vec<IpConfiguration> {
        if !self.ip_configurations.is_empty() {
            return self.ip_configurations.clone();
        }
        let fields = [(&self.ip_address, self.prefix_length), (&self.ipv6_address, self.ipv6_prefix_length)];
        let given = fields.into_iter().filter(|(address, _)| !address.is_empty());
        given
            .map(|(ip_address, prefix_length)| IpConfiguration { ip_address: ip_address.clone(), prefix_length, ..Default::default() })
            .collect()
    }

    fn v2_routes(&self) -> Vec<Route> {
        match self.routes.is_empty() {
            true => address::routes_via(&[&self.gateway_address, &self.gateway_address_v6]),
            false => self.routes.clone(),
        }
    }

    fn v2_dns(&self) -> Dns {
        let mut dns = self.dns.clone();
        dns::raise(&self.dns_suffix, &mut dns.search);
        dns::raise(&self.dns_server_list, &mut dns.server_list);
        if dns.domain.is_empty() {
            dns.domain = self.dns_domain.clone();
        }
        dns
    }

    fn v2_flags(&self) -> EndpointFlags {
        let fields = [
            (self.is_remote_endpoint, EndpointFlags::REMOTE),
            (self.disable_icc, EndpointFlags::DISABLE_ICC),
            (self.enable_low_metric, EndpointFlags::ENABLE_LOW_METRIC),
        ];
        fields.into_iter().filter(|(on, _)| *on).fold(self.flags, |flags, (_, flag)| flags.with(flag))
    }

    fn v2_extra(&self) -> Extra {
        let mut extra = homeless::unknown_to(self.extra.clone(), endpoint::Endpoint::FIELDS);
        homeless::keep(&mut extra, "EnableInternalDNS", &self.enable_internal_dns);
        homeless::keep(&mut extra, "PortFriendlyName", &self.port_friendly_name);
        extra
    }

    /// The v1 view of an endpoint.
    pub fn from_v2(endpoint: &endpoint::Endpoint, facts: &EndpointFacts) -> Self {
        let mut v1 = Self {
            id: id::print(endpoint.id),
            owner: endpoint.owner.clone(),
            name: endpoint.name.clone(),
            version: endpoint.version,
            state: endpoint.state.clone(),
            virtual_network: id::print(endpoint.network),
            mac_address: endpoint.mac_address.clone(),
            flags: endpoint.flags,
            is_remote_endpoint: endpoint.flags.has(EndpointFlags::REMOTE),
            disable_icc: endpoint.flags.has(EndpointFlags::DISABLE_ICC),
            enable_low_metric: endpoint.flags.has(EndpointFlags::ENABLE_LOW_METRIC),
            additional_params: endpoint.additional_params.clone(),
            telemetry: endpoint.telemetry.clone(),
            virtual_network_name: facts.network_name.clone(),
            network_type: Value::from(facts.network_type.as_str()),
            shared_containers: facts.containers.clone(),
            namespace: facts.namespace.as_ref().map(EndpointNamespace::from_facts),
            health: facts.health.clone(),
            ..Self::default()
        };
        if endpoint.schema_version.major < 2 {
            v1.schema_version = endpoint.schema_version.clone();
        }
        v1.show_addresses(endpoint);
        v1.show_routes(endpoint);
        v1.show_dns(endpoint);
        v1.show_policies(endpoint);
        v1.show_extra(endpoint.extra.clone());
        v1
    }

    fn show_addresses(&mut self, endpoint: &endpoint::Endpoint) {
        let first = |is_v4: bool| {
            let family = move |found: &&IpConfiguration| found.ip_address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4() == is_v4);
            let found = endpoint.ip_configurations.iter().find(family);
            found.map_or_else(Default::default, |found| (found.ip_address.clone(), found.prefix_length))
        };
        (self.ip_address, self.prefix_length) = first(true);
        (self.ipv6_address, self.ipv6_prefix_length) = first(false);
        if self.v2_ip_configurations() != endpoint.ip_configurations {
            self.ip_configurations = endpoint.ip_configurations.clone();
        }
    }

    fn show_routes(&mut self, endpoint: &endpoint::Endpoint) {
        let via = |family: fn(&IpAddr) -> bool| {
            let mut hops = endpoint.routes.iter().filter(|route| route.is_default()).map(|route| &route.next_hop);
            hops.find(|hop| hop.parse().is_ok_and(|hop| family(&hop))).cloned().unwrap_or_default()
        };
        self.gateway_address = via(IpAddr::is_ipv4);
        self.gateway_address_v6 = via(IpAddr::is_ipv6);
        if self.v2_routes() != endpoint.routes {
            self.routes = endpoint.routes.clone();
        }
    }

    fn show_dns(&mut self, endpoint: &endpoint::Endpoint) {
        self.dns = endpoint.dns.clone();
        self.dns_suffix = dns::lower(&mut self.dns.search);
        self.dns_server_list = dns::lower(&mut self.dns.server_list);
        self.dns_domain = std::mem::take(&mut self.dns.domain);
    }

    fn show_policies(&mut self, endpoint: &endpoint::Endpoint) {
        use EndpointPolicyType as Kind;
        let rest = &mut endpoint.policies.clone();
        let overhead = |found: EncapOverheadSettings| (found.overhead != 0 && found.extra.is_empty()).then_some(found.overhead);
        self.encap_overhead = policy::take(rest, &Kind::EncapOverhead, overhead).unwrap_or_default();
        let constraint = |found: InterfaceConstraintSettings| (!found.is_absent()).then_some(found);
        self.interface_constraint = policy::take(rest, &Kind::InterfaceConstraint, constraint).unwrap_or_default();
        self.policies = policy::from_v2(rest, Holder::Endpoint);
    }

    fn show_extra(&mut self, mut extra: Extra) {
        self.enable_internal_dns = homeless::bring_back(&mut extra, "EnableInternalDNS");
        self.port_friendly_name = homeless::bring_back(&mut extra, "PortFriendlyName");
        self.extra = homeless::unknown_to(extra, Self::FIELDS);
    }
}

impl EndpointNamespace {
    fn from_facts(facts: &NamespaceFacts) -> Self {
        Self {
            id: id::print(facts.id),
            is_default: facts.is_default,
            compartment_id: facts.compartment_id,
            compartment_guid: id::print(facts.compartment_guid),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
