//! Pods and pods, on one node and on two.

use std::net::SocketAddr;

use super::ask::meet_soon;
use super::stage::{CLIENT, HTTP_PORT, SERVERS, Stage, needs_another_node};
use super::subject::{Subject, WS2022};
use super::{Documented, Finding, Observed};
use crate::topology::Mode;

/// What the documents say. DSR is never quite off here: other scenarios have Services with the Local policy, whose load balancers ask for it.
pub(super) fn documented(subject: &Subject) -> Documented {
    if subject.is_behind_nat() {
        return Documented::other(
            Finding::DoesNotWork,
            "behind NAT pods have their node's address, and those of other nodes are not reached",
        );
    }
    let is_broken = subject.profile.build == WS2022 && subject.mode == Mode::L2bridge;
    Documented::unless(is_broken, "known issue: pod to pod on l2bridge, on Windows Server 2022 with KB5005619, unless DSR is off")
}

/// What is observed.
pub(super) async fn observe(stage: &Stage) -> Observed {
    if stage.subject.is_behind_nat() && stage.there.is_none() {
        return needs_another_node();
    }
    Observed::of(reaches(stage).await)
}

async fn reaches(stage: &Stage) -> Result<String, String> {
    let mut told = Vec::new();
    for name in SERVERS {
        let pod = SocketAddr::new(stage.pod(name).address(false)?, HTTP_PORT);
        told.push(meet_soon(&stage.pod(CLIENT).namespace, pod).await?.name);
    }
    Ok(format!("{} answered", told.join(", ")))
}
