//! Running the containers of a pod: those that prepare one after the other, those that go on beside the others, and the others together.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Container;
use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::super::environment::{self, Facts};
use super::super::report::{Ended, Seen, State};
use super::super::sources::Sources;
use super::super::{image, left_out};
use super::Keeper;
use crate::event::Tone;
use crate::node::Sandbox;
use crate::runtime::{self, Order, RunningContainer};

/// How long is waited before a container is started again, at first and at most, and how long one has to run for that to be forgotten.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const FORGIVENESS: Duration = Duration::from_secs(120);

/// How often it is looked whether a container has started.
const LOOK: Duration = Duration::from_millis(20);

/// Why a container did not start: what kubelets call it, and a message.
struct Failed(&'static str, String);

impl Keeper {
    /// Runs the containers.
    pub(super) async fn run(self: Arc<Self>, sandbox: Arc<Sandbox>) {
        self.tell_left_out();
        self.make_volumes(&sandbox).await;
        let init = self.spec.init_containers.as_ref().map_or(0, Vec::len);
        let mut beside = JoinSet::new();
        for position in 0..init {
            if self.is_sidecar(position) {
                beside.spawn(self.clone().keep(sandbox.clone(), position));
                self.wait_until_prepared(position).await;
                continue;
            }
            self.clone().keep(sandbox.clone(), position).await;
            if !self.is_prepared(position) {
                return;
            }
        }
        let mut together = JoinSet::new();
        for position in init..init + self.spec.containers.len() {
            together.spawn(self.clone().keep(sandbox.clone(), position));
        }
        while together.join_next().await.is_some() {}
        // Those beside have nobody left to be beside of.
        beside.shutdown().await;
        self.end_all().await;
    }

    fn is_sidecar(&self, position: usize) -> bool {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).containers.get(position).is_some_and(|seen| seen.is_sidecar)
    }

    fn is_prepared(&self, position: usize) -> bool {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).containers.get(position).is_some_and(Seen::is_prepared)
    }

    async fn wait_until_prepared(&self, position: usize) {
        while !self.is_prepared(position) {
            sleep(LOOK).await;
        }
    }

    async fn end_all(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (position, container) in running {
            self.end(position, &container, self.grace(None), "Stopping container").await;
            let code = container.exited().await;
            let ended = Ended { code, since: Timestamp::now(), until: Timestamp::now() };
            self.tell_container(position, |seen| end(seen, ended));
        }
    }

    /// Tells what the pod asks for and does not get.
    fn tell_left_out(&self) {
        let fields = left_out::fields(&self.spec);
        if !fields.is_empty() {
            self.say(None, Tone::Warning, "LeftOut", &format!("nothing is done in a lab about {}", fields.join(", ")));
        }
    }

    /// Runs a container, again and again if the pod says so.
    async fn keep(self: Arc<Self>, sandbox: Arc<Sandbox>, position: usize) {
        let Some(container) = self.container(position) else { return };
        let mut pause = FIRST_PAUSE;
        // What has ended is kept until the next has begun, so that its log can be read.
        let mut last = None;
        loop {
            let begin = Instant::now();
            let started = self.start(&sandbox, position, container).await;
            self.end_turn();
            let is_done = match started {
                Ok(running) => {
                    last = Some(running.clone());
                    let ended = self.attend(&running, position, container).await;
                    self.forget(&running);
                    let again = self.is_started_again(position, ended.code);
                    self.tell_container(position, |seen| match again {
                        false => end(seen, ended.clone()),
                        true => wait_again(seen, "CrashLoopBackOff", format!("it ended with {}", ended.code), Some(ended.clone())),
                    });
                    if again {
                        self.say(
                            Some(position),
                            Tone::Warning,
                            "BackOff",
                            &format!("Back-off restarting failed container {}", container.name),
                        );
                    }
                    !again
                }
                Err(Failed(reason, message)) => {
                    self.say(Some(position), Tone::Warning, "Failed", &format!("Error: {message}"));
                    self.tell_container(position, |seen| wait_again(seen, reason, message, None));
                    false
                }
            };
            if is_done {
                // The log of what has ended for good can be read for as long as the pod is there.
                self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(last);
                return;
            }
            pause = if begin.elapsed() > FORGIVENESS { FIRST_PAUSE } else { pause };
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn is_started_again(&self, position: usize, code: i32) -> bool {
        if self.is_sidecar(position) {
            return true;
        }
        match self.spec.restart_policy.as_deref() {
            Some("Never") => false,
            Some("OnFailure") => code != 0,
            _ => !self.is_init(position) || code != 0,
        }
    }

    async fn start(&self, sandbox: &Sandbox, position: usize, container: &Container) -> Result<Arc<RunningContainer>, Failed> {
        let order = self.order(sandbox, position, container).await.map_err(|message| Failed("CreateContainerConfigError", message))?;
        let started = runtime::start(self.context.node.engine(sandbox), sandbox, order).await;
        let running = Arc::new(started.map_err(|message| Failed("CreateContainerError", message))?);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push((position, running.clone()));
        let has_hook = container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
        let is_started = container.startup_probe.is_none() && !has_hook;
        self.tell_container(position, |seen| {
            seen.state = State::Running { since: Timestamp::now() };
            seen.is_started = is_started;
            seen.is_ready = is_started && container.readiness_probe.is_none();
            seen.id.clone_from(&running.id);
            seen.pid = running.pid;
            seen.log = running.log.display().to_string();
        });
        self.say(Some(position), Tone::Normal, "Started", &started_message(container));
        Ok(running)
    }

    async fn order(&self, sandbox: &Sandbox, position: usize, container: &Container) -> Result<Order, String> {
        let sources = Sources::of_container(&self.context.client, &self.name().0, container).await?;
        let (variables, mounts) = self.with_facts(sandbox, |facts| -> Result<_, String> {
            let variables = environment::variables(container, facts, &sources)?;
            let mounts = self.volumes.lock().unwrap_or_else(PoisonError::into_inner).mounts(container, &variables)?;
            Ok((variables, mounts))
        })?;
        let arguments = image::command(container).iter().map(|text| environment::expand(text, &variables)).collect();
        let restarts = self.report.lock().unwrap_or_else(PoisonError::into_inner).containers[position].restarts;
        Ok(Order {
            id: format!("{}-{}-{restarts}", sandbox.id, container.name),
            host_name: self.spec.hostname.clone().unwrap_or_else(|| self.name().1),
            arguments,
            variables,
            directory: container.working_dir.clone(),
            dns: self.dns(),
            mounts,
        })
    }

    /// Does something with what is known of the pod now.
    pub(super) fn with_facts<T>(&self, sandbox: &Sandbox, work: impl FnOnce(&Facts<'_>) -> T) -> T {
        let addresses: Vec<IpAddr> = sandbox.addresses.iter().map(IpNet::addr).collect();
        let node = &self.context.node;
        let node_addresses = node.addresses();
        work(&Facts {
            pod: &self.pod,
            node: &node.spec.name,
            node_addresses: &node_addresses,
            addresses: &addresses,
            api: self.context.topology.api_service(),
        })
    }

    fn forget(&self, running: &Arc<RunningContainer>) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, known)| !Arc::ptr_eq(known, running));
    }
}

/// What a container runs: where its image is none that a lab knows, people should hear what stands in for it.
fn started_message(container: &Container) -> String {
    match image::stand_in(container) {
        Some(server) => format!("Started container {}; there are no images in a lab, so that it is {server}", container.name),
        None => format!("Started container {}", container.name),
    }
}

/// It has ended for good.
fn end(seen: &mut Seen, ended: Ended) {
    (seen.is_ready, seen.is_started) = (false, false);
    seen.state = State::Ended(ended);
}

/// Waits for another start.
fn wait_again(seen: &mut Seen, reason: &'static str, message: String, last: Option<Ended>) {
    (seen.is_ready, seen.is_started) = (false, false);
    seen.restarts += u32::from(last.is_some());
    seen.last = last.or(seen.last.take());
    seen.state = State::Waiting { reason, message };
}
