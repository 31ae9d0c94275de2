//! The server over real HTTPS.

use crate::common::Subject;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": name}}, "data": {"k": "v"}})
}

#[tokio::test]
async fn objects_are_made_read_changed_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    let (code, made) = server.post(MAPS, &map("a")).await;
    assert_eq!((code, made["kind"].as_str()), (201, Some("ConfigMap")), "{made}");
    let (code, again) = server.post(MAPS, &map("a")).await;
    assert_eq!((code, again["message"].as_str()), (409, Some("configmaps \"a\" already exists")));
    let (_, read) = server.get(&format!("{MAPS}/a")).await;
    assert_eq!(read, made);
    let mut changed = made.clone();
    changed["data"]["k"] = "w".into();
    let (code, second) = server.put(&format!("{MAPS}/a"), &changed).await;
    assert_eq!((code, second["data"]["k"].as_str()), (200, Some("w")));
    let (code, stale) = server.put(&format!("{MAPS}/a"), &made).await;
    assert_eq!((code, stale["reason"].as_str()), (409, Some("Conflict")));
    let (_, list) = server.get(&format!("{MAPS}?labelSelector=app%20in%20(a,b)")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let (code, gone) = server.delete(&format!("{MAPS}/a")).await;
    assert_eq!((code, gone["status"].as_str()), (200, Some("Success")));
    let (code, missing) = server.get(&format!("{MAPS}/a")).await;
    assert_eq!((code, missing["details"]["kind"].as_str()), (404, Some("configmaps")));
    server.stop().await;
}

#[tokio::test]
async fn who_shows_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Subject::start(directory.path()).await;
    let token = std::mem::take(&mut server.token);
    assert_eq!(server.get(MAPS).await.1["reason"], "Unauthorized");
    assert_eq!(server.get("/healthz").await, (200, "ok".into()));
    assert_eq!(server.get("/version").await.0, 401);
    server.token = format!("{token}x");
    assert_eq!(server.get(MAPS).await.0, 401);
    let server = server.with_certificate(directory.path());
    assert_eq!(server.get(MAPS).await.0, 200);
    assert_eq!(server.get("/version").await.1["major"], "1");
    use std::os::unix::fs::PermissionsExt;
    for name in ["kubeconfig", "token", "ca.key", "admin.key", "service-accounts.key", "api.journal"] {
        let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_watch_tells_what_comes_into_its_selection_and_leaves_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    server.post(MAPS, &map("a")).await;
    let (_, list) = server.get(MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut all = server.watch(&format!("{MAPS}?watch=true&resourceVersion={version}")).await;
    let mut some = server.watch(&format!("{MAPS}?watch=1&labelSelector=app%3Da")).await;
    assert_eq!(some.short().await, "ADDED a");
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    server.patch("merge", &format!("{MAPS}/a"), &label("b")).await;
    server.patch("merge", &format!("{MAPS}/a"), &label("a")).await;
    server.delete(&format!("{MAPS}/a")).await;
    assert_eq!([some.short().await, some.short().await, some.short().await], ["DELETED a", "ADDED a", "DELETED a"]);
    assert_eq!([all.short().await, all.short().await, all.short().await], ["MODIFIED a", "MODIFIED a", "DELETED a"]);
    let mut start =
        server.watch(&format!("{MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")).await;
    let mark = start.next().await.unwrap();
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    server.stop().await;
}

#[tokio::test]
async fn everything_and_its_history_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    for name in ["a", "b", "c"] {
        server.post(MAPS, &map(name)).await;
    }
    let (_, first) = server.get(&format!("{MAPS}/a")).await;
    server.delete(&format!("{MAPS}/b")).await;
    let (_, before) = server.get(MAPS).await;
    server.stop().await;
    let server = Subject::start(directory.path()).await;
    let (_, after) = server.get(MAPS).await;
    assert_eq!(after["items"], before["items"]);
    let version = |list: &Value| list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version(&after) >= version(&before));
    let mut watch = server.watch(&format!("{MAPS}?watch=true&resourceVersion={}", version(&first))).await;
    assert_eq!([watch.short().await, watch.short().await, watch.short().await], ["ADDED b", "ADDED c", "DELETED b"]);
    let (_, past) = server.get(&format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", version(&first))).await;
    assert_eq!(past["items"], json!([untyped(first)]));
    let mut early = server.watch("/api/v1/namespaces?watch=true&resourceVersion=1").await;
    assert_eq!(early.next().await.unwrap()["object"]["code"], 410, "what every cluster begins with is no history");
    server.stop().await;
}

/// A document as it stands in a list.
fn untyped(mut document: Value) -> Value {
    document.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
    document
}

#[tokio::test]
async fn a_service_account_gets_in_for_as_long_as_it_exists() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Subject::start(directory.path()).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    server.post(accounts, &json!({"metadata": {"name": "one"}})).await;
    let (code, made) = server.post(&format!("{accounts}/one/token"), &json!({"spec": {"expirationSeconds": 600}})).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(server.post(&format!("{accounts}/one/token"), &json!({"spec": {"expirationSeconds": 60}})).await.0, 422);
    assert_eq!(server.post(&format!("{accounts}/two/token"), &json!({})).await.0, 404);
    let own = std::mem::replace(&mut server.token, made["status"]["token"].as_str().unwrap().to_owned());
    assert_eq!(server.get(MAPS).await.0, 200);
    server.delete(&format!("{accounts}/one")).await;
    assert_eq!(server.get(MAPS).await.0, 401);
    server.token = own;
    server.stop().await;
}

#[tokio::test]
async fn pages_show_one_moment() {
    let directory = tempfile::tempdir().unwrap();
    let server = Subject::start(directory.path()).await;
    for number in 0..5 {
        server.post(MAPS, &map(&format!("m{number}"))).await;
    }
    let (_, page) = server.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!((page["items"].as_array().unwrap().len(), page["metadata"]["remainingItemCount"].as_i64()), (2, Some(3)));
    server.delete(&format!("{MAPS}/m4")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = server.get(&format!("{MAPS}?limit=5&continue={token}")).await;
    let names: Vec<&str> = rest["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["m2", "m3", "m4"]);
    assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
    assert_eq!(server.get(&format!("{MAPS}?continue=nonsense")).await.0, 400);
    server.stop().await;
}
