//! Mirrors on a server that comes, goes and forgets.

#[path = "../../../node/tests/support/program.rs"]
mod program;
mod script;
// Others ask more of it.
#[allow(dead_code)]
#[path = "../support/server.rs"]
mod server;
mod ways;

use std::time::Duration;

use cluster::connect::{Source, connect};
use cluster::mirror::{Config, Health, Mirror};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use script::{Answer, Script};
use server::{Home, maps};

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_server_that_is_killed_is_followed_again() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::new(directory.path());
    let server = home.start().await.unwrap();
    let source = Source::File { path: directory.path().join("kubeconfig"), context: None };
    let client = connect(&source).await.unwrap();
    maps(&client).create(&PostParams::default(), &map("first", "1")).await.unwrap();
    let mirror = Mirror::start(maps(&client), Config::default());
    mirror.complete().await;
    assert!(mirror.get("first", Some("default")).is_some());

    maps(&client).create(&PostParams::default(), &map("second", "2")).await.unwrap();
    until(&mirror, |mirror| mirror.get("second", Some("default")).is_some()).await;

    server.kill().unwrap();
    let trouble = healthy(&mirror, |health| health.trouble.is_some()).await.trouble.unwrap();
    assert!(mirror.get("first", Some("default")).is_some(), "what was seen last is shown");
    assert!(!trouble.cause.is_empty());

    let _server = home.start().await.unwrap();
    maps(&client).delete("first", &DeleteParams::default()).await.unwrap();
    until(&mirror, |mirror| mirror.get("first", Some("default")).is_none()).await;
    let health = healthy(&mirror, |health| health.trouble.is_none()).await;
    assert_eq!(health.lists, 1, "it resumed where it was");
}

#[tokio::test]
async fn what_the_server_has_forgotten_is_listed_anew() {
    let script = Script::new([
        Answer::list("100", &[map("kept", "1"), map("gone", "2")]),
        Answer::watch(&[json!({"type": "ERROR", "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version: 100 (200)", "reason": "Expired", "code": 410,
        }})]),
        Answer::list("200", &[map("kept", "3"), map("new", "4")]),
        Answer::Silence,
    ]);
    let mirror: Mirror<ConfigMap> = Mirror::start(maps(&script.client()), Config::default());
    let health = healthy(&mirror, |health| health.lists == 2).await;
    assert!(health.is_complete && health.trouble.is_none());
    let mut names: Vec<String> = mirror.all().iter().filter_map(|map| map.metadata.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["kept", "new"], "what went meanwhile is gone");
    assert_eq!(script.asked(), ["list", "watch 100", "list", "watch 200"]);
}

#[tokio::test]
async fn a_gap_is_watched_again_from_where_it_was() {
    let changed = json!({"type": "MODIFIED", "object": {
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "kept", "namespace": "default", "resourceVersion": "105"}, "data": {"value": "2"},
    }});
    let script = Script::new([
        Answer::list("100", &[map("kept", "1")]),
        Answer::watch(&[changed]),
        Answer::Refusal(503),
        Answer::watch(&[]),
        Answer::Silence,
    ]);
    let mirror: Mirror<ConfigMap> = Mirror::start(maps(&script.client()), Config::default());
    until(&mirror, |mirror| mirror.get("kept", Some("default")).is_some_and(|map| map.data.as_ref().unwrap()["value"] == "2")).await;
    script.finished(PATIENCE).await;
    assert_eq!(script.asked(), ["list", "watch 100", "watch 105", "watch 105", "watch 105"]);
    assert_eq!(mirror.health().borrow().lists, 1);
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said() {
    let nowhere = Source::File { path: "/nonexistent/kubeconfig".into(), context: None };
    let error = connect(&nowhere).await.err().unwrap().to_string();
    assert!(error.starts_with("the kubeconfig /nonexistent/kubeconfig cannot be used: "), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "clusters: 7").unwrap();
    let broken = Source::File { path: file.path().to_owned(), context: Some("lab".to_owned()) };
    let error = connect(&broken).await.err().unwrap().to_string();
    assert!(error.contains("cannot be used: "), "{error}");
    for (url, cause) in [("127.0.0.1:6443", "does not begin with https://"), ("https://a b", "is no address of an API server")] {
        let error = connect(&Source::At { url: url.to_owned(), source: Box::default() }).await.err().unwrap().to_string();
        assert!(error.contains(cause), "{error}");
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": "default"});
    serde_json::from_value(json!({"metadata": metadata, "data": {"value": value}})).unwrap()
}

/// Waits until the mirror shows something.
async fn until(mirror: &Mirror<ConfigMap>, is_so: impl Fn(&Mirror<ConfigMap>) -> bool) {
    healthy(mirror, |_| is_so(mirror)).await;
}

/// Waits until the mirror says something about itself.
async fn healthy(mirror: &Mirror<ConfigMap>, is_so: impl FnMut(&Health) -> bool) -> Health {
    let mut health = mirror.health();
    let found = tokio::time::timeout(PATIENCE, health.wait_for(is_so)).await;
    found.expect("it never came").expect("the mirror goes on").clone()
}
