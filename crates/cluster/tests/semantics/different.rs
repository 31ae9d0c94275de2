//! Where our server answers otherwise on purpose.

use http::Method;
use serde_json::json;

use crate::harness::Scope;
use crate::harness::differences::ours;
use crate::harness::objects::config_map;

#[test]
fn server_side_apply() {
    let scope = Scope::new();
    let call = scope.call(Method::PATCH, "configmaps/one?fieldManager=semantics").json(&config_map("one"));
    let answer = call.header("content-type", "application/apply-patch+yaml").send();
    if ours("apply") {
        assert_eq!((answer.status, &answer["kind"], &answer["reason"]), (415, &json!("Status"), &json!("UnsupportedMediaType")));
    } else {
        assert_eq!(answer.created()["metadata"]["managedFields"][0]["operation"], "Apply");
    }
}

#[test]
fn managed_fields() {
    let scope = Scope::new();
    let made = scope.post("configmaps", &config_map("one")).created();
    let fields = &made["metadata"]["managedFields"];
    assert!(if ours("managed fields") { fields.is_null() } else { fields[0]["operation"] == "Update" }, "{made}");
}

#[test]
fn protobuf() {
    let scope = Scope::new();
    scope.post("configmaps", &config_map("one")).created();
    let ask = |accept: &str| scope.call(Method::GET, "configmaps/one").header("accept", accept).send();
    let (only, rather) = (ask("application/vnd.kubernetes.protobuf"), ask("application/vnd.kubernetes.protobuf,application/json"));
    if ours("protobuf") {
        assert_eq!((only.status, &only["reason"]), (406, &json!("NotAcceptable")));
        assert_eq!((rather.status, rather.header("content-type")), (200, "application/json"));
    } else {
        assert_eq!((only.status, only.header("content-type")), (200, "application/vnd.kubernetes.protobuf"));
        assert_eq!((rather.status, rather.header("content-type")), (200, "application/vnd.kubernetes.protobuf"));
    }
}
