//! The volumes of a pod: directories of the lab that its containers see. They are made once, before the first container, and go with the pod.

mod content;
mod seen;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use host::container::Mount;
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::environment::Facts;
use super::sources::Sources;
use content::{Content, File};

/// What the volumes of a pod are made from.
pub(super) struct Ingredients<'a> {
    pub(super) spec: &'a PodSpec,
    pub(super) facts: &'a Facts<'a>,
    pub(super) sources: &'a Sources,
    /// Tokens of the pod's service account, for each volume that has one.
    pub(super) tokens: &'a [(String, String)],
}

/// The volumes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Volumes {
    places: Vec<Place>,
}

/// Where a volume is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The volume's name.
    name: String,
    path: PathBuf,
    /// Whether it is made of objects of the API, and nobody writes to it.
    is_fixed: bool,
}

impl Volumes {
    /// Makes all of them below a directory.
    pub(super) fn make(directory: &Path, ingredients: &Ingredients<'_>) -> Result<Self, String> {
        let mut places = Vec::new();
        for volume in ingredients.spec.volumes.iter().flatten() {
            let failed = |why: String| format!("volume {}: {why}", volume.name);
            places.push(make(directory, volume, ingredients).map_err(failed)?);
        }
        Ok(Self { places })
    }

    /// What a container sees of them.
    pub(super) fn mounts(
        &self,
        container: &Container,
        variables: &std::collections::BTreeMap<String, String>,
    ) -> Result<Vec<Mount>, String> {
        let mounts = container.volume_mounts.iter().flatten();
        mounts.map(|mount| seen::mount(self, mount, variables).map_err(|why| format!("volumeMount {}: {why}", mount.name))).collect()
    }

    fn place(&self, name: &str) -> Result<&Place, String> {
        self.places.iter().find(|place| place.name == name).ok_or_else(|| "the pod has no volume of this name".to_owned())
    }
}

fn make(directory: &Path, volume: &Volume, ingredients: &Ingredients<'_>) -> Result<Place, String> {
    let own = directory.join(&volume.name);
    let told = |error: io::Error| format!("{}: {error}", own.display());
    let (path, is_fixed) = match content::of(volume, ingredients)? {
        Content::Machine(path) => (path, false),
        Content::Empty => fill(&own, &[], 0o777).map(|()| (own.clone(), false)).map_err(told)?,
        Content::Files(files) => fill(&own, &files, 0o755).map(|()| (own.clone(), true)).map_err(told)?,
    };
    Ok(Place { name: volume.name.clone(), path, is_fixed })
}

fn fill(place: &Path, files: &[File], mode: u32) -> io::Result<()> {
    fs::create_dir_all(place)?;
    fs::set_permissions(place, fs::Permissions::from_mode(mode))?;
    for file in files {
        let path = place.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

/// Whether a path stays where it begins.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::super::sources::Kind;
    use super::*;

    #[test]
    fn volumes_are_made_and_seen() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "it", "volumeMounts": [
                    {"name": "config", "mountPath": "/etc/it", "readOnly": true},
                    {"name": "config", "mountPath": "C:\\it\\one.txt", "subPath": "dir/k2"},
                    {"name": "scratch", "mountPath": "/data"}]}],
                "volumes": [
                    {"name": "config", "projected": {"sources": [
                        {"configMap": {"name": "c", "items": [{"key": "k", "path": "dir/k2", "mode": 0o600}]}},
                        {"secret": {"name": "s"}},
                        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                        {"serviceAccountToken": {"path": "token"}}]}},
                    {"name": "scratch", "emptyDir": {}}]}}))
        .unwrap();
        let address: [IpAddr; 1] = ["10.0.0.2".parse().unwrap()];
        let facts = Facts { pod: &pod, node: "win1", node_addresses: &address, addresses: &address, api: address[0] };
        let sources = Sources(
            [
                ((Kind::ConfigMap, "c".to_owned()), [("k".to_owned(), b"v".to_vec())].into()),
                ((Kind::Secret, "s".to_owned()), [("hidden".to_owned(), b"h".to_vec())].into()),
            ]
            .into(),
        );
        let spec = pod.spec.clone().unwrap();
        let directory = std::env::temp_dir().join(format!("transom-volumes-{}", std::process::id()));
        let tokens = [("config".to_owned(), "abc".to_owned())];
        let volumes = Volumes::make(&directory, &Ingredients { spec: &spec, facts: &facts, sources: &sources, tokens: &tokens }).unwrap();
        let read = |path: &str| fs::read_to_string(directory.join("config").join(path)).unwrap();
        assert_eq!(
            (read("dir/k2"), read("hidden"), read("labels"), read("token")),
            ("v".into(), "h".into(), "app=\"web\"".into(), "abc".into())
        );
        let mode = |path: &str| fs::metadata(directory.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("config/dir/k2"), mode("config/hidden"), mode("scratch")), (0o600, 0o644, 0o777));
        let mounts = volumes.mounts(&spec.containers[0], &Default::default()).unwrap();
        let seen: Vec<(&Path, bool)> = mounts.iter().map(|mount| (mount.target.as_path(), mount.read_only)).collect();
        assert_eq!(seen, [(Path::new("/etc/it"), true), (Path::new("/it/one.txt"), true), (Path::new("/data"), false)]);
        assert_eq!(mounts[1].source, Some(directory.join("config/dir/k2")));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn paths_stay_inside() {
        assert!(is_inside("a/b") && is_inside("./a"));
        assert!(!is_inside("../a") && !is_inside("/a") && !is_inside("a/../../b") && !is_inside(""));
    }
}
