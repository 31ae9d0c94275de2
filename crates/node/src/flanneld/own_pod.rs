//! Which node this is, as the cluster knows it by the pod that flanneld runs in.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pod that flanneld runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for OwnPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl OwnPod {
    /// The node that it runs on.
    pub(super) async fn node(&self, client: Client) -> Result<String, String> {
        let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
        let answer = tokio::time::timeout(PATIENCE, pods.get(&self.name)).await;
        let answer = answer.map_err(|_| format!("the pod {self} cannot be read: no answer within {} s", PATIENCE.as_secs()))?;
        let pod = answer.map_err(|error| format!("the pod {self} cannot be read: {error}; set NODE_NAME, or let flanneld get pods"))?;
        let node = pod.spec.and_then(|spec| spec.node_name).filter(|name| !name.is_empty());
        node.ok_or_else(|| format!("the pod {self} is on no node; set NODE_NAME, or POD_NAME and POD_NAMESPACE to flanneld's own pod"))
    }
}
