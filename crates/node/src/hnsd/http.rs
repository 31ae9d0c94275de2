//! HTTP: from requests to calls of the service, and from its answers to responses.
//!
//! `docs/reference/hnsd-api.md` is the contract.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query as UrlQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use futures_util::StreamExt;
use hcn::api::{Hcn, Kind};
use hcn::error::{Error, Result, detail};
use hcn::query::Query;
use hcn::{Guid, not_a_guid, parse_guid};
use hns::Service;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};

use super::token;
use crate::owner_only::OwnerOnly;

/// The largest body that is taken. The largest document that makes sense is far below.
const LARGEST_BODY: usize = 4 << 20;

/// How much of a body is read only to be thrown away. A caller that is hung up on while it sends may never see the answer.
const LARGEST_WASTE: usize = 64 << 20;

/// How long a caller may take to send its body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// How long a caller may take to send a body that nobody wants.
const WASTE_PATIENCE: Duration = Duration::from_secs(2);

type Shared = Arc<Service>;

/// Serves the Unix socket until `stopped`.
pub(super) async fn serve_unix(listener: UnixListener, service: Shared, stopped: impl Future<Output = ()> + Send + 'static) {
    let listener = OwnerOnly::new(listener);
    let outcome = axum::serve(listener, router(service)).with_graceful_shutdown(stopped).await;
    if let Err(error) = outcome {
        tracing::error!(%error, "the socket failed");
    }
}

/// Serves the loopback port until `stopped`. Every request needs the token.
pub(super) async fn serve_tcp(listener: TcpListener, token: String, service: Shared, stopped: impl Future<Output = ()> + Send + 'static) {
    let token: Arc<str> = token.into();
    let guarded = router(service).layer(middleware::from_fn(move |request: Request, next: Next| guard(token.clone(), request, next)));
    let outcome = axum::serve(listener.tap_io(no_delay), guarded).with_graceful_shutdown(stopped).await;
    if let Err(error) = outcome {
        tracing::error!(%error, "the loopback port failed");
    }
}

/// Small answers must not wait for each other.
fn no_delay(stream: &mut tokio::net::TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no delay could not be set");
    }
}

async fn guard(token: Arc<str>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("Bearer"));
    let given = given.map(|(_, token)| token.trim());
    match given {
        Some(given) if token::is_same(given, &token) => next.run(request).await,
        Some(_) => refusal("the token is wrong", request).await,
        None => refusal("the request has no token", request).await,
    }
}

async fn refusal(cause: &str, request: Request) -> Response {
    discard(request).await;
    let remedy = "send the text of hnsd's token file as Authorization: Bearer TOKEN";
    failure(&Error::AccessDenied(detail(cause).field("Authorization").remedy(remedy)))
}

fn router(service: Shared) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/v2/features", get(async |State(service): State<Shared>| success(service.features())))
        .route("/v2/metrics", get(async |State(service): State<Shared>| success(service.metrics())))
        .route("/v2/switch", get(switch))
        .route("/v2/events", get(events))
        .route("/v2/settled", get(async |State(service): State<Shared>| answer(service.begin_settle().await.map(|()| json!({})))))
        .route("/v2/containers/{id}", get(container))
        .route("/v2/portreservations", get(list_reservations).post(reserve))
        .route("/v2/portreservations/{id}", axum::routing::delete(release))
        .route("/v2/endpoints/{id}/stats", get(stats))
        .route("/v2/endpoints/{id}/addresses", get(addresses))
        .route("/v2/{kinds}", get(list).post(create))
        .route("/v2/{kinds}/{id}", get(query).patch(modify).delete(delete))
        .method_not_allowed_fallback(wrong_method)
        .fallback(call)
        .with_state(service)
}

async fn wrong_method(request: Request) -> Response {
    let cause = format!("{} has no {}", request.uri().path(), request.method());
    discard(request).await;
    failure(&Error::RequestUnsupported(detail(cause).remedy("see docs/reference/hnsd-api.md for what it has")))
}

async fn healthz(State(service): State<Shared>) -> Response {
    let (major, minor) = service.build().version();
    success(json!({"Status": "ok", "Profile": service.build().profile.name, "Version": {"Major": major, "Minor": minor}}))
}

async fn switch(State(service): State<Shared>) -> Response {
    let asked = tokio::task::spawn_blocking(move || service.switch());
    answer(asked.await.map_err(|_| fault()))
}

/// The parameters of a URL, as far as calls have them.
type Parameters = UrlQuery<std::collections::HashMap<String, String>>;

fn parameter<'a>(parameters: &'a Parameters, name: &str) -> &'a str {
    parameters.0.get(name).map(String::as_str).unwrap_or_default()
}

fn guid_parameter(parameters: &Parameters, name: &str) -> Result<Option<Guid>> {
    match parameter(parameters, name) {
        "" => Ok(None),
        text => parse_guid(text).map(Some).ok_or_else(|| not_a_guid(text).within(name)),
    }
}

/// The parts of a path that stand for something. What cannot be decoded is refused with a record, as everything is.
struct Segments<T>(T);

impl<T, S: Send + Sync> FromRequestParts<S> for Segments<T>
where
    Path<T>: FromRequestParts<S, Rejection = PathRejection>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(segments) = Path::from_request_parts(parts, state).await.map_err(|rejection| {
            let cause = format!("the path cannot be read: {}", rejection.body_text());
            failure(&Error::InvalidParameter(detail(cause).remedy("percent-encode the path as UTF-8")))
        })?;
        Ok(Self(segments))
    }
}

fn kind(collection: &str) -> Result<Kind> {
    Kind::from_collection(collection).ok_or_else(|| {
        let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.collection()).collect();
        Error::NotFound(detail(format!("there is no collection {collection:?}")).remedy(format!("use one of {}", known.join(", "))))
    })
}

fn object(collection: &str, id: &str) -> Result<(Kind, Guid)> {
    Ok((kind(collection)?, parse_guid(id).ok_or_else(|| not_a_guid(id))?))
}

async fn list(State(service): State<Shared>, Segments(kinds): Segments<String>, parameters: Parameters) -> Response {
    let wants_documents = parameter(&parameters, "documents") == "true";
    // A long list is work for a thread of its own, so that short calls go on meanwhile.
    let listed = tokio::task::spawn_blocking(move || {
        let kind = kind(&kinds)?;
        let query = parameter(&parameters, "query");
        Ok(match wants_documents {
            true => service.list_text(kind, query)?,
            false => json!(service.enumerate(kind, query)?.iter().map(Guid::to_string).collect::<Vec<_>>()).to_string(),
        })
    });
    match listed.await.unwrap_or_else(|_| Err(fault())) {
        Ok(text) => json_text(text).into_response(),
        Err(error) => failure(&error),
    }
}

fn fault() -> Error {
    Error::Unexpected(detail("the service met a fault of its own").remedy("report it with the log of hnsd and the request"))
}

async fn create(State(service): State<Shared>, Segments(kinds): Segments<String>, parameters: Parameters, request: Request) -> Response {
    let made = async {
        let settings = body(request).await?;
        let kind = kind(&kinds)?;
        let (id, network) = (guid_parameter(&parameters, "id")?, guid_parameter(&parameters, "network")?);
        let id = service.begin_create(kind, network, id, &settings)?.await?;
        // The object may be gone again by now; its id is still the answer.
        let document = service.query(kind, id, &hcn::print(&Query::v2(&[])));
        Ok(document.unwrap_or_else(|_| json!({"ID": id.to_string()})))
    };
    match made.await {
        Ok(document) => (StatusCode::CREATED, json_body(&document)).into_response(),
        Err(error) => failure(&error),
    }
}

async fn query(State(service): State<Shared>, Segments((kinds, id)): Segments<(String, String)>, parameters: Parameters) -> Response {
    let (kind, id) = match object(&kinds, &id) {
        Ok(object) => object,
        Err(error) => return failure(&error),
    };
    answer(service.query(kind, id, parameter(&parameters, "query")))
}

async fn modify(State(service): State<Shared>, Segments((kinds, id)): Segments<(String, String)>, request: Request) -> Response {
    let changed = async {
        let settings = body(request).await?;
        let (kind, id) = object(&kinds, &id)?;
        service.begin_modify(kind, id, &settings)?.await?;
        Ok(json!({}))
    };
    answer(changed.await)
}

async fn delete(State(service): State<Shared>, Segments((kinds, id)): Segments<(String, String)>) -> Response {
    let deleted = async {
        let (kind, id) = object(&kinds, &id)?;
        service.begin_delete(kind, id).await?;
        Ok(json!({}))
    };
    answer(deleted.await)
}

async fn stats(State(service): State<Shared>, Segments(id): Segments<String>) -> Response {
    // The switch is asked, which may take a moment.
    tokio::task::block_in_place(|| answer(parse_guid(&id).ok_or_else(|| not_a_guid(&id)).and_then(|id| service.endpoint_stats(id))))
}

async fn addresses(State(service): State<Shared>, Segments(id): Segments<String>) -> Response {
    answer(parse_guid(&id).ok_or_else(|| not_a_guid(&id)).and_then(|id| service.endpoint_addresses(id)))
}

async fn container(State(service): State<Shared>, Segments(id): Segments<String>) -> Response {
    match service.has_container(&id) {
        true => success(json!({"Id": id})),
        false => {
            let cause = format!("no namespace or endpoint names the container {id:?}");
            failure(&Error::ComputeSystemNotFound(detail(cause).remedy("add the container to a namespace first")))
        }
    }
}

async fn list_reservations(State(service): State<Shared>) -> Response {
    success(service.reservations().list())
}

async fn reserve(State(service): State<Shared>, request: Request) -> Response {
    let reserved = async { service.reserve_port(&body(request).await?) };
    match reserved.await {
        Ok(reservation) => (StatusCode::CREATED, json_body(&reservation)).into_response(),
        Err(error) => failure(&error),
    }
}

async fn release(State(service): State<Shared>, Segments(id): Segments<String>) -> Response {
    answer(service.reservations().release(&id).map(|()| json!({})))
}

/// Everything else is a call of the older interface.
async fn call(State(service): State<Shared>, request: Request) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let called = async {
        let output = match method {
            // It may be a long list.
            Method::GET => {
                let read = tokio::task::spawn_blocking(move || service.call("GET", &path, ""));
                read.await.unwrap_or_else(|_| Err(fault()))?
            }
            _ => service.begin_call(method.as_str(), &path, &body(request).await?)?.await?,
        };
        Ok(json!({"Success": true, "Output": output}))
    };
    answer(called.await)
}

/// The events as they come, a line each.
async fn events(State(service): State<Shared>, parameters: Parameters) -> Response {
    let hub = service.hub().clone();
    let after = match parameter(&parameters, "since") {
        "" => hub.newest(),
        text => match text.parse() {
            Ok(number) => number,
            Err(_) => {
                let cause = format!("{text:?} is no number of an event");
                return failure(&Error::InvalidParameter(detail(cause).field("since").remedy("leave it out to follow from now on")));
            }
        },
    };
    if let Err(error) = hub.after(after) {
        return failure(&error);
    }
    // The blank line tells the follower that it is connected and will miss nothing from here on.
    let lines = futures_util::stream::unfold((hub, after, Some("\n".to_owned())), |(hub, after, greeting)| async move {
        if let Some(greeting) = greeting {
            return Some((Ok::<_, io::Error>(greeting), (hub, after, None)));
        }
        hub.changed(after).await;
        let events = hub.after(after).ok().filter(|events| !events.is_empty())?;
        let newest = events.last().map_or(after, |event| event.sequence);
        let lines: String = events.iter().map(|event| format!("{}\n", event.to_json())).collect();
        Some((Ok(lines), (hub, newest, None)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

/// The whole body as text, or the error that says what is wrong with it.
async fn body(request: Request) -> Result<String> {
    let bytes = tokio::time::timeout(BODY_PATIENCE, read(request)).await.unwrap_or_else(|_| {
        let cause = format!("the body did not arrive within {} seconds", BODY_PATIENCE.as_secs());
        Err(Error::InvalidParameter(detail(cause).remedy("send the whole body at once")))
    })?;
    String::from_utf8(bytes).map_err(|_| Error::InvalidJson(detail("the body is not UTF-8").remedy("send JSON in UTF-8")))
}

async fn read(request: Request) -> Result<Vec<u8>> {
    let mut pieces = request.into_body().into_data_stream();
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            let cause = format!("the body did not arrive whole: {error}");
            Error::InvalidParameter(detail(cause).remedy("see that the length is right and the connection stays open"))
        })?;
        length += piece.len();
        if length <= LARGEST_BODY {
            bytes.extend_from_slice(&piece);
        } else if length > LARGEST_WASTE {
            break;
        }
    }
    if length > LARGEST_BODY {
        let cause = format!("the body has more than {LARGEST_BODY} bytes");
        return Err(Error::TooLarge(detail(cause).remedy("send one object at a time")));
    }
    Ok(bytes)
}

/// Reads a body that does not matter any more, as far as is needed for the caller to see the answer.
async fn discard(request: Request) {
    // Whatever is wrong with it, the answer is another one.
    _ = tokio::time::timeout(WASTE_PATIENCE, read(request)).await;
}

fn answer(outcome: Result<Value>) -> Response {
    match outcome {
        Ok(value) => success(value),
        Err(error) => failure(&error),
    }
}

fn json_text(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text)
}

fn json_body(value: &Value) -> impl IntoResponse + use<> {
    json_text(value.to_string())
}

fn success(value: Value) -> Response {
    json_body(&value).into_response()
}

fn failure(error: &Error) -> Response {
    (status(error), json_body(&error.record())).into_response()
}

/// The HTTP status that says the same as the code, for people with curl.
fn status(error: &Error) -> StatusCode {
    match error {
        Error::NetworkNotFound(_) | Error::EndpointNotFound(_) | Error::NotFound(_) | Error::ComputeSystemNotFound(_) => {
            StatusCode::NOT_FOUND
        }
        Error::NetworkAlreadyExists(_)
        | Error::PolicyAlreadyExists(_)
        | Error::PortAlreadyExists(_)
        | Error::EndpointAlreadyAttached(_)
        | Error::EndpointNamespaceAlreadyExists(_)
        | Error::DefaultNamespaceExists(_)
        | Error::EntityHasReferences(_)
        | Error::ObjectAlreadyExists(_)
        | Error::AlreadyExists(_)
        | Error::DuplicateName(_)
        | Error::SharingViolation(_) => StatusCode::CONFLICT,
        Error::AccessDenied(_) => StatusCode::UNAUTHORIZED,
        Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Error::ObjectUsedAfterUnload(_) => StatusCode::GONE,
        Error::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
        Error::RequestUnsupported(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Error::ServiceUnavailable(_) | Error::ManagerStopped(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::DiskFull(_) => StatusCode::INSUFFICIENT_STORAGE,
        Error::WriteFault(_) | Error::Unexpected(_) => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}
