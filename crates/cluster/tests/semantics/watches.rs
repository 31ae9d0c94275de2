//! Watches.

use http::Method;
use serde_json::{Value, json};

use crate::harness::objects::{config_map, labelled};
use crate::harness::{Scope, Watch};

fn watch(scope: &Scope, query: &str) -> Watch {
    let watch = scope.call(Method::GET, &format!("configmaps?watch=true&{query}")).watch();
    assert_eq!(watch.status, 200);
    watch
}

/// The version of a list that has everything so far.
fn now(scope: &Scope) -> String {
    version(&scope.get("configmaps").ok())
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().expect("there is a version").to_owned()
}

#[test]
fn what_happens_is_told() {
    let scope = Scope::new();
    let mut events = watch(&scope, &format!("resourceVersion={}", now(&scope)));
    let made = scope.post("configmaps", &config_map("one")).created();
    assert_eq!(events.expect("ADDED", "one"), made);
    let changed = scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    assert_eq!(events.expect("MODIFIED", "one"), changed);
    scope.delete("configmaps/one").ok();
    let gone = events.expect("DELETED", "one");
    assert_eq!(gone["data"], changed["data"]);
    assert!(version(&gone).parse::<u64>().ok() > version(&changed).parse::<u64>().ok(), "the version of an end is that of the deletion");
}

#[test]
fn what_is_told_has_kind_and_version() {
    let scope = Scope::new();
    let mut events = watch(&scope, &format!("resourceVersion={}", now(&scope)));
    scope.post("configmaps", &config_map("one")).created();
    let (_, object) = events.next();
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

#[test]
fn a_change_of_nothing_is_no_event() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let mut events = watch(&scope, &format!("resourceVersion={}", version(&made)));
    scope.put("configmaps/one", &made).ok();
    events.is_quiet();
}

#[test]
fn without_a_version_what_is_there_comes_first() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("b")).created();
    scope.post("configmaps", &config_map("a")).created();
    for query in ["", "resourceVersion=0"] {
        let mut events = watch(&scope, query);
        let mut names = [events.next(), events.next()].map(|(kind, object)| (kind, object["metadata"]["name"].clone()));
        names.sort_by_key(|(_, name)| name.to_string());
        assert_eq!(names, [("ADDED".to_owned(), json!("a")), ("ADDED".to_owned(), json!("b"))]);
        events.is_quiet();
    }
}

#[test]
fn a_watch_goes_on_where_another_ended() {
    let scope = Scope::new();
    let first = scope.post("configmaps", &config_map("one")).created();
    scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    scope.delete("configmaps/one").ok();
    let mut events = watch(&scope, &format!("resourceVersion={}", version(&first)));
    events.expect("MODIFIED", "one");
    events.expect("DELETED", "one");
    events.is_quiet();
}

#[test]
fn a_selector_makes_changes_come_and_go() {
    let scope = Scope::new();
    let mut events = watch(&scope, &format!("labelSelector=in%3Dyes&resourceVersion={}", now(&scope)));
    scope.post("configmaps", &labelled("one", "in", "no")).created();
    scope.merge("configmaps/one", &json!({"metadata": {"labels": {"in": "yes"}}})).ok();
    events.expect("ADDED", "one");
    scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    events.expect("MODIFIED", "one");
    let out = scope.merge("configmaps/one", &json!({"metadata": {"labels": {"in": "no"}}})).ok();
    let gone = events.expect("DELETED", "one");
    // The object as it was when it was last seen, with the version of the change.
    assert_eq!(gone["metadata"]["labels"], json!({"in": "yes"}));
    assert_eq!(version(&gone), version(&out));
    scope.delete("configmaps/one").ok();
    events.is_quiet();
}

#[test]
fn a_field_selects_one_object() {
    let scope = Scope::new();
    let mut events = watch(&scope, &format!("fieldSelector=metadata.name%3Dtwo&resourceVersion={}", now(&scope)));
    scope.post("configmaps", &config_map("one")).created();
    scope.post("configmaps", &config_map("two")).created();
    events.expect("ADDED", "two");
    events.is_quiet();
}

#[test]
fn the_old_path_for_watches() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let path = format!("/api/v1/watch/namespaces/{}/configmaps/one?resourceVersion=0", scope.name);
    let mut events = crate::harness::server().call(Method::GET, path).watch();
    events.expect("ADDED", "one");
}

#[test]
fn a_watch_of_one_object_by_its_path_is_refused_nothing() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    // A parameter that only lists know: an object is an object.
    assert_eq!(scope.get("configmaps/one?watch=true").ok()["kind"], "ConfigMap");
}

#[test]
fn bookmarks_come_to_those_who_allow_them() {
    let scope = Scope::new();
    let mut events = watch(&scope, "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let (kind, object) = events.next();
    assert_eq!(kind, "BOOKMARK");
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert!(version(&object).parse::<u64>().is_ok());
}

#[test]
fn initial_events_and_then_a_bookmark() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let mut events = watch(&scope, "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=");
    assert_eq!(events.expect("ADDED", "one"), made);
    let (kind, bookmark) = events.next();
    assert_eq!(kind, "BOOKMARK");
    assert!(version(&bookmark).parse::<u64>().ok() >= version(&made).parse::<u64>().ok());
    scope.post("configmaps", &config_map("two")).created();
    events.expect("ADDED", "two");
}

#[test]
fn without_initial_events_only_what_is_new() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let mut events = watch(&scope, "allowWatchBookmarks=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
    events.is_quiet();
    scope.post("configmaps", &config_map("two")).created();
    events.expect("ADDED", "two");
}

#[test]
fn initial_events_need_a_match() {
    let scope = Scope::new();
    let forbidden = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let status = scope.get("configmaps?watch=true&sendInitialEvents=true").expect(422);
    assert_eq!(status["message"], forbidden);
    let status = scope.get("configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1").expect(422);
    assert_eq!(
        status["message"],
        "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
    );
}

#[test]
fn a_match_has_no_place_in_a_watch() {
    let scope = Scope::new();
    let status = scope.get("configmaps?watch=true&resourceVersion=1&resourceVersionMatch=Exact").expect(422);
    assert_eq!(
        status["message"],
        "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless \
        sendInitialEvents is provided, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]"
    );
}

#[test]
fn too_old() {
    let scope = Scope::new();
    let mut events = watch(&scope, "resourceVersion=1");
    let (kind, status) = events.next();
    assert_eq!(kind, "ERROR");
    assert_eq!((&status["kind"], &status["code"], &status["reason"]), (&json!("Status"), &json!(410), &json!("Expired")));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("too old resource version: 1 ("), "{message}");
    events.ends();
}

#[test]
fn from_the_future() {
    let scope = Scope::new();
    // A watch waits for the version it was given to come.
    let mut events = watch(&scope, "resourceVersion=999999999999&timeoutSeconds=2");
    scope.post("configmaps", &config_map("one")).created();
    events.ends();
}

#[test]
fn a_version_that_is_no_number() {
    let scope = Scope::new();
    let message = "resourceVersion: Invalid value: \"many\": strconv.ParseUint: parsing \"many\": invalid syntax";
    scope.get("configmaps?watch=true&resourceVersion=many").refused(500, "", message);
}

#[test]
fn a_watch_ends_when_it_was_asked_to() {
    let scope = Scope::new();
    let begun = std::time::Instant::now();
    let mut events = watch(&scope, &format!("timeoutSeconds=1&resourceVersion={}", now(&scope)));
    events.ends();
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn a_watch_over_all_namespaces() {
    let (one, two) = (Scope::new(), Scope::new());
    let path = format!("/api/v1/configmaps?watch=true&labelSelector=only%3D{}&resourceVersion={}", one.name, now(&one));
    let mut events = crate::harness::server().call(Method::GET, path).watch();
    one.post("configmaps", &labelled("a", "only", &one.name)).created();
    two.post("configmaps", &labelled("b", "only", &one.name)).created();
    assert_eq!(events.expect("ADDED", "a")["metadata"]["namespace"], json!(one.name));
    assert_eq!(events.expect("ADDED", "b")["metadata"]["namespace"], json!(two.name));
}

#[test]
fn tables_are_watched_too() {
    let scope = Scope::new();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let call = scope.call(Method::GET, &format!("configmaps?watch=true&resourceVersion={}", now(&scope))).header("accept", accept);
    let mut events = call.watch();
    scope.post("configmaps", &config_map("one")).created();
    scope.post("configmaps", &config_map("two")).created();
    let (kind, table) = events.next();
    assert_eq!((kind.as_str(), &table["kind"]), ("ADDED", &json!("Table")));
    assert_eq!(table["rows"][0]["cells"][0], "one");
    assert!(table["columnDefinitions"].is_array());
    let (_, table) = events.next();
    assert_eq!(table["rows"][0]["cells"][0], "two");
    assert!(table["columnDefinitions"].is_null(), "columns come once");
}

#[test]
fn events_come_in_the_order_of_versions() {
    let scope = Scope::new();
    let mut events = watch(&scope, &format!("resourceVersion={}", now(&scope)));
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let scope = &scope;
            threads.spawn(move || {
                (0..5).for_each(|number| drop(scope.post("configmaps", &config_map(&format!("w{writer}-{number}"))).created()))
            });
        }
    });
    let versions: Vec<u64> = (0..20).map(|_| version(&events.next().1).parse().expect("a number")).collect();
    assert!(versions.is_sorted(), "{versions:?}");
}

#[test]
fn a_watch_goes_on_from_a_bookmark() {
    let scope = Scope::new();
    let mut first = watch(&scope, "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let (_, bookmark) = first.next();
    scope.post("configmaps", &config_map("one")).created();
    let mut second = watch(&scope, &format!("resourceVersion={}", version(&bookmark)));
    second.expect("ADDED", "one");
}

#[test]
fn everybody_sees_the_same() {
    let scope = Scope::new();
    let begin = now(&scope);
    let mut all: Vec<Watch> = (0..20).map(|_| watch(&scope, &format!("resourceVersion={begin}"))).collect();
    for name in ["a", "b", "c"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    scope.delete("configmaps/b").ok();
    for events in &mut all {
        for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")] {
            events.expect(kind, name);
        }
    }
}

#[test]
fn a_deletion_of_a_collection_is_a_deletion_of_each() {
    let scope = Scope::new();
    for name in ["a", "b"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    let mut events = watch(&scope, &format!("resourceVersion={}", now(&scope)));
    scope.delete("configmaps").ok();
    let mut gone = [events.next(), events.next()].map(|(kind, object)| format!("{kind} {}", object["metadata"]["name"]));
    gone.sort();
    assert_eq!(gone, ["DELETED \"a\"", "DELETED \"b\""]);
}
