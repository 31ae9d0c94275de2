//! Whether the proxy does its work: `/healthz` for load balancers, `/livez` for whoever restarts it.
//!
//! As the original has it, a proxy is unhealthy while a change has waited for twice the sync period. A load balancer in front of the cluster
//! should also keep away from a node that is about to go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpListener;

use super::metrics::Metrics;

/// How the proxy does.
pub(super) struct Health {
    patience: Duration,
    metrics: Arc<Metrics>,
    state: Mutex<Condition>,
}

struct Condition {
    /// Since when a change waits.
    waiting_since: Option<Instant>,
    last_updated: Option<OffsetDateTime>,
    is_eligible: bool,
    trouble: Vec<String>,
}

impl Health {
    pub(super) fn new(sync_period: Duration, metrics: Arc<Metrics>) -> Self {
        let condition = Condition { waiting_since: Some(Instant::now()), last_updated: None, is_eligible: true, trouble: Vec::new() };
        Self { patience: sync_period * 2, metrics, state: Mutex::new(condition) }
    }

    fn lock(&self) -> MutexGuard<'_, Condition> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change waits.
    pub(super) fn queue(&self) {
        self.lock().waiting_since.get_or_insert_with(Instant::now);
    }

    /// A sync has done everything, or not.
    pub(super) fn synced(&self, is_done: bool) {
        let mut state = self.lock();
        if is_done {
            state.waiting_since = None;
            state.last_updated = Some(OffsetDateTime::now_utc());
        }
    }

    /// Whether load balancers should send clients to this node.
    pub(super) fn set_eligible(&self, is_eligible: bool) {
        self.lock().is_eligible = is_eligible;
    }

    /// What is wrong now, for people.
    pub(super) fn set_trouble(&self, trouble: Vec<String>) {
        self.lock().trouble = trouble;
    }

    /// Whether no change waits for too long.
    pub(super) fn is_alive(&self) -> bool {
        self.lock().waiting_since.is_none_or(|since| since.elapsed() <= self.patience)
    }

    fn answer(&self, is_healthy: bool) -> Response {
        let state = self.lock();
        let text = |moment: Option<OffsetDateTime>| moment.and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_default();
        let document = json!({
            "lastUpdated": text(state.last_updated), "currentTime": text(Some(OffsetDateTime::now_utc())),
            "nodeEligible": state.is_eligible, "healthy": is_healthy, "trouble": state.trouble});
        drop(state);
        let code = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (code, [(header::CONTENT_TYPE, "application/json"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")], document.to_string())
            .into_response()
    }

    pub(super) fn healthz(&self) -> Response {
        let is_healthy = self.is_alive() && self.lock().is_eligible;
        self.metrics.asked_for_health("healthz", is_healthy);
        self.answer(is_healthy)
    }

    fn livez(&self) -> Response {
        let is_healthy = self.is_alive();
        self.metrics.asked_for_health("livez", is_healthy);
        self.answer(is_healthy)
    }
}

/// Answers on `/healthz` and `/livez`.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>) {
    let router = Router::new()
        .route("/healthz", get(|State(health): State<Arc<Health>>| async move { health.healthz() }))
        .route("/livez", get(|State(health): State<Arc<Health>>| async move { health.livez() }))
        .with_state(health);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "health is told no more");
    }
}
