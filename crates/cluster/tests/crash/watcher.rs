//! Somebody who follows all changes, over all lives of the server.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use tokio::task::JoinHandle;

use super::server::{Home, maps, name_of, value_of, version_of};

/// The namespace of the objects is there from the first start on, and nothing before it is of interest.
const BEGINNING: &str = "0";

/// What was seen so far.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    /// Versions in the order in which they came.
    versions: Vec<u64>,
    objects: BTreeMap<String, (u64, String)>,
    /// What must not have happened.
    fault: Option<String>,
}

/// One of the watchers.
pub(crate) struct Watcher {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Watcher {
    pub(crate) fn start(home: &Home) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(follow(home.client(), seen.clone()));
        Self { seen, task }
    }

    /// Waits until a version has been seen.
    pub(crate) async fn finish(self, last: u64, patience: Duration) -> Result<Seen, String> {
        let deadline = Instant::now() + patience;
        loop {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(fault) = seen.fault {
                return Err(fault);
            }
            if seen.versions.last().is_some_and(|version| *version >= last) {
                self.task.abort();
                return Ok(seen);
            }
            if Instant::now() > deadline {
                return Err(format!("it has seen {:?} last, and never {last}", seen.versions.last()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Watches, and watches again from where it was when the server goes.
async fn follow(client: impl Future<Output = Result<Client, String>>, seen: Arc<Mutex<Seen>>) {
    let Ok(client) = client.await else { return };
    let mut version = BEGINNING.to_owned();
    loop {
        if let Ok(events) = maps(&client).watch(&WatchParams::default(), &version).await {
            let mut events = pin!(events);
            while let Some(Ok(event)) = events.next().await {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.take(event);
                if let Some(newest) = seen.versions.last() {
                    version = newest.to_string();
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Seen {
    fn take(&mut self, event: WatchEvent<ConfigMap>) {
        match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                self.note(&map);
                self.objects.insert(name_of(&map), (version_of(&map), value_of(&map)));
            }
            WatchEvent::Deleted(map) => {
                self.note(&map);
                if self.objects.remove(&name_of(&map)).is_none() {
                    self.fault = Some(format!("{} went, and was never there", name_of(&map)));
                }
            }
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => self.fault = Some(format!("an error came: {} ({})", status.message, status.code)),
        }
    }

    fn note(&mut self, map: &ConfigMap) {
        let version = version_of(map);
        if self.versions.last().is_some_and(|last| *last >= version) {
            self.fault = Some(format!("{version} came after {:?}", self.versions.last()));
        }
        self.versions.push(version);
    }

    /// Every change that was acknowledged is among what was seen.
    pub(crate) fn check(&self, acknowledged: &[u64]) -> Result<(), String> {
        let missed: Vec<u64> = acknowledged.iter().copied().filter(|version| self.versions.binary_search(version).is_err()).collect();
        if missed.is_empty() { Ok(()) } else { Err(format!("it missed {missed:?}")) }
    }

    /// What it would say there is, is there.
    pub(crate) fn compare(&self, listed: &BTreeMap<String, (u64, String)>) -> Result<(), String> {
        let ours: BTreeMap<_, _> = listed.iter().filter(|(name, _)| name.starts_with("writer-")).collect();
        let seen: BTreeMap<_, _> = self.objects.iter().filter(|(name, _)| name.starts_with("writer-")).collect();
        if ours == seen { Ok(()) } else { Err(format!("it would say {seen:?}, and there is {ours:?}")) }
    }
}
