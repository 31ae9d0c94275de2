//! Sets of addresses, seen together: each id once, no circles, none taken away that something names.

use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result, detail};
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::acl::{AclSettings, TierAclSettings};
use hcn::policy::endpoint::EndpointPolicyType;
use hcn::policy::network::{NetworkPolicyType, SetPolicySettings};

use crate::compile::sets::{in_order, members, says};
use crate::validate::text;

fn sets(policies: &[Policy]) -> Vec<SetPolicySettings> {
    let sets = policies.iter().filter(|policy| policy.is(&NetworkPolicyType::SetPolicy));
    sets.filter_map(|policy| policy.settings().ok()).collect()
}

/// The ids of the sets among some policies.
pub(crate) fn ids(policies: &[Policy]) -> Vec<String> {
    sets(policies).into_iter().map(|set| set.id).collect()
}

/// Refuses two sets with one id in one request.
pub(crate) fn one_of_each(policies: &[Policy]) -> Result<()> {
    let mut ids = ids(policies);
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => {
            let cause = format!("two sets have the id {:?}", pair[0]);
            Err(Error::InvalidPolicy(detail(cause).field("Policies").remedy("give each set an id of its own")))
        }
    }
}

/// Refuses sets that contain each other in a circle.
pub(crate) fn no_circle(policies: &[Policy]) -> Result<()> {
    let circle = |circle: Vec<String>| {
        let remedy = format!("take one of them out of the Values of another: {:?}, for instance", circle.last().map_or("", String::as_str));
        Error::InvalidPolicy(detail(says(&circle)).field("Settings.Values").remedy(remedy))
    };
    in_order(&members(&sets(policies))).map(drop).map_err(circle)
}

/// Refuses to take sets away that the network or an endpoint of it names. `network` is as it would be without them.
pub(crate) fn none_missing<'a>(network: &Network, removed: &[String], endpoints: impl Iterator<Item = &'a Endpoint>) -> Result<()> {
    if removed.is_empty() {
        return Ok(());
    }
    let named = |list: &str| text::list(list).find(|element| removed.iter().any(|id| id == element)).map(str::to_owned);
    let in_use = |id: &str, by: String| {
        let cause = format!("{by} names the set {id:?}");
        Error::EntityHasReferences(detail(cause).field("Settings.Policies").remedy("change or remove what names the set first"))
    };
    for set in sets(&network.policies) {
        if let Some(id) = named(&set.values) {
            return Err(in_use(&id, format!("the set {:?}", set.id)));
        }
    }
    if let Some(id) = addresses(&network.policies).iter().find_map(|list| named(list)) {
        return Err(in_use(&id, "a NetworkACL of the network".to_owned()));
    }
    for endpoint in endpoints {
        if let Some(id) = addresses(&endpoint.policies).iter().find_map(|list| named(list)) {
            return Err(in_use(&id, format!("an access list of the endpoint {} ({:?})", endpoint.id, endpoint.name)));
        }
    }
    Ok(())
}

/// All address fields of access lists.
fn addresses(policies: &[Policy]) -> Vec<String> {
    let mut found = Vec::new();
    for policy in policies {
        if policy.is(&NetworkPolicyType::NetworkAcl) || policy.is(&EndpointPolicyType::Acl) {
            let acl: AclSettings = policy.settings().unwrap_or_default();
            found.extend([acl.local_addresses, acl.remote_addresses]);
        } else if policy.is(&EndpointPolicyType::TierAcl) {
            let tier: TierAclSettings = policy.settings().unwrap_or_default();
            found.extend(tier.rules.into_iter().flat_map(|rule| [rule.local_addresses, rule.remote_addresses]));
        }
    }
    found
}
