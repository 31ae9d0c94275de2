//! A server that can be killed and started again.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use super::program;

const START_LIMIT: Duration = Duration::from_secs(60);

/// Where its state is, and how it is reached.
pub(crate) struct Home {
    directory: PathBuf,
    program: PathBuf,
    /// The same in all its lives, so that watchers find it again.
    port: u16,
}

impl Home {
    pub(crate) fn new(directory: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = port.expect("there is a free port").port();
        Self { directory: directory.to_owned(), program: program::program().to_owned(), port }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    fn log(&self) -> PathBuf {
        self.directory.join("api.log")
    }

    /// How it is started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["api", "serve", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--state-dir").arg(self.state()).arg("--kubeconfig").arg(self.kubeconfig());
        command
    }

    /// Where its files are.
    pub(crate) fn state(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Starts it, and waits until it says that it is ready.
    pub(crate) async fn start(&self) -> Result<Server, String> {
        self.start_as(&mut self.command()).await
    }

    /// Starts it in a way of one's own.
    pub(crate) async fn start_as(&self, command: &mut Command) -> Result<Server, String> {
        let log = OpenOptions::new().create(true).append(true).open(self.log()).map_err(|error| format!("no log: {error}"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut server = Server(child.map_err(|error| format!("cannot start {}: {error}", self.program.display()))?);
        let output = server.0.stdout.take().ok_or("the server has no output")?;
        let (sender, ready) = tokio::sync::oneshot::channel();
        thread::spawn(move || {
            let is_ready = BufReader::new(output).lines().map_while(Result::ok).any(|line| line.starts_with("ready"));
            // Nobody waits any more if it took too long.
            let _ = sender.send(is_ready);
        });
        match tokio::time::timeout(START_LIMIT, ready).await {
            Ok(Ok(true)) => Ok(server),
            _ => Err("the server did not become ready".to_owned()),
        }
    }

    /// A client that it trusts, and that tries nothing twice.
    pub(crate) fn client(&self) -> impl Future<Output = Result<Client, String>> + use<> {
        let file = self.kubeconfig();
        async move {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|error| format!("the kubeconfig: {error}"))?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
            let mut config = config.map_err(|error| format!("the kubeconfig: {error}"))?;
            config.default_retry = false;
            Client::try_from(config).map_err(|error| format!("no client: {error}"))
        }
    }

    /// All objects: names, and versions with values.
    pub(crate) async fn list(&self, client: &Client) -> Result<BTreeMap<String, (u64, String)>, String> {
        let listed = maps(client).list(&ListParams::default()).await.map_err(|error| format!("the last list: {error}"))?;
        Ok(listed.items.iter().map(|map| (name_of(map), (version_of(map), value_of(map)))).collect())
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// A life of the server, which ends with this value.
pub(crate) struct Server(Child);

impl Server {
    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it as a power cut would end its process.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).map_err(|error| format!("it cannot be killed: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The objects that are played with.
pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) fn name_of(map: &ConfigMap) -> String {
    map.metadata.name.clone().unwrap_or_default()
}

pub(crate) fn version_of(map: &ConfigMap) -> u64 {
    map.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

pub(crate) fn value_of(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("value").cloned()).unwrap_or_default()
}
