//! How a pod is, as the API wants it told.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// What kubelets call it when a pod has no network.
const NO_SANDBOX: &str = "FailedCreatePodSandBox";

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It does not run yet, or not any more and will again.
    Waiting { reason: &'static str, message: String },
    /// It runs.
    Running { since: Timestamp },
    /// It has ended and will not run again.
    Ended(Ended),
}

/// A container, as far as others can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) is_init: bool,
    /// Whether it is one of those that run before the others, and goes on beside them.
    pub(super) is_sidecar: bool,
    pub(super) state: State,
    /// How it ended the last time.
    pub(super) last: Option<Ended>,
    pub(super) is_ready: bool,
    /// Whether it runs and has said so, where it is asked.
    pub(super) is_started: bool,
    pub(super) restarts: u32,
    /// The id of the container that runs or ran last.
    pub(super) id: String,
    /// The process that it ends with.
    pub(super) pid: u32,
    /// Where its processes write to.
    pub(super) log: String,
}

impl Seen {
    pub(super) fn new(name: &str, image: &str, is_init: bool) -> Self {
        let state = State::Waiting { reason: if is_init { "PodInitializing" } else { "ContainerCreating" }, message: String::new() };
        let (name, image) = (name.to_owned(), image.to_owned());
        Self {
            name,
            image,
            is_init,
            is_sidecar: false,
            state,
            last: None,
            is_ready: false,
            is_started: false,
            restarts: 0,
            id: String::new(),
            pid: 0,
            log: String::new(),
        }
    }

    /// Whether those after it can begin: it has done its work, or has taken it up.
    pub(super) fn is_prepared(&self) -> bool {
        if self.is_sidecar { self.is_started || self.last.is_some() } else { self.has_succeeded() }
    }

    /// Whether it has done what it was to do.
    pub(super) fn has_succeeded(&self) -> bool {
        matches!(&self.state, State::Ended(ended) if ended.code == 0)
    }

    fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    fn document(&self) -> Value {
        let mut document = json!({
            "name": self.name, "image": self.image, "imageID": "", "ready": self.is_ready, "restartCount": self.restarts,
            "started": self.is_started, "state": state(&self.state)});
        if !self.id.is_empty() {
            document["containerID"] = json!(format!("transom://{}", self.id));
        }
        if let Some(last) = &self.last {
            document["lastState"] = json!({"terminated": terminated(last)});
        }
        document
    }
}

fn state(state: &State) -> Value {
    match state {
        State::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        State::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        State::Running { since } => json!({"running": {"startedAt": seconds(*since)}}),
        State::Ended(ended) => json!({"terminated": terminated(ended)}),
    }
}

fn terminated(ended: &Ended) -> Value {
    json!({
        "exitCode": ended.code, "reason": if ended.code == 0 { "Completed" } else { "Error" },
        "startedAt": seconds(ended.since), "finishedAt": seconds(ended.until)})
}

/// Times of Kubernetes have no fractions.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A pod, as far as others can see it.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) since: Timestamp,
    pub(super) node_addresses: Vec<IpAddr>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) containers: Vec<Seen>,
    /// Why there is no network yet, or never will be.
    pub(super) trouble: String,
    /// When it became ready or ceased to be.
    pub(super) turned: Timestamp,
    /// The version of the document that this is about.
    pub(super) generation: Option<i64>,
}

impl Report {
    pub(super) fn is_ready(&self) -> bool {
        let mut main = self.containers.iter().filter(|container| !container.is_init || container.is_sidecar);
        !self.addresses.is_empty() && main.clone().next().is_some() && main.all(|container| container.is_ready)
    }

    /// Whether it has done what it was to do, well or not.
    pub(super) fn phase(&self) -> &'static str {
        let main: Vec<&Seen> = self.containers.iter().filter(|container| !container.is_init).collect();
        let is_failed = |it: &Seen| it.is_init && !it.is_sidecar && it.has_ended() && !it.has_succeeded();
        let has_failed_to_begin = self.containers.iter().any(is_failed);
        if has_failed_to_begin {
            "Failed"
        } else if !main.is_empty() && main.iter().all(|container| container.has_ended()) {
            if main.iter().all(|container| container.has_succeeded()) { "Succeeded" } else { "Failed" }
        } else if main.iter().any(|it| matches!(it.state, State::Running { .. }) || it.has_ended() || it.last.is_some()) {
            "Running"
        } else {
            "Pending"
        }
    }

    fn is_initialized(&self) -> bool {
        self.containers.iter().filter(|container| container.is_init).all(Seen::is_prepared)
    }

    /// The status of the API's document.
    pub(super) fn document(&self) -> Value {
        let phase = self.phase();
        let (ready, initialized) = (self.is_ready(), self.is_initialized());
        let list = |addresses: &[IpAddr]| addresses.iter().map(|address| json!({"ip": address.to_string()})).collect::<Vec<_>>();
        let condition = |kind: &str, holds: bool, since: Timestamp| {
            let mut condition = json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": seconds(since)});
            match (holds, kind, phase) {
                (false, "Ready" | "ContainersReady", "Succeeded") => condition["reason"] = json!("PodCompleted"),
                (false, "Ready" | "ContainersReady", _) => {
                    condition["reason"] = json!("ContainersNotReady");
                    condition["message"] = json!(self.unready());
                }
                _ => {}
            }
            condition
        };
        let statuses = |is_init: bool| self.containers.iter().filter(|it| it.is_init == is_init).map(Seen::document).collect::<Vec<_>>();
        let mut status = json!({
            "phase": phase, "startTime": seconds(self.since), "hostIP": self.node_addresses.first().map(ToString::to_string),
            "hostIPs": list(&self.node_addresses), "qosClass": "BestEffort",
            "conditions": [
                condition("PodReadyToStartContainers", !self.addresses.is_empty(), self.since),
                condition("Initialized", initialized, self.since),
                condition("Ready", ready, self.turned),
                condition("ContainersReady", ready, self.turned),
                condition("PodScheduled", true, self.since)],
            "containerStatuses": statuses(false)});
        if self.containers.iter().any(|container| container.is_init) {
            status["initContainerStatuses"] = json!(statuses(true));
        }
        if let Some(first) = self.addresses.first() {
            status["podIP"] = json!(first.to_string());
            status["podIPs"] = json!(list(&self.addresses));
        }
        // Nothing takes away what was told before.
        status["reason"] = if self.trouble.is_empty() { Value::Null } else { json!(NO_SANDBOX) };
        status["message"] = if self.trouble.is_empty() { Value::Null } else { json!(self.trouble) };
        if let Some(generation) = self.generation {
            status["observedGeneration"] = json!(generation);
        }
        json!({"status": status})
    }

    /// Which containers are not ready, or what is wrong with all of them.
    fn unready(&self) -> String {
        if !self.trouble.is_empty() {
            return self.trouble.clone();
        }
        let names: Vec<&str> = self.containers.iter().filter(|it| !it.is_init && !it.is_ready).map(|it| it.name.as_str()).collect();
        format!("containers with unready status: [{}]", names.join(" "))
    }

    /// Why it does not run, for people.
    pub(super) fn trouble(&self) -> String {
        let waits = self.containers.iter().find_map(|container| match &container.state {
            State::Waiting { reason, message } if !message.is_empty() => Some(format!("{}: {reason}: {message}", container.name)),
            _ => None,
        });
        if self.trouble.is_empty() { waits.unwrap_or_default() } else { self.trouble.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(states: &[(bool, State)]) -> Report {
        let since = Timestamp::UNIX_EPOCH;
        let containers = states.iter().map(|(is_init, state)| Seen { state: state.clone(), ..Seen::new("it", "image", *is_init) });
        Report {
            since,
            node_addresses: Vec::new(),
            addresses: vec!["10.0.0.2".parse().unwrap()],
            containers: containers.collect(),
            trouble: String::new(),
            turned: since,
            generation: Some(1),
        }
    }

    #[test]
    fn phases_follow_from_containers() {
        let since = Timestamp::UNIX_EPOCH;
        let waiting = State::Waiting { reason: "ContainerCreating", message: String::new() };
        let running = State::Running { since };
        let ended = |code| State::Ended(Ended { code, since, until: since });
        let table = [
            (vec![(false, waiting.clone())], "Pending"),
            (vec![(true, running.clone()), (false, waiting.clone())], "Pending"),
            (vec![(true, ended(1)), (false, waiting.clone())], "Failed"),
            (vec![(false, running.clone()), (false, ended(1))], "Running"),
            (vec![(false, ended(0)), (false, ended(0))], "Succeeded"),
            (vec![(false, ended(0)), (false, ended(2))], "Failed"),
        ];
        for (states, phase) in table {
            assert_eq!(report(&states).phase(), phase, "{states:?}");
        }
    }

    #[test]
    fn a_pod_is_ready_when_all_its_containers_are() {
        let running = State::Running { since: Timestamp::UNIX_EPOCH };
        let mut report = report(&[(false, running.clone()), (false, running)]);
        report.containers[0].is_ready = true;
        assert!(!report.is_ready());
        let status = report.document();
        assert_eq!(status["status"]["conditions"][2]["message"], "containers with unready status: [it]");
        report.containers[1].is_ready = true;
        assert!(report.is_ready());
        assert_eq!(report.document()["status"]["podIPs"], json!([{"ip": "10.0.0.2"}]));
    }
}
