//! Where a container sees a volume.

use std::collections::BTreeMap;
use std::path::PathBuf;

use host::container::Mount;
use k8s_openapi::api::core::v1::VolumeMount;

use super::super::environment::expand;
use super::{Volumes, is_inside};

/// A volume, or a part of it, where a container wants it.
pub(super) fn mount(volumes: &Volumes, mount: &VolumeMount, variables: &BTreeMap<String, String>) -> Result<Mount, String> {
    let place = volumes.place(&mount.name)?;
    let part = match (&mount.sub_path_expr, &mount.sub_path) {
        (Some(text), _) => Some(expand(text, variables)),
        (None, part) => part.clone(),
    };
    let source = match part.filter(|part| !part.is_empty()) {
        None => place.path.clone(),
        Some(part) if is_inside(&part) => {
            let source = place.path.join(&part);
            if !source.exists() {
                std::fs::create_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
            }
            source
        }
        Some(part) => return Err(format!("subPath {part:?} leads out of the volume")),
    };
    Ok(Mount { source: Some(source), target: target(&mount.mount_path), read_only: mount.read_only == Some(true) || place.is_fixed })
}

/// A path as Windows has it is seen below the root: there are no drives here.
fn target(path: &str) -> PathBuf {
    let bytes = path.as_bytes();
    let rest = if bytes.len() > 1 && bytes[1] == b':' && bytes[0].is_ascii_alphabetic() { &path[2..] } else { path };
    PathBuf::from(format!("/{}", rest.replace('\\', "/").trim_matches('/')))
}
