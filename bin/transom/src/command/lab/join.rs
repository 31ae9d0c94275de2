//! Labs in a cluster that is there already.

use std::path::Path;

use lab::existing::{Existing, Trouble};
use lab::topology::Plan;
use serde_json::{Value, json};

use super::{change, plan};
use crate::exit::{Exit, Failure};

/// How a cluster is reached, and the text of a file with the addresses that Services have there.
pub(super) fn join(kubeconfig: &Path, context: Option<&str>, name: &str, text: &str) -> Result<(Existing, String), Failure> {
    let existing = Existing::read(kubeconfig, context, name).map_err(|cause| Failure::new(Exit::Usage, cause).context("--kubeconfig"))?;
    let Plan { topology, .. } = plan("--kubeconfig", text)?;
    let ground = existing.survey(&topology).map_err(|trouble| {
        let exit = match &trouble {
            Trouble::Silent(_) => Exit::Unavailable,
            Trouble::Refused(_) => Exit::Refused,
            Trouble::Conflict(_) => Exit::Conflict,
        };
        Failure::new(exit, trouble.to_string())
    })?;
    let changed = change(text, |topology| settle(topology, &ground.service_subnets))?;
    let Plan { topology, .. } = plan("--kubeconfig", &changed)?;
    match ground.fits(&topology.cluster.service_subnets) {
        Ok(()) => Ok((existing, changed)),
        Err(cause) => Err(Failure::new(Exit::Conflict, format!("cluster.serviceSubnets: {cause}"))),
    }
}

/// What a file does not say of the addresses of Services and pods is as the cluster has it.
fn settle(topology: &mut Value, services: &[ipnet::IpNet]) {
    // An address alone says nothing of the range that it is in.
    let ranges: Vec<&ipnet::IpNet> = services.iter().filter(|range| range.prefix_len() < range.max_prefix_len()).collect();
    let is_asked = |topology: &Value, name: &str| !topology["cluster"][name].is_null();
    if ranges.is_empty() || is_asked(topology, "serviceSubnets") {
        return;
    }
    topology["cluster"]["serviceSubnets"] = json!(ranges);
    if ranges.len() == 1 && !is_asked(topology, "podSubnets") {
        let usual = lab::topology::ClusterSpec::default().pod_subnets;
        let of_family: Vec<ipnet::IpNet> = usual.into_iter().filter(|range| range.addr().is_ipv4() == ranges[0].addr().is_ipv4()).collect();
        topology["cluster"]["podSubnets"] = json!(of_family);
    }
}
