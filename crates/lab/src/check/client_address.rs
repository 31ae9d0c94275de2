//! Whether backends see the address of a client outside: with the Local traffic policy, and what that takes.

use std::net::{IpAddr, SocketAddr};

use hcn::endpoint::Endpoint;
use hcn::{Guid, Hcn, HcnExt, Kind};
use serde_json::json;

use super::ask::meet_soon;
use super::hns;
use super::stage::{HTTP_PORT, SERVERS, Stage};
use super::subject::{Subject, WS2019};
use super::{Documented, Observed};

/// A port of nodes that Kubernetes gives to nobody.
const PORT: u16 = 29_080;

/// Flags of a mapping: routed by the node itself, at an external address.
const NODE_PORT: u32 = 2 | 16;

/// What the documents say.
pub(super) fn documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_before(WS2019), "client IP preservation needs Windows Server 2019")
}

/// What is observed at a node port with the Local policy, for which kube-proxy asks for DSR.
pub(super) async fn observe(stage: &Stage) -> Observed {
    Observed::of(is_preserved(stage).await)
}

async fn is_preserved(stage: &Stage) -> Result<String, String> {
    let port = stage.service("local").await?.node_port()?;
    is_seen(stage, SocketAddr::new(stage.node_address()?, port)).await
}

/// Whether the backend at an address sees the host outside.
async fn is_seen(stage: &Stage, at: SocketAddr) -> Result<String, String> {
    let client = stage.lab.topology().outside().iter().map(ipnet::IpNet::addr).find(IpAddr::is_ipv4);
    let met = meet_soon(&stage.outside, at).await?;
    let told = format!("{} saw {}", met.name, met.client);
    if Some(met.client) == client { Ok(told) } else { Err(told) }
}

/// What the documents say of load balancers without DSR.
pub(super) fn without_dsr_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "the Local traffic policy is not supported in non-DSR mode")
}

/// What is observed at a load balancer like that of a node port with the Local policy, but without DSR.
pub(super) async fn observe_without_dsr(stage: &Stage) -> Observed {
    Observed::of(is_preserved_without_dsr(stage).await)
}

async fn is_preserved_without_dsr(stage: &Stage) -> Result<String, String> {
    let backend = stage.pod(SERVERS[0]).address(false)?;
    let id = hns::call(stage, move |hcn| make(hcn, backend)).await?;
    let outcome = match stage.node_address() {
        Ok(node) => is_seen(stage, SocketAddr::new(node, PORT)).await,
        Err(cause) => Err(cause),
    };
    hns::call(stage, move |hcn| hcn.delete(Kind::LoadBalancer, id)).await?;
    outcome
}

fn make(hcn: &dyn Hcn, backend: IpAddr) -> hcn::Result<Guid> {
    let document = json!({
        "HostComputeEndpoints": [endpoint(hcn, backend)?.map(|id| id.to_string())], "FrontendVIPs": [], "Flags": 0,
        "PortMappings": [{"Protocol": 6, "InternalPort": HTTP_PORT, "ExternalPort": PORT, "DistributionType": 0, "Flags": NODE_PORT}],
        "SchemaVersion": {"Major": 2, "Minor": 0}});
    hcn.create(Kind::LoadBalancer, None, None, &document.to_string())
}

/// The endpoint with an address.
fn endpoint(hcn: &dyn Hcn, address: IpAddr) -> hcn::Result<Option<Guid>> {
    let has = |endpoint: &Endpoint| endpoint.ip_configurations.iter().any(|own| own.ip_address.parse() == Ok(address));
    Ok(hcn.objects::<Endpoint>(&[])?.into_iter().find(has).map(|endpoint| endpoint.id))
}
