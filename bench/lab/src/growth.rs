//! What one more pod costs, in a small lab and in a large one.

use crate::measure::Lab;

/// What one more pod costs between two sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// From so many pods to so many.
    pub(crate) sizes: (usize, usize),
    /// Milliseconds until the lab is up.
    pub(crate) time: f64,
    /// Milliseconds of processor time.
    pub(crate) processor: f64,
    /// MiB of its processes.
    pub(crate) memory: f64,
}

/// The steps from each size to the next.
pub(crate) fn steps(labs: &[Lab]) -> Vec<Step> {
    let sized: Vec<(usize, &Lab)> = labs.iter().filter_map(|lab| Some((lab.asked?, lab))).collect();
    sized.windows(2).map(|pair| step(pair[0], pair[1])).collect()
}

fn step((fewer, small): (usize, &Lab), (more, large): (usize, &Lab)) -> Step {
    let pods = more.abs_diff(fewer).max(1) as f64;
    let (before, after) = (small.all(), large.all());
    Step {
        sizes: (fewer, more),
        time: (large.up - small.up) * 1e3 / pods,
        processor: (after.seconds - before.seconds) * 1e3 / pods,
        memory: (after.memory - before.memory) / pods,
    }
}

/// The last step beside the first: how often as much a pod costs there.
pub(crate) fn ratios(steps: &[Step]) -> Option<[f64; 3]> {
    let [first, .., last] = steps else { return None };
    Some([last.time / first.time, last.processor / first.processor, last.memory / first.memory])
}
