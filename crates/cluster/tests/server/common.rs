//! A server in a directory of its own, and a client that speaks HTTPS with it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::server::{Options, Server};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

pub(crate) struct Subject {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
    tls: Arc<ClientConfig>,
}

pub(crate) fn options(directory: &Path) -> Options {
    Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        state_dir: directory.to_owned(),
        kubeconfig: Some(directory.join("kubeconfig")),
        service_cidrs: vec!["10.96.0.0/12".parse().unwrap(), "fd00:96::/112".parse().unwrap()],
        node_ports: 30000..=32767,
        set_aside_unreadable: false,
    }
}

fn client_tls(directory: &Path, with_certificate: bool) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(directory.join("ca.crt")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    if !with_certificate {
        return builder.with_no_client_auth();
    }
    let chain = vec![CertificateDer::from_pem_file(directory.join("admin.crt")).unwrap()];
    builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(directory.join("admin.key")).unwrap()).unwrap()
}

impl Subject {
    pub(crate) async fn start(directory: &Path) -> Self {
        Self::start_with(directory, options(directory)).await
    }

    pub(crate) async fn start_with(directory: &Path, options: Options) -> Self {
        let server = Server::start(options).await.unwrap();
        let (address, token) = (server.address(), server.token().to_owned());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run(async move { _ = stopped.await }));
        Self { address, token, stop: Some(stop), task, tls: Arc::new(client_tls(directory, false)) }
    }

    pub(crate) fn with_certificate(mut self, directory: &Path) -> Self {
        self.tls = Arc::new(client_tls(directory, true));
        self.token = String::new();
        self
    }

    pub(crate) async fn stop(mut self) {
        _ = self.stop.take().map(|stop| stop.send(()));
        _ = (&mut self.task).await;
    }

    /// Sends a request and returns the answer as it begins.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response<Incoming> {
        let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> (u16, Value) {
        let response = self.send(method, path, headers, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into()))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, document: &Value) -> (u16, Value) {
        self.ask("POST", path, &[("content-type", "application/json")], document.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, document: &Value) -> (u16, Value) {
        self.ask("PUT", path, &[("content-type", "application/json")], document.to_string()).await
    }

    pub(crate) async fn patch(&self, form: &str, path: &str, patch: &Value) -> (u16, Value) {
        let media_type = format!("application/{form}-patch+json");
        self.ask("PATCH", path, &[("content-type", &media_type)], patch.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.ask("DELETE", path, &[], "").await
    }

    pub(crate) async fn watch(&self, path: &str) -> Watch {
        Watch { body: self.send("GET", path, &[], "").await.into_body(), rest: Vec::new() }
    }

    /// Asks until an answer is as wanted.
    pub(crate) async fn eventually(&self, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
        for _ in 0..200 {
            let (code, answer) = self.get(path).await;
            if wanted(code, &answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{path} never was as wanted; it is {}", self.get(path).await.1);
    }
}

/// A watch under way.
pub(crate) struct Watch {
    body: Incoming,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event; none when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(Duration::from_secs(10), self.body.frame()).await.expect("no event came");
            self.rest.extend_from_slice(frame?.unwrap().data_ref()?);
        }
    }

    /// The next event as its type and the name of its object.
    pub(crate) async fn short(&mut self) -> String {
        let event = self.next().await.unwrap();
        format!("{} {}", event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap_or("-"))
    }
}
