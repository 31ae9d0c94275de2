//! Who may ask.

use http::Method;
use serde_json::json;

use crate::harness::server;

#[test]
fn strangers_are_refused() {
    for path in ["/api/v1/namespaces", "/apis", "/version", "/api/v1/namespaces/default/configmaps?watch=true", "/nosuch"] {
        let answer = server().call(Method::GET, path).without_credentials().send();
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
        answer.refused(401, "Unauthorized", "Unauthorized");
    }
}

#[test]
fn a_wrong_token_is_refused() {
    for token in ["Bearer nonsense", "Bearer", "Basic dXNlcjpwYXNz", "nonsense"] {
        let answer = server().call(Method::GET, "/api/v1/namespaces").without_credentials().header("authorization", token).send();
        let status = answer.refused(401, "Unauthorized", "Unauthorized");
        assert!(status.get("details").is_none());
    }
}

#[test]
fn strangers_cannot_write_either() {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strange"}});
    let answer = server().call(Method::POST, "/api/v1/namespaces").without_credentials().json(&body).send();
    answer.refused(401, "Unauthorized", "Unauthorized");
    assert_eq!(server().get("/api/v1/namespaces/strange").status, 404);
}

#[test]
fn one_can_ask_who_one_is_and_what_one_may() {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}},
    });
    let made = server().post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).created();
    assert_eq!(made["status"]["allowed"], true);
}
