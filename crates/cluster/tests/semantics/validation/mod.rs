//! What is refused of each kind, with every cause as the original names it.

mod data;
mod endpoints;
mod nodes;
mod pods;
mod policies;
mod services;
mod workloads;

use serde_json::{Value, json};

use crate::harness::{Answer, Cause, Scope, server};

/// Group and kind of a resource.
fn kind(resource: &str) -> (&'static str, &'static str) {
    match resource {
        "configmaps" => ("", "ConfigMap"),
        "deployments" => ("apps", "Deployment"),
        "endpoints" => ("", "Endpoints"),
        "endpointslices" => ("discovery.k8s.io", "EndpointSlice"),
        "events" => ("", "Event"),
        "leases" => ("coordination.k8s.io", "Lease"),
        "namespaces" => ("", "Namespace"),
        "networkpolicies" => ("networking.k8s.io", "NetworkPolicy"),
        "nodes" => ("", "Node"),
        "pods" => ("", "Pod"),
        "replicasets" => ("apps", "ReplicaSet"),
        "secrets" => ("", "Secret"),
        "serviceaccounts" => ("", "ServiceAccount"),
        "services" => ("", "Service"),
        other => panic!("nobody said what {other} are"),
    }
}

/// Where a resource is: nodes and namespaces are in no namespace.
fn path(scope: &Scope, resource: &str) -> String {
    match resource {
        "namespaces" | "nodes" => format!("/api/v1/{resource}"),
        _ => scope.path(resource),
    }
}

#[track_caller]
fn is_invalid(answer: Answer, resource: &str, name: &Value, causes: &[Cause<'_>]) {
    let (group, kind) = kind(resource);
    answer.invalid(group, kind, name.as_str().unwrap_or_default(), causes);
}

/// An object that cannot be created.
#[track_caller]
fn refuses(resource: &str, object: Value, causes: &[Cause<'_>]) {
    let scope = Scope::new();
    let answer = server().post(path(&scope, resource) + "?dryRun=All", &object);
    is_invalid(answer, resource, &object["metadata"]["name"], causes);
}

/// An object that can be created, and cannot be changed like this.
#[track_caller]
fn refuses_change(resource: &str, object: Value, patch: Value, causes: &[Cause<'_>]) {
    let scope = Scope::new();
    let made = server().post(path(&scope, resource), &object).created();
    let name = &made["metadata"]["name"];
    let answer = server().merge(format!("{}/{}", path(&scope, resource), name.as_str().unwrap_or_default()), &patch);
    is_invalid(answer, resource, name, causes);
    // Addresses and names are free for the next run.
    server().delete(format!("{}/{}", path(&scope, resource), name.as_str().unwrap_or_default())).ok();
}

#[test]
fn priority_is_not_chosen_by_number() {
    let scope = Scope::new();
    let pod = json!({"metadata": {"name": "one"}, "spec": {"priority": 5, "containers": [{"name": "main", "image": "x"}]}});
    let message = "pods \"one\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller \
        computed 0 from the given PriorityClass name";
    scope.post("pods", &pod).refused(403, "Forbidden", message);
}

#[test]
fn what_looks_wrong_and_is_not() {
    let scope = Scope::new();
    let digit = json!({"metadata": {"name": "1one"}, "spec": {"ports": [{"port": 80}]}});
    scope.post("services?dryRun=All", &digit).created();
    let none = json!({"clientIP": {"timeoutSeconds": 5}});
    let unused =
        json!({"metadata": {"name": "one"}, "spec": {"sessionAffinity": "None", "sessionAffinityConfig": none, "ports": [{"port": 80}]}});
    let made = scope.post("services?dryRun=All", &unused).created();
    assert!(made["spec"].get("sessionAffinityConfig").is_none());
}

#[test]
fn bytes_that_are_not_base64() {
    let scope = Scope::new();
    let secret = json!({"metadata": {"name": "one"}, "data": {"a": "!"}});
    let message = "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0";
    scope.post("secrets", &secret).refused(400, "BadRequest", message);
}
