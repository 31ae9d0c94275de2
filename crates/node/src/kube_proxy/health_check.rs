//! The ports at which load balancers in front of the cluster ask whether this node has backends of a Service.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use proxy::desired::HealthCheck;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::health::Health;

/// All ports that are open.
pub(super) struct HealthChecks {
    health: Arc<Health>,
    open: BTreeMap<u16, Port>,
}

struct Port {
    check: Arc<ArcSwap<HealthCheck>>,
    task: JoinHandle<()>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HealthChecks {
    pub(super) fn new(health: Arc<Health>) -> Self {
        Self { health, open: BTreeMap::new() }
    }

    /// Opens what is missing, closes what nobody wants, and tells the rest its numbers. Returns what could not be opened, and why.
    pub(super) async fn set(&mut self, wanted: &BTreeMap<u16, HealthCheck>, has_v6: bool) -> Vec<(HealthCheck, std::io::Error)> {
        self.open.retain(|port, _| wanted.contains_key(port));
        let mut failures = Vec::new();
        for (number, check) in wanted {
            if let Some(port) = self.open.get(number) {
                port.check.store(Arc::new(check.clone()));
                continue;
            }
            let any: IpAddr = if has_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            match TcpListener::bind(SocketAddr::new(any, *number)).await {
                Ok(listener) => _ = self.open.insert(*number, self.start(listener, check.clone())),
                Err(error) => failures.push((check.clone(), error)),
            }
        }
        failures
    }

    fn start(&self, listener: TcpListener, check: HealthCheck) -> Port {
        let check = Arc::new(ArcSwap::from_pointee(check));
        let (current, health) = (check.clone(), self.health.clone());
        let router = Router::new().fallback(move || {
            let response = answer(&current.load(), health.is_alive());
            async move { response }
        });
        let task = tokio::spawn(async move { _ = axum::serve(listener, router).await });
        Port { check, task }
    }
}

fn answer(check: &HealthCheck, is_alive: bool) -> Response {
    let code = if check.local_backends > 0 && is_alive { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let document = json!({
        "service": {"namespace": check.service.namespace, "name": check.service.name},
        "localEndpoints": check.local_backends, "serviceProxyHealthy": is_alive});
    let weight = check.local_backends.to_string();
    let headers = [
        (header::CONTENT_TYPE, "application/json".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::HeaderName::from_static("x-load-balancing-endpoint-weight"), weight),
    ];
    (code, headers, document.to_string()).into_response()
}
