//! Networks as v1 shows them: subnets with gateways, and fields for what v2 keeps in policies.

use serde_json::{Value, json};

use crate::base::{Dns, Health, Route, SchemaVersion};
use crate::document::{Any, Extra, Field, Path};
use crate::error::Result;
use crate::network::{self, IpSubnetFlags, Ipam, NetworkFlags, NetworkType, SubnetFlags};
use crate::policy::Policy;
use crate::policy::network::{
    AutomaticDnsSettings, DrMacAddressSettings, InterfaceConstraintSettings, NetAdapterNameSettings, NetworkPolicyType,
    ProviderAddressSettings, SourceMacAddressSettings, VSwitchExtensionSettings,
};
use crate::v1::policy::{FlatPolicy, Holder};
use crate::v1::{address, dns, homeless, id, policy};

/// `ObjectType` of a subnet.
const SUBNET_OBJECT: u32 = 5;
/// `ObjectType` of an IP subnet.
const IP_SUBNET_OBJECT: u32 = 6;

document! {
    /// A block of Ethernet addresses, both ends included.
    pub struct MacPool {
        "StartMacAddress" start: String,
        "EndMacAddress" end: String,
    }
}

document! {
    /// A part of a subnet from which endpoints take addresses.
    pub struct IpSubnet {
        "ID" id: String,
        "Owner" owner: String,
        "Name" name: String,
        "IpAddressPrefix" ip_address_prefix: String,
        "Flags" flags: IpSubnetFlags,
        "ObjectType" object_type: u32,
        "State" state: u16,
        "Health" health: Value,
    }
}

document! {
    /// A subnet of a network. `Routes` is v2's, for routes that `GatewayAddress` cannot say.
    pub struct Subnet {
        "ID" id: String,
        "Owner" owner: String,
        "Name" name: String,
        "AddressPrefix" address_prefix: String,
        "GatewayAddress" gateway_address: String,
        "Policies" policies: Vec<FlatPolicy>,
        "IpSubnets" ip_subnets: Vec<IpSubnet>,
        "Flags" flags: SubnetFlags,
        "ObjectType" object_type: u32,
        "State" state: u16,
        "Health" health: Value,
        "Routes" routes: Vec<Route>,
    }
}

document! {
    /// A switch extension and whether it is on.
    pub struct Extension {
        "Id" id: String,
        "IsEnabled" is_enabled: bool => always,
        "Name" name: String,
    }
}

document! {
    /// A network, as HNSNetwork.
    ///
    /// `MacPool`, `Dns`, `Ipams` and `Telemetry` are v2's, for what the fields above them cannot say.
    pub struct HnsNetwork {
        "ActivityId" activity_id: String,
        "AdditionalParams" additional_params: Any,
        "AutomaticDNS" automatic_dns: bool,
        "CurrentEndpointCount" current_endpoint_count: u64 => always,
        "DNSServerCompartment" dns_server_compartment: u32,
        "DNSServerList" dns_server_list: String,
        "DNSSuffix" dns_suffix: String,
        "DrMacAddress" dr_mac_address: String,
        "Extensions" extensions: Vec<Extension>,
        "Flags" flags: NetworkFlags => always,
        "GatewayMac" gateway_mac: String,
        "Health" health: Value,
        "ID" id: String,
        "IPv6" ipv6: bool,
        "InterfaceConstraint" interface_constraint: InterfaceConstraintSettings,
        "IsolateSwitch" isolate_switch: bool,
        "LayeredOn" layered_on: String,
        "MacPools" mac_pools: Vec<MacPool>,
        "ManagementIP" management_ip: String,
        "MaxConcurrentEndpoints" max_concurrent_endpoints: u64,
        "Name" name: String,
        "NatName" nat_name: String,
        "NetworkAdapterName" network_adapter_name: String,
        "Owner" owner: String,
        "Policies" policies: Vec<FlatPolicy>,
        "Resources" resources: Any,
        "SchemaVersion" schema_version: SchemaVersion,
        "SourceMac" source_mac: String,
        "State" state: u16,
        "Subnets" subnets: Vec<Subnet>,
        "TotalEndpoints" total_endpoints: u64 => always,
        "Type" network_type: Value,
        "Version" version: u64,
        "MacPool" mac_pool: network::MacPool,
        "Dns" dns: Dns,
        "Ipams" ipams: Vec<Ipam>,
        "Telemetry" telemetry: Any,
    }
}

/// What the service knows about a network beside its v2 document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkFacts {
    /// The caller's spelling of `Type`, which v1 echoes; empty for the canonical one.
    pub type_spelling: String,
    /// How many endpoints there are.
    pub current_endpoints: u64,
    /// How many endpoints there have ever been.
    pub total_endpoints: u64,
    /// How many endpoints there can be.
    pub max_endpoints: u64,
    /// `{LastErrorCode, LastUpdateTime}`.
    pub health: Value,
}

/// A switch extension that Windows brings along, with its older id where it had one.
struct KnownExtension {
    id: &'static str,
    older_id: &'static str,
    name: &'static str,
    is_on: fn(&NetworkType) -> bool,
}

const EXTENSIONS: [KnownExtension; 3] = [
    KnownExtension {
        id: "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A",
        older_id: "",
        name: "Microsoft Windows Filtering Platform",
        is_on: |_| false,
    },
    KnownExtension {
        id: "F74F241B-440F-4433-BB28-00F89EAD20D8",
        older_id: "E9B59CFA-2BE1-4B21-828F-B6FBDBDDC017",
        name: "Microsoft Azure VFP Switch Extension",
        is_on: |mode| matches!(mode, NetworkType::L2Bridge | NetworkType::L2Tunnel | NetworkType::Overlay),
    },
    KnownExtension {
        id: "430BDADD-BAB0-41AB-A369-94B67FA5BE0A",
        older_id: "EA24CD6C-D17A-4348-9190-09F0D5BE83DD",
        name: "Microsoft NDIS Capture",
        is_on: |_| true,
    },
];

impl KnownExtension {
    fn has_id(&self, id: &str) -> bool {
        self.id.eq_ignore_ascii_case(id) || self.older_id.eq_ignore_ascii_case(id)
    }

    fn show(&self, mode: &NetworkType, policies: &[Policy]) -> Extension {
        let mut asked = policies
            .iter()
            .rev()
            .filter(|policy| policy.is(&NetworkPolicyType::VSwitchExtension))
            .filter_map(|policy| policy.settings::<VSwitchExtensionSettings>().ok())
            .filter(|settings| self.has_id(&settings.extension_id.to_string()))
            .map(|settings| settings.enable);
        let is_enabled = asked.next().unwrap_or_else(|| (self.is_on)(mode));
        Extension { id: self.id.to_owned(), is_enabled, name: self.name.to_owned(), ..Extension::default() }
    }
}

impl HnsNetwork {
    /// The caller's spelling of `Type`; none if it was absent or a number.
    pub fn type_spelling(&self) -> Option<&str> {
        self.network_type.as_str()
    }

    /// The v2 document of a network to make.
    pub fn to_v2(self) -> Result<network::Network> {
        let root = Path::Root;
        let network_type = self.mode()?;
        let isolate = if self.isolate_switch { NetworkFlags::ISOLATE_VSWITCH } else { NetworkFlags::default() };
        Ok(network::Network {
            id: id::parse(&self.id, &root.key("ID"))?,
            policies: self.v2_policies(&network_type)?,
            health: self.v2_health()?,
            extra: self.v2_extra(),
            network_type,
            ipams: match self.ipams.is_empty() {
                true => v2_ipams(self.subnets)?,
                false => self.ipams,
            },
            mac_pool: v2_mac_pool(self.mac_pools, self.mac_pool),
            dns: v2_dns(self.dns, &self.dns_suffix, &self.dns_server_list),
            flags: self.flags.with(isolate),
            owner: self.owner,
            name: self.name,
            additional_params: self.additional_params,
            telemetry: self.telemetry,
            schema_version: self.schema_version,
            ..network::Network::default()
        })
    }

    fn mode(&self) -> Result<NetworkType> {
        match &self.network_type {
            Value::Null => Ok(NetworkType::default()),
            given => NetworkType::read(given.clone(), &Path::Root.key("Type")),
        }
    }

    fn v2_health(&self) -> Result<Health> {
        let mut health = Health::default();
        health.extra_params.layered_on = id::parse(&self.layered_on, &Path::Root.key("LayeredOn"))?;
        Ok(health)
    }

    fn v2_extra(&self) -> Extra {
        let mut extra = homeless::unknown_to(self.extra.clone(), network::Network::FIELDS);
        homeless::keep(&mut extra, "DNSServerCompartment", &self.dns_server_compartment);
        homeless::keep(&mut extra, "GatewayMac", &self.gateway_mac);
        homeless::keep(&mut extra, "IPv6", &self.ipv6);
        homeless::keep(&mut extra, "MaxConcurrentEndpoints", &self.max_concurrent_endpoints);
        extra
    }

    fn v2_policies(&self, mode: &NetworkType) -> Result<Vec<Policy>> {
        let mut policies = self.policies_of_fields()?;
        policies.extend(policy::to_v2(self.policies.clone(), &Path::Root.key("Policies"))?);
        if *mode == NetworkType::Nat {
            policies.retain(|policy| !is_nat_quirk(policy));
        }
        let extensions = self.policies_of_extensions(mode, &policies)?;
        policies.extend(extensions);
        Ok(policies)
    }

    /// The policies that v1 has fields for.
    fn policies_of_fields(&self) -> Result<Vec<Policy>> {
        address::check(&self.management_ip, &Path::Root.key("ManagementIP"))?;
        let fields = [
            (NetworkPolicyType::NetAdapterName, "NetworkAdapterName", self.network_adapter_name.write()),
            (NetworkPolicyType::SourceMacAddress, "SourceMacAddress", self.source_mac.write()),
            (NetworkPolicyType::ProviderAddress, "ProviderAddress", self.management_ip.write()),
            (NetworkPolicyType::DrMacAddress, "Address", self.dr_mac_address.write()),
            (NetworkPolicyType::AutomaticDns, "Enable", self.automatic_dns.write()),
        ];
        let given = fields.into_iter().filter(|(_, _, value)| *value != json!("") && *value != json!(false));
        let mut policies: Vec<Policy> = given.map(|(kind, name, value)| Policy::new(&kind, &json!({name: value}))).collect();
        if !self.interface_constraint.is_absent() {
            policies.push(Policy::new(&NetworkPolicyType::InterfaceConstraint, &self.interface_constraint));
        }
        Ok(policies)
    }

    /// A policy for each extension that is asked to be other than it would be anyway.
    fn policies_of_extensions(&self, mode: &NetworkType, policies: &[Policy]) -> Result<Vec<Policy>> {
        let shown: Vec<Extension> = EXTENSIONS.iter().map(|known| known.show(mode, policies)).collect();
        let is_news = |asked: &Extension| {
            let index = EXTENSIONS.iter().position(|known| known.has_id(&asked.id));
            index.is_none_or(|index| shown[index].is_enabled != asked.is_enabled)
        };
        let list = Path::Root.key("Extensions");
        let mut news = Vec::new();
        for (index, asked) in self.extensions.iter().enumerate().filter(|(_, asked)| is_news(asked)) {
            let extension_id = id::parse(&asked.id, &list.index(index).key("Id"))?;
            let settings = VSwitchExtensionSettings { extension_id, enable: asked.is_enabled, ..Default::default() };
            news.push(Policy::new(&NetworkPolicyType::VSwitchExtension, &settings));
        }
        Ok(news)
    }

    /// The v1 view of a network.
    pub fn from_v2(network: &network::Network, facts: &NetworkFacts) -> Self {
        let mut v1 = Self {
            id: id::print(network.id),
            owner: network.owner.clone(),
            name: network.name.clone(),
            version: network.version,
            state: network.state,
            flags: network.flags,
            isolate_switch: network.flags.has(NetworkFlags::ISOLATE_VSWITCH),
            layered_on: id::print(network.health.extra_params.layered_on),
            additional_params: network.additional_params.clone(),
            telemetry: network.telemetry.clone(),
            extensions: EXTENSIONS.iter().map(|known| known.show(&network.network_type, &network.policies)).collect(),
            ..Self::default()
        };
        v1.show_schema_version(&network.schema_version);
        v1.show_pools(network);
        v1.show_policies(network);
        v1.show_extra(network.extra.clone());
        v1.show_facts(network, facts);
        v1
    }

    /// v1 documents of v2 objects do not say so: they would be taken for v2 documents.
    fn show_schema_version(&mut self, version: &SchemaVersion) {
        if version.major < 2 {
            self.schema_version = version.clone();
        }
    }

    fn show_pools(&mut self, network: &network::Network) {
        let pool = |range: &network::MacRange| MacPool { start: range.start.clone(), end: range.end.clone(), extra: range.extra.clone() };
        self.mac_pools = network.mac_pool.ranges.iter().map(pool).collect();
        self.mac_pool.extra = network.mac_pool.extra.clone();
        self.dns = network.dns.clone();
        self.dns_suffix = dns::lower(&mut self.dns.search);
        self.dns_server_list = dns::lower(&mut self.dns.server_list);
        self.subnets = network.subnets().map(Subnet::from_v2).collect();
        if v2_ipams(self.subnets.clone()).as_ref() != Ok(&network.ipams) {
            self.ipams = network.ipams.clone();
        }
    }

    fn show_policies(&mut self, network: &network::Network) {
        use NetworkPolicyType as Kind;
        let rest = &mut network.policies.clone();
        self.network_adapter_name = take_text(rest, &Kind::NetAdapterName, |found: NetAdapterNameSettings| (found.name, found.extra));
        self.source_mac =
            take_text(rest, &Kind::SourceMacAddress, |found: SourceMacAddressSettings| (found.source_mac_address, found.extra));
        self.management_ip =
            take_text(rest, &Kind::ProviderAddress, |found: ProviderAddressSettings| (found.provider_address, found.extra));
        self.dr_mac_address = take_text(rest, &Kind::DrMacAddress, |found: DrMacAddressSettings| (found.address, found.extra));
        let is_on = |found: AutomaticDnsSettings| (found.enable && found.extra.is_empty()).then_some(true);
        self.automatic_dns = policy::take(rest, &Kind::AutomaticDns, is_on).unwrap_or_default();
        let constraint = |found: InterfaceConstraintSettings| (!found.is_absent()).then_some(found);
        self.interface_constraint = policy::take(rest, &Kind::InterfaceConstraint, constraint).unwrap_or_default();
        self.policies = policy::from_v2(rest, Holder::Network);
    }

    fn show_extra(&mut self, mut extra: Extra) {
        self.dns_server_compartment = homeless::bring_back(&mut extra, "DNSServerCompartment");
        self.gateway_mac = homeless::bring_back(&mut extra, "GatewayMac");
        self.ipv6 = homeless::bring_back(&mut extra, "IPv6");
        self.max_concurrent_endpoints = homeless::bring_back(&mut extra, "MaxConcurrentEndpoints");
        self.extra = homeless::unknown_to(extra, Self::FIELDS);
    }

    fn show_facts(&mut self, network: &network::Network, facts: &NetworkFacts) {
        self.network_type = match facts.type_spelling.as_str() {
            "" => network.network_type.write(),
            spelling => spelling.into(),
        };
        self.current_endpoint_count = facts.current_endpoints;
        self.total_endpoints = facts.total_endpoints;
        self.health = facts.health.clone();
        if self.max_concurrent_endpoints == 0 {
            self.max_concurrent_endpoints = facts.max_endpoints;
        }
        if network.network_type == NetworkType::Nat {
            self.show_nat();
        }
    }

    /// Windows names the translation of a NAT network, and lists a VLAN that no v2 document has.
    fn show_nat(&mut self) {
        self.nat_name = format!("NAT{}", self.id);
        if !self.policies.iter().any(|policy| policy.is("VLAN")) {
            let extra = Extra::from_iter([("VLAN".to_owned(), 1.into())]);
            self.policies.push(FlatPolicy { policy_type: "VLAN".into(), extra });
        }
    }
}

/// Takes a policy out of a list that has one text as its setting.
fn take_text<T: Field>(policies: &mut Vec<Policy>, kind: &NetworkPolicyType, parts: fn(T) -> (String, Extra)) -> String {
    let text = |found| match parts(found) {
        (text, extra) if extra.is_empty() && !text.is_empty() => Some(text),
        _ => None,
    };
    policy::take(policies, kind, text).unwrap_or_default()
}

fn is_nat_quirk(policy: &Policy) -> bool {
    policy.policy_type == "VLAN" && policy.settings == json!({"IsolationId": 1})
}

fn v2_dns(mut dns: Dns, suffix: &str, servers: &str) -> Dns {
    dns::raise(suffix, &mut dns.search);
    dns::raise(servers, &mut dns.server_list);
    dns
}

fn v2_mac_pool(pools: Vec<MacPool>, mut pool: network::MacPool) -> network::MacPool {
    let range = |pool: MacPool| network::MacRange { start: pool.start, end: pool.end, extra: pool.extra };
    pool.ranges.extend(pools.into_iter().map(range));
    pool
}

fn v2_ipams(subnets: Vec<Subnet>) -> Result<Vec<Ipam>> {
    if subnets.is_empty() {
        return Ok(Vec::new());
    }
    let list = Path::Root.key("Subnets");
    let subnets = subnets.into_iter().enumerate().map(|(index, subnet)| subnet.to_v2(&list.index(index))).collect::<Result<_>>()?;
    Ok(vec![Ipam { subnets, ..Ipam::default() }])
}

impl Subnet {
    /// The v2 subnet. `at` is where this one stands in its document.
    pub fn to_v2(self, at: &Path<'_>) -> Result<network::Subnet> {
        address::check_prefix(&self.address_prefix, &at.key("AddressPrefix"))?;
        address::check(&self.gateway_address, &at.key("GatewayAddress"))?;
        let list = at.key("IpSubnets");
        let ip_subnets = self.ip_subnets.into_iter().enumerate().map(|(index, part)| part.to_v2(&list.index(index)));
        Ok(network::Subnet {
            id: id::parse(&self.id, &at.key("ID"))?,
            owner: self.owner,
            name: self.name,
            ip_address_prefix: self.address_prefix,
            policies: policy::to_v2(self.policies, &at.key("Policies"))?,
            routes: match self.routes.is_empty() {
                true => address::routes_via(&[&self.gateway_address]),
                false => self.routes,
            },
            ip_subnets: ip_subnets.collect::<Result<_>>()?,
            flags: self.flags,
            extra: homeless::unknown_to(self.extra, network::Subnet::FIELDS),
        })
    }

    /// The v1 view of a subnet.
    pub fn from_v2(subnet: &network::Subnet) -> Self {
        let gateway = subnet.gateway().unwrap_or_default();
        Self {
            id: id::print(subnet.id),
            owner: subnet.owner.clone(),
            name: subnet.name.clone(),
            address_prefix: subnet.ip_address_prefix.clone(),
            gateway_address: gateway.to_owned(),
            policies: policy::from_v2(&subnet.policies, Holder::Subnet),
            ip_subnets: subnet.ip_subnets.iter().map(IpSubnet::from_v2).collect(),
            flags: subnet.flags,
            object_type: SUBNET_OBJECT,
            routes: match address::routes_via(&[gateway]) == subnet.routes {
                true => Vec::new(),
                false => subnet.routes.clone(),
            },
            extra: homeless::unknown_to(subnet.extra.clone(), Self::FIELDS),
            ..Self::default()
        }
    }
}

impl IpSubnet {
    /// The v2 IP subnet. `at` is where this one stands in its document.
    pub fn to_v2(self, at: &Path<'_>) -> Result<network::IpSubnet> {
        address::check_prefix(&self.ip_address_prefix, &at.key("IpAddressPrefix"))?;
        Ok(network::IpSubnet {
            id: id::parse(&self.id, &at.key("ID"))?,
            owner: self.owner,
            name: self.name,
            ip_address_prefix: self.ip_address_prefix,
            flags: self.flags,
            extra: homeless::unknown_to(self.extra, network::IpSubnet::FIELDS),
        })
    }

    /// The v1 view of an IP subnet.
    pub fn from_v2(part: &network::IpSubnet) -> Self {
        Self {
            id: id::print(part.id),
            owner: part.owner.clone(),
            name: part.name.clone(),
            ip_address_prefix: part.ip_address_prefix.clone(),
            flags: part.flags,
            object_type: IP_SUBNET_OBJECT,
            extra: homeless::unknown_to(part.extra.clone(), Self::FIELDS),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
