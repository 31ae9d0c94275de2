//! Kubernetes' own kube-proxy, which takes Services and EndpointSlices from our server and writes them to nftables.
//!
//! It is the one that TRANSOM_KUBE_PROXY names; `cargo xtask interop kubernetes` builds one and names it. Without one, without root or
//! without `nft` the test is skipped. It runs in a network namespace that goes with it.

#[path = "../support/own.rs"]
mod own;
#[path = "../../../node/tests/support/program.rs"]
mod program;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Says to the test that it is in a namespace of its own.
const INSIDE: &str = "TRANSOM_INSIDE";
const NAME: &str = "services_reach_nftables";
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn services_reach_nftables() {
    let Some(kube_proxy) = env::var_os("TRANSOM_KUBE_PROXY").map(PathBuf::from) else {
        println!("skipped: TRANSOM_KUBE_PROXY names no kube-proxy");
        return;
    };
    if env::var_os(INSIDE).is_some() {
        return play(&kube_proxy);
    }
    let itself = env::current_exe().expect("a program knows where it is");
    let inside = Command::new("unshare").args(["--net", "--"]).arg(itself).args([NAME, "--exact", "--nocapture"]).env(INSIDE, "1").status();
    assert!(inside.expect("unshare can be started").success(), "it failed inside; this takes root, ip and nft");
}

fn play(kube_proxy: &Path) {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", "192.0.2.1/32", "dev", "lo"]);
    let kubeconfig = own::start("kube_proxy");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        let client = connect(&kubeconfig).await;
        let nodes: Api<Node> = Api::all(client.clone());
        nodes.create(&PostParams::default(), &document(json!({"metadata": {"name": "node"}}))).await.expect("a node can be made");
        let address = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
        nodes.patch_status("node", &PatchParams::default(), &Patch::Merge(address)).await.expect("it has an address");
        let _proxy = Proxy::start(kube_proxy, &kubeconfig);
        let services: Api<Service> = Api::namespaced(client.clone(), "default");
        let slices: Api<EndpointSlice> = Api::namespaced(client, "default");
        follow(&services, &slices).await;
        let said = std::fs::read_to_string(kubeconfig.with_file_name("kube-proxy.log")).expect("it wrote a log");
        // It also says so when nftables has no tables of its own yet.
        let complaints: Vec<&str> = said.lines().filter(|line| line.contains("reflector.go") && !line.starts_with('I')).collect();
        assert!(complaints.is_empty(), "it complains: {complaints:#?}");
    });
}

/// What is made, changed and removed arrives.
async fn follow(services: &Api<Service>, slices: &Api<EndpointSlice>) {
    let service = json!({"metadata": {"name": "shop"}, "spec": {"clusterIP": "10.96.77.7", "ports": [{"port": 80}]}});
    services.create(&PostParams::default(), &document(service)).await.expect("a Service can be made");
    until("a Service without endpoints is refused", |rules| rules.contains("10.96.77.7"));
    slices.create(&PostParams::default(), &document(slice(&["10.244.1.5"]))).await.expect("a slice can be made");
    until("its endpoint is a backend", |rules| rules.contains("10.244.1.5"));
    slices.patch("shop-1", &PatchParams::default(), &Patch::Merge(slice(&["10.244.1.6", "10.244.1.7"]))).await.expect("it can be changed");
    until("others take its place", |rules| rules.contains("10.244.1.6") && rules.contains("10.244.1.7") && !rules.contains("10.244.1.5"));
    services.delete("shop", &DeleteParams::default()).await.expect("it can be removed");
    until("nothing of it is left", |rules| !rules.contains("10.96.77.7") && !rules.contains("10.244.1.6"));
}

fn slice(addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> = addresses.iter().map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    json!({
        "metadata": {"name": "shop-1", "labels": {"kubernetes.io/service-name": "shop"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    })
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("there is a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("it is sound");
    Client::try_from(config).expect("a client can be made")
}

fn document<T: DeserializeOwned>(document: Value) -> T {
    serde_json::from_value(document).expect("it is such a document")
}

/// kube-proxy, which ends with this value.
struct Proxy(Child);

impl Proxy {
    fn start(program: &Path, kubeconfig: &Path) -> Self {
        let log = File::create(kubeconfig.with_file_name("kube-proxy.log")).expect("the log can be opened");
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--proxy-mode", "nftables", "--hostname-override", "node"]);
        command.args(["--cluster-cidr", "10.244.0.0/16", "--nodeport-addresses", "primary"]);
        // What it would set for the whole machine is not its business here.
        command.args(["--conntrack-max-per-core", "0", "--conntrack-min", "0"]);
        command.args(["--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0"]);
        Self(command.stdin(Stdio::null()).stderr(log).spawn().expect("kube-proxy can be started"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until nftables is as wanted.
#[track_caller]
fn until(what: &str, is_so: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = Command::new("nft").args(["list", "ruleset"]).output().expect("nft can be started");
        let rules = String::from_utf8_lossy(&listed.stdout);
        if is_so(&rules) {
            println!("{what}");
            return;
        }
        assert!(Instant::now() < deadline, "never: {what}; see kube-proxy.log\n{rules}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?} failed");
}
