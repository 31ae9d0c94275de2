//! Pods of manifests as people have them: variables, volumes, probes, hooks, and what is told of them.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Labs, eventually, text};

/// A Windows node and a Linux node, and on each a pod that has everything.
const WHOLE: &str = "\
apiVersion: transom/v1
kind: Lab
nodes: [{name: win1, os: windows}, {name: linux1, os: linux}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, greeting.txt: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: s3cret}
";

fn whole(node: &str, machine: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: whole-{node}, labels: {{app: web}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 3
  volumes:
    - {{name: config, configMap: {{name: settings, items: [{{key: greeting.txt, path: deep/greeting}}]}}}}
    - {{name: secret, secret: {{secretName: keys, defaultMode: 0400}}}}
    - {{name: about, downwardAPI: {{items: [{{path: labels, fieldRef: {{fieldPath: metadata.labels}}}}]}}}}
    - {{name: scratch, emptyDir: {{}}}}
    - {{name: machine, hostPath: {{path: {machine}}}}}
  initContainers:
    - {{name: first, image: any, command: [sh, -c, 'echo $(COLOUR) > /shared/first'], env: [{{name: COLOUR, value: red}}],
       volumeMounts: [{{name: scratch, mountPath: /shared}}]}}
    - {{name: beside, image: agnhost, args: [netexec, --http-port=9000, --udp-port=-1], restartPolicy: Always,
       startupProbe: {{httpGet: {{path: /healthz, port: 9000}}, periodSeconds: 1}}}}
  containers:
    - name: main
      image: agnhost
      args: [netexec, --http-port=8080, '--http-override=/echo?msg=$(COLOUR)-$(PASSWORD)-$(colour)-$(CPU)']
      env:
        - {{name: COLOUR, valueFrom: {{configMapKeyRef: {{name: settings, key: colour}}}}}}
        - {{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: keys, key: password}}}}}}
        - {{name: CPU, valueFrom: {{resourceFieldRef: {{resource: requests.cpu, divisor: 1m}}}}}}
      envFrom: [{{configMapRef: {{name: settings}}}}]
      resources: {{requests: {{cpu: 250m}}}}
      lifecycle: {{preStop: {{exec: {{command: [sh, -c, 'sleep 0.2; cat /shared/first > /machine/bye-{node}']}}}}}}
      volumeMounts:
        - {{name: config, mountPath: /etc/it}}
        - {{name: secret, mountPath: 'C:\\secrets'}}
        - {{name: about, mountPath: /etc/about}}
        - {{name: scratch, mountPath: /shared}}
        - {{name: machine, mountPath: /machine}}
    - {{name: second, image: agnhost, command: [/agnhost, netexec, --http-port=8081, --udp-port=-1]}}
"
    )
}

#[test]
fn variables_volumes_and_containers_beside_each_other() {
    let Some(labs) = Labs::new() else { return };
    let machine = labs.home().parent().expect("a directory").to_owned();
    let of = |node: &str| whole(node, &machine.display().to_string());
    labs.ok(&["lab", "up", &labs.file("lab.yaml", &[WHOLE, &of("win1"), &of("linux1")].concat())]);
    for node in ["win1", "linux1"] {
        let pod = format!("whole-{node}");
        let cat = |path: &str| labs.ok(&["lab", "exec", &pod, "--container", "main", "--", "cat", path]);
        assert_eq!(cat("/etc/it/deep/greeting"), "hello");
        assert_eq!(cat("/secrets/password"), "s3cret");
        assert_eq!(cat("/etc/about/labels"), "app=\"web\"");
        assert_eq!(cat("/shared/first"), "red\n");
        let refused = labs.run(&["lab", "exec", &pod, "--container", "main", "--", "sh", "-c", "echo x > /etc/it/new"]);
        assert!(!refused.status.success(), "a volume of a ConfigMap is not written to");
        // All containers are in one network: each reaches the others by the loopback.
        for (port, path, expected) in
            [(8080, "", "blue-s3cret-blue-250"), (8081, "hostname", pod.as_str()), (9000, "hostname", pod.as_str())]
        {
            let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /{path} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
            let answer = labs.ok(&["lab", "exec", &pod, "--container", "second", "--", "bash", "-c", &script]);
            assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{port}: {answer}");
        }
    }
    if kubectl(&labs, &["delete", "pod", "whole-win1", "whole-linux1"]).is_none() {
        return println!("skipped: there is no kubectl");
    }
    for node in ["win1", "linux1"] {
        let left = std::fs::read_to_string(machine.join(format!("bye-{node}")));
        assert_eq!(left.expect("what is done before the end is done"), "red\n");
    }
}

/// A pod whose container is not alive, one that ends, one that waits for a ConfigMap, and one that asks for too much.
const TROUBLED: &str = "\
apiVersion: transom/v1
kind: Lab
nodes: [{name: win1, os: windows}]
---
apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: agnhost, args: [netexec], livenessProbe: {httpGet: {path: /echo?code=500, port: 8080}, periodSeconds: 1, failureThreshold: 2}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec: {containers: [{name: main, image: any, command: [sh, -c, 'exit 3']}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {restartPolicy: OnFailure, containers: [{name: main, image: any, command: ['true']}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: late, configMap: {name: late}}]
  containers: [{name: main, image: agnhost, args: [netexec], volumeMounts: [{name: late, mountPath: /late}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000}
  volumes: [{name: disk, nfs: {server: nowhere, path: /}}]
  containers: [{name: main, image: nginx, ports: [{containerPort: 80, hostPort: 8088}]}]
";

#[test]
fn what_goes_wrong_with_pods_is_told_in_their_status_and_in_events() {
    let Some(labs) = Labs::new() else { return };
    // Not all of them become ready, and `up` would wait a minute for them.
    let mut up = labs.command(&["lab", "up", &labs.file("lab.yaml", TROUBLED)]).spawn().expect("the command starts");
    let Some(_) = kubectl(&labs, &["version"]) else {
        _ = up.kill().and_then(|()| up.wait());
        return println!("skipped: there is no kubectl");
    };
    let status = |pod: &str| -> Value {
        let shown = kubectl(&labs, &["get", "pod", pod, "-o", "json"]).unwrap_or_default();
        serde_json::from_str(&shown).unwrap_or_default()
    };
    let main = |pod: &str| status(pod)["status"]["containerStatuses"][0].clone();
    let events = |pod: &str| kubectl(&labs, &["describe", "pod", pod]).unwrap_or_default();
    eventually("a container that is not alive is started again", || main("sick")["restartCount"].as_i64() >= Some(1));
    let told = events("sick");
    for expected in [
        "Scheduled",
        "Successfully assigned default/sick to win1",
        "Started container main",
        "Unhealthy",
        "Liveness probe failed",
        "Killing",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    eventually("a container that ends is waited with", || main("ends")["restartCount"].as_i64() >= Some(2));
    eventually("it is in its loop", || main("ends")["state"]["waiting"]["reason"] == "CrashLoopBackOff");
    assert_eq!(main("ends")["lastState"]["terminated"]["exitCode"], 3);
    assert!(events("ends").contains("Back-off restarting failed container main"), "{}", events("ends"));
    eventually("who has done its work is done", || status("done")["status"]["phase"] == "Succeeded");
    eventually("a missing ConfigMap is told", || events("waits").contains("configmap \"late\" not found"));
    kubectl(&labs, &["create", "configmap", "late", "--from-literal=a=b"]);
    eventually("it is there", || main("waits")["ready"] == true);
    eventually("a volume of another kind is told", || events("greedy").contains("volume disk: the lab knows emptyDir, configMap"));
    let told = events("greedy");
    assert!(told.contains("LeftOut") && told.contains("spec.securityContext, spec.containers[0].ports[0].hostPort"), "{told}");
    _ = up.kill().and_then(|()| up.wait());
}

/// Runs kubectl on the lab until it succeeds; nothing if there is no kubectl.
fn kubectl(labs: &Labs, arguments: &[&str]) -> Option<String> {
    let kubeconfig = labs.home().join("default/kubeconfig");
    for _ in 0..300 {
        let output = Command::new("kubectl").arg("--kubeconfig").arg(&kubeconfig).args(arguments).output().ok()?;
        if output.status.success() {
            return Some(text(&output.stdout));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("kubectl {arguments:?} does not succeed");
}
