//! A server that is measured, and what it is asked.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The Kubernetes namespace of all objects.
const NAMESPACE: &str = "bench";

/// One of the two.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    client: Client,
    processes: Vec<u32>,
    versions: AtomicUsize,
}

impl Subject {
    pub(crate) async fn connect(name: &'static str, kubeconfig: &Path, processes: &[u32]) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", kubeconfig.display());
        let file = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(&error))?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(|error| failed(&error))?;
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| failed(&error))?;
        let subject = Self { name, client, processes: processes.to_vec(), versions: AtomicUsize::new(0) };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}).to_string();
        subject.ask(Method::POST, "/api/v1/namespaces", namespace).await?;
        Ok(subject)
    }

    /// Makes an object of about a kilobyte, and tells how long that took.
    pub(crate) async fn create(&self, name: &str) -> Result<Duration, String> {
        self.timed(Method::POST, &objects(""), self.object(name)).await
    }

    /// Replaces one.
    pub(crate) async fn update(&self, name: &str) -> Result<Duration, String> {
        self.timed(Method::PUT, &objects(&format!("/{name}")), self.object(name)).await
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Duration, String> {
        self.timed(Method::GET, &objects(&format!("/{name}")), String::new()).await
    }

    /// Lists so many, or all.
    pub(crate) async fn list(&self, limit: Option<usize>) -> Result<Duration, String> {
        let query = limit.map_or_else(String::new, |limit| format!("?limit={limit}"));
        self.timed(Method::GET, &objects(&query), String::new()).await
    }

    async fn timed(&self, method: Method, path: &str, body: String) -> Result<Duration, String> {
        let begin = Instant::now();
        self.ask(method, path, body).await?;
        Ok(begin.elapsed())
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> Result<(), String> {
        let answer = self.send(method, path, body).await?;
        let code = answer.status();
        let text = answer.into_body().collect().await.map_err(|error| format!("{}: {path}: {error}", self.name))?.to_bytes();
        match code.is_success() {
            true => Ok(()),
            false => Err(format!("{}: {path}: {code}: {}", self.name, String::from_utf8_lossy(&text))),
        }
    }

    async fn send(&self, method: Method, path: &str, body: String) -> Result<http::Response<Body>, String> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body.into_bytes())).map_err(|error| format!("{path}: {error}"))?;
        self.client.send(request).await.map_err(|error| format!("{}: {path}: {error}", self.name))
    }

    /// Follows all changes from now on.
    pub(crate) async fn watch(&self) -> Result<Watcher, String> {
        let answer = self
            .send(
                Method::GET,
                &objects("?watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"),
                String::new(),
            )
            .await?;
        if !answer.status().is_success() {
            return Err(format!("{}: a watch: {}", self.name, answer.status()));
        }
        let mut body = answer.into_body();
        let (count, seen) = watch::channel(0);
        let task = tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                // Events end with their line. What they say is for both the same, and reading it would be measuring this program.
                let events = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                count.send_modify(|count| *count += events);
            }
        });
        Ok(Watcher { seen, task })
    }

    /// An object that is not the same as any before: a change that changes nothing costs nothing.
    fn object(&self, name: &str) -> String {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let data = json!({"version": version.to_string(), "text": "x".repeat(800)});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "bench"}}, "data": data}).to_string()
    }

    /// What its processes hold in memory, in MiB.
    pub(crate) fn memory(&self) -> f64 {
        let of = |process: &u32| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
            line.split_whitespace().next().and_then(|size| size.parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        self.processes.iter().map(of).sum::<f64>() / 1024.0
    }
}

/// A watch under way.
pub(crate) struct Watcher {
    seen: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// How many events have come.
    pub(crate) fn count(&self) -> usize {
        *self.seen.borrow()
    }

    /// Waits until so many have come.
    pub(crate) async fn reach(&self, count: usize) -> Result<(), String> {
        let reached = tokio::time::timeout(Duration::from_secs(120), self.seen.clone().wait_for(|seen| *seen >= count))
            .await
            .is_ok_and(|seen| seen.is_ok());
        if reached { Ok(()) } else { Err(format!("a watcher has seen {} of {count} events", self.count())) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn objects(rest: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps{rest}")
}
