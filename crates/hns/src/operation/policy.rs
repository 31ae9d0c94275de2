//! Policies added, removed and updated on networks and endpoints.
//!
//! *Add* appends, *Remove* takes out the policy with the same value, *Update* replaces: all policies of an endpoint (as
//! the older interface does), or on a network those with the same identity, because a network also carries policies that the
//! service itself put there.

use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result, detail};
use hcn::modify::{ModifyRequest, RequestType};
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::network::{NetworkPolicyType, RemoteSubnetRouteSettings, SetPolicySettings};
use hcn::{Field, Path};

use crate::fingerprint::Seen;
use crate::operation::{Draft, unsupported};
use crate::validate::policy::{Place, consistent, endpoint_policies, network_policies};
use crate::validate::sets;

/// What a modify request is about and how.
pub(crate) fn modify_request<T: Field>(request: &ModifyRequest) -> Result<(T, RequestType)> {
    let missing = |field: &str, remedy: &str| Error::InvalidParameter(detail("the field is missing").field(field).remedy(remedy));
    if request.resource_type.is_null() {
        return Err(missing("ResourceType", "say what to change, such as Policy"));
    }
    let resource = T::read(request.resource_type.clone(), &Path::Root.key("ResourceType"))?;
    let request_type = request.request_type.clone().ok_or_else(|| missing("RequestType", "write Add, Remove or Update"))?;
    Ok((resource, request_type))
}

/// Changes the policies of a network.
pub(crate) fn change_network_policies(draft: &Draft<'_>, network: &mut Network, how: &RequestType, wanted: &[Policy]) -> Result<()> {
    let all: Vec<Policy> = network.policies.iter().chain(wanted).cloned().collect();
    let place = Place::new(&draft.world.build, &network.network_type, &all);
    let wanted = network_policies(wanted, &place).map_err(|error| error.within("Settings"))?;
    let removed = if *how == RequestType::Remove { sets::ids(&wanted) } else { Vec::new() };
    match how {
        RequestType::Add => add(&mut network.policies, wanted, same_network_policy),
        RequestType::Remove => remove(&mut network.policies, &wanted),
        RequestType::Update => {
            for policy in wanted {
                network.policies.retain(|old| !is_replaced_by(old, &policy));
                network.policies.push(policy);
            }
            Ok(())
        }
        other => Err(unsupported(format!("{other} of policies is not supported"), "use Add, Remove or Update")),
    }?;
    sets::no_circle(&network.policies)?;
    let endpoints = draft.state.endpoints.of_network(network.id).filter_map(|id| draft.state.endpoints.get(id));
    sets::none_missing(network, &removed, endpoints.map(|record| &record.document))
}

/// Changes the policies of an endpoint.
pub(crate) fn change_endpoint_policies(draft: &Draft<'_>, endpoint: &mut Endpoint, how: &RequestType, wanted: &[Policy]) -> Result<()> {
    let network = draft.state.networks.get(endpoint.network).ok_or_else(|| hcn::Kind::Network.not_found(endpoint.network))?;
    let place = Place::new(&draft.world.build, &network.document.network_type, &network.document.policies);
    // PowerShell clears policies by an update with one empty object.
    let wanted: Vec<Policy> = wanted.iter().filter(|policy| !policy.is_absent()).cloned().collect();
    let wanted = endpoint_policies(&wanted, &place).map_err(|error| error.within("Settings"))?;
    match how {
        RequestType::Add => add(&mut endpoint.policies, wanted, Policy::eq),
        RequestType::Remove => remove(&mut endpoint.policies, &wanted),
        RequestType::Update => {
            endpoint.policies = wanted;
            Ok(())
        }
        other => Err(unsupported(format!("{other} of policies is not supported"), "use Add, Remove or Update")),
    }?;
    consistent(&endpoint.policies)
}

fn add(policies: &mut Vec<Policy>, wanted: Vec<Policy>, same: fn(&Policy, &Policy) -> bool) -> Result<()> {
    let mut seen = Seen::of(&*policies);
    for (index, policy) in wanted.into_iter().enumerate() {
        if seen.candidates(&policy).iter().any(|old| same(&policies[*old], &policy)) {
            let cause = format!("the object has this {} policy", name(&policy));
            let field = format!("Settings.Policies[{index}]");
            return Err(Error::PolicyAlreadyExists(detail(cause).field(field).remedy("use Update to replace it")));
        }
        seen.note(&policy, policies.len());
        policies.push(policy);
    }
    Ok(())
}

fn remove(policies: &mut Vec<Policy>, wanted: &[Policy]) -> Result<()> {
    for (index, policy) in wanted.iter().enumerate() {
        let Some(at) = policies.iter().position(|old| old == policy) else {
            let cause = format!("the object has no {} policy with these settings", name(policy));
            let field = format!("Settings.Policies[{index}]");
            return Err(Error::PolicyNotFound(detail(cause).field(field).remedy("send the policy as a query shows it")));
        };
        policies.remove(at);
    }
    Ok(())
}

/// Sets have an identity of their own: two with one id cannot both be there.
fn same_network_policy(old: &Policy, new: &Policy) -> bool {
    let set = |policy: &Policy| {
        let settings: Option<SetPolicySettings> = policy.is(&NetworkPolicyType::SetPolicy).then(|| policy.settings().ok()).flatten();
        settings.map(|settings| settings.id)
    };
    match (set(old), set(new)) {
        (Some(old), Some(new)) => old == new,
        _ => old == new,
    }
}

/// Whether an update with `new` takes the place of `old`: sets by their id, remote subnets by their prefix, all other
/// types of which a network has one by their type.
fn is_replaced_by(old: &Policy, new: &Policy) -> bool {
    let (Ok(old_type), Ok(new_type)) = (old.kind::<NetworkPolicyType>(), new.kind::<NetworkPolicyType>()) else {
        return false;
    };
    if old_type != new_type {
        return false;
    }
    match new_type {
        NetworkPolicyType::SetPolicy => same_network_policy(old, new),
        NetworkPolicyType::RemoteSubnetRoute => {
            let prefix = |policy: &Policy| policy.settings::<RemoteSubnetRouteSettings>().map(|settings| settings.destination_prefix).ok();
            prefix(old) == prefix(new)
        }
        NetworkPolicyType::NetworkAcl | NetworkPolicyType::NeighborDiscovery | NetworkPolicyType::VSwitchExtension => old == new,
        _ => true,
    }
}

fn name(policy: &Policy) -> String {
    policy.policy_type.as_str().unwrap_or("unknown").to_owned()
}
