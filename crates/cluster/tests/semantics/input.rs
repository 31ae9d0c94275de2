//! What makes no sense.

use http::Method;
use serde_json::json;

use crate::harness::objects::{config_map, pod};
use crate::harness::{Scope, server};

const NAME_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
    alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn raw(scope: &Scope, body: &str) -> crate::harness::Answer {
    scope.call(Method::POST, "configmaps").text(body).header("content-type", "application/json").send()
}

#[test]
fn broken_json() {
    let scope = Scope::new();
    let message = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({)";
    raw(&scope, "{").refused(400, "BadRequest", message);
    let message = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
        invalid character 'n' looking for beginning of object key string ({nonsense)";
    raw(&scope, "{nonsense").refused(400, "BadRequest", message);
}

#[test]
fn json_that_is_no_object() {
    let scope = Scope::new();
    let message = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)";
    raw(&scope, "[]").refused(400, "BadRequest", message);
}

#[test]
fn no_body() {
    let scope = Scope::new();
    let answer = scope.call(Method::POST, "configmaps").header("content-type", "application/json").send();
    assert_eq!((answer.status, &answer["reason"]), (400, &json!("BadRequest")), "{}", answer.text);
}

#[test]
fn another_kind() {
    let scope = Scope::new();
    let message = "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion";
    scope.post("configmaps", &pod("one")).refused(400, "BadRequest", message);
    let mut unknown = config_map("one");
    unknown["kind"] = json!("Nonsense");
    let message =
        "Nonsense in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nonsense\" is registered for version \"v1\" in scheme ";
    let status = scope.post("configmaps", &unknown).expect(400);
    assert!(status["message"].as_str().is_some_and(|text| text.starts_with(message)), "{status}");
}

#[test]
fn another_version() {
    let scope = Scope::new();
    let mut other = config_map("one");
    other["apiVersion"] = json!("v2");
    let message = "no kind \"ConfigMap\" is registered for version \"v2\" in scheme";
    let status = scope.post("configmaps", &other).expect(400);
    assert!(status["message"].as_str().is_some_and(|text| text.contains(message)), "{status}");
    other["apiVersion"] = json!("apps/v1");
    assert_eq!(scope.post("configmaps", &other).expect(400)["reason"], "BadRequest");
}

#[test]
fn values_of_the_wrong_type() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["data"] = json!({"key": 1});
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    scope.post("configmaps", &map).refused(400, "BadRequest", message);
    let mut bad = pod("one");
    bad["spec"]["containers"] = json!("none");
    let message = "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container";
    scope.post("pods", &bad).refused(400, "BadRequest", message);
}

#[test]
fn an_object_that_is_too_large() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["data"] = json!({"key": "x".repeat(1_100_000)});
    let message = "Too long: may not be more than 1048576 bytes";
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &[("FieldValueTooLong", "[]", message)]);
}

#[test]
fn a_body_that_is_too_large() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["data"] = json!({"key": "x".repeat(3_200_000)});
    let message = "Request entity too large: limit is 3145728";
    scope.post("configmaps", &map).refused(413, "RequestEntityTooLarge", message);
}

#[test]
fn names_that_are_not_allowed() {
    let scope = Scope::new();
    for name in ["Upper", "-front", "under_score", "back-"] {
        let message = format!("Invalid value: {name:?}: {NAME_RULE}");
        scope.post("configmaps", &config_map(name)).invalid("", "ConfigMap", name, &[("FieldValueInvalid", "metadata.name", &message)]);
    }
    let long = "x".repeat(254);
    let message = format!("Invalid value: {long:?}: must be no more than 253 characters");
    scope.post("configmaps", &config_map(&long)).invalid("", "ConfigMap", &long, &[("FieldValueInvalid", "metadata.name", &message)]);
}

#[test]
fn labels_that_are_not_allowed() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["labels"] = json!({"good": "bad value"});
    let message = "Invalid value: \"bad value\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
        and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
        '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &[("FieldValueInvalid", "metadata.labels", message)]);
    map["metadata"]["labels"] = json!({"bad key": "x"});
    let message = "Invalid value: \"bad key\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
        character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &[("FieldValueInvalid", "metadata.labels", message)]);
}

#[test]
fn annotations_that_are_not_allowed() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["metadata"]["annotations"] = json!({"a": "x".repeat(262_145)});
    let message = "Too long: may not be more than 262144 bytes";
    scope.post("configmaps", &map).invalid("", "ConfigMap", "one", &[("FieldValueTooLong", "metadata.annotations", message)]);
}

#[test]
fn a_type_that_nobody_reads() {
    let scope = Scope::new();
    let answer = scope.call(Method::POST, "configmaps").text("x=y").header("content-type", "application/x-www-form-urlencoded").send();
    let status = answer.expect(415);
    assert_eq!(status["reason"], "UnsupportedMediaType");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("the body of the request was in an unknown format - accepted media types include: application/json"),
        "{message}"
    );
}

#[test]
fn methods_that_are_not_allowed() {
    let scope = Scope::new();
    let message = "the server does not allow this method on the requested resource";
    for (method, resource) in [(Method::PUT, "configmaps"), (Method::PATCH, "configmaps"), (Method::POST, "configmaps/one")] {
        let answer = scope.call(method, resource).text("{}").header("content-type", "application/json").send();
        let status = answer.refused(405, "MethodNotAllowed", message);
        assert_eq!(status["details"], json!({}));
    }
}

#[test]
fn resources_that_do_not_exist() {
    let scope = Scope::new();
    let message = "the server could not find the requested resource";
    for resource in ["things", "things/one", "configmaps/one/two", "pods/one/nosuch"] {
        let status = scope.get(resource).refused(404, "NotFound", message);
        assert_eq!(status["details"], json!({}), "{resource}");
    }
    let answer = scope.post("things", &config_map("one"));
    answer.refused(404, "NotFound", message);
}

#[test]
fn parameters_that_make_no_sense() {
    let scope = Scope::new();
    let answer = scope.get("configmaps?limit=many");
    answer.refused(400, "BadRequest", "strconv.ParseInt: parsing \"many\": invalid syntax");
    let answer = scope.get("configmaps?watch=perhaps&timeoutSeconds=1");
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = scope.get("configmaps?timeoutSeconds=soon");
    answer.refused(400, "BadRequest", "strconv.ParseInt: parsing \"soon\": invalid syntax");
    scope.get("configmaps?nonsense=true").ok();
}

#[test]
fn fields_that_nobody_knows() {
    let scope = Scope::new();
    let mut map = config_map("one");
    map["nonsense"] = json!(1);
    map["metadata"]["more"] = json!(2);
    let ignored = scope.post("configmaps?fieldValidation=Ignore&dryRun=All", &map).created();
    assert!(ignored.get("nonsense").is_none());
    let answer = scope.post("configmaps?fieldValidation=Warn&dryRun=All", &map);
    let warnings: Vec<&str> = answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    assert_eq!(warnings, ["299 - \"unknown field \\\"metadata.more\\\"\"", "299 - \"unknown field \\\"nonsense\\\"\""]);
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.more\", unknown field \"nonsense\"";
    scope.post("configmaps?fieldValidation=Strict&dryRun=All", &map).refused(400, "BadRequest", message);
    let default = scope.post("configmaps?dryRun=All", &map);
    assert_eq!(default.headers.get_all("warning").iter().count(), 2);
}

#[test]
fn fields_that_are_there_twice() {
    let scope = Scope::new();
    let body = r#"{"metadata": {"name": "one"}, "data": {"a": "1", "a": "2"}}"#;
    let call = scope.call(Method::POST, "configmaps?fieldValidation=Strict").text(body).header("content-type", "application/json");
    let message = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data.a\"";
    call.send().refused(400, "BadRequest", message);
}

#[test]
fn validation_that_nobody_knows() {
    let scope = Scope::new();
    let status = scope.post("configmaps?fieldValidation=Perhaps", &config_map("one")).expect(422);
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Perhaps\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    assert_eq!(status["message"], message);
}

#[test]
fn names_in_paths_are_not_parsed() {
    let scope = Scope::new();
    scope.get("configmaps/Upper_Case").refused(404, "NotFound", "configmaps \"Upper_Case\" not found");
    assert_eq!(server().get("/api/v1/namespaces/default/configmaps/a%2Fb").status, 404);
}

#[test]
fn keys_of_json_are_told_apart_by_case() {
    let scope = Scope::new();
    let body = json!({"metadata": {"name": "one"}, "Data": {"a": "b"}});
    let made = scope.post("configmaps?dryRun=All", &body).created();
    assert!(made.get("data").is_none());
}

#[test]
fn a_body_without_a_type_is_json() {
    let scope = Scope::new();
    let body = config_map("one").to_string();
    scope.call(Method::POST, "configmaps").text(&body).send().created();
}

#[test]
fn more_than_one_document() {
    let scope = Scope::new();
    let body = format!("{}{}", config_map("one"), config_map("two"));
    let status = raw(&scope, &body).expect(400);
    assert_eq!(status["reason"], "BadRequest");
}

#[test]
fn bytes_that_are_no_text() {
    let scope = Scope::new();
    let body = r#"{"metadata": {"name": "one"}, "data": {"a": "\ud800"}}"#;
    let made = raw(&scope, body).created();
    assert_eq!(made["data"]["a"], "\u{fffd}");
}
