//! The update without which Windows Server 2019 has no overlay networks.

use hcn::profile::Feature;

use super::stage::{Stage, needs_another_node};
use super::subject::{Subject, WS2019};
use super::trial::Trial;
use super::{Documented, Finding, Observed};

/// The number of the trial.
const OVERLAY: u8 = 5;

/// What the documents say of an overlay where the update is missing. Other builds need none.
pub(super) fn documented(subject: &Subject) -> Documented {
    match subject.is_overlay() {
        false => Documented::other(Finding::NotHere, "the lab's network is no overlay"),
        true => Documented::unless(subject.profile.build == WS2019, "overlay networks require KB4489899 on Windows Server 2019"),
    }
}

/// What is observed. The lab's own node has the update, or it would be in no overlay; so on Windows Server 2019 an HNS is asked that has all
/// of its node but what the update brings.
pub(super) async fn observe(stage: &Stage) -> Observed {
    if stage.there.is_none() {
        return needs_another_node();
    }
    let trial = Trial::new(stage, OVERLAY, &[false]);
    Observed::of(match stage.subject.profile.build {
        WS2019 => without_update(stage, trial).await,
        _ => trial.observe(stage).await,
    })
}

async fn without_update(stage: &Stage, trial: Trial) -> Result<String, String> {
    let (_guest, hcn) = stage.here.hns_without(&[Feature::RemoteSubnet.name()]).await.map_err(|not_ready| not_ready.cause)?;
    trial.offer_to(hcn, stage).await
}
