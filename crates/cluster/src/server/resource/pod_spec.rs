//! What pods and templates of pods have in common.

mod complete;
mod container;
mod environment;
mod lifecycle;
mod network;
mod resources;
mod scheduling;
mod security;
mod volume;

use serde_json::Value;

use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::name::subdomain;

pub(super) use complete::{complete, quality};

/// Objects to what is wrong with a pod's spec that stands at a path. The order is the original's.
pub(super) fn validate(spec: &Value, path: &str, errors: &mut Errors) {
    let volumes = volume::validate(spec, path, errors);
    container::validate_all(spec, path, &volumes, errors);
    network::validate_host_ports(spec, path, errors);
    errors.one_of(format!("{path}.restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    errors.one_of(format!("{path}.dnsPolicy"), &spec["dnsPolicy"], &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    errors.labels(&format!("{path}.nodeSelector"), spec, "/nodeSelector");
    security::validate_pod(spec, path, errors);
    network::validate_dns(spec, path, errors);
    scheduling::validate_gates(spec, path, errors);
    for key in ["serviceAccountName", "nodeName"] {
        errors.name_if_any(format!("{path}.{key}"), text(spec, &format!("/{key}")), subdomain);
    }
    errors.between(format!("{path}.activeDeadlineSeconds"), &spec["activeDeadlineSeconds"], 1, i64::from(i32::MAX));
    network::validate_host_names(spec, path, errors);
    scheduling::validate_tolerations(spec, path, errors);
    network::validate_host_aliases(spec, path, errors);
    errors.name_if_any(format!("{path}.priorityClassName"), text(spec, "/priorityClassName"), subdomain);
    errors.one_of(format!("{path}.preemptionPolicy"), &spec["preemptionPolicy"], &["Never", "PreemptLowerPriority"]);
    security::validate_system(spec, path, errors);
}

/// The lists of containers of a pod.
pub(super) const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The containers of a list, each with its path.
fn containers<'a>(spec: &'a Value, key: &str, path: &str) -> impl Iterator<Item = (String, &'a Value)> {
    let path = format!("{path}.{key}");
    list(spec, &format!("/{key}")).iter().enumerate().map(move |(index, container)| (format!("{path}[{index}]"), container))
}
