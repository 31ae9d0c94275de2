//! Whether a rollout gets anywhere: the condition `Progressing`.
//!
//! Its `lastUpdateTime` is when there was progress last. When that is too long ago, the rollout is said to be stuck; it goes on
//! nevertheless, and says so when something moves again.

use serde_json::Value;
use time::OffsetDateTime;

use super::status::{self, Condition};
use crate::server::document::{as_map, list, moment, now, number, text};

const PROGRESSING: &str = "Progressing";
const BEGUN: &str = "NewReplicaSetCreated";
const UPDATED: &str = "ReplicaSetUpdated";
const AVAILABLE: &str = "NewReplicaSetAvailable";
const STUCK: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
const RESUMED: &str = "DeploymentResumed";

/// A deadline that means none.
const NEVER: i64 = i32::MAX as i64;

/// How many pods a Deployment has now.
pub(super) struct Counts {
    pub(super) desired: i64,
    pub(super) total: i64,
    pub(super) updated: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
}

impl Counts {
    fn are_complete(&self) -> bool {
        [self.total, self.updated, self.available].iter().all(|count| *count == self.desired)
    }

    /// Whether there is more of the new, or less of the old, than the status said.
    fn are_better(&self, document: &Value) -> bool {
        let before = |name: &str| number(&document["status"], &format!("/{name}")).unwrap_or(0);
        let old = before("replicas") - before("updatedReplicas");
        self.updated > before("updatedReplicas")
            || self.total - self.updated < old
            || self.ready > before("readyReplicas")
            || self.available > before("availableReplicas")
    }
}

fn current(document: &Value) -> Option<&Value> {
    list(document, "/status/conditions").iter().find(|condition| condition["type"] == PROGRESSING)
}

fn is_paused(document: &Value) -> bool {
    document["spec"]["paused"] == Value::Bool(true)
}

/// The condition of a Deployment whose status is about to be changed. `set` is the name of its newest set, `is_begun` whether that was
/// made just now.
pub(super) fn condition(document: &Value, counts: &Counts, set: Option<&str>, is_begun: bool) -> Option<Value> {
    number(document, "/spec/progressDeadlineSeconds").filter(|seconds| *seconds != NEVER)?;
    let current = current(document);
    let reason = current.map(|current| text(current, "/reason")).unwrap_or_default();
    if let Some(turned) = turn(document, reason) {
        return Some(status::condition(document, turned));
    }
    let is_done = reason == AVAILABLE && counts.total == counts.updated && !is_begun;
    if is_paused(document) || is_done {
        return current.cloned();
    }
    let told = |status, reason, message: String| status::condition(document, (PROGRESSING, status, reason, message));
    let subject = set.map_or_else(|| format!("Deployment {:?}", text(document, "/metadata/name")), |set| format!("ReplicaSet {set:?}"));
    if counts.are_complete() {
        return Some(told("True", AVAILABLE, format!("{subject} has successfully progressed.")));
    }
    if is_begun {
        return Some(anew(told("True", BEGUN, format!("Created new replica set {:?}", set.unwrap_or_default()))));
    }
    if counts.are_better(document) {
        return Some(anew(told("True", UPDATED, format!("{subject} is progressing."))));
    }
    match deadline(document).is_some_and(|deadline| deadline <= OffsetDateTime::now_utc()) {
        true => Some(told("False", STUCK, format!("{subject} has timed out progressing."))),
        false => current.cloned(),
    }
}

/// What is said once when a Deployment is paused, and when it is resumed. Being stuck is worth more than either.
fn turn(document: &Value, reason: &str) -> Option<Condition> {
    match (is_paused(document), reason) {
        (_, STUCK) | (true, PAUSED) => None,
        (true, _) => Some((PROGRESSING, "Unknown", PAUSED, "Deployment is paused".into())),
        (false, PAUSED) => Some((PROGRESSING, "Unknown", RESUMED, "Deployment is resumed".into())),
        (false, _) => None,
    }
}

/// Progress counts from now, even if it is told in the same words as before.
fn anew(mut condition: Value) -> Value {
    as_map(&mut condition).insert("lastUpdateTime".into(), now().into());
    condition
}

/// When a rollout that does not get anywhere is to be called stuck.
pub(super) fn deadline(document: &Value) -> Option<OffsetDateTime> {
    let seconds = number(document, "/spec/progressDeadlineSeconds").filter(|seconds| *seconds != NEVER)?;
    let current = current(document).filter(|_| !is_paused(document))?;
    if matches!(text(current, "/reason"), AVAILABLE | STUCK) {
        return None;
    }
    // Times are whole seconds, so that progress may have been almost a second later.
    moment(text(current, "/lastUpdateTime"))?.checked_add(time::Duration::seconds(seconds + 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WAITING: Counts = Counts { desired: 1, total: 1, updated: 1, ready: 0, available: 0 };

    fn deployment(reason: &str, seconds: i64) -> Value {
        let long_ago = "2020-01-01T00:00:00Z";
        json!({
            "metadata": {"name": "d"}, "spec": {"progressDeadlineSeconds": seconds},
            "status": {"replicas": 1, "updatedReplicas": 1, "conditions": [{
                "type": "Progressing", "status": "True", "reason": reason, "message": "", "lastUpdateTime": long_ago, "lastTransitionTime": long_ago,
            }]},
        })
    }

    fn reason(document: &Value, counts: &Counts) -> String {
        condition(document, counts, Some("d-1"), false).map(|told| text(&told, "/reason").to_owned()).unwrap_or_default()
    }

    #[test]
    fn what_does_not_move_is_stuck_until_it_moves() {
        assert_eq!(reason(&deployment(UPDATED, 600), &WAITING), STUCK);
        assert_eq!(reason(&deployment(UPDATED, NEVER), &WAITING), "");
        assert_eq!(reason(&deployment(AVAILABLE, 600), &WAITING), AVAILABLE);
        assert_eq!(reason(&deployment(STUCK, 600), &Counts { ready: 1, ..WAITING }), UPDATED);
        assert_eq!(reason(&deployment(STUCK, 600), &Counts { ready: 1, available: 1, ..WAITING }), AVAILABLE);
    }

    #[test]
    fn what_is_paused_has_no_deadline() {
        let mut paused = deployment(UPDATED, 600);
        paused["spec"]["paused"] = true.into();
        assert_eq!(reason(&paused, &WAITING), PAUSED);
        assert_eq!(deadline(&paused), None);
        assert_eq!(reason(&deployment(PAUSED, 600), &WAITING), RESUMED);
    }
}
