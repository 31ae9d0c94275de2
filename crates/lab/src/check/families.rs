//! IPv4 and IPv6 together, IPv6 on overlays, and IPv6 alone. Where the lab's pods have no such addresses, a network is made whose ends do.

use std::net::SocketAddr;

use super::ask::meet_soon;
use super::stage::{CLIENT, HTTP_PORT, SERVERS, Stage, needs_another_node};
use super::subject::{Subject, VERSION_20H2};
use super::trial::Trial;
use super::{Documented, Finding, Observed};

/// The numbers of the trials here.
const TOGETHER: u8 = 1;
const ON_OVERLAY: u8 = 2;
const ALONE: u8 = 3;

/// What the documents say of both families together.
pub(super) fn documented(subject: &Subject) -> Documented {
    if subject.is_behind_nat() {
        return Documented::other(Finding::NotHere, "the plugin nat gives pods one address, of IPv4");
    }
    if subject.is_windows() && subject.is_overlay() {
        return Documented::other(Finding::DoesNotWork, "overlay networks on Windows do not support dual-stack networking");
    }
    // Two documents differ; decision 0033 says why the second holds.
    let because = "Kubernetes' table says Windows Server 2019, but Microsoft's HNS has dual-stack networking from version 11.10 (20H2) on";
    Documented::unless(subject.is_before(VERSION_20H2), because)
}

/// What is observed of both families together.
pub(super) async fn observe(stage: &Stage) -> Observed {
    let outcome = match stage.lab.topology().is_dual_stack() {
        true => answers_over_both(stage).await,
        false => Trial::new(stage, TOGETHER, &[false, true]).observe(stage).await,
    };
    Observed::of(outcome)
}

async fn answers_over_both(stage: &Stage) -> Result<String, String> {
    let (client, both) = (&stage.pod(CLIENT).namespace, stage.service("both").await?);
    let mut told = Vec::new();
    for v6 in [false, true] {
        told.push(meet_soon(client, both.at(v6)?).await?.name);
    }
    Ok(format!("the Service answers over IPv4 ({}) and IPv6 ({})", told[0], told[1]))
}

/// What the documents say of IPv6 on overlays.
pub(super) fn overlay_documented(subject: &Subject) -> Documented {
    match subject.is_overlay() {
        false => Documented::other(Finding::NotHere, "the lab's network is no overlay"),
        true => Documented::unless(subject.is_windows(), "no IPv6 between Windows pods on overlay networks"),
    }
}

/// What is observed of IPv6 on overlays.
pub(super) async fn observe_overlay(stage: &Stage) -> Observed {
    if !stage.lab.topology().has_family(true) {
        return Observed::of(Trial::new(stage, ON_OVERLAY, &[true]).observe(stage).await);
    }
    if stage.there.is_none() {
        return needs_another_node();
    }
    Observed::of(crosses(stage).await)
}

async fn crosses(stage: &Stage) -> Result<String, String> {
    let far = SocketAddr::new(stage.pod(SERVERS[2]).address(true)?, HTTP_PORT);
    let met = meet_soon(&stage.pod(CLIENT).namespace, far).await?;
    Ok(format!("{} answered at {far}", met.name))
}

/// What the documents say of IPv6 alone.
pub(super) fn alone_documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows(), "Windows does not support single-stack IPv6 networking")
}

/// What is observed of IPv6 alone.
pub(super) async fn observe_alone(stage: &Stage) -> Observed {
    Observed::of(Trial::new(stage, ALONE, &[true]).observe(stage).await)
}
