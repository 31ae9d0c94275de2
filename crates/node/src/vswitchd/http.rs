//! HTTP: how vswitchd is programmed and looked at. `docs/reference/vswitchd-api.md` is the contract.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use vfp::PortId;
use wire::pcapng;

use super::api::{ApplyRequest, ApplyResponse};
use super::capture::{Running, Seen};
use super::chassis::{self, Chassis};
use super::view;
use crate::owner_only::OwnerOnly;

/// The largest body that is taken: ten thousand documents, and some.
const LARGEST_BODY: usize = 256 << 20;

type Shared = Arc<Mutex<Chassis>>;

/// Serves the socket until `stopped`.
pub(super) async fn serve(listener: UnixListener, chassis: Shared, stopped: impl Future<Output = ()> + Send + 'static) {
    let served = axum::serve(OwnerOnly::new(listener), router(chassis)).with_graceful_shutdown(stopped).await;
    if let Err(error) = served {
        tracing::error!(%error, "the socket failed");
    }
}

fn router(chassis: Shared) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/instance", get(instance))
        .route("/data-path", get(data_path))
        .route("/inventory", get(inventory))
        .route("/apply", post(apply))
        .route("/ports", get(ports))
        .route("/rules", get(rules))
        .route("/flows", get(flows))
        .route("/counters", get(counters))
        .route("/endpoints/{id}/stats", get(stats))
        .route("/capture", get(capture))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(chassis)
}

/// Runs something that may wait on its own thread.
async fn blocking<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Result<T, Response> {
    tokio::task::spawn_blocking(task)
        .await
        .map_err(|_| failure(StatusCode::INTERNAL_SERVER_ERROR, "vswitchd met a fault of its own; see its log"))
}

fn failure(status: StatusCode, cause: &str) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json!({ "Error": cause }).to_string()).into_response()
}

fn success(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Which vswitchd this is: another one has another number, and none of what this one was told.
async fn instance(State(chassis): State<Shared>) -> Response {
    success(&chassis::lock(&chassis).instance())
}

/// How packets are moved.
async fn data_path(State(chassis): State<Shared>) -> Response {
    success(&chassis::lock(&chassis).data_path)
}

async fn inventory(State(chassis): State<Shared>) -> Response {
    match blocking(move || chassis::lock(&chassis).inventory()).await {
        Ok(objects) => success(&objects),
        Err(response) => response,
    }
}

async fn apply(State(chassis): State<Shared>, body: axum::body::Bytes) -> Response {
    let request: ApplyRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &format!("the orders cannot be read: {error}")),
    };
    // One document takes less time than handing it to another thread and back.
    let failures = match request.orders.as_slice() {
        [order] if order.is_quick() => Ok(chassis::lock(&chassis).apply(request)),
        _ => blocking(move || chassis::lock(&chassis).apply(request)).await,
    };
    match failures {
        Ok(failures) => success(&ApplyResponse { failures }),
        Err(response) => response,
    }
}

async fn ports(State(chassis): State<Shared>) -> Response {
    let shared = chassis::lock(&chassis).shared();
    let rows: Vec<_> = shared.switch.ports().into_iter().map(|port| view::port(&shared, port)).collect();
    success(&rows)
}

async fn rules(State(chassis): State<Shared>) -> Response {
    let shared = chassis::lock(&chassis).shared();
    match blocking(move || shared.switch.rules().into_iter().map(view::rule).collect::<Vec<_>>()).await {
        Ok(rows) => success(&rows),
        Err(response) => response,
    }
}

async fn flows(State(chassis): State<Shared>) -> Response {
    let shared = chassis::lock(&chassis).shared();
    match blocking(move || shared.switch.flows().into_iter().map(|flow| view::flow(&shared, flow)).collect::<Vec<_>>()).await {
        Ok(rows) => success(&rows),
        Err(response) => response,
    }
}

async fn counters(State(chassis): State<Shared>) -> Response {
    let shared = chassis::lock(&chassis).shared();
    success(&view::counters(&shared))
}

async fn stats(State(chassis): State<Shared>, Path(id): Path<String>) -> Response {
    let Some(id) = hcn::parse_guid(&id) else {
        return failure(StatusCode::BAD_REQUEST, &format!("{id:?} is no GUID"));
    };
    let (shared, port) = {
        let chassis = chassis::lock(&chassis);
        (chassis.shared(), chassis.port_of(id))
    };
    let row = port.and_then(|port| shared.switch.ports().into_iter().find(|view| view.id == port)).map(|port| view::port(&shared, port));
    match row {
        Some(row) => success(&row),
        None => failure(StatusCode::NOT_FOUND, &format!("the endpoint {id} has no port")),
    }
}

async fn capture(State(chassis): State<Shared>, Query(query): Query<HashMap<String, String>>) -> Response {
    let shared = chassis::lock(&chassis).shared();
    let ports = shared.switch.ports();
    let wanted = query.get("port");
    let port =
        wanted.and_then(|wanted| ports.iter().find(|port| port.name == *wanted || port.id.0.to_string() == *wanted)).map(|port| port.id);
    if let Some(wanted) = wanted.filter(|_| port.is_none()) {
        return failure(StatusCode::NOT_FOUND, &format!("no port is called {wanted:?}; see `transom vfp port list`"));
    }
    let mut start = Vec::new();
    pcapng::section(&mut start);
    let mut interfaces = HashMap::new();
    for port in &ports {
        interfaces.insert(port.id, interfaces.len() as u32);
        pcapng::interface(&mut start, &port.name);
    }
    let (running, seen) = shared.captures.start(port);
    let writer = CaptureWriter { _running: running, seen, interfaces, start: Some(start) };
    let body = Body::from_stream(stream::unfold(writer, |mut writer| async move {
        writer.next().await.map(|bytes| (Ok::<_, Infallible>(bytes), writer))
    }));
    ([(header::CONTENT_TYPE, "application/x-pcapng")], body).into_response()
}

/// Turns what was seen into a pcapng stream.
struct CaptureWriter {
    _running: Running,
    seen: mpsc::Receiver<Seen>,
    interfaces: HashMap<PortId, u32>,
    start: Option<Vec<u8>>,
}

impl CaptureWriter {
    async fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(start) = self.start.take() {
            return Some(start);
        }
        let seen = self.seen.recv().await?;
        let mut bytes = Vec::with_capacity(seen.bytes.len() + 256);
        let next = self.interfaces.len() as u32;
        let interface = *self.interfaces.entry(seen.port).or_insert_with(|| {
            pcapng::interface(&mut bytes, &format!("port {}", seen.port));
            next
        });
        let direction = Some(if seen.sent { pcapng::Direction::Outbound } else { pcapng::Direction::Inbound });
        pcapng::packet(
            &mut bytes,
            &pcapng::Packet {
                interface,
                time_ns: seen.nanoseconds,
                direction,
                comment: &seen.comment,
                bytes: &seen.bytes,
                original_length: u32::try_from(seen.length).unwrap_or(u32::MAX),
            },
        );
        Some(bytes)
    }
}
