//! A namespace of a test's own.

use http::Method;
use serde_json::{Value, json};

use super::answer::Answer;
use super::server::{Call, server};

/// A namespace that nobody else uses. It is left behind: servers are thrown away with the tests, and deleting hundreds of namespaces
/// would keep the controllers from what is tested.
pub(crate) struct Scope {
    pub(crate) name: String,
}

impl Scope {
    pub(crate) fn new() -> Self {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "semantics-", "labels": {"transom/battery": "semantics"}}});
        let made = server().post("/api/v1/namespaces", &namespace).created();
        Self { name: made["metadata"]["name"].as_str().expect("a namespace has a name").to_owned() }
    }

    /// Where a collection of this namespace is, and what is in it: `pods`, `pods/name`, `deployments/name/scale?dryRun=All`.
    pub(crate) fn path(&self, resource: &str) -> String {
        let plural = resource.split(['/', '?']).next().unwrap_or_default();
        let group = match plural {
            "deployments" | "replicasets" => "apis/apps/v1",
            "endpointslices" => "apis/discovery.k8s.io/v1",
            "leases" => "apis/coordination.k8s.io/v1",
            "networkpolicies" => "apis/networking.k8s.io/v1",
            _ => "api/v1",
        };
        format!("/{group}/namespaces/{}/{resource}", self.name)
    }

    pub(crate) fn call(&self, method: Method, resource: &str) -> Call {
        server().call(method, self.path(resource))
    }

    pub(crate) fn get(&self, resource: &str) -> Answer {
        server().get(self.path(resource))
    }

    pub(crate) fn post(&self, resource: &str, body: &Value) -> Answer {
        server().post(self.path(resource), body)
    }

    pub(crate) fn put(&self, resource: &str, body: &Value) -> Answer {
        server().put(self.path(resource), body)
    }

    pub(crate) fn delete(&self, resource: &str) -> Answer {
        server().delete(self.path(resource))
    }

    pub(crate) fn delete_with(&self, resource: &str, options: &Value) -> Answer {
        server().delete_with(self.path(resource), options)
    }

    pub(crate) fn merge(&self, resource: &str, patch: &Value) -> Answer {
        server().merge(self.path(resource), patch)
    }

    pub(crate) fn strategic(&self, resource: &str, patch: &Value) -> Answer {
        server().strategic(self.path(resource), patch)
    }

    pub(crate) fn json_patch(&self, resource: &str, patch: &Value) -> Answer {
        server().json_patch(self.path(resource), patch)
    }

    /// Names of what a list gives, in its order.
    pub(crate) fn names(&self, resource: &str) -> Vec<String> {
        let list = self.get(resource).ok();
        let items = list["items"].as_array().expect("a list has items");
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}
