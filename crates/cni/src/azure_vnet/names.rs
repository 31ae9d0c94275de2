//! How names are resolved: what the runtime says, else the configuration, else IPAM.

use crate::error::{Error, Result};
use crate::plugin::Call;
use crate::result::{AddResult, Dns};

/// What an endpoint gets. Of the three the first counts that says anything; they are not mixed.
pub(super) fn of(call: &Call<'_>, lease: Option<&AddResult>) -> Result<Dns> {
    let configured = configured(call)?;
    let runtime = call.config.runtime_dns()?;
    if !runtime.nameservers.is_empty() || !runtime.search.is_empty() {
        return Ok(runtime);
    }
    match lease {
        Some(lease) if configured.is_empty() => Ok(without_domain(lease.dns.clone())),
        _ => Ok(configured),
    }
}

/// `dns`, where the Kubernetes namespace of the pod goes before the first domain to search.
fn configured(call: &Call<'_>) -> Result<Dns> {
    let Dns { nameservers, mut search, options, .. } = call.config.dns()?;
    if nameservers.is_empty() != search.is_empty() {
        let missing = if search.is_empty() { "search" } else { "nameservers" };
        return Err(Error::invalid_network_config(format!("dns.{missing} is missing beside the other"))
            .details("give both dns.nameservers and dns.search, or neither"));
    }
    // What the runtime says besides is not ours to judge.
    let args = call.environment.args().unwrap_or_default();
    if let (Some(first), Some(namespace)) = (search.first_mut(), args.get("K8S_POD_NAMESPACE").filter(|namespace| !namespace.is_empty())) {
        *first = format!("{namespace}.{first}");
    }
    Ok(Dns { nameservers, search, options, domain: String::new() })
}

/// HNS is told domains to search only.
fn without_domain(dns: Dns) -> Dns {
    let search = match dns.search.is_empty() && !dns.domain.is_empty() {
        true => vec![dns.domain],
        false => dns.search,
    };
    Dns { search, domain: String::new(), ..dns }
}

/// For a result, in which the first domain to search is the container's own.
pub(super) fn with_domain(dns: Dns) -> Dns {
    Dns { domain: dns.search.first().cloned().unwrap_or_default(), ..dns }
}
