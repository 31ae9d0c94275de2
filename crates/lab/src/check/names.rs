//! Names that Windows does not find: short ones with a dot, and those of another suffix than the first.

use std::net::SocketAddr;

use dns::client::{Rules, resolve_at};
use hickory_proto::rr::RecordType;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::ask::inside;
use super::stage::{CLIENT, Stage};
use super::subject::Subject;
use super::{Documented, NAMESPACE, Observed};
use crate::api::cause;

/// What the documents say of short names with a dot.
pub(super) fn dotted_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "Windows takes every name with a dot for fully qualified")
}

/// What is observed of them: a Service by its name and Kubernetes namespace, where the pod asks for the suffixes that takes.
pub(super) async fn observe_dotted(stage: &Stage) -> Observed {
    Observed::of(resolves(stage, format!("plain.{NAMESPACE}")).await)
}

/// What the documents say of several suffixes.
pub(super) fn list_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "there is one DNS suffix only on Windows, that of the pod's namespace")
}

/// What is observed of them: a Service of another Kubernetes namespace, whose suffix the pod asks for.
pub(super) async fn observe_list(stage: &Stage) -> Observed {
    Observed::of(resolves(stage, "kube-dns".to_owned()).await)
}

async fn resolves(stage: &Stage, name: String) -> Result<String, String> {
    let rules = rules(stage).await?;
    let server = SocketAddr::new(stage.lab.topology().dns_address(), 53);
    inside(&stage.pod(CLIENT).namespace, move || ask(server, &name, &rules)).await
}

/// How the client's resolver asks, as its node set it.
async fn rules(stage: &Stage) -> Result<Rules, String> {
    let pods: Api<Pod> = Api::namespaced(stage.lab.client().clone(), NAMESPACE);
    let spec = pods.get(CLIENT).await.map_err(|error| cause(&error))?.spec.unwrap_or_default();
    let node = &stage.here.spec;
    Ok(crate::names::settings(&spec, NAMESPACE, node, stage.lab.topology()).rules(node.os))
}

fn ask(server: SocketAddr, name: &str, rules: &Rules) -> Result<String, String> {
    let resolution = resolve_at(server, name, &[RecordType::A], rules).map_err(|error| error.to_string())?;
    let asked = resolution.steps.iter().map(|step| step.name.to_string()).collect::<Vec<_>>().join(", ");
    match resolution.addresses().first() {
        Some(address) => Ok(format!("{name} is {address}; asked for {asked}")),
        None => Err(format!("{name} is not found; asked for {asked}")),
    }
}
