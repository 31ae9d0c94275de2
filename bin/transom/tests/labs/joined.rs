//! Labs in a cluster that is there already: one of ours on this machine, or Kubernetes' own that TRANSOM_KUBECONFIG names.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Service};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::harness::{Labs, eventually};

/// Names a kubeconfig of Kubernetes' own server, with its controllers.
const VARIABLE: &str = "TRANSOM_KUBECONFIG";

/// A cluster, which ends with this value if it is ours.
struct Cluster {
    server: Option<Child>,
    kubeconfig: PathBuf,
    runtime: Runtime,
    client: Client,
}

impl Cluster {
    fn start(directory: &Path) -> Self {
        let given = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
        let (server, kubeconfig) = given.map_or_else(|| serve(directory), |file| (None, file));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = runtime.block_on(async {
            let file = Kubeconfig::read_from(&kubeconfig).expect("a kubeconfig");
            Client::try_from(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a configuration"))
        });
        Self { server, kubeconfig, runtime, client: client.expect("a client") }
    }

    fn file(&self) -> String {
        self.kubeconfig.display().to_string()
    }

    fn all<K>(&self) -> BTreeSet<String>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let listed = self.runtime.block_on(Api::<K>::all(self.client.clone()).list(&ListParams::default())).expect("a list");
        let title = |object: &K| {
            let metadata = object.meta();
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            format!("{} {}/{}", K::kind(&()), part(&metadata.namespace), part(&metadata.name))
        };
        listed.items.iter().map(title).collect()
    }

    /// Everything that a lab could make or take away.
    fn everything(&self) -> BTreeSet<String> {
        [self.all::<Node>(), self.all::<Service>(), self.all::<Deployment>(), self.all::<ConfigMap>(), self.all::<Pod>()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn create<K>(&self, namespace: &str, document: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
        K: serde::Serialize + serde::de::DeserializeOwned,
    {
        let object: K = serde_json::from_value(document).expect("an object");
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(api.create(&PostParams::default(), &object)).expect("it is made");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            _ = server.kill();
            _ = server.wait();
        }
    }
}

/// Starts a cluster of ours.
fn serve(directory: &Path) -> (Option<Child>, PathBuf) {
    let kubeconfig = directory.join("cluster.kubeconfig");
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom"));
    command.args(["api", "serve", "--listen", "127.0.0.1:0", "--service-cidr", "10.43.0.0/16"]);
    command.arg("--state-dir").arg(directory.join("cluster")).arg("--kubeconfig").arg(&kubeconfig);
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the server starts");
    let mut lines = BufReader::new(server.stdout.take().expect("its output")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("ready"))), "the server is ready");
    (Some(server), kubeconfig)
}

/// Two nodes, of names that nobody else has, and a Service in front of a Deployment.
const LAB: &str = "\
apiVersion: transom/v1
kind: Lab
name: joined
nodes:
  - {name: joined-win, os: windows}
  - {name: joined-linux, os: linux}
cluster: {podSubnets: [10.231.0.0/16]}
---
apiVersion: v1
kind: Namespace
metadata: {name: joined}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: joined}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: agnhost, args: [netexec]}], terminationGracePeriodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: joined}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: joined}
spec: {nodeName: joined-win, containers: [{name: main, image: agnhost, args: [netexec]}], terminationGracePeriodSeconds: 1}
";

/// Where the cluster has its Services; Kubernetes' own has both families, and the lab's pods one.
fn lab() -> String {
    match std::env::var_os(VARIABLE).is_some() {
        true => LAB.replace("10.231.0.0/16]", "10.231.0.0/16, 'fd00:231::/48']"),
        false => LAB.to_owned(),
    }
}

fn is_reached(labs: &Labs, name: &str) -> bool {
    let script = format!("exec 3<>/dev/tcp/{name}/80");
    labs.run(&["lab", "exec", "--name", "joined", "-n", "joined", "client", "--", "timeout", "2", "bash", "-c", &script]).status.success()
}

#[test]
fn a_lab_is_in_a_cluster_of_others_and_takes_away_what_is_its_own() {
    let Some(labs) = Labs::new() else { return };
    let cluster = Cluster::start(labs.directory());
    let others = format!("others-{}", std::process::id());
    cluster.create::<ConfigMap>("default", json!({"metadata": {"name": others}}));
    cluster.create::<Service>("default", json!({"metadata": {"name": others}, "spec": {"ports": [{"port": 80}]}}));
    let before = cluster.everything();
    let file = labs.file("lab.yaml", &lab());
    labs.ok(&["lab", "up", &file, "--kubeconfig", &cluster.file()]);
    assert!(cluster.all::<Node>().contains("Node /joined-win"), "{:?}", cluster.all::<Node>());
    eventually("the Service is reached by name", || is_reached(&labs, "web"));
    let status = labs.status("joined");
    assert!(status["pods"].as_array().is_some_and(|pods| pods.len() == 4 && pods.iter().all(|pod| pod["isReady"] == true)), "{status}");
    let flows: Value = serde_json::from_str(&labs.ok(&["lab", "flows", "--name", "joined", "-o", "json"])).expect("flows");
    let failed: Vec<&Value> = flows.as_array().expect("flows").iter().filter(|flow| flow["works"] != true).collect();
    assert!(failed.is_empty(), "{failed:?}");
    // A pod of nobody in particular is nothing to the lab.
    cluster.create::<Pod>(
        "default",
        json!({
        "metadata": {"name": others},
        "spec": {"automountServiceAccountToken": false, "containers": [{"name": "main", "image": "agnhost"}]}}),
    );
    labs.ok(&["lab", "down", "--name", "joined"]);
    let mut after = cluster.everything();
    assert!(after.remove(&format!("Pod default/{others}")), "the pod of others is there");
    assert_eq!(after, before);
    // Killed, it is taken away by the next one, which is taken away after it was killed as well.
    for _ in 0..2 {
        labs.ok(&["lab", "up", &file, "--kubeconfig", &cluster.file()]);
        let pid = fs::read_to_string(labs.home().join("joined/pid")).expect("a process").trim().parse().expect("a number");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        eventually("all processes are gone", || labs.processes().is_empty());
        assert!(cluster.all::<Node>().contains("Node /joined-win"));
    }
    labs.ok(&["lab", "down", "--name", "joined"]);
    assert!(!cluster.all::<Node>().contains("Node /joined-win") && !cluster.all::<Namespace>().contains("Namespace /joined"));
    assert!(cluster.everything().is_superset(&before));
    assert_eq!(labs.processes(), [""; 0]);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let remove = async {
        Api::<Pod>::namespaced(cluster.client.clone(), "default").delete(&others, &now).await.expect("it goes");
        Api::<Service>::namespaced(cluster.client.clone(), "default").delete(&others, &now).await.expect("it goes");
        Api::<ConfigMap>::namespaced(cluster.client.clone(), "default").delete(&others, &now).await.expect("it goes");
    };
    cluster.runtime.block_on(remove);
}

#[test]
fn what_stands_against_it_is_told_and_nothing_is_left() {
    let Some(labs) = Labs::new() else { return };
    let cluster = Cluster::start(labs.directory());
    let file = labs.file("lab.yaml", &lab());
    let good = fs::read_to_string(&cluster.kubeconfig).expect("a kubeconfig");
    let mut document: Value = serde_json::to_value(Kubeconfig::from_yaml(&good).expect("a kubeconfig")).expect("JSON");
    let up = |kubeconfig: &Value, code: i32, more: &[&str]| {
        let kubeconfig = labs.file("kubeconfig", &kubeconfig.to_string());
        labs.refused(code, &[&["lab", "up", &file, "--kubeconfig", &kubeconfig], more].concat())
    };
    assert!(labs.refused(2, &["lab", "up", &file, "--kubeconfig", "/nowhere"]).contains("the kubeconfig /nowhere cannot be used"));
    assert!(up(&document, 2, &["--context", "none"]).contains("it has no context \"none\""));
    let server = document["clusters"][0]["cluster"]["server"].take();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    document["clusters"][0]["cluster"]["server"] = json!(format!("https://{free}"));
    assert!(up(&document, 5, &[]).contains(&format!("the API server https://{free} does not answer: ")));
    document["clusters"][0]["cluster"]["server"] = server;
    let user = std::mem::replace(&mut document["users"][0]["user"], json!({"token": "nonsense"}));
    assert!(up(&document, 6, &[]).contains("does not know the user of the kubeconfig"));
    document["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}});
    assert!(up(&document, 2, &[]).contains("users[].user.exec: a lab cannot log in by running programs"));
    document["users"][0]["user"] = user;
    let other = labs.file("other.yaml", &lab().replace("cluster: {", "cluster: {serviceSubnets: [10.77.0.0/16], "));
    let told = labs.refused(4, &["lab", "up", &other, "--kubeconfig", &cluster.file()]);
    assert!(told.contains("cluster.serviceSubnets: Services of the cluster have their addresses in 10."), "{told}");
    let before = cluster.everything();
    // An object of others is found out late, when the lab is nearly there; all of it goes again.
    let named = format!("taken-{}", std::process::id());
    cluster.create::<ConfigMap>("default", json!({"metadata": {"name": named}, "data": {"whose": "others"}}));
    let mine = format!("{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {named}}}\ndata: {{whose: mine}}\n", lab());
    let told = labs.refused(1, &["lab", "up", &labs.file("mine.yaml", &mine), "--kubeconfig", &cluster.file()]);
    assert!(told.contains(&format!("ConfigMap {named}: the cluster has it already, and it is not of this lab")), "{told}");
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let theirs = cluster.runtime.block_on(api.get(&named)).expect("it is there");
    assert_eq!(theirs.data.and_then(|data| data.get("whose").cloned()).as_deref(), Some("others"));
    cluster.runtime.block_on(api.delete(&named, &DeleteParams::default())).expect("it goes");
    assert_eq!(cluster.everything(), before);
    assert_eq!(labs.processes(), [""; 0]);
    assert_eq!(fs::read_dir(labs.home()).map_or(0, Iterator::count), 0);
}
