//! The API server of a world, at the router: ours, or Kubernetes' own in its place.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cluster::connect::{Source, connect};
use http::Request;
use kube::Client;

use super::kubernetes::ControlPlane;
use super::node::Daemon;
use super::{Place, World};

/// Names the directory of Kubernetes' own `etcd` and `kube-apiserver`, which are then started in the place of ours.
const ORIGINAL: &str = "TRANSOM_KUBERNETES";

/// Where nodes reach it: at the router.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 168, 0, 254)), 6443);

/// The addresses of Services.
const SERVICE_CIDRS: &str = "10.96.0.0/16,fd00:96::/112";

/// How long the original may take from its start until it answers.
const START_LIMIT: Duration = Duration::from_secs(90);

/// The server, which can be killed and started again with what it knew.
pub(crate) struct ApiServer {
    place: Place,
    directory: PathBuf,
    /// In the order they are to be ended.
    running: Vec<Daemon>,
}

impl ApiServer {
    /// Starts it.
    pub(crate) fn start(world: &World) -> Self {
        let directory = Path::new("/run/api").to_owned();
        fs::create_dir_all(&directory).expect("a directory");
        let mut server = Self { place: world.underlay.hold(), directory, running: Vec::new() };
        server.run(world);
        server
    }

    /// Starts it, or starts it again.
    pub(crate) fn run(&mut self, world: &World) {
        match std::env::var_os(ORIGINAL) {
            None => self.run_ours(world),
            Some(programs) => self.run_original(world, programs.into()),
        }
    }

    fn run_ours(&mut self, world: &World) {
        let state = self.directory.join("state").display().to_string();
        let (listen, kubeconfig) = (ADDRESS.to_string(), self.kubeconfig().display().to_string());
        let arguments = ["serve", "--listen", &listen, "--state-dir", &state, "--kubeconfig", &kubeconfig, "--service-cidr", SERVICE_CIDRS];
        self.running = vec![world.one().daemon_at(&self.place, "api", &arguments.map(str::to_owned))];
    }

    fn run_original(&mut self, world: &World, programs: PathBuf) {
        let state = self.directory.clone();
        let plane = ControlPlane { programs, state, address: ADDRESS, etcd: [2379, 2380], service_cidrs: SERVICE_CIDRS };
        plane.write_files().expect("the files of the server");
        let etcd = world.one().launch(&self.place, plane.etcd(), "etcd");
        // The server waits for etcd.
        self.running = vec![world.one().launch(&self.place, plane.apiserver(), "kube-apiserver"), etcd];
        let begin = Instant::now();
        while !self.is_ready() {
            let still = self.running.iter_mut().all(Daemon::is_alive) && begin.elapsed() < START_LIMIT;
            assert!(still, "kube-apiserver did not become ready; it said:\n{}", world.one().log("kube-apiserver"));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Whether the original has all that ours has from its beginning: the namespace `default` and the Service of the server itself.
    fn is_ready(&self) -> bool {
        let get = |path: &str| Request::get(path).body(Vec::new()).expect("a request");
        let [ready, service] = ["/readyz", "/api/v1/namespaces/default/services/kubernetes"].map(get);
        // Its certificate comes with it, so that at first there may be no client either.
        let ask = async |client: Client| client.request_text(ready).await.and(client.request_text(service).await);
        self.try_ask(ask).is_ok()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.running.clear();
    }

    /// The file that tells clients where it is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Asks it something. What it refuses is the test's failure.
    pub(crate) fn ask<T: Send, F: Future<Output = kube::Result<T>>>(&self, what: &str, question: impl FnOnce(Client) -> F + Send) -> T {
        self.try_ask(question).unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    fn try_ask<T: Send, F: Future<Output = kube::Result<T>>>(&self, question: impl FnOnce(Client) -> F + Send) -> Result<T, String> {
        let source = Source::File { path: self.kubeconfig(), context: None };
        self.place.run(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let client = connect(&source).await.map_err(|error| error.to_string())?;
                question(client).await.map_err(|error| error.to_string())
            })
        })
    }
}
