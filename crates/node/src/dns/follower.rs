//! A new zone whenever the cluster has changed.

use std::sync::Arc;
use std::time::Duration;

use ::dns::server::CurrentZone;
use ::dns::zone::{Settings, Zone};
use time::OffsetDateTime;

use super::health::Health;
use super::mirrors::Mirrors;

/// How long changes are gathered. They come in swarms, and nobody notices this much.
const GATHERING: Duration = Duration::from_millis(50);

/// Follows for as long as it is waited for.
pub(super) async fn follow(mut mirrors: Mirrors, settings: Settings, current: CurrentZone, health: &Health) {
    let mut changes = None;
    loop {
        mirrors.mark_seen();
        health.set_trouble(mirrors.trouble());
        let seen = Some(mirrors.changes());
        if mirrors.are_complete() && changes != seen {
            changes = seen;
            renew(&mirrors, &settings, &current).await;
        }
        mirrors.changed().await;
        tokio::time::sleep(GATHERING).await;
    }
}

async fn renew(mirrors: &Mirrors, settings: &Settings, current: &CurrentZone) {
    let (sources, settings) = (mirrors.read(), settings.clone());
    // Large clusters take a moment, in which queries are answered from the zone before.
    match tokio::task::spawn_blocking(move || Zone::new(settings, sources, serial())).await {
        Ok(zone) => {
            tracing::debug!(services = zone.len(), "a new zone");
            if !current.swap(Arc::new(zone)).is_read() {
                tracing::info!("the cluster was read");
            }
        }
        Err(error) => tracing::error!(%error, "no new zone; the one before stays"),
    }
}

/// The seconds of the clock, as other servers of clusters have it.
fn serial() -> u32 {
    u32::try_from(OffsetDateTime::now_utc().unix_timestamp()).unwrap_or_default()
}
