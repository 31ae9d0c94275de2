//! Pods in the network of their node.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::ask::meet_soon;
use super::stage::Stage;
use super::subject::Subject;
use super::{Documented, NAMESPACE, Observed};

const NAME: &str = "host-network";

/// Where the pod listens: not where the node itself does.
const PORT: u16 = 18_080;
const UDP_PORT: u16 = 18_081;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the documents say.
pub(super) fn documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "host networking mode is not supported on Windows nodes")
}

/// What is observed.
pub(super) async fn observe(stage: &Stage) -> Observed {
    Observed::of(runs(stage).await)
}

async fn runs(stage: &Stage) -> Result<String, String> {
    let args = json!(["netexec", format!("--http-port={PORT}"), format!("--udp-port={UDP_PORT}")]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "nodeName": stage.here.spec.name, "hostNetwork": true, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "server", "image": "agnhost", "args": args}]}});
    stage.apply(vec![pod]).await?;
    started(stage).await?;
    let node = SocketAddr::new(stage.node_address()?, PORT);
    let met = meet_soon(&stage.outside, node).await?;
    Ok(format!("{} answered at {node}", met.name))
}

async fn started(stage: &Stage) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        let status = stage.status(NAME).unwrap_or_default();
        match (status.phase.as_str(), status.trouble.as_str()) {
            ("Running", _) => return Ok(()),
            (_, "") if begin.elapsed() < PATIENCE => sleep(Duration::from_millis(50)).await,
            (phase, "") => return Err(format!("the pod is {phase}")),
            (_, trouble) => return Err(trouble.to_owned()),
        }
    }
}
