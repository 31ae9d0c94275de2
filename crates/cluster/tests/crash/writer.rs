//! Somebody who changes objects and remembers what was acknowledged.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::random::Random;
use super::server::{maps, value_of, version_of};

/// How long an answer is waited for. A connection whose server was killed ends long before; whoever is not told so gives up by itself, as every
/// client does.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// How many objects each has.
const OBJECTS: usize = 8;

/// An object as its writer knows it: version and value.
type Known = Option<(u64, String)>;

/// One of the writers.
pub(crate) struct Writer {
    random: Random,
    objects: Vec<Object>,
    /// How many values were made up.
    values: u64,
    /// The versions of all changes that were acknowledged.
    pub(crate) acknowledged: Vec<u64>,
}

struct Object {
    name: String,
    known: Known,
    /// A change whose answer never came: the value it would have brought, none for a removal.
    open: Option<Option<String>>,
}

impl Writer {
    pub(crate) fn new(number: u64, random: Random) -> Self {
        let object = |index: usize| Object { name: format!("writer-{number}-{index}"), known: None, open: None };
        Self { random, objects: (0..OBJECTS).map(object).collect(), values: 0, acknowledged: Vec::new() }
    }

    /// Looks at what is there, then makes changes until the server does not answer any more.
    pub(crate) async fn live(&mut self, client: &Client) -> Result<(), String> {
        if self.settle(client).await.is_err() {
            // Killed before everything was looked at; or something is wrong, and then it still is in the next life.
            return Ok(());
        }
        while self.change(&maps(client)).await? {}
        Ok(())
    }

    /// Compares what is there with what was acknowledged.
    pub(crate) async fn settle(&mut self, client: &Client) -> Result<(), String> {
        let api = maps(client);
        for object in &mut self.objects {
            let found = answer(api.get_opt(&object.name)).await;
            let found = found.ok_or_else(|| format!("{}: no answer within {} s", object.name, ANSWER_LIMIT.as_secs()))?;
            let found = found.map_err(|error| format!("{}: {error}", object.name))?;
            object.compare(found.map(|map| (version_of(&map), value_of(&map))));
        }
        Ok(())
    }

    /// Makes one change. Answers whether the server did.
    async fn change(&mut self, api: &Api<ConfigMap>) -> Result<bool, String> {
        let index = self.random.below(OBJECTS);
        let removes = self.random.once_in(4);
        self.values += 1;
        let value = format!("value {}", self.values);
        let object = &mut self.objects[index];
        let newest = self.acknowledged.last().copied().unwrap_or_default();
        let outcome = match (&object.known, removes) {
            (Some(_), true) => {
                object.open = Some(None);
                // What answers a removal is the object as it was, so the version of the removal is for watchers to see.
                answer(api.delete(&object.name, &DeleteParams::default())).await.map(|answer| answer.map(|_| None))
            }
            (Some((version, _)), false) => {
                object.open = Some(Some(value.clone()));
                let map = map(&object.name, &value, Some(*version));
                answer(api.replace(&object.name, &PostParams::default(), &map)).await.map(made)
            }
            (None, _) => {
                object.open = Some(Some(value.clone()));
                answer(api.create(&PostParams::default(), &map(&object.name, &value, None))).await.map(made)
            }
        };
        match outcome {
            Some(Ok(version)) => {
                object.open = None;
                object.known = version.map(|version| (version, value));
                if version.is_some_and(|version| version <= newest) {
                    return Err(format!("{}: version {version:?} came after {newest}", object.name));
                }
                self.acknowledged.extend(version);
                Ok(true)
            }
            Some(Err(kube::Error::Api(status))) => Err(format!("{}: {} ({})", object.name, status.message, status.code)),
            // It was killed. Whether the change was made is seen in its next life.
            Some(Err(_)) | None => Ok(false),
        }
    }
}

impl Object {
    /// It is as known, or as it would be after the change whose answer never came.
    fn compare(&mut self, found: Known) {
        let open = self.open.take();
        if found == self.known {
            return;
        }
        let value = found.as_ref().map(|(_, value)| value.clone());
        let is_newer = found.as_ref().zip(self.known.as_ref()).is_none_or(|((now, _), (before, _))| now > before);
        assert!(
            open.as_ref() == Some(&value) && is_newer,
            "{} is {found:?}, and should be {:?}; what was not answered: {open:?}",
            self.name,
            self.known
        );
        self.known = found;
    }
}

/// What is answered in time.
async fn answer<T>(call: impl Future<Output = kube::Result<T>>) -> Option<kube::Result<T>> {
    tokio::time::timeout(ANSWER_LIMIT, call).await.ok()
}

/// The version that a change was made as.
fn made(answer: kube::Result<ConfigMap>) -> kube::Result<Option<u64>> {
    answer.map(|map| Some(version_of(&map)))
}

fn map(name: &str, value: &str, version: Option<u64>) -> ConfigMap {
    let mut map = json!({"metadata": {"name": name}, "data": {"value": value}});
    if let Some(version) = version {
        map["metadata"]["resourceVersion"] = json!(version.to_string());
    }
    serde_json::from_value(map).unwrap_or_default()
}
