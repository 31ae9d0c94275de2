//! The unified flow table always agrees with the layers walked afresh, whatever happens in between.

#[path = "common/frames.rs"]
mod frames;
#[path = "common/script.rs"]
mod script;

use std::fmt;

use proptest::array::{uniform12, uniform24};
use proptest::collection::vec;
use proptest::prelude::*;
use script::{PLAN, STEP};

/// A script that prints as a regression test wants it.
#[derive(Clone)]
struct Script(Vec<u8>);

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, steps) = self.0.split_at(PLAN);
        writeln!(f, "plan {plan:?}")?;
        steps.chunks(STEP).try_for_each(|step| writeln!(f, "step {step:?}"))
    }
}

fn scripts(steps: usize) -> impl Strategy<Value = Script> {
    let steps = vec(uniform12(any::<u8>()), 1..steps);
    (uniform24(any::<u8>()), steps).prop_map(|(plan, steps)| Script(plan.into_iter().chain(steps.into_iter().flatten()).collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn what_the_layers_say_is_what_happens(script in scripts(40)) {
        script::run(&script.0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn so_it_does_in_the_long_run(script in scripts(800)) {
        script::run(&script.0);
    }
}
