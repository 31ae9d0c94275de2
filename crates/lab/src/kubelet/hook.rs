//! Hooks: what is done when a container has started, and before it ends.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use tokio::time::{sleep, timeout};

use super::probe::{Target, headers};
use crate::http::{connect_in, get_with};

/// Does what a hook says. An error says what went wrong.
pub(super) async fn run(hook: &LifecycleHandler, target: &Target<'_>, patience: Duration) -> Result<(), String> {
    match timeout(patience, act(hook, target)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("it was not done in {} s", patience.as_secs())),
    }
}

async fn act(hook: &LifecycleHandler, target: &Target<'_>) -> Result<(), String> {
    if let Some(exec) = &hook.exec {
        let code = target.running.exec(exec.command.clone().unwrap_or_default()).await?;
        return if code == 0 { Ok(()) } else { Err(format!("the command ended with {code}")) };
    }
    if let Some(http) = &hook.http_get {
        let address = target.socket(&http.port, http.host.as_deref())?;
        let failed = |error: std::io::Error| format!("{address}: {error}");
        let stream = connect_in(target.node, address).await.map_err(failed)?;
        let answer = get_with(stream, &address.to_string(), http.path.as_deref().unwrap_or("/"), &headers(http)).await.map_err(failed)?;
        return if answer.status < 400 { Ok(()) } else { Err(format!("{address}: it answered {}", answer.status)) };
    }
    match &hook.sleep {
        Some(pause) => {
            sleep(Duration::from_secs(u64::try_from(pause.seconds).unwrap_or(0))).await;
            Ok(())
        }
        None => Err("the lab knows exec, httpGet and sleep".to_owned()),
    }
}
