//! How many pods each ReplicaSet of a Deployment is to have, one step at a time.

use std::sync::Arc;

use serde_json::Value;

use crate::server::document::{number, text};
use crate::server::store::Stored;

/// A ReplicaSet of a Deployment.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) stored: Arc<Stored>,
    pub(super) document: Value,
}

impl Set {
    /// How many pods it is told to have.
    pub(super) fn replicas(&self) -> i64 {
        number(&self.document, "/spec/replicas").unwrap_or(0)
    }

    /// How many it has.
    pub(super) fn pods(&self) -> i64 {
        number(&self.document, "/status/replicas").unwrap_or(0)
    }

    /// How many of them serve.
    pub(super) fn available(&self) -> i64 {
        number(&self.document, "/status/availableReplicas").unwrap_or(0).min(self.replicas())
    }
}

/// The sets by their index, and what to scale them to. The first set is the newest.
pub(super) fn plan(deployment: &Value, sets: &[Set]) -> Vec<(usize, i64)> {
    let desired = number(deployment, "/spec/replicas").unwrap_or(1);
    let Some((newest, old)) = sets.split_first() else { return Vec::new() };
    if text(deployment, "/spec/strategy/type") == "Recreate" {
        return recreate(desired, old);
    }
    let (surge, unavailable) = bounds(deployment, desired);
    let mut plan = Vec::new();
    let total: i64 = sets.iter().map(Set::replicas).sum();
    let room = (desired + surge - total).max(0);
    let target = match newest.replicas() {
        current if current > desired => desired,
        current => desired.min(current + room),
    };
    plan.push((0, target));
    // What may go without too few being left that serve.
    let missing = (newest.replicas() - newest.available()).max(0);
    let mut spare = total - (desired - unavailable) - missing;
    // Pods that do not serve are missed by nobody.
    let mut targets: Vec<i64> = old.iter().map(Set::replicas).collect();
    for (target, set) in targets.iter_mut().zip(old) {
        let idle = (set.replicas() - set.available()).clamp(0, spare.max(0));
        *target -= idle;
        spare -= idle;
    }
    let available: i64 = sets.iter().map(Set::available).sum();
    let mut spare = available - (desired - unavailable);
    for target in &mut targets {
        let step = (*target).clamp(0, spare.max(0));
        *target -= step;
        spare -= step;
    }
    plan.extend(targets.into_iter().enumerate().map(|(index, target)| (index + 1, target)));
    plan
}

/// How many pods there may be at most while a rollout is under way.
pub(super) fn most(deployment: &Value) -> i64 {
    let desired = number(deployment, "/spec/replicas").unwrap_or(1);
    match text(deployment, "/spec/strategy/type") {
        "Recreate" => desired,
        _ => desired + bounds(deployment, desired).0,
    }
}

/// First all of the old ones go, then all of the new ones come.
fn recreate(desired: i64, old: &[Set]) -> Vec<(usize, i64)> {
    let mut plan: Vec<(usize, i64)> = (1..=old.len()).map(|index| (index, 0)).collect();
    if old.iter().all(|set| set.pods() == 0 && set.replicas() == 0) {
        plan.push((0, desired));
    }
    plan
}

/// How many pods there may be too many, and how many too few.
fn bounds(deployment: &Value, desired: i64) -> (i64, i64) {
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let share = |value: &Value, rounds_up: bool| match value {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let product = percent.saturating_mul(desired);
            if rounds_up { product.saturating_add(99) / 100 } else { product / 100 }
        }
        _ => 0,
    };
    let (surge, unavailable) = (share(&rolling["maxSurge"], true).max(0), share(&rolling["maxUnavailable"], false).clamp(0, desired));
    // With neither, nothing could ever move.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}
