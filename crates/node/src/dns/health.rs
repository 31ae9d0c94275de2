//! Whether names are known, and what was done: `/healthz`, `/readyz`, `/livez` and `/metrics`.
//!
//! A server that has read the cluster once is healthy, also while the API server is away: what it knows is better than nothing. What is wrong
//! stands in the answer.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use ::dns::message::code_name;
use ::dns::server::{CurrentZone, Responder, Transport};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;

/// How dns does.
pub(super) struct Health {
    zone: CurrentZone,
    responder: Arc<Responder>,
    trouble: Mutex<Option<String>>,
}

impl Health {
    pub(super) fn new(zone: CurrentZone, responder: Arc<Responder>) -> Self {
        Self { zone, responder, trouble: Mutex::new(None) }
    }

    /// What is wrong with the API server now.
    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cause) = trouble.as_ref().filter(|_| *known != trouble) {
            tracing::warn!(cause, "the API server");
        }
        *known = trouble;
    }

    fn answer(&self, is_healthy: bool) -> Response {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let services = self.zone.load().len();
        let forward: Vec<String> = self.responder.forwarder().servers().iter().map(ToString::to_string).collect();
        let trouble: Vec<String> = trouble.map(|cause| format!("the API server: {cause}")).into_iter().collect();
        let document = json!({"healthy": is_healthy, "services": services, "forward": forward, "trouble": trouble});
        let code = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (code, [(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response()
    }

    fn readyz(&self) -> Response {
        self.answer(self.zone.load().is_read())
    }

    /// The numbers as Prometheus reads them.
    fn metrics(&self) -> String {
        let counters = self.responder.counters();
        let mut text = String::new();
        let queries = [("udp", Transport::Udp), ("tcp", Transport::Tcp)].map(|(label, it)| (label.to_owned(), counters.queries(it)));
        write_labelled(&mut text, "queries_total", "Queries that came.", "transport", &queries);
        let answers: Vec<(String, u64)> = counters.answers().into_iter().map(|(code, count)| (code_name(code), count)).collect();
        write_labelled(&mut text, "answers_total", "Answers that were given.", "code", &answers);
        write_plain(&mut text, "forwards_total", "Questions that others were asked.", "counter", counters.forwards());
        let unanswered = counters.unanswered_forwards();
        write_plain(&mut text, "forwards_unanswered_total", "Questions that no other answered.", "counter", unanswered);
        let services = self.zone.load().len();
        write_plain(&mut text, "services", "Services that have names.", "gauge", services as u64);
        text
    }
}

fn write_labelled(text: &mut String, name: &str, help: &str, label: &str, values: &[(String, u64)]) {
    // Writing to a string does not fail.
    _ = writeln!(text, "# HELP transom_dns_{name} {help}\n# TYPE transom_dns_{name} counter");
    for (value, count) in values {
        _ = writeln!(text, "transom_dns_{name}{{{label}=\"{value}\"}} {count}");
    }
}

fn write_plain(text: &mut String, name: &str, help: &str, kind: &str, count: u64) {
    _ = writeln!(text, "# HELP transom_dns_{name} {help}\n# TYPE transom_dns_{name} {kind}\ntransom_dns_{name} {count}");
}

/// Answers for as long as it is waited for.
pub(super) async fn serve(listener: TcpListener, health: Arc<Health>) {
    let ready = get(|State(health): State<Arc<Health>>| async move { health.readyz() });
    let numbers =
        |State(health): State<Arc<Health>>| async move { ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], health.metrics()) };
    let router = Router::new()
        .route("/healthz", ready.clone())
        .route("/readyz", ready)
        .route("/livez", get(|State(health): State<Arc<Health>>| async move { health.answer(true) }))
        .route("/metrics", get(numbers))
        .with_state(health);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "health is told no more");
    }
}
