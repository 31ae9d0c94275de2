//! An API server with Services and backends in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use futures_util::future::try_join_all;
use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::hns::Reached;
use crate::subject::NODE;

/// How many clients change things at once.
const AT_ONCE: usize = 16;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The server and what is in it.
pub(crate) struct Content {
    child: Child,
    kubeconfig: PathBuf,
    client: Client,
    /// The address of each Service, and the numbers of its backends.
    services: Vec<(String, Vec<usize>)>,
    next_backend: usize,
    chance: u64,
}

impl Content {
    /// Starts the server and fills it.
    pub(crate) async fn start(transom: &Path, directory: &Path, services: usize, backends: usize) -> Result<Self, String> {
        let kubeconfig = directory.join("kubeconfig");
        let log = File::create(directory.join("api.log")).map_err(|error| format!("no log: {error}"))?;
        let mut command = Command::new(transom);
        command.args(["api", "serve", "--listen", "127.0.0.1:0", "--state-dir"]).arg(directory.join("api"));
        command.arg("--kubeconfig").arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|error| format!("cannot start the API server: {error}"))?;
        let output = child.stdout.take().ok_or("the API server has no output")?;
        if !BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("ready")) {
            return Err("the API server did not start".to_owned());
        }
        let file = Kubeconfig::read_from(&kubeconfig).map_err(|error| error.to_string())?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(|error| error.to_string())?;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let mut content = Self { child, kubeconfig, client, services: Vec::new(), next_backend: backends, chance: 1 };
        content.fill(services, backends).await?;
        Ok(content)
    }

    async fn fill(&mut self, services: usize, backends: usize) -> Result<(), String> {
        let node = json!({"metadata": {"name": NODE}, "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.10"}]}});
        self.ask(Method::POST, "/api/v1/nodes", &node).await?;
        self.ask(Method::PUT, &format!("/api/v1/nodes/{NODE}/status"), &node).await?;
        let client = |first: usize| {
            let this = &*self;
            async move {
                let mut made = Vec::new();
                for number in (first..services).step_by(AT_ONCE) {
                    let own: Vec<usize> = (number..backends).step_by(services).collect();
                    made.push((number, (this.make(number, &own).await?, own)));
                }
                Ok::<_, String>(made)
            }
        };
        let made: BTreeMap<usize, (String, Vec<usize>)> = try_join_all((0..AT_ONCE).map(client)).await?.into_iter().flatten().collect();
        self.services = made.into_values().collect();
        Ok(())
    }

    /// Makes a Service with backends, and tells its address.
    async fn make(&self, number: usize, backends: &[usize]) -> Result<String, String> {
        let service = json!({"metadata": {"name": format!("s{number}")}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
        let service = self.ask(Method::POST, "/api/v1/namespaces/default/services", &service).await?;
        let mut slice = slice(backends);
        slice["metadata"] = json!({"name": format!("s{number}-a"), "labels": {"kubernetes.io/service-name": format!("s{number}")}});
        slice["addressType"] = "IPv4".into();
        self.ask(Method::POST, SLICES, &slice).await?;
        service["spec"]["clusterIP"].as_str().map(str::to_owned).ok_or_else(|| "a Service has no address".to_owned())
    }

    /// Replaces so many backends of Services chosen by chance, one at a time.
    pub(crate) async fn change(&mut self, changes: usize) -> Result<(), String> {
        let mut patches = Vec::new();
        for _ in 0..changes {
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let service = usize::try_from(self.chance >> 33).unwrap_or(0) % self.services.len();
            let fresh = self.next_backend;
            self.next_backend += 1;
            let backends = &mut self.services[service].1;
            if let Some(slot) = backends.first_mut() {
                *slot = fresh;
            }
            backends.rotate_left(1);
            patches.push((service, slice(backends)));
        }
        let this = &*self;
        let patches = &patches;
        // Those of one Service in order: each client has Services of its own.
        let client = |own: usize| async move {
            for (service, patch) in patches.iter().filter(|(service, _)| service % AT_ONCE == own) {
                this.ask(Method::PATCH, &format!("{SLICES}/s{service}-a"), patch).await?;
            }
            Ok::<(), String>(())
        };
        try_join_all((0..AT_ONCE).map(client)).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str, document: &Value) -> Result<Value, String> {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(&method).uri(path).header("content-type", content_type);
        let request = request.body(document.to_string().into_bytes()).map_err(|error| error.to_string())?;
        self.client.request(request).await.map_err(|error| format!("{method} {path}: {error}"))
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// How many load balancers there should be at least: one for each Service. The API server's own has no backends here, and whether it gets
    /// one is the proxy's choice.
    pub(crate) fn frontends(&self) -> usize {
        self.services.len()
    }

    /// What should be reached at the Services' addresses.
    pub(crate) fn wanted(&self) -> Reached {
        let reached =
            |(address, backends): &(String, Vec<usize>)| (address.clone(), backends.iter().map(|number| backend(*number)).collect());
        self.services.iter().map(reached).collect()
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn slice(backends: &[usize]) -> Value {
    let endpoints: Vec<Value> = backends
        .iter()
        .map(|number| json!({"addresses": [backend(*number)], "nodeName": "elsewhere", "conditions": {"ready": true}}))
        .collect();
    json!({"endpoints": endpoints, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]})
}

/// The address of a backend.
fn backend(number: usize) -> String {
    format!("10.{}.{}.{}", 16 + number / 62_500, number / 250 % 250, 1 + number % 250)
}
