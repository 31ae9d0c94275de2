//! How long it takes from a change in the cluster until HNS does what follows from it.
//!
//! Whoever writes an EndpointSlice notes on it when that happened which it was written for: a pod became ready, a Service was changed. The time
//! from there until a sync has programmed it is what people wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;

use crate::backend::SERVICE_NAME;
use crate::service::ServiceName;

/// When that happened which an EndpointSlice was written for.
const TRIGGERED: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Namespace and name.
type SliceName = (String, String);

/// When that happened which an EndpointSlice was written for, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    slice: SliceName,
    service: ServiceName,
    at: Timestamp,
}

impl Trigger {
    /// Reads it from a slice.
    pub(crate) fn read(slice: &EndpointSlice) -> Option<Self> {
        let metadata = &slice.metadata;
        let at = metadata.annotations.as_ref()?.get(TRIGGERED)?.parse().ok()?;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let service = ServiceName { namespace: namespace.clone(), name: metadata.labels.as_ref()?.get(SERVICE_NAME)?.clone() };
        Some(Self { slice: (namespace, metadata.name.clone()?), service, at })
    }
}

/// The changes since the proxy began.
#[derive(Debug)]
pub struct Changes {
    began: Timestamp,
    slices: BTreeMap<SliceName, Change>,
}

/// Of one EndpointSlice.
#[derive(Debug)]
struct Change {
    service: ServiceName,
    /// When the last one happened.
    last: Timestamp,
    /// When the first one happened that is not programmed yet.
    waiting_since: Option<Timestamp>,
}

impl Changes {
    /// What happened before this moment was another proxy's to program.
    pub fn since(began: Timestamp) -> Self {
        Self { began, slices: BTreeMap::new() }
    }

    /// Takes in what all EndpointSlices say before a sync.
    pub fn note<'a>(&mut self, triggers: impl IntoIterator<Item = &'a Trigger>) {
        let mut before = std::mem::take(&mut self.slices);
        for Trigger { slice, service, at } in triggers.into_iter().filter(|trigger| trigger.at >= self.began).cloned() {
            let known = before.remove(&slice);
            let (last, waiting_since) = known.map_or((None, None), |known| (Some(known.last), known.waiting_since));
            let is_new = last.is_none_or(|last| last < at);
            let waiting_since = waiting_since.or(is_new.then_some(at));
            self.slices.insert(slice, Change { service, last: last.map_or(at, |last| last.max(at)), waiting_since });
        }
    }

    /// Says that everything is programmed now, except for Services that something failed for, which wait on. Returns how long each change took.
    pub fn programmed(&mut self, now: Timestamp, failed: impl Fn(&ServiceName) -> bool) -> Vec<Duration> {
        let done = self.slices.values_mut().filter(|change| change.waiting_since.is_some() && !failed(&change.service));
        let took = |since: Timestamp| Duration::try_from(now.duration_since(since)).unwrap_or_default();
        done.filter_map(|change| change.waiting_since.take()).map(took).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(name: &str, at: &str) -> Option<Trigger> {
        let slice = json!({
            "metadata": {"name": name, "namespace": "default", "labels": {SERVICE_NAME: "web"}, "annotations": {TRIGGERED: at}},
            "addressType": "IPv4", "endpoints": []});
        Trigger::read(&serde_json::from_value(slice).unwrap())
    }

    fn slice(name: &str, at: &str) -> Trigger {
        written(name, at).expect("a slice that says when")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn each_change_counts_once_from_when_it_happened() {
        let mut changes = Changes::since(at("2026-01-01T00:00:10Z"));
        let seconds = |changes: &mut Changes, now: &str| -> Vec<f64> {
            changes.programmed(at(now), |_| false).iter().map(Duration::as_secs_f64).collect()
        };
        let old = slice("old", "2026-01-01T00:00:09.999999999Z");
        changes.note([&old, &slice("one", "2026-01-01T00:00:20.5Z")]);
        assert_eq!(written("odd", "yesterday"), None);
        assert_eq!(seconds(&mut changes, "2026-01-01T00:00:21Z"), [0.5], "not from before the beginning");
        changes.note([&old, &slice("one", "2026-01-01T00:00:20.5Z")]);
        assert_eq!(seconds(&mut changes, "2026-01-01T00:00:30Z"), [0.0; 0], "the same again is no change");
        changes.note([&slice("one", "2026-01-01T00:00:31Z"), &slice("two", "2026-01-01T00:00:32Z")]);
        assert_eq!(seconds(&mut changes, "2026-01-01T00:00:33Z"), [2.0, 1.0]);
        changes.note([&slice("one", "2026-01-01T00:00:20.5Z")]);
        changes.note([&slice("one", "2026-01-01T00:00:31Z")]);
        assert_eq!(seconds(&mut changes, "2026-01-01T00:00:40Z"), [0.0; 0], "a watch that goes back in time is none either");
        changes.note([]);
        assert!(changes.slices.is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn what_failed_waits_on_from_its_beginning() {
        let mut changes = Changes::since(at("2026-01-01T00:00:00Z"));
        changes.note([&slice("one", "2026-01-01T00:00:01Z")]);
        assert_eq!(changes.programmed(at("2026-01-01T00:00:02Z"), |service| service.name == "web"), []);
        changes.note([&slice("one", "2026-01-01T00:00:05Z")]);
        assert_eq!(changes.programmed(at("2026-01-01T00:00:06Z"), |_| false), [Duration::from_secs(5)]);
        // Clocks of two machines may differ.
        changes.note([&slice("one", "2026-01-01T00:00:09Z")]);
        assert_eq!(changes.programmed(at("2026-01-01T00:00:08Z"), |_| false), [Duration::ZERO]);
    }
}
