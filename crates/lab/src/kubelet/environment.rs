//! The variables that a container's processes have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, ObjectFieldSelector, Pod};

use super::resource;
use super::sources::{Kind, Sources};

/// What is known of a pod when its containers start.
pub(super) struct Facts<'a> {
    pub(super) pod: &'a Pod,
    pub(super) node: &'a str,
    pub(super) node_addresses: &'a [IpAddr],
    pub(super) addresses: &'a [IpAddr],
    /// Where the API is, for pods.
    pub(super) api: IpAddr,
}

/// The variables of a container; an error names the one that cannot be had.
pub(super) fn variables(container: &Container, facts: &Facts<'_>, sources: &Sources) -> Result<BTreeMap<String, String>, String> {
    let mut variables: BTreeMap<String, String> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
        ("HOME", "/".to_owned()),
        ("KUBERNETES_SERVICE_HOST", facts.api.to_string()),
        ("KUBERNETES_SERVICE_PORT", "443".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for from in container.env_from.iter().flatten() {
        variables.extend(all_of(from, sources)?);
    }
    for variable in container.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (None, Some(from)) => facts.value(from, container, sources).map_err(|why| format!("env {}: {why}", variable.name))?,
            (value, _) => Some(expand(value.as_deref().unwrap_or_default(), &variables)),
        };
        // What may be missing and is makes no variable.
        variables.extend(value.map(|value| (variable.name.clone(), value)));
    }
    Ok(variables)
}

/// All values of an object, as variables. Keys that cannot be the name of one are left out, as kubelets do it.
fn all_of(from: &EnvFromSource, sources: &Sources) -> Result<BTreeMap<String, String>, String> {
    let prefix = from.prefix.as_deref().unwrap_or_default();
    let found = match (&from.config_map_ref, &from.secret_ref) {
        (Some(it), _) => sources.all(Kind::ConfigMap, &it.name, it.optional),
        (None, Some(it)) => sources.all(Kind::Secret, &it.name, it.optional),
        (None, None) => return Err("envFrom: the lab knows configMapRef and secretRef".to_owned()),
    };
    let data = found.map_err(|why| format!("envFrom: {why}"))?;
    let usable = data.into_iter().flatten().filter(|(key, _)| !key.is_empty() && !key.contains(['=', '\0']));
    Ok(usable.map(|(key, value)| (format!("{prefix}{key}"), text(value))).collect())
}

fn text(bytes: &[u8]) -> String {
    // A variable ends where a zero byte is.
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// Puts in what `$(NAME)` stands for, where it is known; `$$` is a dollar.
pub(crate) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at..];
        let name = rest.strip_prefix("$(").and_then(|inner| inner.split_once(')'));
        if let Some(after) = rest.strip_prefix("$$") {
            expanded.push('$');
            rest = after;
        } else if let Some((value, after)) = name.and_then(|(name, after)| Some((variables.get(name)?, after))) {
            expanded.push_str(value);
            rest = after;
        } else {
            expanded.push('$');
            rest = &rest[1..];
        }
    }
    expanded + rest
}

impl Facts<'_> {
    /// The value of a variable that is somewhere else; nothing if it is not there and need not be.
    fn value(&self, from: &EnvVarSource, container: &Container, sources: &Sources) -> Result<Option<String>, String> {
        if let Some(field) = &from.field_ref {
            return self.field(field).map(Some).ok_or_else(|| format!("{} is not known here", field.field_path));
        }
        if let Some(selector) = &from.resource_field_ref {
            return resource::value(selector, container).map(Some);
        }
        let found = match (&from.config_map_key_ref, &from.secret_key_ref) {
            (Some(it), _) => sources.one(Kind::ConfigMap, &it.name, &it.key, it.optional)?,
            (None, Some(it)) => sources.one(Kind::Secret, &it.name, &it.key, it.optional)?,
            (None, None) => return Err("the lab knows fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef".to_owned()),
        };
        Ok(found.map(text))
    }

    /// A field of the pod; nothing if there is none of this path.
    pub(super) fn field(&self, field: &ObjectFieldSelector) -> Option<String> {
        let metadata = &self.pod.metadata;
        let list = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match field.field_path.as_str() {
            "metadata.name" => metadata.name.clone(),
            "metadata.namespace" => metadata.namespace.clone(),
            "metadata.uid" => metadata.uid.clone(),
            "spec.nodeName" => Some(self.node.to_owned()),
            "spec.serviceAccountName" => Some(self.pod.spec.as_ref()?.service_account_name.clone().unwrap_or_else(|| "default".to_owned())),
            "status.podIP" => self.addresses.first().map(ToString::to_string),
            "status.podIPs" => Some(list(self.addresses)),
            "status.hostIP" => self.node_addresses.first().map(ToString::to_string),
            "status.hostIPs" => Some(list(self.node_addresses)),
            path => {
                let of = |map: &Option<BTreeMap<String, String>>, prefix: &str| {
                    let key = path.strip_prefix(prefix)?.strip_suffix("']")?;
                    map.as_ref()?.get(key).cloned()
                };
                of(&metadata.labels, "metadata.labels['").or_else(|| of(&metadata.annotations, "metadata.annotations['"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_of_manifests() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}}})).unwrap();
        let addresses: [IpAddr; 2] = ["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let facts = Facts { pod: &pod, node: "win1", node_addresses: &addresses[..1], addresses: &addresses, api: addresses[0] };
        let container = |env| -> Container { serde_json::from_value(json!({"name": "it", "env": env})).unwrap() };
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let env = json!([
            field("POD_IPS", "status.podIPs"), field("APP", "metadata.labels['app']"), field("NODE", "spec.nodeName"),
            {"name": "ALL", "value": "$(APP) on $(NODE), $$(APP), $(NOBODY)"}]);
        let sources = Sources(
            [
                ((Kind::ConfigMap, "c".to_owned()), [("k", "v1"), ("a.b", "v2")].map(|(k, v)| (k.to_owned(), v.into())).into()),
                ((Kind::Secret, "s".to_owned()), [("k".to_owned(), b"v3".to_vec())].into()),
            ]
            .into(),
        );
        let of = |env| super::variables(&container(env), &facts, &sources);
        let variables = of(env).expect("variables");
        assert_eq!(variables["POD_IPS"], "10.0.0.2,fd00::2");
        assert_eq!(variables["ALL"], "web on win1, $(APP), $(NOBODY)");
        let from = |kind: &str, name: &str, more: serde_json::Value| {
            let mut reference = json!({"name": name, "key": "k"});
            reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({"name": "S", "valueFrom": {kind: reference}})
        };
        assert_eq!(of(json!([from("configMapKeyRef", "c", json!({}))])).unwrap()["S"], "v1");
        assert_eq!(of(json!([from("secretKeyRef", "s", json!({}))])).unwrap()["S"], "v3");
        assert_eq!(of(json!([from("secretKeyRef", "x", json!({}))])), Err("env S: secret \"x\" not found".to_owned()));
        assert!(!of(json!([from("secretKeyRef", "x", json!({"optional": true}))])).unwrap().contains_key("S"));
        assert_eq!(of(json!([field("S", "status.moon")])), Err("env S: status.moon is not known here".to_owned()));
        let whole = json!({"name": "it", "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]});
        let variables = super::variables(&serde_json::from_value(whole).unwrap(), &facts, &sources).unwrap();
        assert_eq!((variables["P_k"].as_str(), variables["P_a.b"].as_str(), variables["k"].as_str()), ("v1", "v2", "v3"));
    }
}
