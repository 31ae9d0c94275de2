//! What is in a volume.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, Volume, VolumeProjection};

use super::super::resource;
use super::super::sources::{Data, Kind};
use super::{Ingredients, is_inside};

/// The mode of files where nobody says.
const MODE: i32 = 0o644;

/// What is in a volume.
pub(super) enum Content {
    /// Nothing yet.
    Empty,
    /// Files that nobody writes to.
    Files(Vec<File>),
    /// A path of the machine.
    Machine(PathBuf),
}

/// A file.
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
}

/// What is in a volume; an error says what is missing, or that the lab has none of this kind.
pub(super) fn of(volume: &Volume, ingredients: &Ingredients<'_>) -> Result<Content, String> {
    let Ingredients { sources, .. } = ingredients;
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    }
    if let Some(map) = &volume.config_map {
        let data = sources.all(Kind::ConfigMap, &map.name, map.optional)?;
        return files(data, map.items.as_deref(), map.optional, map.default_mode).map(Content::Files);
    }
    if let Some(secret) = &volume.secret {
        let data = sources.all(Kind::Secret, secret.secret_name.as_deref().unwrap_or_default(), secret.optional)?;
        return files(data, secret.items.as_deref(), secret.optional, secret.default_mode).map(Content::Files);
    }
    if let Some(downward) = &volume.downward_api {
        return facts(downward.items.as_deref(), downward.default_mode, ingredients).map(Content::Files);
    }
    if let Some(projected) = &volume.projected {
        let mut all = Vec::new();
        for source in projected.sources.iter().flatten() {
            all.extend(projection(source, &volume.name, projected.default_mode, ingredients)?);
        }
        return Ok(Content::Files(all));
    }
    match &volume.host_path {
        Some(host) => machine(host).map(Content::Machine),
        None => Err("the lab knows emptyDir, configMap, secret, downwardAPI, projected and hostPath".to_owned()),
    }
}

fn projection(source: &VolumeProjection, volume: &str, mode: Option<i32>, ingredients: &Ingredients<'_>) -> Result<Vec<File>, String> {
    let Ingredients { sources, tokens, .. } = ingredients;
    if let Some(map) = &source.config_map {
        return files(sources.all(Kind::ConfigMap, &map.name, map.optional)?, map.items.as_deref(), map.optional, mode);
    }
    if let Some(secret) = &source.secret {
        return files(sources.all(Kind::Secret, &secret.name, secret.optional)?, secret.items.as_deref(), secret.optional, mode);
    }
    if let Some(downward) = &source.downward_api {
        return facts(downward.items.as_deref(), mode, ingredients);
    }
    match &source.service_account_token {
        Some(token) => {
            let found = tokens.iter().find(|(name, _)| name == volume).map(|(_, token)| token.clone());
            Ok(vec![file(&token.path, found.ok_or("there is no token for it")?.into_bytes(), mode)?])
        }
        None => Err("the lab knows configMap, secret, downwardAPI and serviceAccountToken as sources".to_owned()),
    }
}

/// The files of an object: all of its keys, or those that are listed.
fn files(data: Option<&Data>, items: Option<&[KeyToPath]>, is_optional: Option<bool>, mode: Option<i32>) -> Result<Vec<File>, String> {
    let Some(data) = data else { return Ok(Vec::new()) };
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        return data.iter().map(|(key, bytes)| file(key, bytes.clone(), mode)).collect();
    };
    let mut all = Vec::new();
    for item in items {
        match data.get(&item.key) {
            Some(bytes) => all.push(file(&item.path, bytes.clone(), item.mode.or(mode))?),
            None if is_optional == Some(true) => {}
            None => return Err(format!("references non-existent key: {}", item.key)),
        }
    }
    Ok(all)
}

fn facts(items: Option<&[DownwardAPIVolumeFile]>, mode: Option<i32>, ingredients: &Ingredients<'_>) -> Result<Vec<File>, String> {
    items.unwrap_or_default().iter().map(|item| file(&item.path, fact(item, ingredients)?.into_bytes(), item.mode.or(mode))).collect()
}

fn fact(item: &DownwardAPIVolumeFile, ingredients: &Ingredients<'_>) -> Result<String, String> {
    let metadata = &ingredients.facts.pod.metadata;
    if let Some(selector) = &item.resource_field_ref {
        let name = selector.container_name.as_deref().unwrap_or_default();
        let container = ingredients.spec.containers.iter().find(|container| container.name == name);
        return resource::value(selector, container.ok_or_else(|| format!("{}: there is no container {name:?}", item.path))?);
    }
    let Some(field) = &item.field_ref else { return Err(format!("{}: it needs fieldRef or resourceFieldRef", item.path)) };
    match field.field_path.as_str() {
        "metadata.labels" => Ok(lines(metadata.labels.as_ref())),
        "metadata.annotations" => Ok(lines(metadata.annotations.as_ref())),
        path => ingredients.facts.field(field).ok_or_else(|| format!("{path} is not known here")),
    }
}

/// Labels as kubelets write them.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
}

fn file(path: &str, bytes: Vec<u8>, mode: Option<i32>) -> Result<File, String> {
    match is_inside(path) {
        true => Ok(File { path: path.to_owned(), bytes, mode: mode.unwrap_or(MODE).cast_unsigned() & 0o777 }),
        false => Err(format!("path {path:?} leads out of the volume")),
    }
}

fn machine(host: &HostPathVolumeSource) -> Result<PathBuf, String> {
    let path = Path::new(&host.path);
    match path.exists() {
        true => Ok(path.to_owned()),
        false => Err(format!("hostPath: {} is not there, and the lab makes nothing on the machine", host.path)),
    }
}
