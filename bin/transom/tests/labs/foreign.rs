//! Programs of others in the place of ours. Here they are ours too, but by the way of those: told by variables, and over TCP.
//!
//! Programs of Windows are played by `cargo xtask interop lab`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Labs, address_of, eventually};

/// A lab of two Windows nodes, of which the first has programs of others, and a Service with a pod on each.
fn lab(plugins: &str) -> String {
    format!(
        "\
apiVersion: transom/v1
kind: Lab
nodes:
  - name: win1
    os: windows
    cni: {{path: {plugins}}}
    kubeProxy:
      command: [{program}, kube-proxy, --network-name=$(KUBE_NETWORK), --kubeconfig=$(KUBECONFIG), --hostname-override=$(NODE_NAME),
        --source-vip=$(SOURCE_VIP), --min-sync-period=50ms, --log-level=$(LEVEL)]
      variables: {{LEVEL: debug}}
  - {{name: win2, os: windows}}
---
apiVersion: v1
kind: Pod
metadata: {{name: a, labels: {{app: web}}}}
spec: {{nodeName: win1, terminationGracePeriodSeconds: 1, containers: [{{name: main, image: agnhost, args: [netexec]}}]}}
---
apiVersion: v1
kind: Pod
metadata: {{name: b, labels: {{app: web}}}}
spec: {{nodeName: win2, terminationGracePeriodSeconds: 1, containers: [{{name: main, image: agnhost, args: [netexec]}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{clusterIP: 10.96.7.7, selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}
",
        program = env!("CARGO_BIN_EXE_transom")
    )
}

/// The kube-proxy of the first node: its process and its command line.
fn proxy(labs: &Labs) -> (i32, String) {
    let wanted = format!("{} kube-proxy", env!("CARGO_BIN_EXE_transom"));
    let process = labs.processes().into_iter().find(|it| it.contains(&wanted)).expect("the other kube-proxy runs");
    let (pid, command) = process.split_once(' ').expect("a number and a command");
    (pid.parse().expect("a number"), command.to_owned())
}

fn endpoints(labs: &Labs) -> Vec<Value> {
    let hnsd = "unix:/run/lab/node/win1/hnsd.sock";
    let text = labs.ok(&["lab", "exec", "node/win1", "--", "transom", "endpoint", "list", "-o", "json", "--hnsd", hnsd]);
    serde_json::from_str(&text).expect("endpoints")
}

#[test]
fn another_kube_proxy_and_other_plugins_serve_a_node() {
    let Some(labs) = Labs::new() else { return };
    let plugins = labs.home().with_file_name("plugins").display().to_string();
    labs.ok(&["cni", "install", &plugins]);
    labs.ok(&["lab", "up", &labs.file("lab.yaml", &lab(&plugins))]);
    let (pid, command) = proxy(&labs);
    assert!(command.contains("--hostname-override=win1") && command.contains("--source-vip=10.244.1."), "{command}");
    assert!(command.contains("--log-level=debug") && command.contains("--kubeconfig=/run/lab/kubeconfig"), "{command}");
    eventually("the Service is reached", || labs.reaches("a", "10.96.7.7", 80));
    assert!(labs.reaches("a", &address_of(&labs.status("default"), "b"), 8080));
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
    eventually("it is there again", || {
        let daemons = labs.status("default")["nodes"][0]["daemons"].as_array().cloned().unwrap_or_default();
        daemons.iter().any(|it| it["name"] == "kube-proxy" && it["restarts"] == 1 && it["isReady"] == true)
    });
    let kubeconfig = labs.home().join("default/kubeconfig").display().to_string();
    let address = address_of(&labs.status("default"), "a");
    let has_pod = || endpoints(&labs).iter().any(|it| it["IpConfigurations"][0]["IpAddress"] == address);
    assert!(has_pod(), "{:?}", endpoints(&labs));
    let deleted = std::process::Command::new("kubectl").args(["--kubeconfig", &kubeconfig, "delete", "pod", "a"]).output();
    match deleted {
        Ok(output) if output.status.success() => eventually("what the plugin made goes with the pod", || !has_pod()),
        _ => println!("skipped: there is no kubectl"),
    }
}

#[test]
fn programs_that_are_not_there_are_told_of_and_nothing_is_left() {
    let Some(labs) = Labs::new() else { return };
    let lab = |node: &str| format!("apiVersion: transom/v1\nkind: Lab\nnodes:\n  - {{name: win1, os: windows, {node}}}\n");
    let exe = labs.file("proxy.exe", "");
    let table = [
        (lab("kubeProxy: {command: [/nowhere/proxy]}"), "nodes[0].kubeProxy.command: there is no program /nowhere/proxy"),
        (lab("cni: {path: /nowhere}"), "nodes[0].cni.path: there is neither win-overlay nor win-overlay.exe in /nowhere"),
        (lab(&format!("kubeProxy: {{command: [{exe}]}}")), "win1 runs programs of Windows: "),
    ];
    for (text, expected) in table {
        let file = labs.file("lab.yaml", &text);
        let output = labs.command(&["lab", "up", &file]).env("WINEPREFIX", "/nowhere").output().expect("the command starts");
        let told = crate::harness::text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(expected), "{told}");
    }
    assert_eq!(labs.processes(), [""; 0]);
}
