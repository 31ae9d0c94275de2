//! Volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::server::document::{list, text};
use crate::server::field::Errors;
use crate::server::name::label;

/// The sources in the order in which the original looks for them, with what each needs to have.
const SOURCES: &[(&str, &[&str])] = &[
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &[]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["volume"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &[]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
];

/// Objects to the volumes of a spec. Returns the names of those that are sound.
pub(super) fn validate<'a>(spec: &'a Value, path: &str, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in list(spec, "/volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let before = errors.0.len();
        validate_source(volume, &path, errors);
        let (name, field) = (text(volume, "/name"), format!("{path}.name"));
        match name {
            "" => errors.required(field.as_str(), ""),
            name => errors.name(field.as_str(), name, label),
        }
        if names.contains(name) {
            errors.duplicate(field, name);
        }
        if errors.0.len() == before {
            names.insert(name);
        }
    }
    names
}

fn validate_source(volume: &Value, path: &str, errors: &mut Errors) {
    let mut given = SOURCES.iter().filter(|(key, _)| !volume[*key].is_null());
    match given.next() {
        None => errors.required(path, "must specify a volume type"),
        Some((key, needed)) => {
            let is_missing = |field: &&&str| matches!(&volume[*key][**field], Value::Null) || volume[*key][**field] == "";
            for field in needed.iter().filter(is_missing) {
                errors.required(format!("{path}.{key}.{field}"), "");
            }
        }
    }
    for (key, _) in given {
        errors.forbidden(format!("{path}.{key}"), "may not specify more than 1 volume type");
    }
}
