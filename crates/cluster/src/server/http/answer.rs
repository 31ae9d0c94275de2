//! Answers in the form that the client asked for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY, WARNING};
use serde_json::{Value, json};

use super::Call;
use crate::server::media::Shape;
use crate::server::operation::{Answer, Listed, Render, Watcher, shown};
use crate::server::resource::Resource;
use crate::server::status::Failure;
use crate::server::store::Stored;
use crate::server::table::{self, Include};

/// A body: one piece, or lines as they come.
pub(super) type Payload = UnsyncBoxBody<Bytes, Infallible>;

/// How long a piece of a long list is, about.
const PIECE: usize = 64 << 10;

fn response(code: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<Payload> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A plain text.
pub(super) fn text(text: &'static str) -> Response<Payload> {
    response(200, "text/plain; charset=utf-8", text)
}

/// The answer to a path of which nothing is known.
pub(super) fn no_page() -> Response<Payload> {
    response(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// A document as JSON or YAML.
pub(super) fn document(code: u16, document: &Value, call: &Call) -> Response<Payload> {
    match call.accept.is_yaml {
        true => response(code, "application/yaml", serde_norway::to_string(&sorted(document)).unwrap_or_default()),
        false if is_pretty(call) => response(code, "application/json", format!("{document:#}\n")),
        false => response(code, "application/json", document.to_string()),
    }
}

/// Whether JSON is for people to read.
fn is_pretty(call: &Call) -> bool {
    !call.query.get("pretty").is_empty() && call.query.is_set("pretty")
}

/// A document with its keys in order, as the original writes YAML.
fn sorted(document: &Value) -> Value {
    match document {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

/// Discovery in one document. Clients tell it from the older form by its media type.
pub(super) fn aggregated_discovery(document: &Value, version: &str) -> Response<Payload> {
    let media_type = match version {
        "v2beta1" => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    };
    varying(response(200, media_type, document.to_string()))
}

/// Marks an answer whose form depends on what the client accepts, for caches to tell apart.
pub(super) fn varying(mut response: Response<Payload>) -> Response<Payload> {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// A refusal.
pub(super) fn failure(failure: &Failure) -> Response<Payload> {
    let mut response = response(failure.code, "application/json", failure.to_value().to_string());
    if matches!(failure.code, 429 | 503 | 504) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Adds warnings that clients show to their users.
pub(super) fn warn(mut response: Response<Payload>, warnings: &[String]) -> Response<Payload> {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// The answer of an operation.
pub(super) fn answer(resource: &Resource, answer: Answer, call: &Call) -> Response<Payload> {
    let is_stored_form = !call.accept.is_yaml && !is_pretty(call) && resource.view.is_none();
    match (answer, call.accept.shape) {
        (Answer::Document(code, value), _) => document(code, &value, call),
        (Answer::Object(code, stored), Shape::Plain) if is_stored_form => {
            let rest = stored.bytes.get(1..).unwrap_or_default();
            response(code, "application/json", [resource.opening().as_bytes(), rest].concat())
        }
        (Answer::Object(code, stored), Shape::Plain) => document(code, &shown(resource, &stored), call),
        (Answer::Object(code, stored), Shape::Metadata) => document(code, &table::partial(&stored.document()["metadata"]), call),
        (Answer::Object(code, stored), Shape::Table) => {
            let mut table = table::empty(resource, &call.accept.shape_version, &stored.revision.to_string());
            table["rows"] = json!([table::row(resource, &stored, include(call))]);
            document(code, &table, call)
        }
        (Answer::List(list), Shape::Plain) if is_stored_form => plain_list(resource, list),
        (Answer::List(list), shape) => document(200, &shaped_list(resource, &list, shape, call), call),
    }
}

fn include(call: &Call) -> Include {
    Include::read(call.query.get("includeObject"))
}

fn list_metadata(list: &Listed) -> Value {
    let mut metadata = json!({"resourceVersion": list.revision.to_string()});
    if let Some(next) = &list.next {
        metadata["continue"] = next.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

/// A list as it mostly is, put together from the texts of its objects without reading them. It is put together as it is sent, so that a
/// long one is never there as a whole.
fn plain_list(resource: &Resource, list: Listed) -> Response<Payload> {
    let (kind, version) = (resource.kind, resource.api_version());
    let head = format!("{{\"kind\":\"{kind}List\",\"apiVersion\":\"{version}\",\"metadata\":{},\"items\":[", list_metadata(&list));
    let mut pieces = pieces(head.into_bytes(), list.items.into_iter());
    let first = pieces.next().unwrap_or_default();
    match pieces.next() {
        // With its length, as short answers are.
        None => response(200, "application/json", first),
        Some(second) => {
            let all = [first, second].into_iter().chain(pieces).map(|piece| Ok(Frame::data(Bytes::from(piece))));
            let mut response = response(200, "application/json", "");
            *response.body_mut() = StreamBody::new(stream::iter(all)).boxed_unsync();
            response
        }
    }
}

/// The text of a list, piece by piece.
fn pieces(head: Vec<u8>, mut items: impl Iterator<Item = Arc<Stored>>) -> impl Iterator<Item = Vec<u8>> {
    let mut next = Some(head);
    let mut is_first = true;
    std::iter::from_fn(move || {
        let mut piece = next.take()?;
        while piece.len() < PIECE {
            let Some(stored) = items.next() else {
                piece.extend_from_slice(b"]}");
                return Some(piece);
            };
            if !std::mem::take(&mut is_first) {
                piece.push(b',');
            }
            piece.extend_from_slice(&stored.bytes);
        }
        next = Some(Vec::with_capacity(PIECE + PIECE / 8));
        Some(piece)
    })
}

fn shaped_list(resource: &Resource, list: &Listed, shape: Shape, call: &Call) -> Value {
    match shape {
        Shape::Table => {
            let mut table = table::empty(resource, &call.accept.shape_version, "");
            table["metadata"] = list_metadata(list);
            table["rows"] = list.items.iter().map(|stored| table::row(resource, stored, include(call))).collect();
            table
        }
        Shape::Metadata => {
            let items: Vec<Value> = list.items.iter().map(|stored| table::partial(&stored.document()["metadata"])).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata(list), "items": items})
        }
        Shape::Plain => {
            let items: Vec<Value> = list.items.iter().map(|stored| shown(resource, stored)).collect();
            let kind = format!("{}List", resource.kind);
            json!({"kind": kind, "apiVersion": resource.api_version(), "metadata": list_metadata(list), "items": items})
        }
    }
}

/// How a watch shows objects to a client that wants tables or metadata.
pub(super) fn renderer(call: &Call) -> Option<Render> {
    let (version, include) = (call.accept.shape_version.clone(), include(call));
    match call.accept.shape {
        Shape::Plain => None,
        Shape::Metadata => Some(Arc::new(|_: &Resource, stored: &Stored| table::partial(&stored.document()["metadata"]))),
        Shape::Table => {
            // The client has the columns once it has seen one table.
            let has_columns = AtomicBool::new(false);
            Some(Arc::new(move |resource: &Resource, stored: &Stored| {
                let mut table = table::empty(resource, &version, &stored.revision.to_string());
                table["rows"] = json!([table::row(resource, stored, include)]);
                if has_columns.swap(true, Ordering::Relaxed) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }))
        }
    }
}

/// Lines as they come, until the watch ends or the client goes.
pub(super) fn stream(watcher: Watcher) -> Response<Payload> {
    let lines = stream::unfold(watcher, |mut watcher| async move { watcher.next().await.map(|line| (line, watcher)) });
    let body = StreamBody::new(lines.map(|line| Ok::<_, Infallible>(Frame::data(line))));
    let mut response = Response::new(BodyExt::boxed_unsync(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
