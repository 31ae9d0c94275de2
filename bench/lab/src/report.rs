//! What was measured, as a text.

use rig::figure::short;
use rig::table::{row, table};

use crate::content::REPLICAS;
use crate::growth::{Step, ratios, steps};
use crate::measure::Lab;
use crate::options::Options;
use crate::processes::Usage;

/// How many seconds the built-in lab may take.
const DEFAULT_LIMIT: f64 = 10.0;

/// How much more a pod of the largest lab may cost than one of the smallest.
const FLAT: f64 = 1.5;

/// How much memory the largest lab may take, in MiB.
const MEMORY_LIMIT: f64 = 8192.0;

/// The whole report.
pub(crate) fn text(labs: &[Lab], options: &Options) -> String {
    let steps = steps(labs);
    let introduction = format!(
        "Labs of {} nodes, every fourth of them Linux and the others Windows in one overlay, with Deployments of {REPLICAS} pods of the built-in \
         server and a Service of both families for each; first the built-in lab. Memory is that of all processes of a lab when all pods \
         are ready; what processes share counts once (PSS). The kernel's is by how much the machine's own tables have grown meanwhile. \
         Flows are tried between {} pairs of pods drawn with seed {}: all nine flows, TCP and UDP, IPv4 and IPv6, every pair of systems, on one \
         node and across.",
        options.nodes, options.sample, options.seed
    );
    let tables = [table(&sizes(labs), 1), table(&growth(&steps), 1), kinds(labs), table(&verdicts(labs, &steps), 1)];
    format!("{introduction}\n\n{}", tables.join("\n"))
}

fn sizes(labs: &[Lab]) -> Vec<Vec<String>> {
    let headings =
        ["pods", "ready", "up s", "nodes s", "CPU s", "processes", "memory MiB", "kernel MiB", "flows that work", "in s", "down s"];
    let line = |lab: &Lab| {
        let all = lab.all();
        row(&[
            &lab.asked.map_or("built-in".to_owned(), |pods| pods.to_string()),
            &format!("{} of {}", lab.pods.0, lab.pods.1),
            &short(lab.up),
            &short(lab.nodes),
            &short(all.seconds),
            &all.count.to_string(),
            &short(all.memory),
            &short(lab.kernel),
            &format!("{} of {}", lab.flows.works, lab.flows.tried),
            &short(lab.flows.seconds),
            &short(lab.down),
        ])
    };
    std::iter::once(row(&headings)).chain(labs.iter().map(line)).collect()
}

fn growth(steps: &[Step]) -> Vec<Vec<String>> {
    let line = |step: &Step| {
        let (fewer, more) = step.sizes;
        row(&[&format!("from {fewer} to {more}"), &short(step.time), &short(step.processor), &short(step.memory)])
    };
    let headings = row(&["one more pod", "time ms", "CPU ms", "memory MiB"]);
    std::iter::once(headings).chain(steps.iter().map(line)).collect()
}

/// What each kind of process takes in the largest lab.
fn kinds(labs: &[Lab]) -> String {
    let Some(largest) = labs.last() else { return String::new() };
    let mut kinds: Vec<(&String, &Usage)> = largest.usage.iter().collect();
    kinds.sort_by(|a, b| b.1.memory.total_cmp(&a.1.memory));
    let line = |(kind, usage): (&String, &Usage)| {
        row(&[kind, &usage.count.to_string(), &short(usage.memory / usage.count as f64), &short(usage.memory), &short(usage.seconds)])
    };
    let headings = row(&["in the largest", "processes", "MiB each", "MiB", "CPU s"]);
    table(&std::iter::once(headings).chain(kinds.into_iter().map(line)).collect::<Vec<_>>(), 1)
}

fn verdicts(labs: &[Lab], steps: &[Step]) -> Vec<Vec<String>> {
    let verdict = |is_met: bool| if is_met { "pass" } else { "**short**" };
    let mut lines = vec![row(&["wanted", "limit", "measured", ""])];
    if let Some(default) = labs.iter().find(|lab| lab.asked.is_none()) {
        lines.push(row(&["built-in lab up, s", &format!("< {DEFAULT_LIMIT}"), &short(default.up), verdict(default.up < DEFAULT_LIMIT)]));
    }
    let are_ready = labs.iter().all(|lab| lab.pods.0 == lab.pods.1 && lab.pods.1 >= lab.asked.unwrap_or(1));
    let ready: usize = labs.iter().map(|lab| lab.pods.0).sum();
    let pods: usize = labs.iter().map(|lab| lab.pods.1).sum();
    lines.push(row(&["pods ready, all labs", &pods.to_string(), &ready.to_string(), verdict(are_ready)]));
    let works: usize = labs.iter().map(|lab| lab.flows.works).sum();
    let tried: usize = labs.iter().map(|lab| lab.flows.tried).sum();
    lines.push(row(&["flows that work, all labs", &tried.to_string(), &works.to_string(), verdict(works == tried && tried > 0)]));
    for (name, ratio) in ["time", "CPU", "memory"].iter().zip(ratios(steps).into_iter().flatten()) {
        let title = format!("{name} of one more pod, largest to smallest step");
        lines.push(row(&[&title, &format!("≤ {FLAT}"), &short(ratio), verdict(ratio <= FLAT)]));
    }
    if let Some(largest) = labs.last() {
        let memory = largest.all().memory;
        lines.push(row(&["memory of the largest, MiB", &format!("< {MEMORY_LIMIT}"), &short(memory), verdict(memory < MEMORY_LIMIT)]));
    }
    lines
}
