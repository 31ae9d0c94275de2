//! The modes of networks: every example with its flows, and what packets look like to others.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Labs, address_of, eventually};

/// The host outside, and a node that is first in all examples' lists of Windows nodes.
const OUTSIDE: &str = "203.0.113.9";
const NODE: &str = "192.168.10.11";

/// Two pods on one node, and one on another.
const PODS: &str = "
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {nodeName: win1, terminationGracePeriodSeconds: 1, containers: [{name: main, image: agnhost, args: [netexec]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec: {nodeName: win2, terminationGracePeriodSeconds: 1, containers: [{name: main, image: agnhost, args: [netexec]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: c}
spec: {nodeName: win1, terminationGracePeriodSeconds: 1, containers: [{name: main, image: agnhost, args: [netexec]}]}
";

/// Where an example is.
fn example(mode: &str) -> String {
    format!("{}/../../examples/{mode}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// An example with the pods, as a lab that is up.
struct Up<'a> {
    labs: &'a Labs,
    status: Value,
}

impl<'a> Up<'a> {
    fn new(labs: &'a Labs, mode: &str) -> Self {
        let text = std::fs::read_to_string(example(mode)).expect("an example") + PODS;
        labs.ok(&["lab", "up", &labs.file(&format!("{mode}.yaml"), &text), "--name", "default"]);
        Self { labs, status: labs.status("default") }
    }

    fn address(&self, pod: &str) -> String {
        address_of(&self.status, pod)
    }

    /// Whom somebody is seen as at an address, or nothing if that is not reached.
    fn seen(&self, from: &str, address: &str) -> Option<String> {
        let script = format!("exec 3<>/dev/tcp/{address}/8080; printf 'GET /clientip HTTP/1.0\\r\\n\\r\\n' >&3; tail -n 1 <&3");
        let output = self.labs.run(&["lab", "exec", from, "--", "timeout", "2", "bash", "-c", &script]);
        let body = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then(|| body.rsplit_once(':').map_or(body.clone(), |(client, _)| client.to_owned()))
    }

    /// Whom pod `a` is seen as outside and by a pod of another node, and who reaches it from outside.
    fn sight(&self) -> [Option<String>; 3] {
        [self.seen("a", OUTSIDE), self.seen("a", &self.address("b")), self.seen("outside", &self.address("a"))]
    }

    fn down(self) {
        self.labs.ok(&["lab", "down"]);
    }
}

#[test]
fn all_flows_of_the_examples_work() {
    let Some(labs) = Labs::new() else { return };
    for mode in ["overlay", "l2bridge", "azure-l2bridge", "azure-l2tunnel", "transparent"] {
        labs.ok(&["lab", "up", &example(mode)]);
        let shown = labs.ok(&["lab", "flows", "--name", mode, "--expect", "all"]);
        assert!(shown.contains("pod -> Service (short name)") && !shown.contains("no:"), "{mode}: {shown}");
        labs.ok(&["lab", "down", "--name", mode]);
    }
}

#[test]
fn what_does_not_work_behind_nat_is_told_with_the_reason() {
    let Some(labs) = Labs::new() else { return };
    for mode in ["nat", "mixed"] {
        labs.ok(&["lab", "up", &example(mode)]);
        let shown = labs.ok(&["lab", "flows", "--name", mode, "--expect", "documents"]);
        let told = "(documents: behind NAT pods have their node's address, and others do not reach them by their own)";
        assert!(shown.contains("no, as documented") && shown.contains(told), "{mode}: {shown}");
        labs.refused(1, &["lab", "flows", "--name", mode, "--expect", "all"]);
        labs.ok(&["lab", "down", "--name", mode]);
    }
}

#[test]
fn pods_are_seen_as_their_mode_says() {
    let Some(labs) = Labs::new() else { return };
    let (node, outside) = (Some(NODE.to_owned()), Some(OUTSIDE.to_owned()));
    for mode in ["overlay", "l2bridge", "azure-l2bridge", "azure-l2tunnel"] {
        let lab = Up::new(&labs, mode);
        assert_eq!(lab.sight(), [node.clone(), Some(lab.address("a")), None], "{mode}: translated outwards, and private");
        lab.down();
    }
    let lab = Up::new(&labs, "transparent");
    let own = Some(lab.address("a"));
    assert_eq!(lab.sight(), [own.clone(), own, outside], "as it is");
    let known = labs.ok(&["lab", "exec", "router", "--", "ip", "neigh", "show", &lab.address("a")]);
    let mac = known.split(' ').skip_while(|word| *word != "lladdr").nth(1).unwrap_or_else(|| panic!("{known}"));
    assert!(labs.ok(&["lab", "exec", "a", "--", "ip", "link"]).contains(mac), "{mac} is the pod's");
    assert!(!labs.ok(&["lab", "exec", "node/win1", "--", "ip", "link"]).contains(mac), "{mac} is not the node's");
    lab.down();
    let lab = Up::new(&labs, "nat");
    assert_eq!(lab.sight(), [node, None, None], "behind its node");
    assert_eq!(lab.seen("a", &lab.address("c")), Some(lab.address("a")), "but not for its neighbours");
    lab.down();
}

#[test]
fn neighbours_of_a_tunnel_meet_in_the_fabric_only() {
    let Some(labs) = Labs::new() else { return };
    let lab = Up::new(&labs, "azure-l2tunnel");
    let c = lab.address("c");
    let stopped = |signal: Signal| {
        let processes = labs.processes();
        let fabric = processes.iter().find(|process| process.contains(" fabric --file")).expect("a fabric");
        let id = fabric.split(' ').next().and_then(|id| id.parse().ok()).expect("its id");
        kill(Pid::from_raw(id), signal).expect("it takes signals");
    };
    assert_eq!(lab.seen("a", &c), Some(lab.address("a")));
    stopped(Signal::SIGSTOP);
    assert_eq!(lab.seen("a", &c), None, "there is no other way");
    stopped(Signal::SIGCONT);
    eventually("the fabric works again", || lab.seen("a", &c).is_some());
    lab.down();
    let lab = Up::new(&labs, "azure-l2bridge");
    assert!(!labs.processes().iter().any(|process| process.contains(" fabric ")), "a bridge needs none");
    lab.down();
}
