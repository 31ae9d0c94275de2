//! CHECK of the CNI plugins: win-bridge and win-overlay, which are flannel's, and others.

use super::stage::Stage;
use super::subject::Subject;
use super::{Documented, Observed};
use crate::topology::Plugin;

/// What the documents say.
pub(super) fn documented(subject: &Subject) -> Documented {
    Documented::unless(subject.is_windows() && subject.plugin == Plugin::Flannel, "win-bridge and win-overlay do not implement CHECK")
}

/// What is observed: the plugin of the lab's own configuration is called.
pub(super) async fn observe(stage: &Stage) -> Observed {
    let outcome = stage.here.try_cni_check().await;
    Observed::of(outcome.map(|()| "the plugin says that all is as it promised".to_owned()).map_err(|error| error.to_string()))
}
