//! Labs, one after the other.

use std::collections::BTreeMap;

use crate::content;
use crate::options::Options;
use crate::processes::{self, Usage};
use crate::subject::{Flows, Subject};

/// What was measured of one lab.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    /// How many pods were asked for; none for the built-in lab.
    pub(crate) asked: Option<usize>,
    /// How many are ready, and how many there are, with those that every lab has.
    pub(crate) pods: (usize, usize),
    /// Seconds until it was up, and of them those for the nodes.
    pub(crate) up: f64,
    pub(crate) nodes: f64,
    /// What its processes take, by kind.
    pub(crate) usage: BTreeMap<String, Usage>,
    /// By how much what the kernel keeps has grown, in MiB.
    pub(crate) kernel: f64,
    pub(crate) flows: Flows,
    /// Seconds until it was down.
    pub(crate) down: f64,
}

impl Lab {
    /// What all its processes take.
    pub(crate) fn all(&self) -> Usage {
        processes::sum(&self.usage)
    }
}

/// Measures the built-in lab, and then one for each size.
pub(crate) fn all(options: &Options) -> Result<Vec<Lab>, String> {
    let sizes = std::iter::once(None).chain(options.pods.iter().copied().map(Some));
    sizes.map(|pods| one(options, pods)).collect()
}

fn one(options: &Options, asked: Option<usize>) -> Result<Lab, String> {
    let before = processes::kernel_memory();
    let text = asked.map(|pods| content::file(options.nodes, pods));
    let subject = Subject::up(&options.transom, text.as_deref())?;
    let usage = processes::of(subject.process()?);
    let kernel = processes::kernel_memory() - before;
    let (up, nodes) = (subject.up, subject.step("nodes"));
    let pods = subject.pods()?;
    println!("{} of {} pods ready after {up:.1} s", pods.0, pods.1);
    let flows = subject.flows(options.sample, options.seed)?;
    println!("{} of {} flows work, tried in {:.1} s", flows.works, flows.tried, flows.seconds);
    let down = subject.down()?;
    println!("down after {down:.1} s");
    Ok(Lab { asked, pods, up, nodes, usage, kernel, flows, down })
}
