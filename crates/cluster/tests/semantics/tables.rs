//! Answers in other forms: tables, and metadata alone.

use http::Method;
use serde_json::{Value, json};

use crate::harness::objects::{config_map, deployment, pod, replica_set, service};
use crate::harness::{Scope, server};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn table(scope: &Scope, resource: &str) -> Value {
    let answer = scope.call(Method::GET, resource).header("accept", TABLE).send();
    let table = answer.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    table
}

/// Name, type, format and priority of each column.
fn columns(table: &Value) -> Vec<(&str, &str, &str, i64)> {
    let text = |column: &'_ Value, key: &str| -> String { column[key].as_str().unwrap_or_default().to_owned() };
    let all = table["columnDefinitions"].as_array().expect("there are columns");
    assert!(all.iter().all(|column| !text(column, "description").is_empty()));
    let get = |column: &'_ Value| column["priority"].as_i64().unwrap_or(-1);
    all.iter()
        .map(|column| {
            let text = |key: &str| column[key].as_str().unwrap_or_default();
            (text("name"), text("type"), text("format"), get(column))
        })
        .collect()
}

fn names(table: &Value) -> Vec<&str> {
    columns(table).into_iter().map(|(name, ..)| name).collect()
}

#[test]
fn a_table_of_config_maps() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let table = table(&scope, "configmaps");
    assert_eq!(columns(&table), [("Name", "string", "name", 0), ("Data", "string", "", 0), ("Age", "string", "", 0)]);
    assert!(table["metadata"]["resourceVersion"].is_string());
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("one"), &json!(1)));
    assert!(row["cells"][2].as_str().is_some_and(|age| age.ends_with('s')));
    assert_eq!((&row["object"]["kind"], &row["object"]["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert_eq!(row["object"]["metadata"]["name"], "one");
    assert!(row["object"].get("data").is_none());
}

#[test]
fn a_table_of_one() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    assert_eq!(table(&scope, "configmaps/one")["rows"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_empty_table_has_columns() {
    let scope = Scope::new();
    let table = table(&scope, "configmaps");
    assert_eq!(names(&table), ["Name", "Data", "Age"]);
    assert_eq!(table["rows"], json!([]));
}

#[test]
fn rows_with_whole_objects_or_none() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let whole = table(&scope, "configmaps?includeObject=Object");
    assert_eq!(whole["rows"][0]["object"]["data"], json!({"key": "value"}));
    let none = table(&scope, "configmaps?includeObject=None");
    assert!(none["rows"][0]["object"].is_null());
}

#[test]
fn a_table_of_pods() {
    let scope = Scope::new();
    scope.post("pods", &pod("one")).created();
    let table = table(&scope, "pods");
    assert_eq!(names(&table), ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]);
    let priorities: Vec<i64> = columns(&table).into_iter().map(|(_, _, _, priority)| priority).collect();
    assert_eq!(priorities, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
    let cells = table["rows"][0]["cells"].as_array().expect("there are cells");
    let fixed: Vec<&Value> = cells.iter().enumerate().filter(|(at, _)| *at != 4).map(|(_, cell)| cell).collect();
    assert_eq!(fixed, ["one", "0/1", "Pending", "0", "<none>", "<none>", "<none>", "<none>"]);
}

#[test]
fn a_pod_that_runs_in_a_table() {
    let scope = Scope::new();
    let mut bound = pod("one");
    bound["spec"]["nodeName"] = json!("here");
    scope.post("pods", &bound).created();
    let status = json!({"status": {
        "phase": "Running", "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "main", "ready": true, "restartCount": 2, "image": "x", "imageID": "x", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
    }});
    scope.strategic("pods/one/status", &status).ok();
    let table = table(&scope, "pods");
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[1], &cells[2], &cells[3], &cells[5], &cells[6]),
        (&json!("1/1"), &json!("Running"), &json!("2"), &json!("192.0.2.1"), &json!("here"))
    );
    scope.delete("pods/one").ok();
    assert_eq!(self::table(&scope, "pods")["rows"][0]["cells"][2], "Terminating");
}

#[test]
fn a_table_of_services() {
    let scope = Scope::new();
    let mut headless = service("one");
    headless["spec"]["clusterIP"] = json!("None");
    scope.post("services", &headless).created();
    let table = table(&scope, "services");
    assert_eq!(names(&table), ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"]);
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[1], &cells[2], &cells[3], &cells[4], &cells[6]),
        (&json!("ClusterIP"), &json!("None"), &json!("<none>"), &json!("80/TCP"), &json!("app=one"))
    );
}

#[test]
fn a_table_of_deployments_and_replica_sets() {
    let scope = Scope::new();
    scope.post("replicasets", &replica_set("one", 0)).created();
    scope.post("deployments", &deployment("two", 0)).created();
    let deployments = table(&scope, "deployments");
    assert_eq!(names(&deployments), ["Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images", "Selector"]);
    let cells = &deployments["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2], &cells[3], &cells[5]), (&json!("0/0"), &json!(0), &json!(0), &json!("main")));
    let sets = table(&scope, "replicasets?fieldSelector=metadata.name%3Done");
    assert_eq!(names(&sets), ["Name", "Desired", "Current", "Ready", "Age", "Containers", "Images", "Selector"]);
}

#[test]
fn tables_of_the_other_kinds() {
    let scope = Scope::new();
    let rows: [(&str, &[&str]); 8] = [
        ("secrets", &["Name", "Type", "Data", "Age"]),
        ("serviceaccounts", &["Name", "Age"]),
        ("endpoints", &["Name", "Endpoints", "Age"]),
        ("endpointslices", &["Name", "AddressType", "Ports", "Endpoints", "Age"]),
        ("leases", &["Name", "Holder", "Age"]),
        ("networkpolicies", &["Name", "Pod-Selector", "Age"]),
        ("events", &["Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"]),
        ("pods", &["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]),
    ];
    for (resource, expected) in rows {
        assert_eq!(names(&table(&scope, resource)), expected, "{resource}");
    }
}

#[test]
fn tables_of_what_has_no_namespace() {
    for (path, expected) in [
        ("/api/v1/namespaces", &["Name", "Status", "Age"][..]),
        (
            "/api/v1/nodes",
            &["Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"],
        ),
    ] {
        let table = server().call(Method::GET, path).header("accept", TABLE).send().ok();
        assert_eq!(names(&table), expected, "{path}");
    }
}

#[test]
fn metadata_alone() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let part = scope.call(Method::GET, "configmaps/one").header("accept", accept).send().ok();
    assert_eq!(part, json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}));
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = scope.call(Method::GET, "configmaps").header("accept", accept).send().ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert_eq!(list["items"][0]["metadata"], made["metadata"]);
    assert!(list["items"][0].get("data").is_none());
}

#[test]
fn a_form_that_nobody_knows() {
    let scope = Scope::new();
    let answer = scope.call(Method::GET, "configmaps").header("accept", "application/json;as=Poem;v=v1;g=meta.k8s.io").send();
    let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    answer.refused(406, "NotAcceptable", message);
    let answer = scope.call(Method::GET, "configmaps").header("accept", "text/csv").send();
    let status = answer.expect(406);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "), "{message}");
}

#[test]
fn an_error_is_no_table() {
    let scope = Scope::new();
    let answer = scope.call(Method::GET, "configmaps/none").header("accept", TABLE).send();
    answer.refused(404, "NotFound", "configmaps \"none\" not found");
}
