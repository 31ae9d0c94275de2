//! What a server answers.

use std::ops::Index;

use http::HeaderMap;
use serde_json::Value;

/// A status, headers and a body.
#[derive(Debug)]
pub(crate) struct Answer {
    request: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// As it came.
    pub(crate) text: String,
    /// Null if it is not JSON.
    pub(crate) body: Value,
}

/// One cause of a refusal: reason, field and message.
pub(crate) type Cause<'a> = (&'a str, &'a str, &'a str);

impl Answer {
    pub(super) fn new(request: String, status: u16, headers: HeaderMap, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body).into_owned();
        let body = serde_json::from_slice(body).unwrap_or(Value::Null);
        Self { request, status, headers, text, body }
    }

    /// The body of an answer with this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.request, self.text);
        self.body
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        self.expect(200)
    }

    #[track_caller]
    pub(crate) fn created(self) -> Value {
        self.expect(201)
    }

    /// A refusal with code, reason and message, in the shape of a Status.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        let request = self.request.clone();
        let body = self.expect(code);
        assert_eq!(body["kind"], "Status", "{request}: {body}");
        assert_eq!(body["apiVersion"], "v1", "{request}: {body}");
        assert_eq!(body["status"], "Failure", "{request}: {body}");
        assert_eq!(body["code"], code, "{request}: {body}");
        assert_eq!(body["metadata"], serde_json::json!({}), "{request}: {body}");
        assert_eq!(body["message"].as_str().unwrap_or_default(), message, "{request}: {body}");
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{request}: {body}");
        body
    }

    /// A refusal of an object that is not valid, with all causes in their order.
    #[track_caller]
    pub(crate) fn invalid(self, group: &str, kind: &str, name: &str, causes: &[Cause<'_>]) {
        let request = self.request.clone();
        let body = self.expect(422);
        let details = &body["details"];
        let seen: Vec<Cause<'_>> = details["causes"].as_array().into_iter().flatten().map(cause).collect();
        assert_eq!(seen, causes, "{request}: {body}");
        assert_eq!(body["reason"], "Invalid", "{request}: {body}");
        assert_eq!(details["group"].as_str().unwrap_or_default(), group, "{request}: {body}");
        assert_eq!(details["kind"], kind, "{request}: {body}");
        assert_eq!(details["name"].as_str().unwrap_or_default(), name, "{request}: {body}");
        let subject = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let list: Vec<String> = causes.iter().map(|(_, field, message)| format!("{field}: {message}")).collect();
        let list = if list.len() == 1 { list[0].clone() } else { format!("[{}]", list.join(", ")) };
        assert_eq!(body["message"], format!("{subject} {name:?} is invalid: {list}"), "{request}");
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

fn cause(cause: &Value) -> Cause<'_> {
    let text = |key: &str| cause[key].as_str().unwrap_or_default();
    (text("reason"), text("field"), text("message"))
}

impl Index<&str> for Answer {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        &self.body[key]
    }
}
