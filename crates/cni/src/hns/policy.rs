//! The policies of an endpoint: those of the configuration, and those that follow from other keys.
//!
//! A policy may be written in either schema: `{"Type","Settings"}`, or flat as before. Both become the newer one. Policies of
//! type OutBoundNAT that differ only in their exceptions become one with all of them, since of several each would translate
//! what the others except.

use std::net::IpAddr;

use hcn::load_balancer::ProtocolType;
use hcn::policy::Policy;
use hcn::policy::endpoint::{EndpointPolicyType, NatFlags, OutBoundNatSettings, PortMappingSettings, QosSettings};
use hcn::policy::network::ProviderAddressSettings;
use hcn::v1::policy::FlatPolicy;
use hcn::{Field, Path};
use serde_json::Value;

use crate::config::{Bandwidth, PortMapping};
use crate::error::{Error, Result};
use crate::object::{Object, quote};

/// The highest number that a protocol can be given by.
const PROTOCOL_MAX: u64 = 1023;

/// The policies of one endpoint, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Policies(Vec<Policy>);

impl Policies {
    /// The values of entries `{name, value}` that are called `wanted` in any case; others are for somebody else.
    pub(crate) fn configured(entries: &[Object<'_>], wanted: &str) -> Result<Self> {
        let mut policies = Self::default();
        for entry in entries {
            if entry.text("name")?.eq_ignore_ascii_case(wanted) {
                policies.0.push(read(entry)?);
            }
        }
        Ok(policies)
    }

    /// Translation of what leaves, except towards a prefix.
    pub(crate) fn except(&mut self, prefix: &str) {
        if !prefix.is_empty() {
            self.outbound_nat(OutBoundNatSettings { exceptions: vec![prefix.to_owned()], ..OutBoundNatSettings::default() });
        }
    }

    /// Translation of what the endpoint sends to itself by way of a Service, so that the answer finds it.
    pub(crate) fn loopback_dsr(&mut self, address: IpAddr) {
        let destination = address.to_string();
        let is_listed = |settings: OutBoundNatSettings| settings.destinations.contains(&destination);
        if !self.settings_of(&EndpointPolicyType::OutBoundNat).any(is_listed) {
            let flags = if address.is_ipv6() { NatFlags::IPV6 } else { NatFlags::default() };
            self.outbound_nat(OutBoundNatSettings { destinations: vec![destination], flags, ..OutBoundNatSettings::default() });
        }
    }

    fn outbound_nat(&mut self, settings: OutBoundNatSettings) {
        self.0.push(Policy::new(&EndpointPolicyType::OutBoundNat, &settings));
    }

    /// The address of the node in the tunnel.
    pub(crate) fn provider_address(&mut self, address: &str) {
        let is_there = |settings: ProviderAddressSettings| settings.provider_address == address;
        if !address.is_empty() && !self.settings_of(&EndpointPolicyType::ProviderAddress).any(is_there) {
            let settings = ProviderAddressSettings { provider_address: address.to_owned(), ..ProviderAddressSettings::default() };
            self.0.push(Policy::new(&EndpointPolicyType::ProviderAddress, &settings));
        }
    }

    /// Ports of the node that lead to the endpoint.
    pub(crate) fn port_mappings(&mut self, mappings: &[PortMapping]) -> Result<()> {
        for (index, mapping) in mappings.iter().enumerate() {
            self.port_mapping(index, mapping, NatFlags::default(), &mapping.host_ip)?;
        }
        Ok(())
    }

    /// One port of the node that leads to the endpoint. Gives the number of the protocol.
    pub(crate) fn port_mapping(&mut self, index: usize, mapping: &PortMapping, flags: NatFlags, vip: &str) -> Result<u64> {
        let protocol = protocol(&mapping.protocol).ok_or_else(|| unknown_protocol(index, &mapping.protocol))?;
        let settings = PortMappingSettings {
            protocol: ProtocolType::from_number(protocol),
            internal_port: mapping.container_port,
            external_port: mapping.host_port,
            vip: vip.to_owned(),
            flags,
            ..PortMappingSettings::default()
        };
        self.0.push(Policy::new(&EndpointPolicyType::PortMapping, &settings));
        Ok(protocol)
    }

    /// How fast the endpoint may send. For what it receives HNS has no policy.
    pub(crate) fn bandwidth(&mut self, bandwidth: Option<Bandwidth>) {
        if let Some(rate) = bandwidth.map(|bandwidth| bandwidth.egress_rate).filter(|rate| *rate > 0) {
            let settings = QosSettings { maximum_outgoing_bandwidth_in_bytes: (rate / 8).max(1), ..QosSettings::default() };
            self.0.push(Policy::new(&EndpointPolicyType::Qos, &settings));
        }
    }

    /// Any other policy.
    pub(crate) fn push(&mut self, policy: Policy) {
        self.0.push(policy);
    }

    /// Puts those of another list behind these.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn settings_of<'a, T: Field>(&'a self, kind: &'a EndpointPolicyType) -> impl Iterator<Item = T> + 'a {
        self.0.iter().filter(move |policy| policy.is(kind)).filter_map(|policy| policy.settings().ok())
    }

    /// The list as it goes to HNS.
    pub(crate) fn merged(self) -> Vec<Policy> {
        let mut merged: Vec<Policy> = Vec::with_capacity(self.0.len());
        for policy in self.0 {
            if !merged.iter_mut().any(|earlier| take_exceptions(earlier, &policy)) {
                merged.push(policy);
            }
        }
        merged
    }
}

/// Adds the exceptions of a policy to an earlier one that differs in nothing else, if it does.
fn take_exceptions(earlier: &mut Policy, policy: &Policy) -> bool {
    let (Some((mut settings, exceptions)), Some((other, more))) = (exceptions_of(earlier), exceptions_of(policy)) else { return false };
    if settings != other || earlier.extra != policy.extra {
        return false;
    }
    settings.exceptions = exceptions;
    for exception in more {
        if !settings.exceptions.contains(&exception) {
            settings.exceptions.push(exception);
        }
    }
    earlier.settings = settings.write();
    true
}

/// The settings of an OutBoundNAT policy that holds everywhere, and apart from them its exceptions.
fn exceptions_of(policy: &Policy) -> Option<(OutBoundNatSettings, Vec<String>)> {
    let mut settings: OutBoundNatSettings = Some(policy).filter(|policy| policy.is(&EndpointPolicyType::OutBoundNat))?.settings().ok()?;
    let exceptions = std::mem::take(&mut settings.exceptions);
    settings.destinations.is_empty().then_some((settings, exceptions))
}

/// Those of `AdditionalArgs` that are for a network that is made.
pub(crate) fn of_network(root: &Object<'_>) -> Result<Vec<Policy>> {
    let entries = root.objects("AdditionalArgs")?;
    Policies::configured(&entries, "NetworkPolicy").map(|policies| policies.0)
}

/// The policy in an entry, in either schema.
fn read(entry: &Object<'_>) -> Result<Policy> {
    let path = entry.path("value");
    let value = entry.value("value").cloned().unwrap_or(Value::Null);
    let policy = FlatPolicy::read(value, &Path::Root).and_then(|policy| policy.to_v2(&Path::Root));
    policy.map_err(|error| {
        Error::decoding_failure(format!("{path}: it cannot be read as a policy: {error}"))
            .details("write an object such as {\"Type\":\"OutBoundNAT\",\"Settings\":{\"Exceptions\":[\"10.244.0.0/16\"]}}")
    })
}

/// The number of a protocol: by its name, or as a number in any base that Go writes.
fn protocol(text: &str) -> Option<u64> {
    match text.to_ascii_lowercase().as_str() {
        "icmpv4" => Some(1),
        "igmp" => Some(2),
        "tcp" => Some(6),
        "udp" => Some(17),
        "icmpv6" => Some(58),
        text => number(text).filter(|number| *number <= PROTOCOL_MAX),
    }
}

fn number(text: &str) -> Option<u64> {
    let with_base = |digits: &str, base| u64::from_str_radix(digits, base).ok();
    match text.split_at_checked(2) {
        Some(("0x", digits)) => with_base(digits, 16),
        Some(("0b", digits)) => with_base(digits, 2),
        Some(("0o", digits)) => with_base(digits, 8),
        _ if text.len() > 1 && text.starts_with('0') => with_base(text, 8),
        _ => text.parse().ok(),
    }
}

fn unknown_protocol(index: usize, protocol: &str) -> Error {
    let path = format!("runtimeConfig.portMappings[{index}].protocol");
    Error::unsupported_field(format!("{path}: {} is no protocol that HNS can map ports of", quote(protocol)))
        .details("map a port of tcp or udp, or none")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configured(values: &[Value]) -> Policies {
        let entries: Vec<Value> = values.iter().map(|value| json!({"name": "endpointpolicy", "value": value})).collect();
        let objects: Vec<Object<'_>> = entries.iter().map(|entry| Object::read(entry, "policies[0]".to_owned()).unwrap()).collect();
        Policies::configured(&objects, "EndpointPolicy").unwrap()
    }

    fn written(policies: Policies) -> Vec<Value> {
        policies.merged().iter().map(Field::write).collect()
    }

    #[test]
    fn exceptions_of_all_sources_stand_in_one_policy() {
        let mut policies = configured(&[
            json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8"]}}),
            json!({"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}),
            json!({"Type": "OutBoundNAT", "ExceptionList": ["10.0.0.0/8", "192.168.0.0/16"]}),
        ]);
        policies.except("172.16.0.0/12");
        policies.except("");
        policies.loopback_dsr("10.0.0.5".parse().unwrap());
        policies.loopback_dsr("10.0.0.5".parse().unwrap());
        assert_eq!(
            written(policies),
            [
                json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"]}}),
                json!({"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}}),
                json!({"Type": "OutBoundNAT", "Settings": {"Destinations": ["10.0.0.5"]}}),
            ]
        );
    }

    #[test]
    fn what_differs_in_more_than_exceptions_stays_apart() {
        let policies = configured(&[
            json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8"]}}),
            json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": ["fd00::/8"], "Flags": 2}}),
            json!({"Type": "OutBoundNAT", "Settings": {"VirtualIP": "192.0.2.1"}}),
        ]);
        assert_eq!(written(policies).len(), 3);
    }

    #[test]
    fn protocols_by_name_and_number() {
        for (text, expected) in [
            ("TCP", Some(6)),
            ("udp", Some(17)),
            ("6", Some(6)),
            ("0x11", Some(17)),
            ("021", Some(17)),
            ("0b110", Some(6)),
            ("1023", Some(1023)),
            ("1024", None),
            ("sctp", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(protocol(text), expected, "{text}");
        }
        let mapping = PortMapping { host_port: 80, container_port: 8080, protocol: "sctp".to_owned(), host_ip: String::new() };
        let error = Policies::default().port_mappings(&[mapping]).unwrap_err();
        assert_eq!(error.code, 2);
        assert!(error.msg.starts_with("runtimeConfig.portMappings[0].protocol: \"sctp\""), "{error}");
    }

    #[test]
    fn only_what_is_called_so_is_read() {
        let entries = [json!({"name": "NetworkPolicy", "value": 7}), json!({"name": "EndpointPolicy", "value": 7})];
        let objects: Vec<Object<'_>> = entries.iter().map(|entry| Object::read(entry, "policies[1]".to_owned()).unwrap()).collect();
        assert!(Policies::configured(&objects[..1], "EndpointPolicy").unwrap().merged().is_empty());
        let error = Policies::configured(&objects, "EndpointPolicy").err().unwrap();
        assert!(error.code == 6 && error.msg.starts_with("policies[1].value: "), "{error}");
    }

    #[test]
    fn bits_a_second_become_bytes() {
        let mut policies = Policies::default();
        policies.bandwidth(Some(Bandwidth { egress_rate: 8_000_000, ingress_rate: 5, ..Bandwidth::default() }));
        policies.bandwidth(Some(Bandwidth { ingress_rate: 5, ..Bandwidth::default() }));
        policies.bandwidth(None);
        assert_eq!(written(policies), [json!({"Type": "QOS", "Settings": {"MaximumOutgoingBandwidthInBytes": 1_000_000}})]);
    }
}
