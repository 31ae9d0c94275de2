//! Events: what happened to pods, for `kubectl describe` and `kubectl get events`.
//!
//! What happens again and again is one Event with a count. What cannot be told is dropped: pods do not wait for their chroniclers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;

/// How many wait to be told. A large lab has a few for every pod at its beginning.
const WAITING: usize = 16_384;

/// For how long something that happens again is the same Event.
const MEMORY: Duration = Duration::from_secs(600);

/// The most letters of a message that the API takes.
const LONGEST: usize = 1024;

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It is.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Tells what happens to pods.
#[derive(Clone)]
pub(crate) struct Recorder {
    component: &'static str,
    host: String,
    queue: mpsc::Sender<Event>,
}

impl Recorder {
    /// Begins to tell, in the name of the scheduler.
    pub(crate) fn start(client: Client) -> Self {
        let (queue, receiver) = mpsc::channel(WAITING);
        tokio::spawn(post(client, receiver));
        Self { component: "default-scheduler", host: String::new(), queue }
    }

    /// The same in the name of a node's kubelet.
    pub(crate) fn of_node(&self, node: &str) -> Self {
        Self { component: "kubelet", host: node.to_owned(), queue: self.queue.clone() }
    }

    /// Tells something about a pod, or about one of its containers, which is named by its field.
    pub(crate) fn say(&self, pod: &Pod, field: Option<String>, tone: Tone, reason: &str, message: &str) {
        let metadata = &pod.metadata;
        let now = Time(Timestamp::now());
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}.", metadata.name.as_deref().unwrap_or_default())),
                namespace: metadata.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: metadata.name.clone(),
                namespace: metadata.namespace.clone(),
                uid: metadata.uid.clone(),
                field_path: field,
                ..ObjectReference::default()
            },
            type_: Some(if tone == Tone::Normal { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(LONGEST).collect()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: Some(self.host.clone()).filter(|it| !it.is_empty()),
            }),
            ..Event::default()
        };
        // A full queue is one that says enough.
        _ = self.queue.try_send(event);
    }
}

/// An Event that was told.
struct Told {
    name: String,
    count: i32,
    last: Instant,
}

async fn post(client: Client, mut queue: mpsc::Receiver<Event>) {
    let mut told: HashMap<String, Told> = HashMap::new();
    while let Some(event) = queue.recv().await {
        let about = &event.involved_object;
        let key = format!("{:?} {:?} {:?} {:?}", about.uid, about.field_path, event.reason, event.message);
        told.retain(|_, told| told.last.elapsed() < MEMORY);
        let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"));
        let outcome = match told.get_mut(&key) {
            Some(known) => {
                (known.count, known.last) = (known.count + 1, Instant::now());
                let change = json!({"count": known.count, "lastTimestamp": event.last_timestamp});
                api.patch(&known.name, &PatchParams::default(), &Patch::Merge(&change)).await
            }
            None => api.create(&PostParams::default(), &event).await,
        };
        match outcome {
            Ok(stored) => {
                let name = stored.metadata.name.unwrap_or_default();
                told.entry(key).or_insert(Told { name, count: 1, last: Instant::now() });
            }
            Err(error) => {
                // Somebody may have deleted it, or the Kubernetes namespace.
                told.remove(&key);
                tracing::debug!(%error, "an event could not be told");
            }
        }
    }
}
