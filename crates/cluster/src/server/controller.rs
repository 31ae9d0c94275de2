//! Controllers: they follow what happens and bring about what documents promise.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::operation::Api;

/// Starts all controllers.
pub(crate) fn start(api: &Arc<Api>) -> JoinHandle<()> {
    let mut revisions = api.store.revisions();
    tokio::spawn(async move { while revisions.changed().await.is_ok() {} })
}
