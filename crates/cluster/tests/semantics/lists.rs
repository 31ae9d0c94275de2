//! Lists: order, pages, consistency and selectors.

use serde_json::{Value, json};

use crate::harness::objects::{config_map, labelled, pod, service};
use crate::harness::{Scope, server};

/// `+` and other letters that have a meaning of their own in a query.
fn escaped(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn selected(scope: &Scope, selector: &str) -> Vec<String> {
    scope.names(&format!("configmaps?labelSelector={}", escaped(selector)))
}

fn fruit() -> Scope {
    let scope = Scope::new();
    for (name, key, value) in
        [("apple", "kind", "fruit"), ("bean", "kind", "vegetable"), ("cherry", "kind", "fruit"), ("door", "other", "wood")]
    {
        scope.post("configmaps", &labelled(name, key, value)).created();
    }
    scope
}

#[test]
fn a_list_is_in_order_of_names_and_its_items_have_no_kind() {
    let scope = Scope::new();
    for name in ["c", "a", "b", "a-b", "a.b"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    let list = scope.get("configmaps").ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(list["items"][0].get("kind").is_none() && list["items"][0].get("apiVersion").is_none());
    assert!(list["metadata"]["resourceVersion"].is_string());
    assert!(list["metadata"].get("continue").is_none() && list["metadata"].get("remainingItemCount").is_none());
    assert_eq!(scope.names("configmaps"), ["a", "a-b", "a.b", "b", "c"]);
}

#[test]
fn an_empty_list_has_items() {
    let scope = Scope::new();
    let list = scope.get("configmaps").ok();
    assert_eq!(list["items"], json!([]));
    let nowhere = server().get("/api/v1/namespaces/no-such-namespace/configmaps").ok();
    assert_eq!(nowhere["items"], json!([]));
}

#[test]
fn a_list_is_as_old_as_it_says() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let number = |value: &Value| value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
    assert!(number(&scope.get("configmaps").ok()) >= number(&made));
}

#[test]
fn pages() {
    let scope = Scope::new();
    for name in ["a", "b", "c", "d", "e"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    let first = scope.get("configmaps?limit=2").ok();
    assert_eq!(first["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let more = first["metadata"]["continue"].as_str().expect("there is more");
    // What comes later is not part of the list that was begun.
    scope.post("configmaps", &config_map("bb")).created();
    scope.delete("configmaps/c").ok();
    let second = scope.get(&format!("configmaps?limit=2&continue={more}")).ok();
    let names: Vec<&Value> = second["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let more = second["metadata"]["continue"].as_str().expect("there is more");
    let third = scope.get(&format!("configmaps?limit=2&continue={more}")).ok();
    assert_eq!(third["items"][0]["metadata"]["name"], "e");
    assert!(third["metadata"].get("continue").is_none() && third["metadata"].get("remainingItemCount").is_none());
}

#[test]
fn pages_with_a_selector_do_not_count_what_remains() {
    let scope = Scope::new();
    for name in ["a", "b", "c"] {
        scope.post("configmaps", &labelled(name, "in", "it")).created();
    }
    let first = scope.get("configmaps?limit=1&labelSelector=in%3Dit").ok();
    assert!(first["metadata"]["continue"].is_string());
    assert!(first["metadata"].get("remainingItemCount").is_none());
}

#[test]
fn a_page_that_is_the_last_says_so() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("a")).created();
    let list = scope.get("configmaps?limit=1").ok();
    assert!(list["metadata"].get("continue").is_none());
}

#[test]
fn a_continuation_that_nobody_gave() {
    let scope = Scope::new();
    let answer = scope.get("configmaps?limit=1&continue=no%20token");
    answer.refused(400, "BadRequest", "invalid continue token: continue key is not valid: illegal base64 data at input byte 2");
}

#[test]
fn a_continuation_and_a_version_exclude_each_other() {
    let scope = Scope::new();
    for name in ["a", "b"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    let first = scope.get("configmaps?limit=1").ok();
    let more = first["metadata"]["continue"].as_str().expect("there is more");
    let answer = scope.get(&format!("configmaps?limit=1&resourceVersion=1&continue={more}"));
    answer.refused(400, "BadRequest", "specifying resource version is not allowed when using continue");
}

#[test]
fn an_exact_version_is_a_look_into_the_past() {
    let scope = Scope::new();
    let first = scope.post("configmaps", &config_map("a")).created();
    scope.post("configmaps", &config_map("b")).created();
    let version = first["metadata"]["resourceVersion"].as_str().expect("there is a version");
    let list = scope.get(&format!("configmaps?resourceVersion={version}&resourceVersionMatch=Exact")).ok();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["metadata"]["resourceVersion"], version);
}

#[test]
fn not_older_than() {
    let scope = Scope::new();
    let first = scope.post("configmaps", &config_map("a")).created();
    let version = first["metadata"]["resourceVersion"].as_str().expect("there is a version");
    let list = scope.get(&format!("configmaps?resourceVersion={version}&resourceVersionMatch=NotOlderThan")).ok();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let any = scope.get("configmaps?resourceVersion=0").ok();
    assert_eq!(any["kind"], "ConfigMapList");
}

#[test]
fn how_a_version_matches_is_checked() {
    let scope = Scope::new();
    let status = scope.get("configmaps?resourceVersionMatch=Exact").expect(422);
    assert_eq!(
        status["message"],
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    );
    let status = scope.get("configmaps?resourceVersion=0&resourceVersionMatch=Exact").expect(422);
    assert_eq!(
        status["message"],
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
    );
    let status = scope.get("configmaps?resourceVersion=1&resourceVersionMatch=Nearly").expect(422);
    assert_eq!(status["details"]["causes"][0]["field"], "resourceVersionMatch");
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueNotSupported");
}

#[test]
fn a_list_from_the_future() {
    let scope = Scope::new();
    let answer = scope.get("configmaps?resourceVersion=999999999999");
    assert_eq!(answer.status, 504, "{}", answer.text);
    let status = answer.body;
    assert_eq!(status["reason"], "Timeout");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Timeout: Too large resource version: 999999999999, current: "), "{message}");
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}

#[test]
fn a_version_that_is_no_number() {
    let scope = Scope::new();
    let status = scope.get("configmaps?resourceVersion=many").expect(400);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("strconv.ParseUint: parsing \"many\": invalid syntax"), "{message}");
}

#[test]
fn equality() {
    let scope = fruit();
    assert_eq!(selected(&scope, "kind=fruit"), ["apple", "cherry"]);
    assert_eq!(selected(&scope, "kind==fruit"), ["apple", "cherry"]);
    assert_eq!(selected(&scope, "kind!=fruit"), ["bean", "door"]);
    assert_eq!(selected(&scope, "kind=fruit,other=wood"), Vec::<String>::new());
    assert_eq!(selected(&scope, "kind="), Vec::<String>::new());
}

#[test]
fn sets() {
    let scope = fruit();
    assert_eq!(selected(&scope, "kind in (fruit,vegetable)"), ["apple", "bean", "cherry"]);
    assert_eq!(selected(&scope, "kind notin (fruit)"), ["bean", "door"]);
    assert_eq!(selected(&scope, "kind"), ["apple", "bean", "cherry"]);
    assert_eq!(selected(&scope, "!kind"), ["door"]);
    assert_eq!(selected(&scope, " kind in ( fruit ) , !other "), ["apple", "cherry"]);
}

#[test]
fn numbers() {
    let scope = Scope::new();
    for (name, size) in [("a", "1"), ("b", "5"), ("c", "10"), ("d", "big")] {
        scope.post("configmaps", &labelled(name, "size", size)).created();
    }
    assert_eq!(selected(&scope, "size>4"), ["b", "c"]);
    assert_eq!(selected(&scope, "size<5"), ["a"]);
}

#[test]
fn selectors_that_make_no_sense() {
    let scope = Scope::new();
    let rows = [
        ("kind in fruit", "unable to parse requirement: found 'fruit' expected: '('"),
        ("kind in (fruit", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=fruit", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "size>big",
            "unable to parse requirement: values[0]: Invalid value: \"big\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ];
    for (selector, reason) in rows {
        let status = scope.get(&format!("configmaps?labelSelector={}", escaped(selector))).expect(400);
        assert_eq!(status["reason"], "BadRequest", "{selector}");
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(message, reason, "{selector}");
    }
}

#[test]
fn labels_in_selectors_are_checked() {
    let scope = Scope::new();
    let status = scope.get(&format!("configmaps?labelSelector={}", escaped("a=b c"))).expect(400);
    assert_eq!(status["message"], "found 'c', expected: ',' or 'end of string'");
    let status = scope.get(&format!("configmaps?labelSelector={}", escaped("-a=b"))).expect(400);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"), "{message}");
    let status = scope.get(&format!("configmaps?labelSelector=a%3D{}", "x".repeat(64))).expect(400);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("must be no more than 63 "), "{message}");
}

#[test]
fn fields() {
    let scope = Scope::new();
    for name in ["a", "b", "c"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    assert_eq!(scope.names("configmaps?fieldSelector=metadata.name%3Db"), ["b"]);
    assert_eq!(scope.names("configmaps?fieldSelector=metadata.name!%3Db"), ["a", "c"]);
    assert_eq!(scope.names(&format!("configmaps?fieldSelector=metadata.namespace%3D{}", scope.name)), ["a", "b", "c"]);
    assert_eq!(scope.names("configmaps?fieldSelector=metadata.namespace%3Dother"), Vec::<String>::new());
    assert_eq!(scope.names("configmaps?fieldSelector=metadata.name%3Da,metadata.name!%3Da"), Vec::<String>::new());
}

#[test]
fn fields_of_pods() {
    let scope = Scope::new();
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = json!("here");
    bound["spec"]["restartPolicy"] = json!("Never");
    scope.post("pods", &bound).created();
    scope.post("pods", &pod("free")).created();
    assert_eq!(scope.names("pods?fieldSelector=spec.nodeName%3Dhere"), ["bound"]);
    assert_eq!(scope.names("pods?fieldSelector=spec.nodeName%3D"), ["free"]);
    assert_eq!(scope.names("pods?fieldSelector=status.phase%3DPending"), ["bound", "free"]);
    assert_eq!(scope.names("pods?fieldSelector=status.phase!%3DPending"), Vec::<String>::new());
    assert_eq!(scope.names("pods?fieldSelector=spec.restartPolicy%3DNever"), ["bound"]);
}

#[test]
fn fields_of_other_kinds() {
    let scope = Scope::new();
    let mut none = service("none");
    none["spec"]["clusterIP"] = json!("None");
    scope.post("services", &none).created();
    scope.post("services", &service("some")).created();
    assert_eq!(scope.names("services?fieldSelector=spec.clusterIP%3DNone"), ["none"]);
    assert_eq!(scope.names("services?fieldSelector=spec.type%3DClusterIP"), ["none", "some"]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "test/one"});
    scope.post("secrets", &secret).created();
    assert_eq!(scope.names("secrets?fieldSelector=type%3Dtest/one"), ["s"]);
    assert_eq!(scope.names("secrets?fieldSelector=type%3DOpaque"), Vec::<String>::new());
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Normal", "reason": "Tested",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": scope.name},
    });
    scope.post("events", &event).created();
    assert_eq!(scope.names("events?fieldSelector=involvedObject.name%3Dp,reason%3DTested"), ["e"]);
}

#[test]
fn fields_that_are_not_known() {
    let scope = Scope::new();
    let message = "field label not supported: spec.nothing";
    scope.get("configmaps?fieldSelector=spec.nothing%3Da").refused(
        400,
        "BadRequest",
        "\"spec.nothing\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    scope.get("pods?fieldSelector=spec.nothing%3Da").refused(400, "BadRequest", message);
    scope.get("configmaps?fieldSelector=nonsense").refused(400, "BadRequest", "invalid selector: 'nonsense'; can't understand 'nonsense'");
}

#[test]
fn any_version_has_no_pages() {
    let scope = Scope::new();
    for name in ["a", "b", "c"] {
        scope.post("configmaps", &config_map(name)).created();
    }
    // What the server has at hand may be older, so ask until all are there.
    let list = crate::harness::eventually("all are listed", || {
        let list = scope.get("configmaps?resourceVersion=0&limit=1").ok();
        (list["items"].as_array().map(Vec::len) == Some(3)).then_some(list)
    });
    assert!(list["metadata"].get("continue").is_none(), "a limit is ignored");
}

#[test]
fn one_object_of_the_future() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let status = scope.get("configmaps/one?resourceVersion=999999999999").expect(504);
    assert_eq!((&status["reason"], &status["details"]["causes"][0]["reason"]), (&json!("Timeout"), &json!("ResourceVersionTooLarge")));
    scope.get("configmaps/one?resourceVersion=1").ok();
}

#[test]
fn limits_of_zero_and_less() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    assert_eq!(scope.names("configmaps?limit=0"), ["one"]);
    let status = scope.get("configmaps?limit=-1");
    assert_eq!(status.status, 200, "{}", status.text);
}
