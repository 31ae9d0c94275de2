//! The objects of one kind as they are on an API server, kept up to date.
//!
//! A mirror lists, watches, resumes where it was when the connection goes, and lists anew when the server has forgotten what came since. While
//! it cannot, it shows what it saw last, says since when and why ([`Health`]), and tries again, less and less often.
//!
//! Who wrote which field (`managedFields`) is not kept: nobody who follows objects asks for it, and it takes more room than the rest of them.

use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use kube::runtime::watcher::Config;

/// After how long without another complaint all is well again. A watch that was taken up anew says nothing until something happens, and
/// between two tries that fail there is less time than this.
const RELIEF: Duration = Duration::from_secs(65);

/// How well a mirror shows what is there.
#[derive(Clone, Debug)]
pub struct Health {
    /// Whether everything was seen at least once.
    pub is_complete: bool,
    /// Since when nothing comes, and why; none while all is well.
    pub trouble: Option<Trouble>,
    /// How often everything was listed. More than once means that the server had forgotten what came since.
    pub lists: u64,
    /// How many changes came. Whoever follows sees by it that something is new.
    pub changes: u64,
}

/// Why nothing comes.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// Since when.
    pub since: Instant,
    /// What was said last.
    pub cause: String,
}

/// The objects of one kind.
pub struct Mirror<K: Resource + 'static>
where
    K::DynamicType: Eq + Hash + Clone,
{
    store: Store<K>,
    health: watch::Receiver<Health>,
    task: JoinHandle<()>,
}

impl<K> Mirror<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Begins to follow. Not outside of a runtime.
    pub fn start(api: Api<K>, config: Config) -> Self {
        let (store, writer) = reflector::store();
        let beginning = Health { is_complete: false, trouble: None, lists: 0, changes: 0 };
        let (report, health) = watch::channel(beginning);
        let task = tokio::spawn(follow(watcher(api, config).default_backoff(), writer, report, RELIEF));
        Self { store, health, task }
    }

    /// One object.
    pub fn get(&self, name: &str, namespace: Option<&str>) -> Option<Arc<K>> {
        let mut reference = ObjectRef::new(name);
        reference.namespace = namespace.map(str::to_owned);
        self.store.get(&reference)
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// How well it shows what is there. Changes with every change.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Waits until everything was seen once.
    pub async fn complete(&self) {
        // It ends only with the mirror, and then nobody waits.
        _ = self.health.clone().wait_for(|health| health.is_complete).await;
    }
}

impl<K: Resource + 'static> Drop for Mirror<K>
where
    K::DynamicType: Eq + Hash + Clone,
{
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes in what comes, and says how it goes.
async fn follow<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    mut writer: reflector::store::Writer<K>,
    report: watch::Sender<Health>,
    relief: Duration,
) where
    K: Resource<DynamicType = ()> + Clone,
{
    let mut events = pin!(events);
    loop {
        let is_in_trouble = report.borrow().trouble.is_some();
        let event = match is_in_trouble {
            false => events.next().await,
            true => match tokio::time::timeout(relief, events.next()).await {
                Ok(event) => event,
                Err(_) => {
                    report.send_modify(|health| health.trouble = None);
                    continue;
                }
            },
        };
        match event {
            Some(Ok(event)) => {
                let event = event.modify(|object| object.meta_mut().managed_fields = None);
                writer.apply_watcher_event(&event);
                report.send_modify(|health| note(health, &event));
            }
            Some(Err(error)) => report.send_modify(|health| complain(health, &error)),
            None => return,
        }
    }
}

fn note<K>(health: &mut Health, event: &watcher::Event<K>) {
    match event {
        // Has been asked for, and not answered.
        watcher::Event::Init => return,
        watcher::Event::InitApply(_) => {}
        watcher::Event::InitDone => {
            health.is_complete = true;
            health.lists += 1;
            health.changes += 1;
        }
        watcher::Event::Apply(_) | watcher::Event::Delete(_) => health.changes += 1,
    }
    health.trouble = None;
}

fn complain(health: &mut Health, error: &watcher::Error) {
    let since = health.trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
    // What the error says is about the watch; what is behind it is about the server.
    let mut cause = error.to_string();
    let mut behind = std::error::Error::source(error);
    while let Some(error) = behind {
        let more = error.to_string();
        if !cause.contains(&more) {
            cause = format!("{cause}: {more}");
        }
        behind = error.source();
    }
    health.trouble = Some(Trouble { since, cause });
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test]
    async fn trouble_that_is_not_heard_of_again_is_over() {
        let (_, writer) = reflector::store::<ConfigMap>();
        let beginning = Health { is_complete: true, trouble: None, lists: 1, changes: 1 };
        let (report, mut health) = watch::channel(beginning);
        let failed = stream::iter([Err(watcher::Error::NoResourceVersion)]);
        tokio::spawn(follow(failed.chain(stream::pending()), writer, report, Duration::from_millis(20)));
        health.wait_for(|health| health.trouble.is_some()).await.expect("the mirror goes on");
        health.wait_for(|health| health.trouble.is_none()).await.expect("the mirror goes on");
    }
}
