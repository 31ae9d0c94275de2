//! Events: what people see in `kubectl describe`.
//!
//! The same thing is said once in a while, however often it happens, and what cannot be said is dropped: an agent whose API server is away
//! has other worries.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use proxy::service::ServiceName;
use tokio::sync::mpsc;

/// How long until the same thing is said again.
const AGAIN: Duration = Duration::from_secs(600);

/// How many wait to be said.
const WAITING: usize = 64;

/// Says things about objects.
#[derive(Clone)]
pub(super) struct Recorder {
    node: String,
    queue: mpsc::Sender<Event>,
}

impl Recorder {
    /// Starts to say what it is told.
    pub(super) fn start(client: Client, node: String) -> Self {
        let (queue, receiver) = mpsc::channel(WAITING);
        tokio::spawn(post(client, receiver));
        Self { node, queue }
    }

    /// Says something about our node.
    pub(super) fn node(&self, kind: &str, reason: &str, message: &str) {
        let node = ObjectReference {
            kind: Some("Node".into()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        self.say(node, "default", kind, reason, message);
    }

    /// Warns about a Service.
    pub(super) fn service(&self, service: &ServiceName, reason: &str, message: &str) {
        let reference = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Service".into()),
            name: Some(service.name.clone()),
            namespace: Some(service.namespace.clone()),
            ..ObjectReference::default()
        };
        self.say(reference, &service.namespace, "Warning", reason, message);
    }

    fn say(&self, about: ObjectReference, namespace: &str, kind: &str, reason: &str, message: &str) {
        let now = Time(Timestamp::now());
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}.", about.name.clone().unwrap_or_default())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about,
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            source: Some(EventSource { component: Some("kube-proxy".into()), host: Some(self.node.clone()) }),
            reporting_component: Some("kube-proxy".into()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        };
        // A full queue is one that says enough.
        _ = self.queue.try_send(event);
    }
}

async fn post(client: Client, mut queue: mpsc::Receiver<Event>) {
    let mut said: HashMap<String, Instant> = HashMap::new();
    while let Some(event) = queue.recv().await {
        let about = &event.involved_object;
        let key = format!("{:?} {:?} {:?} {:?} {:?}", about.kind, about.namespace, about.name, event.reason, event.message);
        said.retain(|_, when| when.elapsed() < AGAIN);
        if said.contains_key(&key) {
            continue;
        }
        let api: Api<Event> = Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"));
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => _ = said.insert(key, Instant::now()),
            Err(error) => tracing::debug!(%error, "an event could not be told"),
        }
    }
}
