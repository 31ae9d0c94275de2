//! A real `kubectl`, as people use it.
//!
//! It is the one that TRANSOM_KUBECTL names; `cargo xtask interop kubernetes` builds one and names it. Without one the tests are skipped.

#[path = "../support/own.rs"]
mod own;
#[path = "../../../node/tests/support/program.rs"]
mod program;
mod tool;

use std::time::Duration;

use tool::kubectl;

const SHOP: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {app: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: web, image: "registry.test/web:1", ports: [{containerPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  selector: {app: shop}
  ports: [{port: 80}]
"#;

#[test]
fn apply_and_look() {
    let Some(kubectl) = kubectl("apply") else { return };
    assert_eq!(kubectl.apply(SHOP), "deployment.apps/shop created\nservice/shop created\n");
    assert_eq!(kubectl.apply(SHOP), "deployment.apps/shop unchanged\nservice/shop unchanged\n");
    assert_eq!(kubectl.apply(&SHOP.replace("web:1", "web:2")), "deployment.apps/shop configured\nservice/shop unchanged\n");

    let table = kubectl.ok(&["get", "deployments"]);
    assert_eq!(words(&table, 0), ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(words(&table, 1)[..2], ["shop", "0/2"]);
    let wide = kubectl.ok(&["get", "deploy", "shop", "-o", "wide"]);
    assert_eq!(words(&wide, 0)[5..], ["CONTAINERS", "IMAGES", "SELECTOR"]);
    assert_eq!(words(&wide, 1)[5..], ["web", "registry.test/web:2", "app=shop"]);
    assert!(kubectl.ok(&["get", "svc", "shop", "-o", "yaml"]).contains("clusterIP: 10.96."));
    assert_eq!(kubectl.ok(&["get", "deploy", "shop", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]), "registry.test/web:2");
    assert_eq!(kubectl.ok(&["get", "svc", "-l", "app=nobody", "-o", "name"]), "");

    let described = kubectl.ok(&["describe", "deployment", "shop"]);
    for line in ["Name:                   shop", "Selector:               app=shop", "Image:         registry.test/web:2"] {
        assert!(described.contains(line), "{described}");
    }
    assert!(kubectl.ok(&["describe", "service", "shop"]).contains("TargetPort:"));
    assert!(kubectl.ok(&["explain", "service.spec.clusterIP"]).contains("clusterIP"));
    assert!(kubectl.ok(&["api-resources"]).contains("endpointslices"));
}

#[test]
fn change() {
    let Some(kubectl) = kubectl("change") else { return };
    kubectl.apply(SHOP);
    let get = |path: &str| kubectl.ok(&["get", "deploy", "shop", "-o", &format!("jsonpath={path}")]);

    kubectl.ok(&["scale", "deployment", "shop", "--replicas", "3"]);
    assert_eq!(get("{.spec.replicas}"), "3");
    kubectl.ok(&["label", "deployment", "shop", "tier=front"]);
    assert_eq!(get("{.metadata.labels.tier}"), "front");
    let again = kubectl.fails(&["label", "deployment", "shop", "tier=back"]);
    assert!(again.contains("already has a value (front), and --overwrite is false"), "{again}");
    kubectl.ok(&["label", "deployment", "shop", "tier-"]);
    assert_eq!(get("{.metadata.labels.tier}"), "");
    kubectl.ok(&["annotate", "deployment", "shop", "note=good"]);
    kubectl.ok(&["patch", "deployment", "shop", "-p", r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:1"}]}}}}"#]);
    assert_eq!(get("{.spec.template.spec.containers[*].name}"), "web log", "a strategic patch adds");
    kubectl.ok(&["patch", "deployment", "shop", "--type", "json", "-p", r#"[{"op":"replace","path":"/spec/replicas","value":1}]"#]);
    assert_eq!(get("{.spec.replicas}"), "1");
    kubectl.ok(&["patch", "deployment", "shop", "--type", "merge", "-p", r#"{"metadata":{"annotations":{"note":null}}}"#]);
    assert_eq!(get("{.metadata.annotations.note}"), "");
    kubectl.ok(&["set", "image", "deployment/shop", "web=registry.test/web:9"]);
    assert!(get("{.spec.template.spec.containers[*].image}").contains("registry.test/web:9"));

    kubectl.edit("sed -i s/web:9/web:10/", &["edit", "deployment", "shop"]);
    assert!(get("{.spec.template.spec.containers[*].image}").contains("registry.test/web:10"));
    kubectl.ok(&["create", "configmap", "settings", "--from-literal", "colour=blue"]);
    assert_eq!(kubectl.ok(&["get", "cm", "settings", "-o", "jsonpath={.data.colour}"]), "blue");
}

#[test]
fn delete_with_and_without_waiting() {
    let Some(kubectl) = kubectl("delete") else { return };
    kubectl.apply(SHOP);
    let pods = || kubectl.ok(&["get", "pods", "-o", "name"]);
    tool::eventually("two pods", || pods().lines().count() == 2);
    assert_eq!(kubectl.ok(&["delete", "service", "shop"]), format!("service \"shop\" deleted from {} namespace\n", kubectl.namespace()));
    kubectl.ok(&["delete", "deployment", "shop", "--cascade=foreground"]);
    assert_eq!(pods(), "", "whoever waits for the owner finds nothing of it");

    kubectl.ok(&["create", "configmap", "held"]);
    kubectl.ok(&["patch", "cm", "held", "--type", "merge", "-p", r#"{"metadata":{"finalizers":["test.transom/hold"]}}"#]);
    kubectl.ok(&["delete", "cm", "held", "--wait=false"]);
    assert_ne!(kubectl.ok(&["get", "cm", "held", "-o", "jsonpath={.metadata.deletionTimestamp}"]), "");
    let waiting = kubectl.start(&["wait", "--for=delete", "cm/held", "--timeout=30s"]);
    kubectl.ok(&["patch", "cm", "held", "--type", "merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    waiting.ends_well();
    let gone = kubectl.fails(&["get", "cm", "held"]);
    assert_eq!(gone, "Error from server (NotFound): configmaps \"held\" not found\n");
    kubectl.ok(&["delete", "cm", "--all"]);
}

#[test]
fn watch_and_wait() {
    let Some(kubectl) = kubectl("watch") else { return };
    let mut watching = kubectl.start(&["get", "configmaps", "--watch", "-o", "name", "--field-selector", "metadata.name=news"]);
    kubectl.ok(&["create", "configmap", "news"]);
    watching.says("configmap/news", Duration::from_secs(30));
    drop(watching);

    let waiting = kubectl.start(&["wait", "cm/news", "--for=jsonpath={.data.state}=good", "--timeout=30s"]);
    kubectl.ok(&["patch", "cm", "news", "--type", "merge", "-p", r#"{"data":{"state":"good"}}"#]);
    waiting.ends_well();

    kubectl.ok(&["run", "web", "--image", "registry.test/web:1", "--restart", "Never"]);
    let late = kubectl.fails(&["wait", "pod/web", "--for=condition=Ready", "--timeout=1s"]);
    assert!(late.contains("timed out waiting for the condition on pods/web"), "{late}");
    let waiting = kubectl.start(&["wait", "pod/web", "--for=condition=Ready", "--timeout=30s"]);
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    kubectl.ok(&["patch", "pod", "web", "--subresource", "status", "-p", ready]);
    waiting.ends_well();
}

#[test]
fn mistakes_are_named() {
    let Some(kubectl) = kubectl("mistakes") else { return };
    let wrong = kubectl.refuses(&SHOP.replace("port: 80}", "port: 80000}"));
    assert!(wrong.contains("spec.ports[0].port: Invalid value: 80000: must be between 1 and 65535, inclusive"), "{wrong}");
    let unknown = kubectl.refuses(&SHOP.replace("selector: {app: shop}", "selektor: {app: shop}"));
    assert!(unknown.contains(r#"unknown field "spec.selektor""#), "{unknown}");
    let nowhere = kubectl.fails(&["get", "configmaps", "-n", "nowhere", "nothing"]);
    assert!(nowhere.contains("(NotFound)"), "{nowhere}");
    let strange = kubectl.fails(&["get", "gateways"]);
    assert!(strange.contains(r#"the server doesn't have a resource type "gateways""#), "{strange}");
}

/// The words of a line.
fn words(text: &str, line: usize) -> Vec<&str> {
    text.lines().nth(line).unwrap_or_default().split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}
