//! A server that answers by a script, for what a real one does too seldom.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// One answer.
pub(crate) enum Answer {
    /// A text with 200.
    Text(String),
    /// A refusal.
    Refusal(u16),
    /// None at all.
    Silence,
}

impl Answer {
    /// A list as of a version.
    pub(crate) fn list(version: &str, maps: &[ConfigMap]) -> Self {
        let items: Vec<Value> = maps.iter().map(|map| serde_json::to_value(map).unwrap()).collect();
        let metadata = json!({"resourceVersion": version});
        Self::Text(json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string())
    }

    /// A watch that ends after these events.
    pub(crate) fn watch(events: &[Value]) -> Self {
        Self::Text(events.iter().map(|event| format!("{event}\n")).collect())
    }
}

/// What is left to answer, and what was asked.
#[derive(Clone)]
pub(crate) struct Script(Arc<Mutex<(VecDeque<Answer>, Vec<String>)>>);

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self(Arc::new(Mutex::new((answers.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// The requests so far: lists, and watches with the version from which.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }

    /// Waits until all answers are given.
    pub(crate) async fn finished(&self, patience: Duration) {
        let all = async {
            while !self.0.lock().unwrap().0.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(patience, all).await.expect("the script is never played to its end");
    }

    fn next(&self, request: &Request<Body>) -> Answer {
        let (answers, asked) = &mut *self.0.lock().unwrap();
        asked.push(described(request.uri().query().unwrap_or_default()));
        answers.pop_front().unwrap_or(Answer::Silence)
    }
}

fn described(query: &str) -> String {
    let value = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    match value("watch") {
        "true" => format!("watch {}", value("resourceVersion")),
        _ => "list".to_owned(),
    }
}

impl tower_service::Service<Request<Body>> for Script {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.next(&request);
        Box::pin(async move {
            let (code, text) = match answer {
                Answer::Text(text) => (200, text),
                Answer::Refusal(code) => (code, String::new()),
                Answer::Silence => std::future::pending().await,
            };
            Ok(Response::builder().status(code).body(Body::from(text.into_bytes())).unwrap())
        })
    }
}
