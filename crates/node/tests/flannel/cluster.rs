//! The embedded API, on the underlay of a world.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::harness::node::Daemon;
use crate::harness::{Place, World};

/// Where the API is.
const ADDRESS: &str = "192.168.0.254:6443";

/// What annotations begin with.
pub(crate) const PREFIX: &str = "flannel.alpha.coreos.com";

/// The API server of a world, which can be stopped and started again.
pub(crate) struct Cluster {
    place: Place,
    directory: PathBuf,
    server: Option<Daemon>,
}

impl Cluster {
    pub(crate) fn start(world: &World) -> Self {
        let directory = Path::new("/run/cluster").to_owned();
        std::fs::create_dir_all(&directory).expect("a directory");
        let mut cluster = Self { place: world.underlay.hold(), directory, server: None };
        cluster.resume(world);
        cluster
    }

    /// Starts the server in another life.
    pub(crate) fn resume(&mut self, world: &World) {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let arguments = ["serve", "--listen", ADDRESS, "--state-dir", &path("state"), "--kubeconfig", &path("kubeconfig")];
        self.server = Some(world.one().daemon_at(&self.place, "api", &arguments.map(str::to_owned)));
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Asks the API something.
    fn ask<T: Send, F: Future<Output = kube::Result<T>>>(&self, question: impl FnOnce(Client) -> F + Send) -> T {
        let file = self.kubeconfig();
        let ask = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let kubeconfig = Kubeconfig::read_from(file).expect("the kubeconfig");
                let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("the kubeconfig");
                question(Client::try_from(config).expect("a client")).await
            })
        };
        self.place.run(ask).unwrap_or_else(|error| panic!("the API: {error}"))
    }

    /// Makes a Node with these podCIDRs.
    pub(crate) fn add(&self, name: &str, cidrs: &[&str]) {
        let mut node = json!({ "metadata": { "name": name }, "spec": {} });
        if !cidrs.is_empty() {
            node["spec"] = json!({ "podCIDR": cidrs[0], "podCIDRs": cidrs });
        }
        let node: Node = serde_json::from_value(node).expect("a Node");
        self.ask(async |client| Api::<Node>::all(client).create(&PostParams::default(), &node).await);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.ask(async |client| Api::<Node>::all(client).delete(name, &DeleteParams::default()).await);
    }

    /// Changes a Node.
    pub(crate) fn change(&self, name: &str, patch: &Value) {
        self.ask(async |client| Api::<Node>::all(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await);
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.ask(async |client| Api::<Node>::all(client).get(name).await)
    }

    /// An annotation of a Node.
    pub(crate) fn annotation(&self, name: &str, key: &str) -> String {
        let annotations = self.node(name).metadata.annotations.unwrap_or_default();
        annotations.get(&format!("{PREFIX}/{key}")).cloned().unwrap_or_default()
    }

    /// What Events say about a Node.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let events = self.ask(async |client| Api::<Event>::namespaced(client, "default").list(&ListParams::default()).await);
        let about = events.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        about.map(|event| format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
    }
}
