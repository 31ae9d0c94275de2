//! Name resolution: the configuration's, with what the runtime says on top.

use crate::error::Result;
use crate::plugin::Call;
use crate::result::{AddResult, Dns};

/// `dns`, in which each list that the runtime has replaces the one that is there. Only where neither has anything, what IPAM
/// knows.
pub(crate) fn merged(call: &Call<'_>, lease: Option<&AddResult>) -> Result<Dns> {
    let mut dns = call.config.dns()?;
    let runtime = call.config.runtime_dns()?;
    let replace = |list: &mut Vec<String>, by: Vec<String>| {
        if !by.is_empty() {
            *list = by;
        }
    };
    replace(&mut dns.nameservers, runtime.nameservers);
    replace(&mut dns.search, runtime.search);
    replace(&mut dns.options, runtime.options);
    match lease {
        Some(lease) if dns.is_empty() => Ok(lease.dns.clone()),
        _ => Ok(dns),
    }
}

/// As HNS writes it.
pub(crate) fn to_hcn(dns: Dns) -> hcn::base::Dns {
    hcn::base::Dns {
        domain: dns.domain,
        search: dns.search,
        server_list: dns.nameservers,
        options: dns.options,
        ..hcn::base::Dns::default()
    }
}

/// As CNI writes it.
pub(crate) fn from_hcn(dns: &hcn::base::Dns) -> Dns {
    Dns { nameservers: dns.server_list.clone(), domain: dns.domain.clone(), search: dns.search.clone(), options: dns.options.clone() }
}
