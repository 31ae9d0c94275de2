//! Metrics, by the names that the original has, so that dashboards and alerts stay as they are.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::routing::get;
use prometheus::{Encoder, Gauge, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};
use proxy::apply::Operation;
use proxy::config::Configuration;
use proxy::proxier::{Failure, Report};
use serde_json::json;
use tokio::net::TcpListener;

use super::health::Health;

/// The metrics of one proxy.
pub(super) struct Metrics {
    registry: Registry,
    duration: Histogram,
    programming: Histogram,
    last_sync: Gauge,
    last_queued: Gauge,
    service_changes: IntCounter,
    slice_changes: IntCounter,
    service_changes_pending: IntGauge,
    slice_changes_pending: IntGauge,
    without_local: IntGaugeVec,
    failures: [IntCounterVec; 3],
    healthz: IntCounterVec,
    livez: IntCounterVec,
}

/// Registers a metric that is made from a name and a help text. Both are constants, so that this cannot fail.
macro_rules! metric {
    ($registry:ident, $metric:expr) => {{
        let metric = $metric.expect("the name of a metric");
        $registry.register(Box::new(metric.clone())).expect("a name that is used once");
        metric
    }};
}

impl Metrics {
    pub(super) fn new() -> Self {
        let registry = Registry::new();
        let name = |name: &str| format!("kubeproxy_{name}");
        let buckets = prometheus::exponential_buckets(0.001, 2.0, 15).expect("the bounds of a histogram");
        let duration = HistogramOpts::new(name("sync_proxy_rules_duration_seconds"), "Time that a sync took.").buckets(buckets);
        let programming = HistogramOpts::new(name("network_programming_duration_seconds"), "Time from a change of backends to its sync.")
            .buckets(programming_buckets());
        let failures = |call: &str| {
            let name = name(&format!("sync_proxy_rules_winkernel_lb_{call}_failures_total"));
            let help = format!("Load balancers of HNS that could not be {call}d.");
            IntCounterVec::new(Opts::new(name, help), &["ip_family", "lb_type", "error"])
        };
        let asked = |path: &str| IntCounterVec::new(Opts::new(name(&format!("proxy_{path}_total")), "Answers, by their code."), &["code"]);
        Self {
            duration: metric!(registry, Histogram::with_opts(duration)),
            programming: metric!(registry, Histogram::with_opts(programming)),
            last_sync: metric!(registry, Gauge::new(name("sync_proxy_rules_last_timestamp_seconds"), "When a sync last did everything.")),
            last_queued: metric!(
                registry,
                Gauge::new(name("sync_proxy_rules_last_queued_timestamp_seconds"), "When a sync was last asked for.")
            ),
            service_changes: metric!(registry, IntCounter::new(name("sync_proxy_rules_service_changes_total"), "Changes of Services.")),
            slice_changes: metric!(
                registry,
                IntCounter::new(name("sync_proxy_rules_endpoint_changes_total"), "Changes of EndpointSlices.")
            ),
            service_changes_pending: metric!(
                registry,
                IntGauge::new(name("sync_proxy_rules_service_changes_pending"), "Changes of Services that wait for a sync.")
            ),
            slice_changes_pending: metric!(
                registry,
                IntGauge::new(name("sync_proxy_rules_endpoint_changes_pending"), "Changes of EndpointSlices that wait for a sync.")
            ),
            without_local: metric!(
                registry,
                IntGaugeVec::new(
                    Opts::new(name("sync_proxy_rules_no_local_endpoints_total"), "Service ports with a Local policy and no backend here."),
                    &["traffic_policy"]
                )
            ),
            failures: [metric!(registry, failures("create")), metric!(registry, failures("update")), metric!(registry, failures("delete"))],
            healthz: metric!(registry, asked("healthz")),
            livez: metric!(registry, asked("livez")),
            registry,
        }
    }

    /// A sync is asked for, with these many changes so far.
    pub(super) fn queued(&self, (services, slices): (u64, u64)) {
        self.last_queued.set(now());
        let pending = |seen: u64, counted: &IntCounter| i64::try_from(seen.saturating_sub(counted.get())).unwrap_or(i64::MAX);
        self.service_changes_pending.set(pending(services, &self.service_changes));
        self.slice_changes_pending.set(pending(slices, &self.slice_changes));
    }

    /// A sync has ended that took in these many changes.
    pub(super) fn synced(&self, report: &Report, took: Duration, (services, slices): (u64, u64)) {
        self.duration.observe(took.as_secs_f64());
        self.service_changes.inc_by(services.saturating_sub(self.service_changes.get()));
        self.slice_changes.inc_by(slices.saturating_sub(self.slice_changes.get()));
        self.service_changes_pending.set(0);
        self.slice_changes_pending.set(0);
        let gauge =
            |policy: &str, count: usize| self.without_local.with_label_values(&[policy]).set(i64::try_from(count).unwrap_or(i64::MAX));
        gauge("internal", report.without_local.0);
        gauge("external", report.without_local.1);
        report.failures.iter().for_each(|failure| self.failed(failure));
        if report.failures.is_empty() {
            self.last_sync.set(now());
        }
    }

    /// Changes were programmed that happened so long ago.
    pub(super) fn programmed(&self, took: &[Duration]) {
        took.iter().for_each(|took| self.programming.observe(took.as_secs_f64()));
    }

    fn failed(&self, failure: &Failure) {
        let Some(role) = failure.role else { return };
        let counter = match failure.operation {
            Operation::Create => &self.failures[0],
            Operation::Update => &self.failures[1],
            Operation::Delete => &self.failures[2],
        };
        counter.with_label_values(&[&failure.family.to_string(), role.label(), error_label(&failure.error)]).inc();
    }

    pub(super) fn asked_for_health(&self, path: &str, is_healthy: bool) {
        let counter = if path == "livez" { &self.livez } else { &self.healthz };
        counter.with_label_values(&[if is_healthy { "200" } else { "503" }]).inc();
    }

    fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::warn!(%error, "metrics could not be written");
        }
        text
    }
}

/// The original's bounds: close together below a minute, and five minutes at most.
fn programming_buckets() -> Vec<f64> {
    let steps = |from: u32, step: u32, count: u32| (0..count).map(move |number| f64::from(from + step * number));
    [0.25, 0.5].into_iter().chain(steps(1, 1, 59)).chain(steps(60, 5, 12)).chain(steps(120, 30, 7)).collect()
}

/// What went wrong, in the few words that the original has for it.
fn error_label(error: &::hcn::Error) -> &'static str {
    match error.hresult() {
        0x803B_0013 => "port_already_exists",
        0x803B_0001 => "network_not_found",
        0x8000_4001 => "not_implemented",
        0x803B_001E => "invalid_ip",
        _ => "other",
    }
}

fn now() -> f64 {
    time::OffsetDateTime::now_utc().unix_timestamp_nanos() as f64 / 1e9
}

/// Answers on `/metrics`, `/proxyMode`, `/configz` and `/healthz`.
pub(super) async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    configuration: Configuration,
    mode: &'static str,
) {
    let shown = json!({"kubeproxy.config.k8s.io": configuration}).to_string();
    let router =
        Router::new()
            .route(
                "/metrics",
                get(|State(metrics): State<Arc<Metrics>>| async move {
                    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], metrics.text())
                }),
            )
            .route("/proxyMode", get(move || async move { mode }))
            .route("/configz", get(move || async { ([(header::CONTENT_TYPE, "application/json")], shown) }))
            .route("/healthz", get(move || async move { health.healthz() }))
            .with_state(metrics);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "metrics are told no more");
    }
}
