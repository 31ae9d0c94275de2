//! ConfigMaps and Secrets that a pod refers to, as they are when it asks.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, Secret, Volume, VolumeProjection};
use kube::{Api, Client};

use crate::api::cause;

/// What an object has: values by their keys.
pub(super) type Data = BTreeMap<String, Vec<u8>>;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// Objects by kind and name. One that is not there has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources(pub(super) BTreeMap<(Kind, String), Data>);

impl Sources {
    /// Reads those that a container's variables come from.
    pub(super) async fn of_container(client: &Client, namespace: &str, container: &Container) -> Result<Self, String> {
        read(client, namespace, names_of_container(container)).await
    }

    /// Reads those that a pod's volumes come from.
    pub(super) async fn of_volumes(client: &Client, namespace: &str, spec: &PodSpec) -> Result<Self, String> {
        read(client, namespace, spec.volumes.iter().flatten().flat_map(names_of_volume).collect()).await
    }

    /// All of an object; nothing if it is not there and need not be.
    pub(super) fn all(&self, kind: Kind, name: &str, is_optional: Option<bool>) -> Result<Option<&Data>, String> {
        match self.0.get(&(kind, name.to_owned())) {
            None if is_optional != Some(true) => Err(format!("{} {name:?} not found", kind.noun())),
            found => Ok(found),
        }
    }

    /// One value of an object; nothing if it is not there and need not be.
    pub(super) fn one(&self, kind: Kind, name: &str, key: &str, is_optional: Option<bool>) -> Result<Option<&[u8]>, String> {
        match self.all(kind, name, is_optional)?.map(|data| data.get(key)) {
            Some(None) if is_optional != Some(true) => Err(format!("couldn't find key {key} in {} {name:?}", kind.noun())),
            found => Ok(found.flatten().map(Vec::as_slice)),
        }
    }
}

fn names_of_container(container: &Container) -> BTreeSet<(Kind, String)> {
    let mut names = BTreeSet::new();
    for from in container.env_from.iter().flatten() {
        names.extend(from.config_map_ref.iter().map(|it| (Kind::ConfigMap, it.name.clone())));
        names.extend(from.secret_ref.iter().map(|it| (Kind::Secret, it.name.clone())));
    }
    for from in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        names.extend(from.config_map_key_ref.iter().map(|it| (Kind::ConfigMap, it.name.clone())));
        names.extend(from.secret_key_ref.iter().map(|it| (Kind::Secret, it.name.clone())));
    }
    names
}

fn names_of_volume(volume: &Volume) -> Vec<(Kind, String)> {
    let mut names = Vec::new();
    names.extend(volume.config_map.iter().map(|it| (Kind::ConfigMap, it.name.clone())));
    names.extend(volume.secret.iter().filter_map(|it| Some((Kind::Secret, it.secret_name.clone()?))));
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    names.extend(sources.flat_map(names_of_projection));
    names
}

fn names_of_projection(source: &VolumeProjection) -> Vec<(Kind, String)> {
    let config_map = source.config_map.iter().map(|it| (Kind::ConfigMap, it.name.clone()));
    config_map.chain(source.secret.iter().map(|it| (Kind::Secret, it.name.clone()))).collect()
}

async fn read(client: &Client, namespace: &str, names: BTreeSet<(Kind, String)>) -> Result<Sources, String> {
    let mut sources = Sources::default();
    for (kind, name) in names {
        let found = match kind {
            Kind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                api.get_opt(&name).await.map(|found| found.map(of_config_map))
            }
            Kind::Secret => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                api.get_opt(&name).await.map(|found| found.map(of_secret))
            }
        };
        let found = found.map_err(|error| format!("{} {name:?}: {}", kind.noun(), cause(&error)))?;
        sources.0.extend(found.map(|data| ((kind, name), data)));
    }
    Ok(sources)
}

fn of_config_map(map: ConfigMap) -> Data {
    let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
    texts.chain(map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0))).collect()
}

fn of_secret(secret: Secret) -> Data {
    secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_told_unless_it_may_be() {
        let sources = Sources([((Kind::ConfigMap, "a".to_owned()), Data::from([("k".to_owned(), b"v".to_vec())]))].into());
        assert_eq!(sources.one(Kind::ConfigMap, "a", "k", None), Ok(Some(&b"v"[..])));
        assert_eq!(sources.one(Kind::ConfigMap, "a", "x", None), Err("couldn't find key x in configmap \"a\"".to_owned()));
        assert_eq!(sources.one(Kind::ConfigMap, "a", "x", Some(true)), Ok(None));
        assert_eq!(sources.one(Kind::Secret, "a", "k", Some(false)), Err("secret \"a\" not found".to_owned()));
        assert_eq!(sources.all(Kind::Secret, "a", Some(true)), Ok(None));
    }

    #[test]
    fn everything_that_is_referred_to_is_read() {
        let container: Container = serde_json::from_value(json!({
            "name": "it", "envFrom": [{"secretRef": {"name": "s1"}}],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c1", "key": "k"}}}]}))
        .unwrap();
        assert_eq!(names_of_container(&container), [(Kind::ConfigMap, "c1".to_owned()), (Kind::Secret, "s1".to_owned())].into());
        let volume: Volume = serde_json::from_value(
            json!({"name": "v", "projected": {"sources": [{"configMap": {"name": "c2"}}, {"secret": {"name": "s2"}}]}}),
        )
        .unwrap();
        assert_eq!(names_of_volume(&volume), [(Kind::ConfigMap, "c2".to_owned()), (Kind::Secret, "s2".to_owned())]);
    }
}
