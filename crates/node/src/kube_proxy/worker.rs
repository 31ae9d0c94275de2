//! The loop: something is new, or it is time to look; sync; again.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use proxy::cluster::{is_eligible, node_addresses, pod_subnets};
use proxy::config::{ConfigError, Configuration};
use proxy::desired::Setting;
use proxy::programming::Changes;
use proxy::proxier::Report;
use proxy::service::ServiceName;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, interval, sleep_until};

use super::attended::Attended;
use super::event::Recorder;
use super::health::Health;
use super::health_check::HealthChecks;
use super::hns::News;
use super::metrics::Metrics;
use super::mirrors::Mirrors;
use super::plane::Plane;

/// How long to wait after a failure, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long the cluster may take to know our node before we go on without.
const NODE_PATIENCE: Duration = Duration::from_secs(30);

/// How long HNS may take for one answer before that is said, and how often is looked.
const HNS_PATIENCE: Duration = Duration::from_secs(10);
const HNS_LOOK: Duration = Duration::from_secs(1);

/// How many changes are a peak, after which memory is given back.
const PEAK: usize = 500;

/// What a sync came to, and what it was done with.
type Outcome = (Box<dyn Plane>, Result<Report, String>);

/// What Services are made true by.
pub(super) struct Below {
    /// Makes one that knows nothing yet.
    pub(super) make: Box<dyn Fn(Setting) -> Box<dyn Plane> + Send + Sync>,
    /// The HNS it is, if it is one.
    pub(super) hcn: Option<Arc<Attended>>,
    /// What HNS needs to know of the node.
    pub(super) setting: Setting,
}

impl Below {
    fn plane(&self, setting: &Setting) -> Box<dyn Plane> {
        (self.make)(setting.clone())
    }
}

pub(super) struct Worker {
    configuration: Configuration,
    setting: Setting,
    below: Below,
    mirrors: Mirrors,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    recorder: Recorder,
    health_checks: HealthChecks,
    /// What happened in the cluster and is not programmed yet.
    changes: Changes,
    /// At home between syncs.
    plane: Option<Box<dyn Plane>>,
    /// Whether it has to be asked what it has, in case it did not say.
    is_due: bool,
    /// Whether everything that HNS has is read at the next sync.
    has_read_all: bool,
    pause: Duration,
    retry_at: Option<Instant>,
    hns_trouble: Option<String>,
    /// That HNS does not answer a call, while it does not.
    silence: Option<String>,
    /// What the last sync could not do.
    sync_trouble: Vec<String>,
    last_trouble: Vec<String>,
}

impl Worker {
    pub(super) fn new(
        configuration: Configuration,
        below: Below,
        mirrors: Mirrors,
        health: Arc<Health>,
        metrics: Arc<Metrics>,
        recorder: Recorder,
    ) -> Result<Self, ConfigError> {
        let setting = Setting {
            health_port: configuration.healthz_address()?.map_or(10256, |address| address.port()),
            external_ips: configuration.has_feature("AllowServiceExternalIPs"),
            ..below.setting.clone()
        };
        let health_checks = HealthChecks::new(health.clone());
        Ok(Self {
            plane: Some(below.plane(&setting)),
            setting,
            configuration,
            below,
            mirrors,
            health,
            metrics,
            recorder,
            health_checks,
            changes: Changes::since(Timestamp::now()),
            is_due: false,
            has_read_all: true,
            pause: FIRST_PAUSE,
            retry_at: None,
            hns_trouble: None,
            silence: None,
            sync_trouble: Vec::new(),
            last_trouble: Vec::new(),
        })
    }

    /// Syncs for ever.
    pub(super) async fn run(mut self, mut news: UnboundedReceiver<News>) {
        let begin = Instant::now();
        let mut next_look = begin + self.configuration.iptables.sync_period;
        let mut not_before = begin;
        loop {
            let is_wanted = self.wait(&mut news, next_look).await;
            self.tell_trouble();
            if !is_wanted || !self.is_ready(begin) {
                continue;
            }
            self.health.queue();
            self.metrics.queued(self.mirrors.changes());
            // Changes come in crowds; those that come while we wait are taken along.
            sleep_until(not_before).await;
            self.hear(&mut news);
            if Instant::now() >= next_look {
                self.is_due = true;
                next_look = Instant::now() + self.configuration.iptables.sync_period;
            }
            self.sync().await;
            not_before = Instant::now() + self.configuration.iptables.min_sync_period;
        }
    }

    /// Waits until there is a reason for a sync. Returns whether there is one.
    async fn wait(&mut self, news: &mut UnboundedReceiver<News>, next_look: Instant) -> bool {
        let retry = self.retry_at;
        tokio::select! {
            () = self.mirrors.changed() => true,
            heard = news.recv() => heard.is_some_and(|heard| self.take_in(heard)),
            () = sleep_until(next_look) => true,
            () = sleep_until(retry.unwrap_or(next_look)), if retry.is_some() => true,
        }
    }

    fn hear(&mut self, news: &mut UnboundedReceiver<News>) {
        while let Ok(heard) = news.try_recv() {
            self.take_in(heard);
        }
    }

    /// Takes in what was heard of HNS. Returns whether there may be something to do.
    fn take_in(&mut self, heard: News) -> bool {
        let Some(plane) = &mut self.plane else { return true };
        match heard {
            News::Event(event) => plane.note(&event),
            News::Unknown => {
                plane.forget();
                self.has_read_all = true;
                self.hns_trouble = None;
                true
            }
            News::Gone(cause) => {
                tracing::warn!(cause, "HNS says nothing; what it does goes on");
                self.hns_trouble = Some(format!("HNS: {cause}"));
                false
            }
        }
    }

    /// Whether enough is known of the cluster. A node that nobody has registered is not waited for for ever.
    fn is_ready(&self, begin: Instant) -> bool {
        self.mirrors.are_complete() && (self.mirrors.node().is_some() || self.has_address() || begin.elapsed() > NODE_PATIENCE)
    }

    fn has_address(&self) -> bool {
        self.configuration.node_address().is_ok_and(|address| address.is_some())
    }

    fn missing_node(&self) -> Option<String> {
        let is_missing = self.mirrors.are_complete() && self.mirrors.node().is_none() && !self.has_address();
        let name = self.mirrors.node_name();
        is_missing.then(|| format!("the cluster has no Node {name}; register it, or name another with --hostname-override"))
    }

    async fn sync(&mut self) {
        let Some(mut plane) = self.plane.take() else { return };
        self.look_at_node(&mut *plane);
        let changes = self.mirrors.changes();
        let cluster = self.mirrors.read(&mut self.changes);
        let is_due = std::mem::take(&mut self.is_due);
        let begin = Instant::now();
        let work = tokio::task::spawn_blocking(move || {
            let outcome = plane.sync(cluster, is_due);
            (plane, outcome)
        });
        let outcome = match self.attend(work).await {
            Ok((plane, outcome)) => {
                self.plane = Some(plane);
                outcome
            }
            Err(error) => {
                tracing::error!(%error, "a sync ended before its time; beginning anew");
                self.plane = Some(self.below.plane(&self.setting));
                return self.try_again();
            }
        };
        match outcome {
            Ok(report) => self.finish(report, begin.elapsed(), changes).await,
            Err(cause) => self.give_up(cause),
        }
    }

    /// Waits for a sync. Meanwhile, what does not depend on it goes on, and an HNS that does not answer is told of.
    async fn attend(&mut self, mut work: JoinHandle<Outcome>) -> Result<Outcome, JoinError> {
        let mut look = interval(HNS_LOOK);
        loop {
            tokio::select! {
                done = &mut work => {
                    self.silence = None;
                    return done;
                }
                _ = look.tick() => self.look_meanwhile(),
            }
        }
    }

    fn look_meanwhile(&mut self) {
        self.look_at_eligibility(self.mirrors.node().as_deref());
        let waiting = self.below.hcn.as_ref().and_then(|hcn| hcn.waiting());
        let is_silent = waiting.is_some_and(|waiting| waiting >= HNS_PATIENCE);
        match (is_silent, &self.silence) {
            (true, None) => {
                let cause =
                    format!("HNS: no answer for {} s to a call; what it does goes on, and nothing new comes", HNS_PATIENCE.as_secs());
                self.recorder.node("Warning", "FailedToSync", &cause);
                self.silence = Some(cause);
            }
            (false, Some(_)) => self.silence = None,
            _ => {}
        }
        self.tell_trouble();
    }

    /// Load balancers keep away from a node that is about to go.
    fn look_at_eligibility(&self, node: Option<&Node>) {
        self.health.set_eligible(node.is_none_or(is_eligible));
    }

    /// The node's addresses may change while we run, and those of its pods.
    fn look_at_node(&mut self, plane: &mut dyn Plane) {
        let node = self.mirrors.node();
        self.look_at_eligibility(node.as_deref());
        let addresses = self.node_addresses(node.as_deref());
        if addresses != self.setting.node_addresses {
            tracing::info!(?addresses, "the node's addresses");
            self.setting.host_mac = addresses.first().copied().and_then(mac_of);
            self.setting.node_addresses = addresses;
            plane.set(self.setting.clone());
        }
        let pods = self.pods(node.as_deref());
        if pods != self.setting.pods {
            self.setting.pods = pods;
            plane.set(self.setting.clone());
        }
    }

    /// The addresses of all pods if they are configured, else those of our own.
    fn pods(&self, node: Option<&Node>) -> Vec<IpNet> {
        let configured = self.configuration.cluster_cidrs().unwrap_or_default();
        if configured.is_empty() { node.map(pod_subnets).unwrap_or_default() } else { configured }
    }

    fn node_addresses(&self, node: Option<&Node>) -> Vec<IpAddr> {
        let mut addresses = node.map(node_addresses).unwrap_or_default();
        if let Ok(Some(address)) = self.configuration.node_address() {
            addresses.retain(|known| known.is_ipv4() != address.is_ipv4());
            addresses.insert(0, address);
        }
        addresses
    }

    async fn finish(&mut self, report: Report, took: Duration, changes: (u64, u64)) {
        let is_done = report.failures.is_empty();
        self.metrics.synced(&report, took, changes);
        let failed: HashSet<&ServiceName> = report.failures.iter().filter_map(|it| Some(&it.cause.as_ref()?.service)).collect();
        self.metrics.programmed(&self.changes.programmed(Timestamp::now(), |service| failed.contains(service)));
        self.health.synced(is_done);
        let changed = report.created + report.modified + report.deleted + report.endpoints.0 + report.endpoints.1;
        if changed >= PEAK || self.has_read_all {
            give_memory_back();
            self.has_read_all = false;
        }
        if changed > 0 {
            let (created, modified, deleted) = (report.created, report.modified, report.deleted);
            tracing::info!(created, modified, deleted, endpoints = ?report.endpoints, failed = report.failures.len(), ?took, "synced");
        }
        for (service, cause) in &report.complaints {
            tracing::debug!(%service, cause, "a Service is not served as it asks");
            self.recorder.service(service, "InvalidService", cause);
        }
        for failure in &report.failures {
            tracing::warn!(what = failure.what, operation = ?failure.operation, error = %failure.error, "HNS refused");
            if let Some(cause) = &failure.cause {
                self.recorder.service(&cause.service, "FailedToProgram", &format!("{}: {}", failure.what, failure.error));
            }
        }
        let has_v6 = self.setting.node_addresses.iter().any(IpAddr::is_ipv6);
        let unopened = self.health_checks.set(&report.health_checks, has_v6).await;
        for (check, error) in &unopened {
            let message = format!("this node cannot listen on port {} for health checks: {error}", check.port);
            self.recorder.service(&check.service, "FailedToStartServiceHealthcheck", &message);
        }
        self.sync_trouble = report.failures.iter().map(|failure| format!("{}: {}", failure.what, failure.error)).collect();
        self.tell_trouble();
        match is_done && unopened.is_empty() {
            true => (self.pause, self.retry_at) = (FIRST_PAUSE, None),
            false => self.try_again(),
        }
    }

    fn give_up(&mut self, cause: String) {
        tracing::warn!(cause, "no sync; what is there goes on");
        self.recorder.node("Warning", "FailedToSync", &cause);
        self.sync_trouble = vec![cause];
        self.tell_trouble();
        self.try_again();
    }

    fn try_again(&mut self) {
        self.retry_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Says what is wrong: with the API server, with HNS, and with what was tried.
    fn tell_trouble(&mut self) {
        let mut trouble = self.sync_trouble.clone();
        if let Some(cause) = self.mirrors.trouble() {
            trouble.push(format!("the API server: {cause}"));
        }
        trouble.extend(self.missing_node());
        trouble.extend(self.hns_trouble.iter().chain(&self.silence).cloned());
        if trouble != self.last_trouble {
            for cause in trouble.iter().filter(|cause| !self.last_trouble.contains(cause)) {
                tracing::warn!(cause, "trouble");
            }
            self.last_trouble = trouble.clone();
        }
        self.health.set_trouble(trouble);
    }
}

/// What lists and documents took is not needed until the next peak.
fn give_memory_back() {
    #[cfg(target_os = "linux")]
    host::memory::give_back();
}

/// The hardware address of the adapter that has an address.
fn mac_of(address: IpAddr) -> Option<String> {
    let has = |interface: &host::interface::Interface| interface.addresses.iter().any(|own| own.addr() == address);
    let interface = host::interface::list().into_iter().rfind(has)?;
    Some(interface.mac.map(|byte| format!("{byte:02X}")).join("-"))
}
