//! Tokens by which pods prove to be a service account.

use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use super::{Answer, Api};
use crate::server::access::{Account, ISSUER, Tokens};
use crate::server::body::Body;
use crate::server::document::{number, text, timestamp};
use crate::server::field::Errors;
use crate::server::resource::{self, SERVICE_ACCOUNTS};
use crate::server::route::Target;
use crate::server::status::{Failure, Result};
use crate::server::store::{Key, State};

/// How long a token holds that does not say, and how long it may at least and at most.
const USUAL: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// Answers a `TokenRequest` for a service account.
pub(crate) fn request_token(api: &Api, tokens: &Tokens, target: &Target, body: &Body) -> Result<Answer> {
    let (namespace, name) = (target.namespace.clone().unwrap_or_default(), target.name.clone().unwrap_or_default());
    let state = api.store.state();
    let stored = state.get(&Key::new(&SERVICE_ACCOUNTS, &namespace, &name));
    let stored = stored.ok_or_else(|| Failure::not_found(&SERVICE_ACCOUNTS, &name))?;
    let seconds = number(&body.document, "/spec/expirationSeconds").unwrap_or(USUAL);
    check_time(&name, seconds)?;
    let audiences = match &body.document["spec"]["audiences"] {
        Value::Array(audiences) if !audiences.is_empty() => Value::from(audiences.clone()),
        _ => json!([ISSUER]),
    };
    let now = OffsetDateTime::now_utc();
    let until = now + Duration::seconds(seconds);
    let reference = body.document["spec"]["boundObjectRef"].clone();
    let bound_to = bound_to(&state, &namespace, &reference)?;
    let account = Account { uid: stored.uid.to_string(), namespace, name, bound_to };
    let token = tokens.sign(&account, &audiences, until);
    Ok(Answer::Document(
        201,
        json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": account.name, "namespace": account.namespace, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": reference},
            "status": {"token": token, "expirationTimestamp": timestamp(until)},
        }),
    ))
}

/// The uid of the object that a token is to end with.
fn bound_to(state: &State, namespace: &str, reference: &Value) -> Result<Option<String>> {
    if reference.is_null() {
        return Ok(None);
    }
    let (kind, name, uid) = (text(reference, "/kind"), text(reference, "/name"), text(reference, "/uid"));
    let resource = resource::of_kind("v1", kind).filter(|_| matches!(kind, "Pod" | "Secret" | "Node"));
    let resource =
        resource.ok_or_else(|| Failure::bad_request(format!("cannot bind token for serviceaccount to object of kind {kind:?}")))?;
    let stored = state.get(&Key::new(resource, namespace, name)).ok_or_else(|| Failure::not_found(resource, name))?;
    if !uid.is_empty() && *uid != *stored.uid {
        let cause = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Failure::conflict(resource, name, &cause));
    }
    Ok(Some(stored.uid.to_string()))
}

fn check_time(name: &str, seconds: i64) -> Result<()> {
    let cause = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        SHORTEST..=LONGEST => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let mut errors = Errors::default();
    errors.invalid("spec.expirationSeconds", seconds, cause);
    Err(Failure::invalid_kind("authentication.k8s.io", "TokenRequest", name, &errors.0))
}
