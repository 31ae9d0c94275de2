//! What flannel's overlay is bound to on Windows: its VNI and UDP port, and that nodes reach their own pods only.

use std::net::SocketAddr;

use super::ask::meet_soon;
use super::stage::{HTTP_PORT, SERVERS, Stage, needs_another_node};
use super::subject::Subject;
use super::trial::Trial;
use super::{Documented, Finding, Observed};

/// Another VNI and another port: those that flannel has on Linux, or near to it.
const VNI: u32 = 100;
const PORT: u16 = 8472;

/// The number of the trial.
const TUNNEL: u8 = 4;

/// What the documents say of another VNI and another port.
pub(super) fn tunnel_documented(subject: &Subject) -> Documented {
    match subject.is_overlay() {
        false => Documented::other(Finding::NotHere, "the lab's network is no overlay"),
        true => Documented::unless(subject.is_windows(), "flannel is restricted to VNI 4096 and UDP port 4789"),
    }
}

/// What is observed of another VNI and another port.
pub(super) async fn observe_tunnel(stage: &Stage) -> Observed {
    Observed::of(Trial::new(stage, TUNNEL, &[false]).with_tunnel(VNI, PORT).observe(stage).await)
}

/// What the documents say of a node and pods of other nodes.
pub(super) fn remote_node_documented(subject: &Subject) -> Documented {
    if subject.is_behind_nat() {
        return Documented::other(Finding::DoesNotWork, "behind NAT pods have their node's address, and other nodes do not reach them");
    }
    let is_limited = subject.is_windows() && subject.is_overlay();
    Documented::unless(is_limited, "with flannel's VXLAN, node-pod connectivity is only possible for local pods")
}

/// What is observed of a node and pods of another node.
pub(super) async fn observe_remote_node(stage: &Stage) -> Observed {
    if stage.there.is_none() {
        return needs_another_node();
    }
    Observed::of(reaches(stage).await)
}

async fn reaches(stage: &Stage) -> Result<String, String> {
    let pod = SocketAddr::new(stage.pod(SERVERS[2]).address(false)?, HTTP_PORT);
    let met = meet_soon(&stage.here.namespace, pod).await?;
    Ok(format!("{} answered at {pod}", met.name))
}
