//! The server that is tested, and requests to it.

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::answer::Answer;
use super::watch::Watch;
use crate::own;

/// One answer, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(60);

/// A server, and a client that it trusts.
pub(crate) struct Server {
    runtime: Runtime,
    client: Client,
    stranger: Client,
    is_original: bool,
}

/// The server of this run.
pub(crate) fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::connect)
}

impl Server {
    fn connect() -> Self {
        let named = env::var_os("TRANSOM_KUBECONFIG").map(PathBuf::from);
        let is_original = env::var_os("TRANSOM_IS_ORIGINAL").is_some();
        let file = named.unwrap_or_else(|| own::start("semantics"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime can be made");
        let (client, stranger) = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(&file).unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
            let mut config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("the kubeconfig is sound");
            // A refusal is an answer, and not something to try again.
            config.default_retry = false;
            let mut unknown = config.clone();
            unknown.auth_info = Default::default();
            let client = |config| Client::try_from(config).expect("a client can be made");
            (client(config), client(unknown))
        });
        Self { runtime, client, stranger, is_original }
    }

    /// Whether it is Kubernetes' own. Only for what [`super::differences`] lists.
    pub(super) fn is_original(&self) -> bool {
        self.is_original
    }

    pub(crate) fn call(&'static self, method: Method, path: impl Into<String>) -> Call {
        Call { server: self, method, path: path.into(), headers: Vec::new(), body: Vec::new(), stranger: false }
    }

    pub(crate) fn get(&'static self, path: impl Into<String>) -> Answer {
        self.call(Method::GET, path).send()
    }

    pub(crate) fn post(&'static self, path: impl Into<String>, body: &Value) -> Answer {
        self.call(Method::POST, path).json(body).send()
    }

    pub(crate) fn put(&'static self, path: impl Into<String>, body: &Value) -> Answer {
        self.call(Method::PUT, path).json(body).send()
    }

    pub(crate) fn delete(&'static self, path: impl Into<String>) -> Answer {
        self.call(Method::DELETE, path).send()
    }

    pub(crate) fn delete_with(&'static self, path: impl Into<String>, options: &Value) -> Answer {
        self.call(Method::DELETE, path).json(options).send()
    }

    /// A JSON merge patch.
    pub(crate) fn merge(&'static self, path: impl Into<String>, patch: &Value) -> Answer {
        self.call(Method::PATCH, path).json(patch).header("content-type", "application/merge-patch+json").send()
    }

    /// A strategic merge patch.
    pub(crate) fn strategic(&'static self, path: impl Into<String>, patch: &Value) -> Answer {
        self.call(Method::PATCH, path).json(patch).header("content-type", "application/strategic-merge-patch+json").send()
    }

    /// A JSON patch.
    pub(crate) fn json_patch(&'static self, path: impl Into<String>, patch: &Value) -> Answer {
        self.call(Method::PATCH, path).json(patch).header("content-type", "application/json-patch+json").send()
    }
}

/// A request that is being put together.
pub(crate) struct Call {
    server: &'static Server,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    stranger: bool,
}

impl Call {
    /// Sets a header; one of the same name is replaced.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text(&body.to_string()).header("content-type", "application/json")
    }

    /// A body as it is, without a type.
    pub(crate) fn text(mut self, body: &str) -> Self {
        self.body = body.as_bytes().to_vec();
        self
    }

    /// As somebody the server does not know.
    pub(crate) fn without_credentials(mut self) -> Self {
        self.stranger = true;
        self
    }

    fn request(&self) -> Request<Body> {
        let mut request = Request::builder().method(self.method.clone()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = if self.body.is_empty() { Body::empty() } else { Body::from(self.body.clone()) };
        request.body(body).unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.path))
    }

    fn client(&self) -> &'static Client {
        if self.stranger { &self.server.stranger } else { &self.server.client }
    }

    /// Sends it and reads the whole answer.
    pub(crate) fn send(self) -> Answer {
        let what = format!("{} {}", self.method, self.path);
        let exchange = async {
            let response = self.client().send(self.request()).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            let body = body.collect_bytes().await.map_err(|error| error.to_string())?;
            Ok::<_, String>(Answer::new(what.clone(), head.status.as_u16(), head.headers, &body))
        };
        match self.server.runtime.block_on(async { tokio::time::timeout(LIMIT, exchange).await }) {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => panic!("{what}: {error}"),
            Err(_) => panic!("{what}: no answer"),
        }
    }

    /// Sends it and leaves the answer open, to be read event by event.
    pub(crate) fn watch(self) -> Watch {
        let what = format!("{} {}", self.method, self.path);
        let exchange = async { tokio::time::timeout(LIMIT, self.client().send(self.request())).await };
        match self.server.runtime.block_on(exchange) {
            Ok(Ok(response)) => Watch::new(what, &self.server.runtime, response),
            Ok(Err(error)) => panic!("{what}: {error}"),
            Err(_) => panic!("{what}: no answer"),
        }
    }
}
