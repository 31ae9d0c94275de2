//! What nodes reach of Services, and at nodes: node ports from outside and from the node itself, and cluster IPs from the node.

use std::net::SocketAddr;
use std::sync::Arc;

use host::namespace::Namespace;

use super::ask::meet_soon;
use super::stage::Stage;
use super::subject::{Subject, WS2022};
use super::{Documented, Observed};

/// What the documents say of node ports.
pub(super) fn port_documented(subject: &Subject) -> Documented {
    let is_broken = subject.profile.build == WS2022 && subject.is_overlay();
    Documented::unless(is_broken, "known issue: NodePort Services on overlay, if the destination node runs Windows Server 2022")
}

/// What is observed of node ports from outside.
pub(super) async fn observe_port(stage: &Stage) -> Observed {
    Observed::of(reaches_port(stage, &stage.outside).await)
}

/// What the documents say of node ports from the node itself.
pub(super) fn own_port_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "local NodePort access from the node itself is not supported")
}

/// What is observed of node ports from the node itself.
pub(super) async fn observe_own_port(stage: &Stage) -> Observed {
    Observed::of(reaches_port(stage, &stage.here.namespace).await)
}

async fn reaches_port(stage: &Stage, from: &Arc<Namespace>) -> Result<String, String> {
    let port = stage.service("ports").await?.node_port()?;
    let met = meet_soon(from, SocketAddr::new(stage.node_address()?, port)).await?;
    Ok(format!("{} answered at port {port} of the node", met.name))
}

/// What the documents say of cluster IPs from the node.
pub(super) fn service_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "a Windows node cannot access Services by the service IP")
}

/// What is observed of cluster IPs from the node.
pub(super) async fn observe_service(stage: &Stage) -> Observed {
    Observed::of(reaches_service(stage).await)
}

async fn reaches_service(stage: &Stage) -> Result<String, String> {
    let plain = stage.service("plain").await?.at(false)?;
    let met = meet_soon(&stage.here.namespace, plain).await?;
    Ok(format!("{} answered at {plain}", met.name))
}
