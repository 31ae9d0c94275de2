//! Attending to a container that runs: hooks, probes, and its end.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::super::hook;
use super::super::probe::{self, Target, Timing};
use super::super::report::Ended;
use super::Keeper;
use crate::event::Tone;
use crate::runtime::RunningContainer;

/// What a container has to end at least, after what is to be done before it ends has taken all the time.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// How long what is to be done after a start may take.
const HOOK_PATIENCE: Duration = Duration::from_secs(120);

/// How soon a container is asked again at first whether it is ready. A server takes a moment to listen.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

impl Keeper {
    /// Waits until a container ends, and probes it meanwhile.
    pub(super) async fn attend(&self, running: &Arc<RunningContainer>, position: usize, container: &Container) -> Ended {
        let since = Timestamp::now();
        let code = tokio::select! {
            code = running.exited() => code,
            why = self.probe(running, position, container) => {
                self.end(position, running, self.grace(None), &why).await;
                running.exited().await
            }
        };
        Ended { code, since, until: Timestamp::now() }
    }

    /// Ends a container: first what it wants done before, then it is asked, and killed after the time of grace.
    pub(super) async fn end(&self, position: usize, running: &RunningContainer, grace: Duration, why: &str) {
        let Some(container) = self.container(position) else { return running.stop(grace).await };
        self.say(Some(position), Tone::Normal, "Killing", &format!("{why} {}", container.name));
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()).filter(|_| !grace.is_zero());
        let begin = Instant::now();
        if let (Some(hook), Some(target)) = (hook, self.target(running, container))
            && let Err(error) = hook::run(hook, &target, grace).await
        {
            self.say(Some(position), Tone::Warning, "FailedPreStopHook", &format!("PreStopHook failed: {error}"));
        }
        let left = grace.saturating_sub(begin.elapsed());
        running.stop(if hook.is_some() { left.max(LAST_GRACE) } else { left }).await;
    }

    fn target<'a>(&'a self, running: &'a RunningContainer, container: &'a Container) -> Option<Target<'a>> {
        let address = self.report.lock().unwrap_or_else(PoisonError::into_inner).addresses.first().copied()?;
        Some(Target { node: &self.context.node.namespace, address, container, running })
    }

    /// Probes a container for as long as it lives, and says why it does not any more.
    async fn probe(&self, running: &RunningContainer, position: usize, container: &Container) -> String {
        let Some(target) = self.target(running, container) else { return std::future::pending().await };
        if let Some(hook) = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref())
            && let Err(error) = hook::run(hook, &target, HOOK_PATIENCE).await
        {
            self.say(Some(position), Tone::Warning, "FailedPostStartHook", &format!("PostStartHook failed: {error}"));
            return "FailedPostStartHook: killing container".to_owned();
        }
        if let Some(startup) = &container.startup_probe
            && !self.passes(startup, &target, position, Kind::Startup).await
        {
            return "It failed its startup probe and will be started again: killing container".to_owned();
        }
        self.tell_container(position, |seen| {
            seen.is_started = true;
            seen.is_ready |= container.readiness_probe.is_none();
        });
        let readiness = async {
            match &container.readiness_probe {
                Some(probe) => self.watch_readiness(probe, &target, position).await,
                None => std::future::pending().await,
            }
        };
        let liveness = async {
            match &container.liveness_probe {
                Some(probe) => while self.passes(probe, &target, position, Kind::Liveness).await {},
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = readiness => {}
            () = liveness => {}
        }
        "It failed its liveness probe and will be started again: killing container".to_owned()
    }

    async fn watch_readiness(&self, probe: &Probe, target: &Target<'_>, position: usize) {
        let timing = Timing::of(probe);
        sleep(timing.initial).await;
        let (mut is_ready, mut same) = (false, 0);
        let mut pause = FIRST_PAUSE;
        loop {
            let outcome = probe::ask(probe, target).await;
            let is_good = outcome.is_ok();
            same = if is_good == is_ready { 0 } else { same + 1 };
            if same >= if is_good { timing.successes } else { timing.failures } {
                (is_ready, same) = (is_good, 0);
                if is_good {
                    self.keep_neighbours().await;
                }
                self.tell_container(position, |seen| seen.is_ready = is_good);
            }
            // That it is not ready while it starts is no news.
            if let Err(error) = outcome.as_ref()
                && (is_ready || pause >= timing.period)
            {
                self.say_unhealthy(position, Kind::Readiness, error);
            }
            pause = if is_ready { timing.period } else { (pause * 2).min(timing.period) };
            sleep(pause).await;
        }
    }

    /// Asks until the probe has passed, or failed, as often as it says. For a container that starts one success is enough to go on; of one that
    /// lives every answer counts.
    async fn passes(&self, probe: &Probe, target: &Target<'_>, position: usize, kind: Kind) -> bool {
        let timing = Timing::of(probe);
        sleep(timing.initial).await;
        let mut failures = 0;
        loop {
            match probe::ask(probe, target).await {
                Ok(()) if kind == Kind::Startup => return true,
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    self.say_unhealthy(position, kind, &error);
                }
            }
            if failures >= timing.failures {
                return false;
            }
            sleep(timing.period).await;
        }
    }

    fn say_unhealthy(&self, position: usize, kind: Kind, error: &str) {
        self.say(Some(position), Tone::Warning, "Unhealthy", &format!("{kind:?} probe failed: {error}"));
    }
}

/// What a probe is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Startup,
    Readiness,
    Liveness,
}
