//! The objects of one kind as they are on an API server, kept up to date.
//!
//! A mirror lists, watches, resumes where it was when the connection goes, and lists anew when the server has forgotten what came since. While
//! it cannot, it shows what it saw last, says since when and why ([`Health`]), and tries again, less and less often.
//!
//! What nobody reads of an object need not be kept: [`Mirror::start_reading`] keeps only what its reader makes of it. Who wrote which field
//! (`managedFields`) is never kept: nobody who follows objects asks for it, and it takes more room than the rest of them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
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

/// Namespace, empty for objects of the cluster, and name.
type Key = (Box<str>, Box<str>);

/// What is kept of the objects, by whose they are.
type Kept<V> = HashMap<Key, Arc<V>>;

/// The objects of one kind, or what is kept of each.
pub struct Mirror<V> {
    kept: Arc<RwLock<Kept<V>>>,
    health: watch::Receiver<Health>,
    task: JoinHandle<()>,
}

impl<K> Mirror<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Begins to follow whole objects. Not outside of a runtime.
    pub fn start(api: Api<K>, config: Config) -> Self {
        Self::start_reading(api, config, |object| object)
    }
}

impl<V: Send + Sync + 'static> Mirror<V> {
    /// Begins to follow, and keeps of every object what `read` makes of it. Not outside of a runtime.
    pub fn start_reading<K>(api: Api<K>, config: Config, read: impl Fn(K) -> V + Send + 'static) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let kept = Arc::new(RwLock::new(Kept::new()));
        let beginning = Health { is_complete: false, trouble: None, lists: 0, changes: 0 };
        let (report, health) = watch::channel(beginning);
        let writer = Writer { kept: kept.clone(), listed: Kept::new(), read: Box::new(read) };
        let task = tokio::spawn(follow(watcher(api, config).default_backoff(), writer, report, RELIEF));
        Self { kept, health, task }
    }

    /// One object.
    pub fn get(&self, name: &str, namespace: Option<&str>) -> Option<Arc<V>> {
        let key = (namespace.unwrap_or_default().into(), name.into());
        self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
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

impl<V> Drop for Mirror<V> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes in what comes.
struct Writer<K, V> {
    kept: Arc<RwLock<Kept<V>>>,
    /// What a list that is not complete has brought so far. Until it is, what was seen before is shown.
    listed: Kept<V>,
    read: Box<dyn Fn(K) -> V + Send>,
}

impl<K: Resource<DynamicType = ()>, V> Writer<K, V> {
    fn apply(&mut self, event: watcher::Event<K>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                let (key, value) = self.take(object);
                self.listed.insert(key, value);
            }
            watcher::Event::InitDone => {
                let mut listed = std::mem::take(&mut self.listed);
                listed.shrink_to_fit();
                let before = std::mem::replace(&mut *self.write(), listed);
                drop(before);
            }
            watcher::Event::Apply(object) => {
                let (key, value) = self.take(object);
                self.write().insert(key, value);
            }
            watcher::Event::Delete(object) => _ = self.write().remove(&key(&object)),
        }
    }

    fn take(&self, mut object: K) -> (Key, Arc<V>) {
        object.meta_mut().managed_fields = None;
        (key(&object), Arc::new((self.read)(object)))
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Kept<V>> {
        // A reader that panicked has changed nothing.
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> Key {
    let metadata = object.meta();
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
    (text(&metadata.namespace), text(&metadata.name))
}

/// Takes in what comes, and says how it goes.
async fn follow<K, V>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    mut writer: Writer<K, V>,
    report: watch::Sender<Health>,
    relief: Duration,
) where
    K: Resource<DynamicType = ()>,
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
                let news = news(&event);
                writer.apply(event);
                report.send_modify(|health| note(health, news));
            }
            Some(Err(error)) => report.send_modify(|health| complain(health, &error)),
            None => return,
        }
    }
}

/// What an event says about how it goes.
#[derive(Clone, Copy)]
enum News {
    /// A list has been asked for, and not answered.
    Asked,
    /// Something of a list.
    Listing,
    /// The end of a list.
    Listed,
    /// A change.
    Changed,
}

fn news<K>(event: &watcher::Event<K>) -> News {
    match event {
        watcher::Event::Init => News::Asked,
        watcher::Event::InitApply(_) => News::Listing,
        watcher::Event::InitDone => News::Listed,
        watcher::Event::Apply(_) | watcher::Event::Delete(_) => News::Changed,
    }
}

fn note(health: &mut Health, news: News) {
    match news {
        News::Asked => return,
        News::Listing => {}
        News::Listed => {
            health.is_complete = true;
            health.lists += 1;
            health.changes += 1;
        }
        News::Changed => health.changes += 1,
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
        let writer = Writer { kept: Arc::default(), listed: Kept::new(), read: Box::new(|map: ConfigMap| map) };
        let beginning = Health { is_complete: true, trouble: None, lists: 1, changes: 1 };
        let (report, mut health) = watch::channel(beginning);
        let failed = stream::iter([Err(watcher::Error::NoResourceVersion)]);
        tokio::spawn(follow(failed.chain(stream::pending()), writer, report, Duration::from_millis(20)));
        health.wait_for(|health| health.trouble.is_some()).await.expect("the mirror goes on");
        health.wait_for(|health| health.trouble.is_none()).await.expect("the mirror goes on");
    }
}
