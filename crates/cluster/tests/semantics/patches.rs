//! Patches of three kinds.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Scope;
use crate::harness::objects::{config_map, deployment, pod, service};

fn with_map() -> Scope {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    scope
}

/// A deployment with two containers and some of everything that is merged by a key.
fn with_deployment() -> Scope {
    let scope = Scope::new();
    let mut rich = deployment("one", 0);
    rich["spec"]["template"]["spec"] = json!({
        "containers": [
            {
                "name": "main", "image": "registry.test/main:1",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "ports": [{"containerPort": 80}, {"containerPort": 443}],
                "args": ["x", "y"],
            },
            {"name": "side", "image": "registry.test/side:1"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    });
    scope.post("deployments", &rich).created();
    scope
}

fn patched(scope: &Scope, patch: &Value) -> Value {
    scope.strategic("deployments/one", &json!({"spec": {"template": {"spec": patch}}})).ok()["spec"]["template"]["spec"].clone()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn json_patches_do_one_thing_after_another() {
    let scope = with_map();
    let patch = json!([
        {"op": "test", "path": "/data/key", "value": "value"},
        {"op": "add", "path": "/data/a~1b", "value": "slash"},
        {"op": "copy", "from": "/data/key", "path": "/data/copy"},
        {"op": "move", "from": "/data/copy", "path": "/data/moved"},
        {"op": "replace", "path": "/data/key", "value": "other"},
        {"op": "remove", "path": "/data/a~1b"},
    ]);
    let map = scope.json_patch("configmaps/one", &patch).ok();
    assert_eq!(map["data"], json!({"key": "other", "moved": "value"}));
}

#[test]
fn a_test_that_fails() {
    let scope = with_map();
    let patch = json!([{"op": "test", "path": "/data/key", "value": "other"}, {"op": "remove", "path": "/data/key"}]);
    let message = "the server rejected our request due to an error in our request";
    let status = scope.json_patch("configmaps/one", &patch).refused(422, "Invalid", message);
    assert_eq!(status["details"], json!({}));
    assert_eq!(scope.get("configmaps/one").ok()["data"], json!({"key": "value"}));
}

#[test]
fn json_patches_of_what_is_not_there() {
    let scope = with_map();
    let message = "the server rejected our request due to an error in our request";
    let patches = [json!([{"op": "remove", "path": "/data/none"}]), json!([{"op": "add", "path": "/none/x", "value": "x"}])];
    for patch in patches {
        let status = scope.json_patch("configmaps/one", &patch).refused(422, "Invalid", message);
        assert_eq!(status["details"], json!({}));
    }
}

#[test]
fn what_is_replaced_need_not_be_there() {
    let scope = with_map();
    let map = scope.json_patch("configmaps/one", &json!([{"op": "replace", "path": "/data/none", "value": "x"}])).ok();
    assert_eq!(map["data"], json!({"key": "value", "none": "x"}));
}

#[test]
fn json_patches_that_are_no_list() {
    let scope = with_map();
    let status = scope.json_patch("configmaps/one", &json!({"op": "remove"})).expect(400);
    assert_eq!(status["reason"], "BadRequest");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("error decoding patch: "), "{message}");
}

#[test]
fn merge_patches_replace_lists_and_remove_nulls() {
    let scope = with_deployment();
    let patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {"volumes": null, "tolerations": [{"key": "b", "operator": "Exists"}]}}}});
    let spec = scope.merge("deployments/one", &patch).ok()["spec"]["template"]["spec"].clone();
    assert!(spec.get("volumes").is_none());
    assert_eq!(spec["tolerations"], json!([{"key": "b", "operator": "Exists"}]));
    assert_eq!(names(&spec["containers"]), ["main", "side"]);
}

#[test]
fn a_merge_patch_is_an_object() {
    let scope = with_map();
    let call = scope.call(Method::PATCH, "configmaps/one").text("[]").header("content-type", "application/merge-patch+json");
    assert_eq!(call.send().expect(400)["reason"], "BadRequest");
    let call = scope.call(Method::PATCH, "configmaps/one").text("{").header("content-type", "application/merge-patch+json");
    assert_eq!(call.send().expect(400)["reason"], "BadRequest");
}

#[test]
fn strategic_patches_merge_lists_by_their_keys() {
    let scope = with_deployment();
    let spec = patched(
        &scope,
        &json!({"containers": [{"name": "side", "image": "registry.test/side:2"}, {"name": "new", "image": "registry.test/new:1"}]}),
    );
    assert_eq!(names(&spec["containers"]), ["main", "side", "new"]);
    assert_eq!(spec["containers"][1]["image"], "registry.test/side:2");
    assert_eq!(spec["containers"][0]["image"], "registry.test/main:1");
}

#[test]
fn strategic_patches_merge_inside_of_merged_items() {
    let scope = with_deployment();
    let spec = patched(
        &scope,
        &json!({"containers": [{"name": "main", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}], "args": ["z"]}]}),
    );
    let main = &spec["containers"][0];
    assert_eq!(main["env"], json!([{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]));
    assert_eq!(main["args"], json!(["z"]), "a list without a key is replaced");
    assert_eq!(main["image"], "registry.test/main:1");
}

#[test]
fn ports_are_merged_by_their_number() {
    let scope = with_deployment();
    let spec = patched(&scope, &json!({"containers": [{"name": "main", "ports": [{"containerPort": 443, "name": "tls"}]}]}));
    let ports = json!([{"containerPort": 80, "protocol": "TCP"}, {"name": "tls", "containerPort": 443, "protocol": "TCP"}]);
    assert_eq!(spec["containers"][0]["ports"], ports);
}

#[test]
fn strategic_patches_delete_items() {
    let scope = with_deployment();
    let spec = patched(
        &scope,
        &json!({"containers": [{"name": "side", "$patch": "delete"}, {"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]}),
    );
    assert_eq!(names(&spec["containers"]), ["main"]);
    assert_eq!(spec["containers"][0]["env"], json!([{"name": "B", "value": "2"}]));
}

#[test]
fn strategic_patches_replace_lists_if_asked_to() {
    let scope = with_deployment();
    let spec = patched(&scope, &json!({"containers": [{"$patch": "replace"}, {"name": "only", "image": "registry.test/only:1"}]}));
    assert_eq!(names(&spec["containers"]), ["only"]);
}

#[test]
fn strategic_patches_replace_maps_if_asked_to() {
    let scope = with_deployment();
    let patch = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    scope.strategic("deployments/one", &patch).ok();
    let made = scope.strategic("deployments/one", &json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}})).ok();
    assert_eq!(made["metadata"]["labels"], json!({"c": "3"}));
    let made = scope.strategic("deployments/one", &json!({"metadata": {"labels": {"$patch": "delete"}}})).ok();
    assert!(made["metadata"].get("labels").is_none(), "{made}");
}

#[test]
fn strategic_patches_set_the_order_of_items() {
    let scope = with_deployment();
    let patch = json!({
        "$setElementOrder/containers": [{"name": "new"}, {"name": "side"}, {"name": "main"}],
        "containers": [{"name": "new", "image": "registry.test/new:1"}],
    });
    assert_eq!(names(&patched(&scope, &patch)["containers"]), ["new", "side", "main"]);
}

#[test]
fn an_order_must_have_all_that_is_patched() {
    let scope = with_deployment();
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "main"}],
        "containers": [{"name": "new", "image": "registry.test/new:1"}],
    }}}});
    let answer = scope.strategic("deployments/one", &patch);
    assert_eq!(answer.status, 500, "{}", answer.text);
    let message = answer.body["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("order in patch list"), "{message}");
}

#[test]
fn lists_of_words_are_merged_and_deleted_from() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["finalizers"] = json!(["test.transom/a", "test.transom/b"]);
    scope.post("configmaps", &map).created();
    let made = scope.strategic("configmaps/one", &json!({"metadata": {"finalizers": ["test.transom/c"]}})).ok();
    assert_eq!(made["metadata"]["finalizers"], json!(["test.transom/c", "test.transom/a", "test.transom/b"]));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["test.transom/a", "test.transom/c"]}});
    let made = scope.strategic("configmaps/one", &patch).ok();
    assert_eq!(made["metadata"]["finalizers"], json!(["test.transom/b"]));
    scope.merge("configmaps/one", &json!({"metadata": {"finalizers": null}})).ok();
}

#[test]
fn keys_that_are_not_retained_go() {
    let scope = with_deployment();
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let made = scope.strategic("deployments/one", &patch).ok();
    assert_eq!(made["spec"]["strategy"], json!({"type": "Recreate"}));
    let spec = patched(&scope, &json!({"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "m"}}]}));
    assert_eq!(spec["volumes"], json!([{"name": "v", "configMap": {"name": "m", "defaultMode": 420}}]));
}

#[test]
fn without_retaining_both_stay_and_that_is_refused() {
    let scope = with_deployment();
    let patch = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let cause =
        ("FieldValueForbidden", "spec.strategy.rollingUpdate", "Forbidden: may not be specified when strategy `type` is 'Recreate'");
    scope.strategic("deployments/one", &patch).invalid("apps", "Deployment", "one", &[cause]);
}

#[test]
fn nulls_remove_in_strategic_patches_too() {
    let scope = with_deployment();
    let spec = patched(&scope, &json!({"volumes": null}));
    assert!(spec.get("volumes").is_none());
}

#[test]
fn ports_of_services_are_merged_by_their_port() {
    let scope = Scope::new();
    let mut two = service("one");
    two["spec"]["ports"] = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    scope.post("services", &two).created();
    let made = scope.strategic("services/one", &json!({"spec": {"ports": [{"port": 81, "targetPort": 8081}]}})).ok();
    let ports = json!([
        {"name": "a", "protocol": "TCP", "port": 80, "targetPort": 80},
        {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 8081},
    ]);
    assert_eq!(made["spec"]["ports"], ports);
}

#[test]
fn conditions_are_merged_by_their_type() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let condition = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    scope.strategic("pods/one/status", &condition("Ready", "False")).ok();
    scope.strategic("pods/one/status", &condition("PodScheduled", "True")).ok();
    let made = scope.strategic("pods/one/status", &condition("Ready", "True")).ok();
    let conditions = made["status"]["conditions"].as_array().expect("there are conditions");
    let ready: Vec<&Value> = conditions.iter().filter(|condition| condition["type"] == "Ready").collect();
    assert_eq!((conditions.len(), ready.len(), &ready[0]["status"]), (2, 1, &json!("True")));
}

#[test]
fn an_item_without_its_key() {
    let scope = with_deployment();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "registry.test/x"}]}}}});
    let answer = scope.strategic("deployments/one", &patch);
    assert_eq!(answer.status, 500, "{}", answer.text);
    assert!(
        answer.body["message"].as_str().is_some_and(|message| message.contains("does not contain declared merge key: name")),
        "{}",
        answer.text
    );
}

#[test]
fn directives_that_do_not_exist() {
    let scope = with_deployment();
    let patch = json!({"metadata": {"$patch": "explode"}});
    let answer = scope.strategic("deployments/one", &patch);
    assert_eq!(answer.status, 500, "{}", answer.text);
}

#[test]
fn a_patch_does_not_rename() {
    let scope = with_map();
    let answer = scope.merge("configmaps/one", &json!({"metadata": {"name": "two"}}));
    answer.refused(400, "BadRequest", "the name of the object (two) does not match the name on the URL (one)");
    let answer = scope.merge("configmaps/one", &json!({"metadata": {"namespace": "two"}}));
    answer.refused(400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request");
}

#[test]
fn the_type_of_a_patch_must_be_known() {
    let scope = with_map();
    let answer = scope.call(Method::PATCH, "configmaps/one").text("{}").header("content-type", "application/json").send();
    let status = answer.expect(415);
    assert_eq!(status["reason"], "UnsupportedMediaType");
    assert_eq!((&status["message"], &status["details"]), (&json!("415: Unsupported Media Type"), &json!({})));
}

#[test]
fn a_patch_is_validated() {
    let scope = with_deployment();
    let cause = ("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0");
    scope.merge("deployments/one", &json!({"spec": {"replicas": -1}})).invalid("apps", "Deployment", "one", &[cause]);
}

#[test]
fn a_patch_with_a_wrong_type() {
    let scope = with_deployment();
    let answer = scope.merge("deployments/one", &json!({"spec": {"replicas": "many"}}));
    // The message has the whole object in it.
    let status = answer.expect(422);
    assert_eq!((&status["reason"], &status["details"]["causes"][0]["field"]), (&json!("Invalid"), &json!("patch")));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{message}");
    assert!(
        message.ends_with("json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        "{message}"
    );
}
