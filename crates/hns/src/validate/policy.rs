//! Policies: each checked against its own settings type and brought into its canonical form.
//!
//! The canonical form (names, MAC and IP spelling) is what is stored, so that removing a policy by its value works
//! whatever spelling the caller uses.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use hcn::Field;
use hcn::error::{Error, Result, detail};
use hcn::load_balancer::ProtocolType;
use hcn::network::NetworkType;
use hcn::policy::Policy;
use hcn::policy::acl::{AclSettings, RuleType, TierAclSettings};
use hcn::policy::endpoint::*;
use hcn::policy::network::*;
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};

use crate::build::Build;
use crate::compile::filter::WITH_PORTS;
use crate::compile::{CompileError, l4_wfp_proxy};
use crate::profile::{Defect, Feature, Limit};
use crate::validate::{sets, text};

/// The conditions of a settings struct, whose fields have the same names in all of them.
macro_rules! conditions {
    ($settings:expr) => {
        Conditions {
            protocols: &mut $settings.protocols,
            addresses: [("LocalAddresses", &mut $settings.local_addresses), ("RemoteAddresses", &mut $settings.remote_addresses)],
            ports: [("LocalPorts", &mut $settings.local_ports), ("RemotePorts", &mut $settings.remote_ports)],
        }
    };
}
/// What a policy is checked against.
pub(crate) struct Place<'a> {
    pub build: &'a Build,
    pub network_type: &'a NetworkType,
    /// Ids of the address sets of the network.
    pub sets: HashSet<String>,
}

impl<'a> Place<'a> {
    /// The place of policies on a network, or on an endpoint of it.
    pub(crate) fn new(build: &'a Build, network_type: &'a NetworkType, network_policies: &[Policy]) -> Self {
        let sets = network_policies.iter().filter(|policy| policy.is(&NetworkPolicyType::SetPolicy));
        let sets = sets.filter_map(|policy| policy.settings::<SetPolicySettings>().ok()).map(|set| set.id).collect();
        Self { build, network_type, sets }
    }

    fn is_set(&self, name: &str) -> bool {
        self.sets.contains(name)
    }

    fn need(&self, feature: Feature) -> Result<()> {
        if self.build.has(feature) {
            return Ok(());
        }
        let cause = format!("{} are not supported by {}", feature.says(), self.build.profile.windows);
        Err(Error::InvalidPolicyType(detail(cause).field("Type").remedy(format!("use a newer --profile, or --with {feature}"))))
    }

    /// Refuses a field that asks for more than a build without the feature can do.
    fn without(&self, feature: Feature, field: &str, is_modest: bool) -> Result<()> {
        if is_modest || self.build.has(feature) {
            return Ok(());
        }
        let cause = format!("{} are not supported by {}", feature.says(), self.build.profile.windows);
        Err(invalid(field, cause, &format!("do without, or use --with {feature}")))
    }

    fn only_on(&self, types: &[NetworkType]) -> Result<()> {
        if types.contains(self.network_type) {
            return Ok(());
        }
        let names: Vec<String> = types.iter().map(NetworkType::to_string).collect();
        let cause = format!("this policy has no meaning on a network of type {}", self.network_type);
        Err(Error::InvalidPolicyType(detail(cause).field("Type").remedy(format!("use it on {}", names.join(", ")))))
    }
}

/// Checks one policy of a list and says which one it was if it fails.
fn each(policies: &[Policy], check: impl Fn(&Policy) -> Result<Policy>) -> Result<Vec<Policy>> {
    let located = |(index, policy): (usize, &Policy)| check(policy).map_err(|error| error.within(&format!("Policies[{index}]")));
    policies.iter().enumerate().map(located).collect()
}

/// Checks the policies of a network.
pub(crate) fn network_policies(policies: &[Policy], place: &Place<'_>) -> Result<Vec<Policy>> {
    let checked = each(policies, |policy| network_policy(policy, place))?;
    sets::one_of_each(&checked)?;
    Ok(checked)
}

/// Checks the policies of an endpoint.
pub(crate) fn endpoint_policies(policies: &[Policy], place: &Place<'_>) -> Result<Vec<Policy>> {
    let checked = each(policies, |policy| endpoint_policy(policy, place))?;
    consistent(&checked)?;
    Ok(checked)
}

/// Checks the policies of a subnet.
pub(crate) fn subnet_policies(policies: &[Policy], build: &Build) -> Result<Vec<Policy>> {
    each(policies, |policy| subnet_policy(policy, build))
}

/// Checks that the policies of an endpoint can be true together.
pub(crate) fn consistent(policies: &[Policy]) -> Result<()> {
    one_interface_parameters(policies)?;
    one_tier_at_a_time(policies)
}

/// Of two tiers with the same order nobody could tell which is asked first.
fn one_tier_at_a_time(policies: &[Policy]) -> Result<()> {
    let mut found: BTreeMap<(String, u16), String> = BTreeMap::new();
    for (index, policy) in policies.iter().enumerate().filter(|(_, policy)| policy.is(&EndpointPolicyType::TierAcl)) {
        let tier: TierAclSettings = policy.settings()?;
        let direction = tier.direction.as_ref().map(ToString::to_string).unwrap_or_default();
        if let Some(other) = found.insert((direction.clone(), tier.order), tier.name.clone()) {
            let cause = format!("the tiers {other:?} and {:?} of direction {direction} both have the order {}", tier.name, tier.order);
            let field = format!("Policies[{index}].Settings.Order");
            return Err(invalid(&field, cause, "give every tier of a direction an order of its own"));
        }
    }
    Ok(())
}

/// An endpoint can have only one set of interface parameters.
fn one_interface_parameters(policies: &[Policy]) -> Result<()> {
    let count = policies.iter().filter(|policy| policy.is(&EndpointPolicyType::InterfaceParameters)).count();
    if count < 2 {
        return Ok(());
    }
    let cause = format!("the endpoint would have {count} InterfaceParameters policies");
    Err(Error::InterfaceParametersAlreadyApplied(detail(cause).field("Policies").remedy("remove the one it has first")))
}

fn unknown_type(policy: &Policy, known: &[impl std::fmt::Display]) -> Error {
    let cause = match &policy.policy_type {
        serde_json::Value::Null => "the policy has no type".to_owned(),
        found => format!("{found} is no policy type that can stand here"),
    };
    let known: Vec<String> = known.iter().map(|known| known.to_string()).collect();
    Error::InvalidPolicyType(detail(cause).field("Type").remedy(format!("use one of {}", known.join(", "))))
}

/// Reads the settings, lets `check` look at them and correct their spelling, and makes the policy anew.
fn checked<T: Field>(policy: &Policy, policy_type: &impl Field, check: impl FnOnce(&mut T) -> Result<()>) -> Result<Policy> {
    let mut settings: T = policy.settings().map_err(as_policy_error)?;
    check(&mut settings).map_err(|error| match &error.detail().field {
        Some(field) if field == "Type" => error,
        _ => error.within("Settings"),
    })?;
    Ok(Policy { policy_type: policy_type.write(), settings: settings.write(), extra: policy.extra.clone() })
}

/// Settings of the wrong shape make the policy invalid, not the JSON.
fn as_policy_error(error: Error) -> Error {
    match error {
        Error::InvalidJson(detail) => Error::InvalidPolicy(detail),
        other => other,
    }
}

fn invalid(field: &str, cause: impl Into<String>, remedy: &str) -> Error {
    Error::InvalidPolicy(detail(cause).field(field).remedy(remedy))
}

fn network_policy(policy: &Policy, place: &Place<'_>) -> Result<Policy> {
    use NetworkPolicyType as Type;
    let kind: Type = policy.kind().map_err(|_| unknown_type(policy, Type::ALL))?;
    if policy.policy_type.is_null() {
        return Err(unknown_type(policy, Type::ALL));
    }
    let code = Error::InvalidPolicy;
    match kind {
        Type::SourceMacAddress => checked(policy, &kind, |settings: &mut SourceMacAddressSettings| {
            settings.source_mac_address = text::mac(&settings.source_mac_address, "SourceMacAddress", code)?.to_string();
            Ok(())
        }),
        Type::NetAdapterName => checked(policy, &kind, |settings: &mut NetAdapterNameSettings| {
            required(&settings.name, "NetworkAdapterName", "name the adapter, such as Ethernet")
        }),
        Type::InterfaceConstraint => checked(policy, &kind, |_: &mut InterfaceConstraintSettings| Ok(())),
        Type::VSwitchExtension => checked(policy, &kind, |settings: &mut VSwitchExtensionSettings| match settings.extension_id.is_nil() {
            true => Err(invalid("ExtensionID", "the extension's id is missing", "give the extension's GUID")),
            false => Ok(()),
        }),
        Type::ProviderAddress => checked(policy, &kind, provider_address),
        Type::DrMacAddress => checked(policy, &kind, |settings: &mut DrMacAddressSettings| {
            settings.address = text::mac(&settings.address, "Address", code)?.to_string();
            Ok(())
        }),
        Type::AutomaticDns => checked(policy, &kind, |_: &mut AutomaticDnsSettings| Ok(())),
        Type::RemoteSubnetRoute => {
            place.need(Feature::RemoteSubnet)?;
            place.only_on(&[NetworkType::Overlay])?;
            checked(policy, &kind, |settings| remote_subnet_route(settings, place.build))
        }
        Type::VxlanPort => {
            place.need(Feature::VxlanPort)?;
            place.only_on(&[NetworkType::Overlay])?;
            checked(policy, &kind, |settings: &mut VxlanPortSettings| match settings.port {
                0 => Err(invalid("Port", "the port is missing or zero", "write a UDP port such as 4789")),
                _ => Ok(()),
            })
        }
        Type::HostRoute => {
            place.need(Feature::HostRoute)?;
            checked(policy, &kind, |_: &mut NoSettings| Ok(()))
        }
        Type::SetPolicy => {
            place.need(Feature::SetPolicy)?;
            checked(policy, &kind, |settings| set_policy(settings, place))
        }
        Type::L4Proxy => {
            place.need(Feature::L4Proxy)?;
            checked(policy, &kind, l4_proxy)
        }
        Type::LayerConstraint => checked(policy, &kind, |settings: &mut LayerConstraintSettings| match settings.layer_id.is_nil() {
            true => Err(invalid("LayerId", "the layer's id is missing", "give Health.Extra.LayeredOn of the network below")),
            false => Ok(()),
        }),
        Type::NetworkAcl => {
            place.need(Feature::NetworkAcl)?;
            checked(policy, &kind, |settings| acl(settings, place))
        }
        Type::NeighborDiscovery => checked(policy, &kind, |settings: &mut NeighborDiscoverySettings| {
            text::prefix(&settings.target_ip_prefix, "TargetIpPrefix", code)?;
            text::optional_ip(&mut settings.sender_ip_address, "SenderIpAddress", code)?;
            settings.sender_mac_address = text::mac(&settings.sender_mac_address, "SenderMacAddress", code)?.to_string();
            Ok(())
        }),
        Type::Other(_) | Type::OtherNumber(_) => Err(unknown_type(policy, Type::ALL)),
    }
}

fn endpoint_policy(policy: &Policy, place: &Place<'_>) -> Result<Policy> {
    use EndpointPolicyType as Type;
    let kind: Type = policy.kind().map_err(|_| unknown_type(policy, Type::ALL))?;
    if policy.policy_type.is_null() {
        return Err(unknown_type(policy, Type::ALL));
    }
    match kind {
        Type::PortMapping => checked(policy, &kind, |settings| port_mapping(settings, place)),
        Type::Acl => checked(policy, &kind, |settings| acl(settings, place)),
        Type::Qos => checked(policy, &kind, qos),
        Type::L2Driver => checked(policy, &kind, |_: &mut NoSettings| Ok(())),
        Type::OutBoundNat => checked(policy, &kind, |settings| outbound_nat(settings, place)),
        Type::SdnRoute => {
            place.only_on(&[NetworkType::L2Bridge, NetworkType::L2Tunnel, NetworkType::Overlay])?;
            checked(policy, &kind, sdn_route)
        }
        Type::L4Proxy => {
            place.need(Feature::L4Proxy)?;
            checked(policy, &kind, l4_proxy)
        }
        Type::L4WfpProxy => {
            place.need(Feature::L4WfpProxy)?;
            checked(policy, &kind, |settings| l4_wfp_proxy(settings, place))
        }
        Type::ProviderAddress => checked(policy, &kind, provider_address),
        Type::PortName => checked(policy, &kind, |_: &mut PortNameSettings| Ok(())),
        Type::EncapOverhead => checked(policy, &kind, |_: &mut EncapOverheadSettings| Ok(())),
        Type::InterfaceConstraint => checked(policy, &kind, |_: &mut InterfaceConstraintSettings| Ok(())),
        Type::Encryption => checked(policy, &kind, |_: &mut EncryptionSettings| Ok(())),
        Type::Vlan => checked(policy, &kind, vlan),
        Type::InterfaceParameters => checked(policy, &kind, |_: &mut InterfaceParametersSettings| Ok(())),
        Type::Iov => checked(policy, &kind, |_: &mut IovSettings| Ok(())),
        Type::TierAcl => {
            place.need(Feature::TierAcl)?;
            checked(policy, &kind, |settings| tier_acl(settings, place))
        }
        Type::Firewall => checked(policy, &kind, |_: &mut FirewallSettings| Ok(())),
        Type::Other(_) | Type::OtherNumber(_) => Err(unknown_type(policy, Type::ALL)),
    }
}

fn subnet_policy(policy: &Policy, build: &Build) -> Result<Policy> {
    use SubnetPolicyType as Type;
    let kind: Type = policy.kind().map_err(|_| unknown_type(policy, Type::ALL))?;
    if policy.policy_type.is_null() {
        return Err(unknown_type(policy, Type::ALL));
    }
    match kind {
        Type::Vlan => checked(policy, &kind, vlan),
        Type::Vsid => checked(policy, &kind, |settings: &mut IsolationSettings| vsid(settings.isolation_id, build)),
        Type::Other(_) | Type::OtherNumber(_) => Err(unknown_type(policy, Type::ALL)),
    }
}

fn required(value: &str, field: &str, remedy: &str) -> Result<()> {
    if value.is_empty() { Err(invalid(field, "the field is missing or empty", remedy)) } else { Ok(()) }
}

fn provider_address(settings: &mut ProviderAddressSettings) -> Result<()> {
    settings.provider_address = text::ip(&settings.provider_address, "ProviderAddress", Error::InvalidPolicy)?.to_string();
    Ok(())
}

fn qos(settings: &mut QosSettings) -> Result<()> {
    match settings.maximum_outgoing_bandwidth_in_bytes {
        0 => Err(invalid("MaximumOutgoingBandwidthInBytes", "nothing could be sent at a rate of 0", "leave the policy out for no bound")),
        _ => Ok(()),
    }
}

fn vlan(settings: &mut IsolationSettings) -> Result<()> {
    match settings.isolation_id {
        1..=4094 => Ok(()),
        other => Err(invalid("IsolationId", format!("{other} is no VLAN"), "write a number from 1 to 4094; leave the policy out for none")),
    }
}

fn vsid(id: u32, build: &Build) -> Result<()> {
    let lowest = if build.limited(Limit::VsidFrom4096) { 4096 } else { 1 };
    if (lowest..1 << 24).contains(&id) {
        return Ok(());
    }
    let remedy = format!("write a number from {lowest} to {}", (1 << 24) - 1);
    Err(invalid("IsolationId", format!("{id} is no virtual subnet id of {}", build.profile.windows), &remedy))
}

fn remote_subnet_route(settings: &mut RemoteSubnetRouteSettings, build: &Build) -> Result<()> {
    let code = Error::InvalidPolicy;
    settings.destination_prefix = text::prefix(&settings.destination_prefix, "DestinationPrefix", code)?.trunc().to_string();
    settings.provider_address = text::ip(&settings.provider_address, "ProviderAddress", code)?.to_string();
    let mac = text::mac(&settings.distributed_router_mac_address, "DistributedRouterMacAddress", code)?;
    settings.distributed_router_mac_address = mac.to_string();
    vsid(settings.isolation_id, build)
}

fn set_policy(settings: &mut SetPolicySettings, place: &Place<'_>) -> Result<()> {
    required(&settings.id, "Id", "give the set an id; rules refer to it")?;
    if settings.id.trim() != settings.id || settings.id.contains(',') || is_address(&settings.id) {
        let cause = format!("{:?} could not be told from an address, or from several ids, where a rule names it", settings.id);
        return Err(invalid("Id", cause, "choose an id that is no address and has no comma and no blank at its ends"));
    }
    match settings.policy_type {
        SetPolicyType::IpSet => text::addresses(&mut settings.values, "Values", &|_| false),
        SetPolicyType::NestedIpSet => {
            place.need(Feature::NestedIpSet)?;
            nested_set(settings, place)
        }
        _ => Err(invalid("PolicyType", format!("{} is no kind of set", settings.policy_type), "write IPSET or NESTEDIPSET")),
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<ipnet::IpNet>().is_ok()
}

fn nested_set(settings: &mut SetPolicySettings, place: &Place<'_>) -> Result<()> {
    let unknown = text::list(&settings.values).find(|id| !place.is_set(id));
    if let Some(unknown) = unknown {
        let cause = format!("{unknown:?} is the id of no set of this network");
        return Err(invalid(
            "Values",
            cause,
            "list ids of sets, separated by commas; add the sets that are named first, or in one request",
        ));
    }
    settings.values = text::list(&settings.values).collect::<Vec<_>>().join(",");
    Ok(())
}

fn acl(settings: &mut AclSettings, place: &Place<'_>) -> Result<()> {
    known(settings.action.as_ref().filter(|action| action.is_known()), "Action", "write Allow or Block")?;
    known(settings.direction.as_ref().filter(|direction| direction.is_known()), "Direction", "write In or Out")?;
    if let Some(rule_type) = &settings.rule_type {
        known(Some(rule_type).filter(|rule_type| rule_type.is_known()), "RuleType", "write Host or Switch")?;
    }
    let is_host_rule = settings.rule_type == Some(RuleType::Host);
    place.without(Feature::AclRuleId, "Id", settings.id.is_empty())?;
    place.without(Feature::AclNoHostRulePriority, "Priority", !is_host_rule || settings.priority != 0)?;
    conditions!(settings).check(place)
}

fn known<T>(value: Option<T>, field: &str, remedy: &str) -> Result<()> {
    value.map(drop).ok_or_else(|| invalid(field, "the field is missing or has an unknown value", remedy))
}

fn tier_acl(settings: &mut TierAclSettings, place: &Place<'_>) -> Result<()> {
    known(settings.direction.as_ref().filter(|direction| direction.is_known()), "Direction", "write In or Out")?;
    for (index, rule) in settings.rules.iter_mut().enumerate() {
        let is_known = rule.action.as_ref().filter(|action| action.is_known());
        let checked = known(is_known, "TierAclRuleAction", "write Allow, Block or Pass").and_then(|()| conditions!(rule).check(place));
        checked.map_err(|error| error.within(&format!("TierAclRules[{index}]")))?;
    }
    Ok(())
}

/// The fields by which rules choose packets.
struct Conditions<'a> {
    protocols: &'a mut String,
    addresses: [(&'static str, &'a mut String); 2],
    ports: [(&'static str, &'a mut String); 2],
}

impl Conditions<'_> {
    fn check(self, place: &Place<'_>) -> Result<()> {
        let protocols = text::protocols(self.protocols, "Protocols")?;
        place.without(Feature::AclProtocol252, "Protocols", !protocols.contains(&252))?;
        one_family(&self.addresses)?;
        for (field, list) in &self.ports {
            has_ports(field, list, &protocols)?;
        }
        for (field, list) in self.addresses {
            place.without(Feature::AclAddressLists, field, !list.contains(','))?;
            text::addresses(list, field, &|name: &str| place.is_set(name))?;
        }
        for (field, list) in self.ports {
            place.without(Feature::AclPortRanges, field, !list.contains([',', '-']))?;
            text::ports(list, field)?;
        }
        Ok(())
    }
}

/// Addresses of both ends of a packet are of one family. What sets hold may change, and is not looked at.
fn one_family(addresses: &[(&'static str, &mut String); 2]) -> Result<()> {
    let families = |list: &str| -> Option<(bool, bool)> {
        let prefixes: Option<Vec<_>> = text::list(list).map(|element| text::prefix(element, "", Error::InvalidPolicy).ok()).collect();
        let prefixes = prefixes.filter(|prefixes| !prefixes.is_empty())?;
        Some((prefixes.iter().any(|prefix| prefix.addr().is_ipv4()), prefixes.iter().any(|prefix| prefix.addr().is_ipv6())))
    };
    let [(_, local), (field, remote)] = addresses;
    match (families(local), families(remote)) {
        (Some((v4, v6)), Some((other_v4, other_v6))) if !(v4 && other_v4 || v6 && other_v6) => {
            let cause = format!("{remote} and {local} of LocalAddresses are of different families, so that no packet can match");
            Err(invalid(field, cause, "use addresses of one family in both fields, or leave one of them out"))
        }
        _ => Ok(()),
    }
}

fn has_ports(field: &str, list: &str, protocols: &[u8]) -> Result<()> {
    if list.is_empty() || protocols.is_empty() || protocols.iter().any(|number| WITH_PORTS.contains(number)) {
        return Ok(());
    }
    let cause = format!("ports are given, and of the Protocols {protocols:?} none has ports");
    Err(invalid(field, cause, "leave the ports out, or name TCP (6), UDP (17) or SCTP (132) in Protocols"))
}

fn port_mapping(settings: &mut PortMappingSettings, place: &Place<'_>) -> Result<()> {
    if matches!(place.network_type, NetworkType::Transparent | NetworkType::Private | NetworkType::Internal) {
        let cause = format!("a network of type {} has no ports of the host", place.network_type);
        return Err(Error::MappingNotSupported(detail(cause).remedy("use a NAT, L2Bridge or Overlay network")));
    }
    if settings.internal_port == 0 {
        let cause = "the port inside the container is missing or zero";
        return Err(Error::InvalidInternalPort(detail(cause).field("InternalPort").remedy("write a port from 1 to 65535")));
    }
    if !matches!(settings.protocol, ProtocolType::Tcp | ProtocolType::Udp | ProtocolType::Sctp) {
        return Err(invalid("Protocol", format!("{} has no ports", settings.protocol), "write 6 for TCP, 17 for UDP or 132 for SCTP"));
    }
    text::optional_ip(&mut settings.vip, "VIP", Error::InvalidPolicy)
}

fn outbound_nat(settings: &mut OutBoundNatSettings, place: &Place<'_>) -> Result<()> {
    let code = Error::InvalidPolicy;
    text::optional_ip(&mut settings.virtual_ip, "VirtualIP", code)?;
    for (index, exception) in settings.exceptions.iter().enumerate() {
        text::prefix(exception, &format!("Exceptions[{index}]"), code)?;
    }
    for (index, destination) in settings.destinations.iter().enumerate() {
        text::prefix(destination, &format!("Destinations[{index}]"), code)?;
    }
    let refused = place.build.defective(Defect::OverlayOutBoundNatExceptions) && *place.network_type == NetworkType::Overlay;
    if refused && !settings.exceptions.is_empty() {
        let cause = format!("{} refuses exceptions on overlay networks", place.build.profile.windows);
        return Err(invalid("Exceptions", cause, "leave the exceptions out, or use --without overlay-outbound-nat-exceptions"));
    }
    Ok(())
}

/// Checks one SDN route, as a policy or as an object.
pub(crate) fn sdn_route(settings: &mut SdnRouteSettings) -> Result<()> {
    text::prefix(&settings.destination_prefix, "DestinationPrefix", Error::InvalidPolicy)?;
    text::optional_ip(&mut settings.next_hop, "NextHop", Error::InvalidPolicy)
}

fn l4_proxy(settings: &mut L4ProxySettings) -> Result<()> {
    text::optional_ip(&mut settings.ip, "IP", Error::InvalidPolicy)?;
    text::port(&settings.port, "Port")?;
    for (index, exception) in settings.exceptions.iter().enumerate() {
        text::prefix(exception, &format!("Exceptions[{index}]"), Error::InvalidPolicy)?;
    }
    match settings.destination.is_empty() {
        true => Ok(()),
        false => text::prefix(&settings.destination, "Destination", Error::InvalidPolicy).map(drop),
    }
}

fn l4_wfp_proxy(settings: &mut L4WfpProxySettings, place: &Place<'_>) -> Result<()> {
    for (port, field) in [(&settings.inbound_proxy_port, "InboundProxyPort"), (&settings.outbound_proxy_port, "OutboundProxyPort")] {
        if !port.is_empty() {
            text::port(port, field)?;
        }
    }
    if settings.inbound_proxy_port.is_empty() && settings.outbound_proxy_port.is_empty() {
        return Err(invalid("OutboundProxyPort", "neither proxy port is given", "give InboundProxyPort, OutboundProxyPort or both"));
    }
    // Sets are for access lists: a proxy's filter is in the container, and no set reaches there.
    let without_sets = Place { build: place.build, network_type: place.network_type, sets: HashSet::new() };
    conditions!(settings.filter_tuple).check(&without_sets).map_err(|error| error.within("FilterTuple"))?;
    let unreadable = |error: CompileError| invalid(&error.field, error.cause, L4_WFP_PROXY_REMEDY);
    l4_wfp_proxy::of_policy(settings).map(drop).map_err(unreadable)
}

const L4_WFP_PROXY_REMEDY: &str = "write ports such as 80 or 8080-8090, addresses such as 10.0.0.0/8, the protocols 6 or 17, and a SID such as S-1-5-21-1-2-3-1001; use several policies for many combinations";
