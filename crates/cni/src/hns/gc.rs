//! GC: what is ours and belongs to no valid attachment.

use hcn::endpoint::Endpoint;
use hcn::namespace::Namespace;
use hcn::{Hcn, HcnExt};

use super::flow::Mode;
use super::{OWNER, endpoint, failed, namespace, network};
use crate::config::Attachment;
use crate::error::{Error, Result};

/// Removes the endpoints of a network that we made for containers that are no longer valid, and namespace objects of ours that
/// nothing is in. Goes on after failures, and tells them all.
pub(super) fn collect(mode: &dyn Mode, hcn: &dyn Hcn, network: &str, valid: &[Attachment]) -> Result<()> {
    let mut failures: Vec<Error> = Vec::new();
    for endpoint in ours(hcn, network)? {
        if mode.is_stale(&endpoint, network, valid) {
            failures.extend(endpoint::remove(hcn, &endpoint).err());
        }
    }
    failures.extend(sweep(hcn).err());
    match failures.len() {
        0 => Ok(()),
        _ => Err(all(failures)),
    }
}

/// What we made on a network. Where the network is gone, so are its endpoints.
fn ours(hcn: &dyn Hcn, name: &str) -> Result<Vec<Endpoint>> {
    let Some(network) = network::find(hcn, name)? else { return Ok(Vec::new()) };
    let all: hcn::Result<Vec<Endpoint>> = hcn.objects(&[("VirtualNetwork", &network.id.to_string())]);
    let all = all.map_err(|error| failed(format!("listing the endpoints of the network {name:?}"), &error))?;
    Ok(all.into_iter().filter(|endpoint| endpoint.owner == OWNER && endpoint.network == network.id).collect())
}

/// While GC runs nothing is added, so that what is empty now stays so.
fn sweep(hcn: &dyn Hcn) -> Result<()> {
    let all: hcn::Result<Vec<Namespace>> = hcn.objects(&[]);
    let all = all.map_err(|error| failed("listing the namespaces", &error))?;
    let empty = all.iter().filter(|found| namespace::is_ours(found) && found.resources.is_empty());
    empty.into_iter().try_for_each(|found| namespace::sweep(hcn, found.id))
}

fn all(failures: Vec<Error>) -> Error {
    let code = failures.iter().map(|failure| failure.code).max().unwrap_or(999);
    let messages: Vec<String> = failures.into_iter().map(|failure| failure.msg).collect();
    Error::new(code, messages.join("; ")).details("the rest was removed; call GC again")
}
