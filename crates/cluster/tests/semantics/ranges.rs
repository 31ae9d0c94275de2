//! The ranges that services get their addresses from, and the objects that tell who has which address.

use http::Method;
use serde_json::{Value, json};

use crate::harness::differences::ours;
use crate::harness::objects::service;
use crate::harness::{Answer, Cause, Scope, eventually, server};

const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn range(cidrs: Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"}, "spec": {"cidrs": cidrs}})
}

fn address(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": name}, "spec": spec})
}

fn one(name: &str) -> Answer {
    server().get(format!("{ADDRESSES}/{name}"))
}

#[test]
fn what_the_server_was_started_with() {
    let range = eventually("the range is ready", || {
        let range = server().get(format!("{RANGES}/kubernetes")).ok();
        range["status"]["conditions"].is_array().then_some(range)
    });
    assert_eq!(range["spec"], json!({"cidrs": ["10.96.0.0/16", "fd00:10:96::/112"]}));
    let mut condition = range["status"]["conditions"][0].clone();
    assert!(condition["lastTransitionTime"].take().is_string());
    let expected = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": null,
    });
    assert_eq!(condition, expected);
    assert!(range["metadata"].get("generation").is_none());
}

#[test]
fn a_table_of_ranges() {
    let table = server().call(Method::GET, RANGES).header("accept", TABLE).send().ok();
    let columns: Vec<&str> = table["columnDefinitions"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(columns, ["Name", "CIDRs", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], "10.96.0.0/16,fd00:10:96::/112");
    let addresses = server().call(Method::GET, format!("{ADDRESSES}/10.96.0.1")).header("accept", TABLE).send().ok();
    let cells = addresses["rows"][0]["cells"].as_array().expect("a row has cells");
    assert_eq!(cells[..2], [json!("10.96.0.1"), json!("services/default/kubernetes")]);
}

#[track_caller]
fn refuses_range(cidrs: Value, field: &str, message: &str) {
    let reason = if message.starts_with("Required") { "FieldValueRequired" } else { "FieldValueInvalid" };
    let answer = server().post(format!("{RANGES}?dryRun=All"), &range(cidrs));
    answer.invalid("networking.k8s.io", "ServiceCIDR", "more", &[(reason, field, message)]);
}

#[test]
fn ranges_that_are_none() {
    refuses_range(json!([]), "spec.cidrs", "Required value: at least one CIDR required");
    let message = "Invalid value: {\"CIDRs\":[\"10.0.0.0/8\",\"10.1.0.0/16\",\"fd00::/64\"]}: may only hold up to 2 values";
    refuses_range(json!(["10.0.0.0/8", "10.1.0.0/16", "fd00::/64"]), "spec.cidrs", message);
    let message = "Invalid value: [\"10.0.0.0/8\",\"11.0.0.0/16\"]: may specify no more than one IP for each IP family, i.e \
        192.168.0.0/24 and 2001:db8::/64";
    refuses_range(json!(["10.0.0.0/8", "11.0.0.0/16"]), "spec.cidrs", message);
    let message = "Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    refuses_range(json!(["x"]), "spec.cidrs[0]", message);
    let message = "Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length";
    refuses_range(json!(["10.0.0.1/8"]), "spec.cidrs[0]", message);
}

#[track_caller]
fn refuses_other(cidrs: Value, field: &str, message: &str) {
    let answer = server().merge(format!("{RANGES}/kubernetes?dryRun=All"), &json!({"spec": {"cidrs": cidrs}}));
    answer.invalid("networking.k8s.io", "ServiceCIDR", "kubernetes", &[("FieldValueInvalid", field, message)]);
}

#[test]
fn ranges_stay_what_they_are() {
    let message = "Invalid value: \"fd00:10:97::/112\": field is immutable";
    refuses_other(json!(["10.96.0.0/16", "fd00:10:97::/112"]), "spec.cidrs[1]", message);
    refuses_other(json!(["10.96.0.0/16"]), "spec.cidrs", "Invalid value: [\"10.96.0.0/16\"]: field is immutable");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let labelled = server().merge(format!("{RANGES}/kubernetes?dryRun=All"), &label).ok();
    assert_eq!(labelled["metadata"]["labels"]["a"], "b");
}

#[test]
fn the_status_of_a_range() {
    let patch = json!({"spec": {"cidrs": ["10.0.0.0/8"]}, "status": {"conditions": []}});
    let changed = server().merge(format!("{RANGES}/kubernetes/status?dryRun=All"), &patch).ok();
    assert_eq!((&changed["status"], &changed["spec"]["cidrs"][0]), (&json!({}), &json!("10.96.0.0/16")));
}

#[test]
fn another_range() {
    let answer = server().post(format!("{RANGES}?dryRun=All"), &range(json!(["10.7.0.0/16"])));
    if ours("more ranges for services") {
        let message = "Forbidden: Services get their addresses from what this server was started with; use --service-cidr";
        answer.invalid("networking.k8s.io", "ServiceCIDR", "more", &[("FieldValueForbidden", "spec.cidrs", message)]);
        let message = "servicecidrs.networking.k8s.io \"kubernetes\" is forbidden: Services get their addresses from it for as long as this \
            server runs";
        server().delete(format!("{RANGES}/kubernetes")).refused(403, "Forbidden", message);
    } else {
        assert_eq!(answer.created()["spec"]["cidrs"], json!(["10.7.0.0/16"]));
    }
}

#[test]
fn the_address_of_a_service() {
    let scope = Scope::new();
    let mut both = service("one");
    both["spec"]["ipFamilyPolicy"] = json!("RequireDualStack");
    let made = scope.post("services", &both).created();
    for (number, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let ip = made["spec"]["clusterIPs"][number].as_str().expect("there are two addresses");
        let told = eventually("the address is an object", || Some(one(ip)).filter(|answer| answer.status == 200)).ok();
        assert_eq!(told["spec"], json!({"parentRef": {"resource": "services", "namespace": scope.name, "name": "one"}}));
        let labels = json!({"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        assert_eq!(told["metadata"]["labels"], labels);
        assert!(told["metadata"].get("ownerReferences").is_none());
    }
    scope.delete("services/one").ok();
    let ip = made["spec"]["clusterIP"].as_str().unwrap_or_default();
    eventually("the address goes with the service", || (one(ip).status == 404).then_some(()));
}

#[test]
fn an_address_that_somebody_keeps() {
    let scope = Scope::new();
    let parent = json!({"parentRef": {"group": "example.com", "resource": "gateways", "name": "one"}});
    server().post(ADDRESSES, &address("10.96.0.239", parent.clone())).created();
    server().post(ADDRESSES, &address("10.96.0.239", parent)).refused(
        409,
        "AlreadyExists",
        "ipaddresses.networking.k8s.io \"10.96.0.239\" already exists",
    );
    let mut wants = service("one");
    wants["spec"]["clusterIP"] = json!("10.96.0.239");
    let message = "Invalid value: [\"10.96.0.239\"]: failed to allocate IP 10.96.0.239: provided IP is already allocated";
    scope.post("services", &wants).invalid("", "Service", "one", &[("FieldValueInvalid", "spec.clusterIPs", message)]);
    let message = "Invalid value: null: field is immutable";
    let answer = server().merge(format!("{ADDRESSES}/10.96.0.239"), &json!({"spec": {"parentRef": {"name": "two"}}}));
    answer.invalid("networking.k8s.io", "IPAddress", "10.96.0.239", &[("FieldValueInvalid", "spec.parentRef", message)]);
    server().delete(format!("{ADDRESSES}/10.96.0.239")).ok();
    scope.post("services", &wants).created();
    scope.delete("services/one").ok();
}

#[track_caller]
fn refuses_address(name: &str, spec: Value, causes: &[Cause<'_>]) {
    let answer = server().post(format!("{ADDRESSES}?dryRun=All"), &address(name, spec));
    answer.invalid("networking.k8s.io", "IPAddress", name, causes);
}

#[test]
fn addresses_that_are_none() {
    let required = |field| ("FieldValueRequired", field, "Required value");
    let name = |message| ("FieldValueInvalid", "metadata.name", message);
    let parent = json!({"parentRef": {"resource": "pods", "name": "one"}});
    let not_one = "Invalid value: \"abc\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    refuses_address("abc", parent.clone(), &[name(not_one)]);
    refuses_address("010.1.1.1", parent, &[name("Invalid value: \"010.1.1.1\": must not have leading 0s")]);
    refuses_address("10.1.1.1", json!({}), &[required("spec.parentRef")]);
    let both = [required("spec.parentRef.resource"), required("spec.parentRef.name")];
    refuses_address("10.1.1.1", json!({"parentRef": {}}), &both);
    refuses_address(
        "10.1.1.1",
        json!({"parentRef": {"resource": "a/b", "name": "..", "namespace": "%"}}),
        &[
            ("FieldValueInvalid", "spec.parentRef.resource", "Invalid value: \"a/b\": may not contain '/'"),
            ("FieldValueInvalid", "spec.parentRef.name", "Invalid value: \"..\": may not be '..'"),
            ("FieldValueInvalid", "spec.parentRef.namespace", "Invalid value: \"%\": may not contain '%'"),
        ],
    );
}
