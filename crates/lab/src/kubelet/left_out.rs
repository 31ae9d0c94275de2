//! What a pod asks for and does not get: a lab is about networks.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

/// Fields of a pod, and of each container, that nothing is done about.
const OF_PODS: [&str; 15] = [
    "/securityContext",
    "/hostPID",
    "/hostIPC",
    "/hostAliases",
    "/shareProcessNamespace",
    "/setHostnameAsFQDN",
    "/activeDeadlineSeconds",
    "/readinessGates",
    "/ephemeralContainers",
    "/affinity/podAffinity",
    "/affinity/podAntiAffinity",
    "/affinity/nodeAffinity",
    "/topologySpreadConstraints",
    "/schedulingGates",
    "/resourceClaims",
];
const OF_CONTAINERS: [&str; 7] =
    ["/securityContext", "/resources/limits", "/resources/claims", "/stdin", "/tty", "/volumeDevices", "/restartPolicyRules"];
const OF_PROBES: [&str; 2] = ["/grpc", "/terminationGracePeriodSeconds"];

/// The fields of a pod that nothing is done about, by their paths.
pub(super) fn fields(spec: &PodSpec) -> Vec<String> {
    let document = serde_json::to_value(spec).unwrap_or_default();
    let mut found = present(&document, "spec", &OF_PODS);
    for list in ["initContainers", "containers"] {
        for (number, container) in document[list].as_array().into_iter().flatten().enumerate() {
            found.extend(of_container(container, &format!("spec.{list}[{number}]"), spec.host_network == Some(true)));
        }
    }
    found
}

fn of_container(container: &Value, path: &str, shares_network: bool) -> Vec<String> {
    let mut found = present(container, path, &OF_CONTAINERS);
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let inside = format!("{path}.{probe}");
        found.extend(present(&container[probe], &inside, &OF_PROBES));
        if container[probe].pointer("/httpGet/scheme").is_some_and(|scheme| scheme == "HTTPS") {
            found.push(format!("{inside}.httpGet.scheme"));
        }
    }
    let ports = container["ports"].as_array().into_iter().flatten().enumerate();
    // In the node's own network every port is one of the node.
    found.extend(
        ports.filter(|(_, port)| !shares_network && port["hostPort"].is_number()).map(|(at, _)| format!("{path}.ports[{at}].hostPort")),
    );
    found
}

fn present(document: &Value, path: &str, fields: &[&str]) -> Vec<String> {
    let is_there = |field: &&&str| document.pointer(field).is_some_and(is_something);
    fields.iter().filter(is_there).map(|field| format!("{path}{}", field.replace('/', "."))).collect()
}

/// Whether a field says something: an empty one is as good as none.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_asked_for_is_told() {
        let of = |spec: Value| fields(&serde_json::from_value(spec).unwrap());
        assert_eq!(of(json!({"securityContext": {}, "containers": [{"name": "a", "resources": {}, "tty": false}]})), [""; 0]);
        let told = of(json!({
            "securityContext": {"runAsUser": 1000}, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname"}]}},
            "containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}], "livenessProbe": {
                "httpGet": {"port": 80, "scheme": "HTTPS"}}}]}));
        let expected = [
            "spec.securityContext",
            "spec.affinity.podAntiAffinity",
            "spec.containers[0].livenessProbe.httpGet.scheme",
            "spec.containers[0].ports[0].hostPort",
        ];
        assert_eq!(told, expected);
    }
}
