//! Labs with programs of others: Kubernetes' own kube-proxy.exe, and the reference's CNI plugins, under Wine on one node.
//!
//! What packets do in them is kept in docs/reference/labs, as for the examples of `cargo xtask labs`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::cni::reference;
use super::{Ground, kubernetes, make_directory, step};
use crate::{dist, labs, shell};

/// The node that has them.
const NODE: &str = "win1";

/// A lab of docs/guide/examples, and which flows from pods of the node have to work in it whatever the file of its matrix says.
struct Play {
    lab: &'static str,
    flows: &'static [&'static str],
    /// Whether over IPv6 too.
    v6: bool,
}

const SERVICES: &[&str] = &["pod-to-service-by-ip", "pod-to-service-by-short-name", "pod-to-service-by-fqdn"];
const PODS: &[&str] = &["pod-to-pod-by-ip", "pod-to-service-by-ip", "pod-to-outside-by-ip", "node-to-pod"];

/// kube-proxy.exe takes no overlay for one of both families.
const PLAYS: [Play; 3] = [
    Play { lab: "lab-kube-proxy-exe", flows: SERVICES, v6: true },
    Play { lab: "lab-kube-proxy-exe-overlay", flows: SERVICES, v6: false },
    Play { lab: "lab-cni-exe", flows: PODS, v6: false },
];

/// Builds everything, and plays all labs.
pub(super) fn run() -> Result<(), String> {
    if !dist::can_start("wine") || shell::output(shell::program("go").arg("version")).is_err() {
        return Err("wine and go are needed; install them, for example with `apt install wine64 golang-go`".to_owned());
    }
    let proxy = kubernetes::windows_proxy()?;
    let ground = Ground::prepare_for_others()?;
    ground.prefix.end()?;
    play(&ground, &proxy)
}

/// Plays all labs.
pub(super) fn play(ground: &Ground, proxy: &Path) -> Result<(), String> {
    step("build the reference's plugins for a lab");
    let plugins = ground.directory.join("lab-plugins");
    make_directory(&plugins)?;
    reference::build_some(&plugins, |name| matches!(name, "win-overlay" | "win-bridge" | "host-local"))?;
    for Play { lab, flows, v6 } in PLAYS {
        step(&format!("{lab} with programs of others"));
        let command = |arguments: &[&str]| {
            let mut command = labs::lab();
            ground.prefix.surround(&mut command);
            command.args(arguments).args(["--name", lab]).env("KUBE_PROXY_EXE", proxy).env("CNI_PLUGINS", &plugins);
            command
        };
        shell::run(&mut command(&["up", &format!("docs/guide/examples/{lab}.yaml")]))?;
        let seen = look(&command, flows, v6);
        shell::run(&mut command(&["down"]))?;
        labs::compare(&shell::root().join(format!("docs/reference/labs/{lab}.txt")), &seen.map_err(|error| format!("{lab}: {error}"))?)?;
    }
    Ok(())
}

/// The matrix of flows, in which those that must work do.
fn look(command: &dyn Fn(&[&str]) -> Command, flows: &[&str], v6: bool) -> Result<String, String> {
    let text = shell::output(&mut command(&["flows", "-o", "json"]))?;
    let outcomes: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("flows are no JSON: {error}"))?;
    let wanted = |outcome: &&Value| {
        outcome["ends"]["from"] == NODE && (v6 || outcome["v6"] == false) && flows.iter().any(|flow| outcome["flow"] == *flow)
    };
    let (works, fails): (Vec<&Value>, Vec<&Value>) = outcomes.iter().filter(wanted).partition(|outcome| outcome["works"] == true);
    if let Some(failed) = fails.first() {
        return Err(format!("{} of {} flows that have to work do not; the first: {failed}", fails.len(), works.len() + fails.len()));
    }
    if works.is_empty() {
        return Err(format!("no flow begins on {NODE}"));
    }
    println!("{} flows from {NODE} by {} work", works.len(), flows.join(", "));
    let matrix = shell::output(&mut command(&["flows"]))?;
    print!("{matrix}");
    // Reasons name addresses, which are others every time.
    let lines: Vec<&str> = matrix.lines().filter(|line| !line.starts_with("no: ")).collect();
    Ok(format!("{}\n", lines.join("\n").trim_end()))
}
