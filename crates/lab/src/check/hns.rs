//! What the HNS of the stage's node has.

use std::sync::Arc;

use hcn::Hcn;

use super::stage::Stage;

/// Calls the HNS of the stage's node.
pub(super) async fn call<T: Send + 'static>(
    stage: &Stage,
    work: impl FnOnce(&dyn Hcn) -> hcn::Result<T> + Send + 'static,
) -> Result<T, String> {
    let client = stage.here.hcn().ok_or("the node has no HNS")?;
    let done = tokio::task::spawn_blocking(move || work(&*Arc::clone(&client)).map_err(|error| error.to_string()));
    done.await.map_err(|error| error.to_string())?
}
