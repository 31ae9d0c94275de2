//! Scripts that once went wrong, each with a sentence about what it was.

#[path = "common/frames.rs"]
mod frames;
#[path = "common/script.rs"]
mod script;

/// A script from its plan and its steps.
fn run(plan: [u8; script::PLAN], steps: &[[u8; script::STEP]]) {
    script::run(&[plan.as_slice(), steps.as_flattened()].concat());
}

/// A packet came out of a tunnel and left by the uplink, neither of which is in the domain whose rule said so. When that rule
/// changed, nobody told the flow.
#[test]
fn a_domain_forwards_between_ports_that_are_not_its_own() {
    let plan = [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let steps = [
        [0, 7, 0, 6, 3, 0, 0, 0, 0, 0, 0, 0],
        [6, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [25, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        [6, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    run(plan, &steps);
}

/// A router's message was translated as a query is. It belongs to no connection, so nobody gave its port of the pool back.
#[test]
fn what_a_router_says_is_not_translated() {
    let plan = [0, 6, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    run(plan, &[[183, 1, 13, 0, 128, 0, 0, 0, 0, 0, 0, 0], [32, 107, 0, 0, 111, 0, 134, 0, 0, 0, 0, 0]]);
}
