//! The ways to a server: with a token, and with what a pod is given. The server is the one that TRANSOM_KUBECONFIG names, or ours.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cluster::connect::{Source, connect};
use cluster::mirror::{Config, Mirror};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::server::{Home, Server, maps};
use super::{map, until};

/// Says to the test that it is in a namespace of its own.
const INSIDE: &str = "TRANSOM_INSIDE";
const IN_A_POD: &str = "ways::what_a_pod_is_given_leads_to_a_server";

/// What the runtime of a pod does: files at their place, which only this process sees.
const GIVE: &str = r#"mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io &&
    cp -r "$1" /run/secrets/kubernetes.io/serviceaccount && shift && exec "$@""#;

/// Where a server is, and how it knows us.
struct Way {
    url: String,
    authority: Vec<u8>,
    token: String,
}

/// The server of this run, and how it is reached.
async fn find(directory: &Path) -> (Way, Option<Server>) {
    let (file, own) = match env::var_os("TRANSOM_KUBECONFIG") {
        Some(file) => (file.into(), None),
        None => {
            let home = Home::new(directory);
            let server = home.start().await.unwrap();
            (directory.join("kubeconfig"), Some((home, server)))
        }
    };
    let kubeconfig: Value = serde_norway::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let (cluster, user) = (&kubeconfig["clusters"][0]["cluster"], &kubeconfig["users"][0]["user"]);
    let authority = match cluster["certificate-authority-data"].as_str() {
        Some(data) => BASE64_STANDARD.decode(data).unwrap(),
        None => fs::read(cluster["certificate-authority"].as_str().unwrap()).unwrap(),
    };
    let token = match &own {
        Some((home, _)) => fs::read_to_string(home.state().join("token")).unwrap(),
        None => user["token"].as_str().unwrap().to_owned(),
    };
    let url = cluster["server"].as_str().unwrap().to_owned();
    (Way { url, authority, token: token.trim().to_owned() }, own.map(|(_, server)| server))
}

/// What is made and removed is seen.
async fn follow(source: &Source, name: &str) {
    let client = connect(source).await.unwrap();
    let mirror = Mirror::start(maps(&client), Config::default());
    mirror.complete().await;
    maps(&client).create(&PostParams::default(), &map(name, "1")).await.unwrap();
    until(&mirror, |mirror| mirror.get(name, Some("default")).is_some()).await;
    maps(&client).delete(name, &DeleteParams::default()).await.unwrap();
    until(&mirror, |mirror| mirror.get(name, Some("default")).is_none()).await;
}

#[tokio::test]
async fn a_token_leads_to_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let (way, _server) = find(directory.path()).await;
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {
            "server": way.url, "certificate-authority-data": BASE64_STANDARD.encode(&way.authority),
        }}],
        "users": [{"name": "it", "user": {"token": way.token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    let path = directory.path().join("with-a-token");
    fs::write(&path, kubeconfig.to_string()).unwrap();
    follow(&Source::File { path: path.clone(), context: Some("it".to_owned()) }, "by-token").await;
    // The address may be another one than the file says.
    let elsewhere = fs::read_to_string(&path).unwrap().replace(&way.url, "https://192.0.2.1:1");
    fs::write(&path, elsewhere).unwrap();
    let source = Box::new(Source::File { path, context: None });
    follow(&Source::At { url: way.url, source }, "by-address").await;
}

#[tokio::test]
async fn what_a_pod_is_given_leads_to_a_server() {
    if env::var_os(INSIDE).is_some() {
        return follow(&Source::InCluster, "from-a-pod").await;
    }
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: what_a_pod_is_given_leads_to_a_server: a mount namespace takes root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (way, _server) = find(directory.path()).await;
    let account = directory.path().join("account");
    fs::create_dir(&account).unwrap();
    for (file, content) in [("ca.crt", &way.authority[..]), ("token", way.token.as_bytes()), ("namespace", b"default")] {
        fs::write(account.join(file), content).unwrap();
    }
    let (host, port) = way.url.trim_start_matches("https://").trim_end_matches('/').rsplit_once(':').unwrap();
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--", "sh", "-c", GIVE, "sh"]).arg(&account).arg(env::current_exe().unwrap());
    inside.args([IN_A_POD, "--exact", "--nocapture"]).env(INSIDE, "1");
    inside.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
    let status = tokio::task::spawn_blocking(move || inside.status()).await.unwrap().unwrap();
    assert!(status.success(), "it failed inside");
}
