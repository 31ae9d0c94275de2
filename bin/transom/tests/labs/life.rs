//! A lab from its beginning to its end.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Labs, SMALL, address_of, eventually, mounts};

#[test]
fn pods_talk_by_address_and_by_name_and_nothing_is_left() {
    let Some(labs) = Labs::new() else { return };
    let before = mounts();
    let file = labs.file("lab.yaml", SMALL);
    labs.ok(&["lab", "up", &file]);
    let status = labs.status("default");
    let (a, b) = (address_of(&status, "a"), address_of(&status, "b"));
    let connect = |from: &str, to: &str| labs.ok(&["lab", "exec", from, "--", "curl", "-sm", "5", to]);
    if std::process::Command::new("curl").arg("--version").output().is_ok() {
        assert!(connect("a", &format!("http://{b}:8080/clientip")).starts_with(&a));
        assert_eq!(connect("b", &format!("http://{a}:8080/hostname")), "a");
    }
    assert!(labs.ok(&["lab", "exec", "a", "--", "getent", "hosts", "kubernetes"]).contains("kubernetes.default.svc.cluster.local"));
    assert_eq!(labs.ok(&["lab", "exec", "a", "--", "cat", "/etc/hostname"]), "a\n");
    assert!(labs.ok(&["lab", "exec", "node/win1", "--", "ip", "-brief", "address"]).contains("192.168.10.10/24"));
    assert!(labs.ok(&["lab", "exec", "outside", "--", "ip", "-brief", "address"]).contains("203.0.113.9/24"));
    assert_eq!(labs.run(&["lab", "exec", "a", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert!(labs.ok(&["lab", "logs", "a"]).contains("Started HTTP server on port 8080"));
    let registry = labs.ok(&["container", "registry", "a"]);
    assert!(registry.contains(&format!("IPAddress    REG_MULTI_SZ    {a}")), "{registry}");
    assert!(labs.ok(&["lab", "list"]).contains("default"));
    labs.ok(&["lab", "down"]);
    assert_eq!(labs.processes(), [""; 0]);
    assert!(!labs.home().join("default").exists());
    assert_eq!(mounts(), before);
}

#[test]
fn two_labs_run_side_by_side() {
    let Some(labs) = Labs::new() else { return };
    let file = labs.file("lab.yaml", SMALL);
    for name in ["one", "two"] {
        labs.ok(&["lab", "up", &file, "--name", name]);
    }
    let (one, two) = (labs.status("one"), labs.status("two"));
    for what in ["addresses", "subnets"] {
        assert!(one["nodes"][0][what].is_array(), "{one}");
        assert_eq!(one["nodes"][0][what], two["nodes"][0][what], "they know nothing of each other");
    }
    assert_ne!(one["api"], two["api"]);
    let told = labs.refused(4, &["lab", "up", &file, "--name", "one"]);
    assert!(told.contains("the lab \"one\" runs already"), "{told}");
    labs.ok(&["lab", "down", "--name", "one"]);
    assert_eq!(labs.status("two")["name"], "two");
    labs.ok(&["lab", "down", "--all"]);
    assert_eq!(labs.processes(), [""; 0]);
}

/// A pod that nobody can wait for.
const NEVER_READY: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: never}
spec:
  nodeName: win1
  containers: [{name: main, image: agnhost, args: [netexec], readinessProbe: {exec: {command: ['false']}}}]
";

#[test]
fn a_lab_that_is_interrupted_or_killed_leaves_nothing() {
    let Some(labs) = Labs::new() else { return };
    // Whoever runs in the background of a script was started ignoring Ctrl-C, and so would be what is started here.
    host::termination::heed_interrupts().expect("signals have defaults");
    // A lab that would have come up before the signal would stay.
    let file = labs.file("lab.yaml", &format!("{SMALL}---\n{NEVER_READY}"));
    for (pause, signal) in [(1, Signal::SIGINT), (150, Signal::SIGINT), (300, Signal::SIGKILL)] {
        let mut up = labs.command(&["lab", "up", &file]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command");
        std::thread::sleep(Duration::from_millis(pause));
        kill(Pid::from_raw(up.id().cast_signed()), signal).expect("it runs");
        let status = up.wait().expect("it ends");
        assert!(!status.success(), "{status}, before {signal} came");
        eventually("nothing is left", || labs.processes().is_empty());
    }
    // Whatever a kill has left in the directory goes with the next one.
    labs.ok(&["lab", "up", &labs.file("lab.yaml", SMALL)]);
    labs.ok(&["lab", "down"]);
    assert_eq!(fs::read_dir(labs.home()).expect("the directory").count(), 0);
}

#[test]
fn programs_that_die_come_back() {
    let Some(labs) = Labs::new() else { return };
    labs.ok(&["lab", "up", &labs.file("lab.yaml", SMALL)]);
    for role in ["hnsd", "kube-proxy", "flanneld", "vswitchd"] {
        let process = labs.processes().into_iter().find(|it| it.contains(&format!("exe {role} ")) && it.contains("win1"));
        let process = process.unwrap_or_else(|| panic!("no {role}: {:?}", labs.processes()));
        let pid: i32 = process.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a number");
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        eventually(&format!("{role} is there again"), || {
            let status = labs.status("default");
            let daemons = status["nodes"][0]["daemons"].as_array().expect("daemons").clone();
            daemons.iter().any(|it| it["name"] == role && it["restarts"] == 1 && it["isReady"] == true)
        });
    }
    let b = address_of(&labs.status("default"), "b");
    eventually("pods talk", || labs.reaches("a", &b, 8080));
}

#[test]
fn a_file_that_changes_is_applied_again_and_the_lab_outlives_its_watcher() {
    let Some(labs) = Labs::new() else { return };
    let file = labs.file("lab.yaml", SMALL);
    let mut up = labs.command(&["lab", "up", "--watch", &file]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command");
    let has = |name: &str| {
        let output = labs.run(&["lab", "status", "-o", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["pods"].as_array().into_iter().flatten().any(|pod| pod["name"] == name && pod["isReady"] == true)
    };
    eventually("the lab is up", || has("b"));
    // What cannot be read is told, and the next version is read again.
    labs.file("lab.yaml", &format!("{SMALL}---\na: [\n"));
    std::thread::sleep(Duration::from_millis(500));
    let third = "apiVersion: v1\nkind: Pod\nmetadata: {name: c}\nspec: {nodeName: win1, containers: [{name: main, image: agnhost, args: [netexec]}]}\n";
    labs.file("lab.yaml", &format!("{SMALL}---\n{third}"));
    eventually("a new pod is there", || has("c"));
    kill(Pid::from_raw(up.id().cast_signed()), Signal::SIGINT).expect("it runs");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut up.stderr.take().expect("a pipe"), &mut said).expect("text");
    assert!(up.wait().expect("it ends").success(), "{said}");
    assert!(said.contains("line 18: ") && said.contains("applied"), "{said}");
    assert!(has("c"), "the lab goes on");
}
