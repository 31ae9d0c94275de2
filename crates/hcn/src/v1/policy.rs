//! v1 policies: flat objects, with `Type` beside the settings.
//!
//! | v1 | v2 |
//! |---|---|
//! | `NAT` | `PortMapping` |
//! | `PA`, `VNET` | `ProviderAddress` |
//! | `OutBoundNAT` | `OutBoundNAT`, some fields renamed |
//! | `ROUTE` | `SDNRoute` |
//! | `PROXY` | `L4Proxy` |
//! | `ACL`, `QOS`, `VLAN`, `VSID` | the same, some fields renamed |
//! | any other | the same type; the fields beside `Type` are the settings |
//!
//! Nothing is lost either way. A v2 policy that no flat object can stand for (settings that are no object, fields
//! beside the settings, names that mean something else in v1) is shown whole: with `Settings`, as v2 writes it. A v1
//! policy with `Settings` is therefore taken as it is.

pub mod acl;
pub mod elb;
pub mod isolation;
pub mod qos;
pub mod route;
pub mod translation;

use serde_json::Value;

use crate::document::{self, Extra, Field, Path};
use crate::error::Result;
use crate::policy::Policy;
use crate::policy::endpoint::EndpointPolicyType;
use crate::policy::network::NetworkPolicyType;
use crate::policy::subnet::SubnetPolicyType;
use acl::AclPolicy;
use isolation::{VlanPolicy, VsidPolicy};
use qos::QosPolicy;
use route::{ProviderAddressPolicy, RoutePolicy};
use translation::{NatPolicy, OutBoundNatPolicy, ProxyPolicy};

document! {
    /// A policy of any type; the fields beside `Type` are in `extra`.
    pub struct FlatPolicy {
        "Type" policy_type: Value,
    }
}

/// What a policy hangs on. v2 numbers the policy types of each separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A network.
    Network,
    /// A subnet.
    Subnet,
    /// An endpoint.
    Endpoint,
}

impl Holder {
    /// The name of a v2 policy's type, where numbers have one; else the type as it came.
    fn type_of(self, policy: &Policy) -> Value {
        let name = match self {
            Holder::Network => policy.kind().map(|kind: NetworkPolicyType| kind.write()),
            Holder::Subnet => policy.kind().map(|kind: SubnetPolicyType| kind.write()),
            Holder::Endpoint => policy.kind().map(|kind: EndpointPolicyType| kind.write()),
        };
        name.unwrap_or_else(|_| policy.policy_type.clone())
    }
}

/// A v1 policy with a type of its own, and the settings it becomes in v2.
trait Flat: Field {
    /// The type in v2.
    const V2_TYPE: &'static str;
    /// The settings in v2.
    type Settings: Field + Clone + PartialEq;

    fn raise(self) -> Self::Settings;
    fn lower(settings: Self::Settings) -> Self;
}

impl FlatPolicy {
    /// The v2 policy. `at` is where this one stands in its document.
    pub fn to_v2(mut self, at: &Path<'_>) -> Result<Policy> {
        if let Some(settings) = take_settings(&mut self.extra) {
            return Ok(Policy { policy_type: self.policy_type, settings, extra: self.extra });
        }
        match upper(&self.policy_type).as_str() {
            "NAT" | "PORTMAPPING" => raise::<NatPolicy>(self, at),
            "ACL" => raise::<AclPolicy>(self, at),
            "PA" | "VNET" | "PROVIDERADDRESS" => raise::<ProviderAddressPolicy>(self, at),
            "VLAN" => raise::<VlanPolicy>(self, at),
            "VSID" => raise::<VsidPolicy>(self, at),
            "QOS" => raise::<QosPolicy>(self, at),
            "OUTBOUNDNAT" => raise::<OutBoundNatPolicy>(self, at),
            "ROUTE" | "SDNROUTE" => raise::<RoutePolicy>(self, at),
            "PROXY" | "L4PROXY" => raise::<ProxyPolicy>(self, at),
            _ => Ok(Policy { policy_type: self.policy_type, settings: Value::Object(self.extra.into()), ..Policy::default() }),
        }
    }

    /// The v1 form of a v2 policy.
    pub fn from_v2(policy: &Policy, holder: Holder) -> Self {
        let policy_type = holder.type_of(policy);
        flatten(policy, policy_type).filter(|_| policy.extra.is_empty()).unwrap_or_else(|| whole(policy))
    }

    /// Whether the policy has this type, in any case.
    pub fn is(&self, policy_type: &str) -> bool {
        self.policy_type.as_str().is_some_and(|found| found.eq_ignore_ascii_case(policy_type))
    }
}

/// All v2 policies of a list that stands at `at`.
pub(super) fn to_v2(policies: Vec<FlatPolicy>, at: &Path<'_>) -> Result<Vec<Policy>> {
    policies.into_iter().enumerate().map(|(index, policy)| policy.to_v2(&at.index(index))).collect()
}

/// The v1 forms of a list.
pub(super) fn from_v2(policies: &[Policy], holder: Holder) -> Vec<FlatPolicy> {
    policies.iter().map(|policy| FlatPolicy::from_v2(policy, holder)).collect()
}

/// Takes the first policy of a type out of a list, if `value` can hold all of its settings: v1 has a field for it.
pub(super) fn take<K: Field + PartialEq, T: Field, V>(policies: &mut Vec<Policy>, kind: &K, value: impl Fn(T) -> Option<V>) -> Option<V> {
    let index = policies.iter().position(|policy| policy.is(kind))?;
    let policy = &policies[index];
    let value = value(policy.settings().ok()?).filter(|_| policy.extra.is_empty())?;
    policies.remove(index);
    Some(value)
}

fn upper(policy_type: &Value) -> String {
    policy_type.as_str().unwrap_or_default().to_ascii_uppercase()
}

fn flatten(policy: &Policy, policy_type: Value) -> Option<FlatPolicy> {
    match upper(&policy_type).as_str() {
        "PORTMAPPING" => lower::<NatPolicy>(policy),
        "ACL" => lower::<AclPolicy>(policy),
        "PROVIDERADDRESS" => lower::<ProviderAddressPolicy>(policy),
        "VLAN" => lower::<VlanPolicy>(policy),
        "VSID" => lower::<VsidPolicy>(policy),
        "QOS" => lower::<QosPolicy>(policy),
        "OUTBOUNDNAT" => lower::<OutBoundNatPolicy>(policy),
        "SDNROUTE" => lower::<RoutePolicy>(policy),
        "L4PROXY" => lower::<ProxyPolicy>(policy),
        // In v2 these are types nobody knows; flat they would be taken for what v1 calls so.
        "NAT" | "PA" | "VNET" | "ROUTE" | "PROXY" => None,
        _ => flatten_unchanged(policy, policy_type),
    }
}

fn flatten_unchanged(policy: &Policy, policy_type: Value) -> Option<FlatPolicy> {
    let fields = match &policy.settings {
        Value::Null => Extra::new(),
        Value::Object(fields) => fields.clone().into(),
        _ => return None,
    };
    let taken = |key: &String| key.eq_ignore_ascii_case("Type") || key.eq_ignore_ascii_case("Settings");
    (!fields.keys().any(taken)).then_some(FlatPolicy { policy_type, extra: fields })
}

fn whole(policy: &Policy) -> FlatPolicy {
    let mut extra = policy.extra.clone();
    extra.insert("Settings".to_owned(), policy.settings.clone());
    FlatPolicy { policy_type: policy.policy_type.clone(), extra }
}

/// Takes `Settings` out of a flat policy; `null` counts too, because [`whole`] may have written it.
fn take_settings(fields: &mut Extra) -> Option<Value> {
    let is_there = fields.keys().any(|key| key.eq_ignore_ascii_case("Settings"));
    is_there.then(|| document::take(fields, &["Settings"]).unwrap_or_default())
}

fn raise<T: Flat>(policy: FlatPolicy, at: &Path<'_>) -> Result<Policy> {
    let settings = T::read(policy.write(), at)?.raise();
    Ok(Policy { policy_type: T::V2_TYPE.into(), settings: settings.write(), ..Policy::default() })
}

/// The flat form, if it reads back as the same settings.
fn lower<T: Flat>(policy: &Policy) -> Option<FlatPolicy> {
    let settings: T::Settings = policy.settings().ok()?;
    let flat = T::lower(settings.clone()).write();
    let back = T::read(flat.clone(), &Path::Root).ok()?.raise();
    let flat = FlatPolicy::read(flat, &Path::Root).ok()?;
    (back == settings && take_settings(&mut flat.extra.clone()).is_none()).then_some(flat)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flat(value: Value) -> FlatPolicy {
        FlatPolicy::read(value, &Path::Root).unwrap()
    }

    fn policy(value: Value) -> Policy {
        Policy::read(value, &Path::Root).unwrap()
    }

    #[test]
    fn the_mapping() {
        let table = [
            (
                json!({"Type": "NAT", "Protocol": "TCP", "InternalPort": 80, "ExternalPort": 8080, "ExternalPortReserved": true}),
                json!({"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 4}}),
            ),
            (
                json!({"Type": "NAT", "Protocol": "UDP", "ExternalPort": 53, "VIP": "10.0.0.9", "Flags": 3, "Colour": "red"}),
                json!({"Type": "PortMapping",
                    "Settings": {"Protocol": 17, "ExternalPort": 53, "VIP": "10.0.0.9", "Flags": 3, "Colour": "red"}}),
            ),
            (json!({"Type": "PA", "PA": "192.0.2.10"}), json!({"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.10"}})),
            (
                json!({"Type": "OutBoundNAT", "VIP": "10.0.0.4", "ExceptionList": ["10.0.0.0/8"], "Destinations": ["10.1.0.1"], "MaxPortPoolUsage": 9}),
                json!({"Type": "OutBoundNAT", "Settings": {
                    "VirtualIP": "10.0.0.4", "Exceptions": ["10.0.0.0/8"], "Destinations": ["10.1.0.1"], "MaxPortPoolUsage": 9}}),
            ),
            (
                json!({"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NextHop": "10.0.0.1", "NeedEncap": true}),
                json!({"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/12", "NextHop": "10.0.0.1", "NeedEncap": true}}),
            ),
            (
                json!({"Type": "PROXY", "IP": "10.0.0.1", "Port": "15001", "ExceptionList": ["10.0.0.3"], "Destination": "", "OutboundNat": true}),
                json!({"Type": "L4Proxy", "Settings": {
                    "IP": "10.0.0.1", "Port": "15001", "Exceptions": ["10.0.0.3"], "Destination": "", "OutboundNAT": true}}),
            ),
            (json!({"Type": "VSID", "VSID": 4096}), json!({"Type": "VSID", "Settings": {"IsolationId": 4096}})),
            (json!({"Type": "VLAN", "VLAN": 7}), json!({"Type": "VLAN", "Settings": {"IsolationId": 7}})),
            (
                json!({"Type": "QOS", "MaximumOutgoingBandwidthInBytes": 1000}),
                json!({"Type": "QOS", "Settings": {"MaximumOutgoingBandwidthInBytes": 1000}}),
            ),
            (json!({"Type": "L2Driver"}), json!({"Type": "L2Driver", "Settings": {}})),
            (
                json!({"Type": "Isolation", "VLAN": 1, "VSID": 2, "InDefaultIsolation": true}),
                json!({"Type": "Isolation", "Settings": {"VLAN": 1, "VSID": 2, "InDefaultIsolation": true}}),
            ),
            (json!({"Type": "Brandnew", "A": [1]}), json!({"Type": "Brandnew", "Settings": {"A": [1]}})),
            // Shown whole, because no flat object stands for them.
            (json!({"Type": "Odd", "Settings": "text"}), json!({"Type": "Odd", "Settings": "text"})),
            (json!({"Type": "QOS", "Settings": {}, "Beside": 1}), json!({"Type": "QOS", "Settings": {}, "Beside": 1})),
            (json!({"Type": "NAT", "Settings": {"A": 1}}), json!({"Type": "NAT", "Settings": {"A": 1}})),
            (json!({"Type": "Odd", "Settings": {"type": 1}}), json!({"Type": "Odd", "Settings": {"type": 1}})),
            (
                json!({"Type": "PortMapping", "Settings": {"ExternalPortReserved": "yes"}}),
                json!({"Type": "PortMapping", "Settings": {"ExternalPortReserved": "yes"}}),
            ),
        ];
        for (v1, v2) in table {
            assert_eq!(flat(v1.clone()).to_v2(&Path::Root), Ok(policy(v2.clone())), "{v1}");
            assert_eq!(FlatPolicy::from_v2(&policy(v2.clone()), Holder::Endpoint), flat(v1), "{v2}");
        }
    }

    #[test]
    fn spellings_of_the_type() {
        let table = [
            (json!({"type": "nat", "protocol": 6}), json!({"Type": "PortMapping", "Settings": {"Protocol": 6}})),
            (json!({"Type": "PortMapping", "Protocol": "tcp"}), json!({"Type": "PortMapping", "Settings": {"Protocol": 6}})),
            (json!({"Type": "VNET", "PA": "192.0.2.1"}), json!({"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.1"}})),
            (
                json!({"Type": "ProviderAddress", "ProviderAddress": "192.0.2.1"}),
                json!({"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.1"}}),
            ),
        ];
        for (v1, v2) in table {
            assert_eq!(flat(v1.clone()).to_v2(&Path::Root), Ok(policy(v2)), "{v1}");
        }
    }

    #[test]
    fn numbers_of_v2_types_depend_on_the_holder() {
        let table = [
            (Holder::Endpoint, 0, "NAT"),
            (Holder::Endpoint, 9, "PortName"),
            (Holder::Network, 4, "PA"),
            (Holder::Network, 9, "HostRoute"),
            (Holder::Subnet, 1, "VSID"),
        ];
        for (holder, number, name) in table {
            assert!(FlatPolicy::from_v2(&policy(json!({"Type": number})), holder).is(name), "{name}");
        }
    }

    #[test]
    fn a_wrong_type_is_named() {
        let policies = Path::Root.key("Policies");
        let error = flat(json!({"Type": "NAT", "InternalPort": "80"})).to_v2(&policies.index(2)).unwrap_err();
        assert_eq!(error.detail().field.as_deref(), Some("Policies[2].InternalPort"));
    }
}
