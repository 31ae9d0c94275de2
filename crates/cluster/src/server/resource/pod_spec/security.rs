//! Who a pod runs as, and on what system.

use serde_json::Value;

use super::{CONTAINERS, containers};
use crate::server::document::{list, text};
use crate::server::field::Errors;

/// The highest number of a user or group.
const HIGHEST: i64 = i32::MAX as i64;

/// What a pod's spec, its security context, and those of its containers cannot say on Windows.
const NOT_WINDOWS_SPEC: &[&str] = &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
const NOT_WINDOWS_POD: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const NOT_WINDOWS_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

pub(super) fn validate_pod(spec: &Value, path: &str, errors: &mut Errors) {
    let (path, context) = (format!("{path}.securityContext"), &spec["securityContext"]);
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        errors.between(format!("{path}.{key}"), &context[key], 0, HIGHEST);
    }
    for (index, group) in list(context, "/supplementalGroups").iter().enumerate() {
        errors.between(format!("{path}.supplementalGroups[{index}]"), group, 0, HIGHEST);
    }
    errors.one_of(format!("{path}.fsGroupChangePolicy"), &context["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]);
}

pub(super) fn validate_container(container: &Value, path: &str, errors: &mut Errors) {
    for key in ["runAsUser", "runAsGroup"] {
        errors.between(format!("{path}.securityContext.{key}"), &container["securityContext"][key], 0, HIGHEST);
    }
}

pub(super) fn validate_system(spec: &Value, path: &str, errors: &mut Errors) {
    match text(spec, "/os/name") {
        _ if spec["os"].is_null() => {}
        "" => errors.required(format!("{path}.os.name"), ""),
        "linux" => {}
        "windows" => validate_windows(spec, path, errors),
        other => errors.not_supported(format!("{path}.os"), other, &["linux", "windows"]),
    }
}

fn validate_windows(spec: &Value, path: &str, errors: &mut Errors) {
    forbid(&spec["securityContext"], &format!("{path}.securityContext"), NOT_WINDOWS_POD, errors);
    forbid(spec, path, NOT_WINDOWS_SPEC, errors);
    for key in CONTAINERS {
        for (path, container) in containers(spec, key, path) {
            forbid(&container["securityContext"], &format!("{path}.securityContext"), NOT_WINDOWS_CONTAINER, errors);
        }
    }
}

fn forbid(map: &Value, path: &str, keys: &[&str], errors: &mut Errors) {
    for key in keys.iter().filter(|key| !map[**key].is_null()) {
        errors.forbidden(format!("{path}.{key}"), "cannot be set for a windows pod");
    }
}
