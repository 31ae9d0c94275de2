//! Which schema a document is in, and reading it from either.

use hcn::base::SchemaVersion;
use hcn::endpoint::Endpoint;
use hcn::error::Result;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::subnet::{IsolationSettings, SubnetPolicyType};
use hcn::{Field, Path, parse_value, v1};
use serde_json::Value;

/// Keys that only schema 2 has. A document without a schema version is in schema 1 to HNS; one that has such a
/// key cannot be, and its author merely left the version out.
const ONLY_IN_V2: [&str; 7] = ["Ipams", "MacPool", "IpConfigurations", "HostComputeNetwork", "HostComputeNamespace", "NamespaceId", "Dns"];

/// What a document without a schema version is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unversioned {
    /// Whatever its keys say.
    Guess,
    /// Schema 1: it came through the older interface.
    V1,
}

fn is_v2(value: &Value, unversioned: Unversioned) -> bool {
    let Some(map) = value.as_object() else {
        return true;
    };
    let find = |name: &str| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    match find("SchemaVersion") {
        Some(version) => SchemaVersion::read(version.clone(), &Path::Root).is_ok_and(|version| version.major >= 2),
        None => unversioned == Unversioned::Guess && ONLY_IN_V2.iter().any(|key| find(key).is_some()),
    }
}

/// A network, and the caller's spelling of its type.
pub(crate) fn network(settings: &str, unversioned: Unversioned) -> Result<(Network, String)> {
    let value = parse_value(settings)?;
    let spelling = match value.get("Type") {
        Some(Value::String(spelling)) => spelling.clone(),
        _ => String::new(),
    };
    let network = match is_v2(&value, unversioned) {
        true => Network::read(value, &Path::Root)?,
        false => isolate_subnets(v1::network::HnsNetwork::read(value, &Path::Root)?.to_v2()?),
    };
    Ok((network, spelling))
}

/// Schema 1 lets a network itself carry a VLAN or VSID; schema 2 has them on subnets.
fn isolate_subnets(mut network: Network) -> Network {
    let mut isolation = Vec::new();
    network.policies.retain(|policy| {
        let found = isolation_of(policy);
        isolation.extend(found.iter().cloned());
        found.is_empty()
    });
    for subnet in network.ipams.iter_mut().flat_map(|ipam| &mut ipam.subnets) {
        subnet.policies.extend(isolation.iter().cloned());
    }
    network
}

/// The isolation that a network's policy asks for: by its type, or by the fields of the type `Isolation`.
fn isolation_of(policy: &Policy) -> Vec<Policy> {
    let Some(name) = policy.policy_type.as_str() else {
        return Vec::new();
    };
    if SubnetPolicyType::from_name(name).is_known() {
        return vec![policy.clone()];
    }
    if !name.eq_ignore_ascii_case("Isolation") {
        return Vec::new();
    }
    let of = |kind: SubnetPolicyType| {
        let number = policy.settings.get(kind.name()?)?.as_u64().and_then(|number| u32::try_from(number).ok())?;
        Some(Policy::new(&kind, &IsolationSettings { isolation_id: number, ..IsolationSettings::default() }))
    };
    [SubnetPolicyType::Vlan, SubnetPolicyType::Vsid].into_iter().filter_map(of).collect()
}

/// An endpoint, and the name of its network if that is all that was given.
pub(crate) fn endpoint(settings: &str, unversioned: Unversioned) -> Result<(Endpoint, String)> {
    let value = parse_value(settings)?;
    if is_v2(&value, unversioned) {
        return Ok((Endpoint::read(value, &Path::Root)?, String::new()));
    }
    let endpoint = v1::endpoint::HnsEndpoint::read(value, &Path::Root)?;
    let network_name = endpoint.network_name().to_owned();
    Ok((endpoint.to_v2()?, network_name))
}

/// A namespace.
pub(crate) fn namespace(settings: &str) -> Result<Namespace> {
    let value = match settings.trim() {
        "" => Value::Object(Default::default()),
        settings => parse_value(settings)?,
    };
    let is_v2 = is_v2(&value, Unversioned::Guess) || value.get("Type").is_some();
    if is_v2 || value.get("Resources").is_some_and(Value::is_array) {
        return Namespace::read(value, &Path::Root);
    }
    let version = value.get("SchemaVersion").cloned();
    let mut namespace = v1::namespace::HnsNamespace::read(value, &Path::Root)?.to_v2()?;
    if let Some(version) = version {
        namespace.schema_version = SchemaVersion::read(version, &Path::Root.key("SchemaVersion"))?;
    }
    Ok(namespace)
}
