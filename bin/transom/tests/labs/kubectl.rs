//! A real kubectl drives a lab.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::{Labs, SMALL, eventually, text};

/// Runs kubectl on the lab; nothing if there is no kubectl.
fn kubectl(labs: &Labs, arguments: &[&str]) -> Option<String> {
    let kubeconfig = labs.home().join("default/kubeconfig");
    let output = Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(arguments).output().ok()?;
    assert!(output.status.success(), "kubectl {arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn kubectl_applies_gets_describes_watches_scales_and_deletes() {
    let Some(labs) = Labs::new() else { return };
    labs.ok(&["lab", "up", &labs.file("lab.yaml", SMALL)]);
    let Some(pods) = kubectl(&labs, &["get", "pods", "-o", "wide"]) else { return println!("skipped: there is no kubectl") };
    assert!(pods.contains("Running") && pods.contains("win1") && pods.contains("win2"), "{pods}");
    assert!(kubectl(&labs, &["describe", "pod", "a"]).is_some_and(|told| told.contains("Ready             True")));
    let deployment = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: nginx, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
";
    kubectl(&labs, &["apply", "-f", &labs.file("web.yaml", deployment)]);
    kubectl(&labs, &["wait", "--for=condition=Available", "deployment/web", "--timeout=20s"]);
    kubectl(&labs, &["scale", "deployment/web", "--replicas=4"]);
    kubectl(&labs, &["rollout", "status", "deployment/web", "--timeout=20s"]);
    service_in_a_second(&labs);
    kubectl(&labs, &["delete", "deployment/web", "service/web"]);
    eventually("the pods are gone", || kubectl(&labs, &["get", "pods", "-l", "app=web", "-o", "name"]).is_some_and(|left| left.is_empty()));
}

/// A Service that kubectl makes is reached in under a second. Others use the machine too, so that the middle one of a few counts.
fn service_in_a_second(labs: &Labs) {
    let fresh = |number: u8| {
        let address = format!("10.96.7.{number}");
        let service = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: fresh{number}}}\nspec: {{clusterIP: {address}, selector: {{app: web}}, ports: [{{port: 80}}]}}\n"
        );
        kubectl(labs, &["apply", "-f", &labs.file("fresh.yaml", &service)]);
        let made = Instant::now();
        eventually("the Service is reached", || labs.reaches("a", &address, 80));
        made.elapsed()
    };
    let mut taken: Vec<Duration> = (1..=5).map(fresh).collect();
    taken.sort_unstable();
    println!("Services by kubectl were reached after {taken:?}");
    assert!(taken[2] < Duration::from_secs(1), "{taken:?}");
}
