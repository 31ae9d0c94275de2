//! Two who change the same object.

use serde_json::json;

use crate::harness::Scope;
use crate::harness::objects::{config_map, deployment};

fn changed(object: &str) -> String {
    format!(
        "Operation cannot be fulfilled on {object}: the object has been modified; please apply your changes to the latest version and try again"
    )
}

#[test]
fn an_old_version_is_a_conflict() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    let mut stale = made.clone();
    stale["data"]["key"] = json!("other");
    let status = scope.put("configmaps/one", &stale).refused(409, "Conflict", &changed("configmaps \"one\""));
    assert_eq!(status["details"], json!({"name": "one", "kind": "configmaps"}));
}

#[test]
fn an_old_version_is_a_conflict_even_without_a_change() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    scope.put("configmaps/one", &made).refused(409, "Conflict", &changed("configmaps \"one\""));
}

#[test]
fn no_version_overwrites() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    scope.merge("configmaps/one", &json!({"data": {"a": "b"}})).ok();
    let put = scope.put("configmaps/one", &config_map("one")).ok();
    assert_eq!(put["data"], json!({"key": "value"}));
}

#[test]
fn a_group_is_named_in_a_conflict() {
    let scope = Scope::new();
    let mut made = scope.post("deployments", &deployment("one", 0)).created();
    made["metadata"]["resourceVersion"] = json!("1");
    let status = scope.put("deployments/one", &made).refused(409, "Conflict", &changed("deployments.apps \"one\""));
    assert_eq!(status["details"], json!({"name": "one", "group": "apps", "kind": "deployments"}));
}

#[test]
fn a_patch_may_insist_on_a_version() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let version = &made["metadata"]["resourceVersion"];
    scope.merge("configmaps/one", &json!({"metadata": {"resourceVersion": version}, "data": {"a": "b"}})).ok();
    let again = scope.merge("configmaps/one", &json!({"metadata": {"resourceVersion": version}, "data": {"a": "c"}}));
    again.refused(409, "Conflict", &changed("configmaps \"one\""));
}

#[test]
fn a_version_is_a_number() {
    let scope = Scope::new();
    let mut made = scope.post("configmaps", &config_map("one")).created();
    made["metadata"]["resourceVersion"] = json!("many");
    made["data"]["a"] = json!("b");
    scope.put("configmaps/one", &made).refused(500, "", "strconv.ParseUint: parsing \"many\": invalid syntax");
}

#[test]
fn of_many_writers_with_the_same_version_one_wins() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let statuses: Vec<u16> = std::thread::scope(|threads| {
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let (mut mine, scope) = (made.clone(), &scope);
                mine["data"]["key"] = json!(format!("writer {number}"));
                threads.spawn(move || scope.put("configmaps/one", &mine).status)
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("a writer ends")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 7, "{statuses:?}");
}

#[test]
fn patches_without_a_version_never_conflict() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    std::thread::scope(|threads| {
        for number in 0..4 {
            let scope = &scope;
            let key = format!("writer-{number}");
            threads.spawn(move || scope.merge("configmaps/one", &json!({"data": {key: "was here"}})).ok());
        }
    });
    let data = scope.get("configmaps/one").ok()["data"].as_object().map(|data| data.len());
    assert_eq!(data, Some(5));
}

#[test]
fn status_and_spec_share_a_version() {
    let scope = Scope::new();
    let made = scope.post("deployments", &deployment("one", 0)).created();
    let mut stale = made.clone();
    scope.merge("deployments/one", &json!({"metadata": {"labels": {"a": "b"}}})).ok();
    stale["status"]["observedGeneration"] = json!(1);
    scope.put("deployments/one/status", &stale).refused(409, "Conflict", &changed("deployments.apps \"one\""));
}
