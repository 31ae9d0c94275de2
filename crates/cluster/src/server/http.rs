//! Requests and answers over HTTP: who asks, for what, in which form.

mod answer;
mod connection;

use std::sync::Arc;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, Response};

use super::access::{Access, Account};
use super::body;
use super::discovery;
use super::document::as_map;
use super::media::{self, Accept};
use super::openapi;
use super::operation::{self, Answer, Api, DeleteOptions, ListOptions, Part, WatchOptions, Watcher};
use super::patch::Patch;
use super::query::Query;
use super::resource::SERVICE_ACCOUNTS;
use super::route::{Route, Target, route};
use super::status::{Failure, Result};
use super::store::Key;
use answer::Payload;

pub(super) use connection::serve;

/// The largest request.
const LARGEST_BODY: usize = 3 << 20;

/// What all connections share.
pub(super) struct Front {
    pub(super) api: Arc<Api>,
    pub(super) access: Access,
    pub(super) address: String,
}

/// A request as far as it matters to operations.
struct Call {
    method: Method,
    query: Query,
    accept: Accept,
    content_type: String,
}

impl Front {
    /// Answers a request. Nothing that a client sends makes it fail otherwise than with a `Status`.
    async fn answer(&self, request: Request<Incoming>, is_certified: bool) -> Response<Payload> {
        match self.respond(request, is_certified).await {
            Ok(response) => response,
            Err(failure) => answer::failure(&failure),
        }
    }

    async fn respond(&self, request: Request<Incoming>, is_certified: bool) -> Result<Response<Payload>> {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let place = route(request.uri().path());
        let is_public = matches!(place, Route::Health);
        if !is_public && !is_certified && !self.is_known(&header(AUTHORIZATION)) {
            return Err(Failure::unauthorized());
        }
        let call = Call {
            method: request.method().clone(),
            query: Query::parse(request.uri().query().unwrap_or_default()),
            accept: media::accept(&header(ACCEPT))?,
            content_type: header(CONTENT_TYPE),
        };
        match place {
            Route::Health => Ok(answer::text("ok")),
            Route::Nowhere => Err(Failure::no_such_path()),
            Route::NoPage => Ok(answer::no_page()),
            Route::Object(target) => self.objects(&call, &target, request).await,
            Route::Watch(target) if call.method == Method::GET => self.watch(&call, &target),
            Route::AccessReview if call.method == Method::POST => review_access(&call, &read_body(request).await?),
            _ if call.method != Method::GET => Err(Failure::method_not_allowed()),
            other => self.describe(&call, &other),
        }
    }

    /// Whether a client without a certificate may ask: with the token, or with one of a service account that still exists.
    fn is_known(&self, authorization: &str) -> bool {
        let exists = |account: Account| {
            let state = self.api.store.state();
            let stored = state.get(&Key::new(&SERVICE_ACCOUNTS, &account.namespace, &account.name));
            let is_bound = account.bound_to.is_none_or(|uid| state.with_uid(&uid).is_some());
            is_bound && stored.is_some_and(|stored| *stored.uid == *account.uid)
        };
        self.access.knows(authorization) || self.access.account(authorization).is_some_and(exists)
    }

    /// Answers questions about the server itself.
    fn describe(&self, call: &Call, place: &Route) -> Result<Response<Payload>> {
        let aggregated = call.accept.aggregated.as_deref();
        let document = match place {
            Route::Version => discovery::version(),
            Route::Paths => discovery::paths(),
            Route::CoreVersions | Route::Groups if aggregated.is_some() => {
                let version = aggregated.unwrap_or_default();
                let document = discovery::aggregated(matches!(place, Route::CoreVersions), version);
                return Ok(answer::aggregated_discovery(&document, version));
            }
            Route::CoreVersions => discovery::core_versions(&self.address),
            Route::Groups => discovery::group_list(),
            Route::Group(group) => discovery::group(group)?,
            Route::Resources(group, version) => discovery::resources(group, version)?,
            Route::OpenApiV2 => openapi::v2(),
            Route::OpenApiV3(rest) => openapi::v3(rest)?,
            Route::AccessReview => return Err(Failure::method_not_allowed()),
            Route::Watch(_) | Route::Health | Route::Object(_) | Route::Nowhere | Route::NoPage => {
                return Err(Failure::no_such_path());
            }
        };
        let response = answer::document(200, &document, call);
        Ok(match place {
            Route::CoreVersions | Route::Groups => answer::varying(response),
            _ => response,
        })
    }

    /// Does something with objects.
    async fn objects(&self, call: &Call, target: &Target, request: Request<Incoming>) -> Result<Response<Payload>> {
        if call.method == Method::GET && target.subresource.is_none() && target.name.is_none() {
            return self.list_or_watch(call, target);
        }
        if call.method == Method::GET {
            return self.read(call, target);
        }
        let bytes = read_body(request).await?;
        let (answer, warnings) = self.change(call, target, &bytes).await?;
        Ok(answer::warn(answer::answer(target.resource, answer, call), &warnings))
    }

    fn list_or_watch(&self, call: &Call, target: &Target) -> Result<Response<Payload>> {
        if call.query.is_set("watch") {
            return self.watch(call, target);
        }
        let options = ListOptions::read(target, &call.query)?;
        Ok(answer::answer(target.resource, operation::list(&self.api, target, &options)?, call))
    }

    fn watch(&self, call: &Call, target: &Target) -> Result<Response<Payload>> {
        let options = WatchOptions::read(target, &call.query)?;
        let watcher = Watcher::new(self.api.clone(), target, options, answer::renderer(call));
        Ok(answer::stream(watcher))
    }

    fn read(&self, call: &Call, target: &Target) -> Result<Response<Payload>> {
        let part = Part::of(target).filter(|part| *part != Part::Finalize).ok_or_else(Failure::no_such_path)?;
        let answer = operation::get(&self.api, target, &call.query)?;
        Ok(match (part, answer) {
            (Part::Scale, Answer::Object(code, stored)) => answer::document(code, &operation::scale_of(&stored), call),
            (_, answer) => answer::answer(target.resource, answer, call),
        })
    }

    /// Makes a change. Also returns what the client should be warned of.
    async fn change(&self, call: &Call, target: &Target, bytes: &[u8]) -> Result<(Answer, Vec<String>)> {
        let api = &self.api;
        let query = &call.query;
        let is_one = target.name.is_some();
        match call.method {
            Method::POST if !is_one => {
                let (body, warnings) = self.read_document(call, target, bytes)?;
                Ok((operation::create(api, target, query, body).await?, warnings))
            }
            Method::POST => Ok((self.act_on(call, target, bytes).await?, Vec::new())),
            Method::PUT if is_one => {
                let part = Part::of(target).ok_or_else(Failure::no_such_path)?;
                let (body, warnings) = match part {
                    Part::Scale => (body::read("Scale", &call.content_type, bytes)?, Vec::new()),
                    _ => self.read_document(call, target, bytes)?,
                };
                Ok((operation::update(api, target, part, query, body).await?, warnings))
            }
            Method::PATCH if is_one => {
                let part = Part::of(target).filter(|part| *part != Part::Finalize).ok_or_else(Failure::no_such_path)?;
                let patch = Patch::read(&call.content_type, bytes)?;
                body::check_level(query, "PatchOptions")?;
                Ok((operation::patch(api, target, part, query, patch).await?, Vec::new()))
            }
            Method::DELETE if target.subresource.is_none() => Ok((self.delete(call, target, bytes).await?, Vec::new())),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn read_document(&self, call: &Call, target: &Target, bytes: &[u8]) -> Result<(body::Body, Vec<String>)> {
        let body = body::read(target.resource.kind, &call.content_type, bytes)?;
        let options = if call.method == Method::POST { "CreateOptions" } else { "UpdateOptions" };
        let warnings = body::judge(target.resource, &body, &call.query, options)?;
        Ok((body, warnings))
    }

    /// What can be posted to an object: a pod is bound or evicted, a service account is asked for a token.
    async fn act_on(&self, call: &Call, target: &Target, bytes: &[u8]) -> Result<Answer> {
        let body = |kind: &str| body::read(kind, &call.content_type, bytes);
        match (target.resource.plural, target.subresource.as_deref()) {
            ("serviceaccounts", Some("token")) => operation::request_token(&self.api, &self.access.tokens, target, &body("TokenRequest")?),
            ("pods", Some("binding")) => operation::bind(&self.api, target, &call.query, body("Binding")?).await,
            ("pods", Some("eviction")) => {
                let body = body("Eviction")?;
                let options = DeleteOptions::read(&call.query, &body.document["deleteOptions"])?;
                operation::delete(&self.api, target, options).await?;
                let done = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
                Ok(Answer::Document(201, done))
            }
            _ => Err(Failure::method_not_allowed()),
        }
    }

    async fn delete(&self, call: &Call, target: &Target, bytes: &[u8]) -> Result<Answer> {
        let body = match bytes.is_empty() {
            true => serde_json::Value::Null,
            false => body::read("DeleteOptions", &call.content_type, bytes)?.document,
        };
        let options = DeleteOptions::read(&call.query, &body)?;
        if target.name.is_some() {
            return operation::delete(&self.api, target, options).await;
        }
        if !target.resource.can_delete_collection || (target.resource.namespaced && target.namespace.is_none()) {
            return Err(Failure::method_not_allowed());
        }
        let selected = ListOptions::read(target, &call.query)?;
        operation::delete_collection(&self.api, target, selected, options).await
    }
}

/// Whoever gets as far as asking may do everything.
fn review_access(call: &Call, bytes: &[u8]) -> Result<Response<Payload>> {
    let mut review = body::read("SelfSubjectAccessReview", &call.content_type, bytes)?.document;
    let map = as_map(&mut review);
    map.insert("kind".into(), "SelfSubjectAccessReview".into());
    map.insert("apiVersion".into(), "authorization.k8s.io/v1".into());
    map.insert("status".into(), serde_json::json!({"allowed": true}));
    Ok(answer::document(201, &review, call))
}

async fn read_body(request: Request<Incoming>) -> Result<bytes::Bytes> {
    let body = Limited::new(request.into_body(), LARGEST_BODY).collect().await;
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Failure::too_large(format!("Request entity too large: limit is {LARGEST_BODY}")))
        }
        Err(error) => Err(Failure::bad_request(format!("the request could not be read: {error}"))),
    }
}
