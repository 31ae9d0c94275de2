//! The pods and Services between which flows are tried: on every node a client, a server, and a Service for the server alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::client::Rules;
use host::namespace::Namespace as NetworkNamespace;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::api::cause;
use crate::lab::{Failure, Lab};
use crate::topology::{Manifest, Os};

/// The Kubernetes namespace of all of them.
pub(crate) const NAMESPACE: &str = "transom-flows";

/// Where servers listen, as the built-in server does.
pub(super) const HTTP_PORT: u16 = 8080;
pub(super) const UDP_PORT: u16 = 8081;

/// How long all of it may take to be there, and to go.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a flow.
#[derive(Clone)]
pub(super) struct Probe {
    /// The pod's name.
    pub(super) name: String,
    /// Its addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// Where it is.
    pub(super) namespace: Arc<NetworkNamespace>,
    /// How it resolves names.
    pub(super) rules: Rules,
}

/// All ends.
pub(super) struct Probes {
    pods: BTreeMap<String, Probe>,
    services: BTreeMap<String, Vec<IpAddr>>,
}

impl Probes {
    pub(super) fn client(&self, node: &str) -> Result<&Probe, String> {
        self.pod(&format!("client-{node}"))
    }

    pub(super) fn server(&self, node: &str) -> Result<&Probe, String> {
        self.pod(&format!("server-{node}"))
    }

    fn pod(&self, name: &str) -> Result<&Probe, String> {
        self.pods.get(name).ok_or_else(|| format!("the pod {name} did not become ready"))
    }

    pub(super) fn service(&self, node: &str) -> Result<&[IpAddr], String> {
        self.services.get(&format!("server-{node}")).map(Vec::as_slice).ok_or_else(|| format!("the Service server-{node} is not there"))
    }
}

/// Makes the ends on these nodes, and waits until they are ready.
pub(super) async fn make(lab: &Lab, nodes: &[String]) -> Result<Probes, Failure> {
    let mut nodes = nodes.to_vec();
    nodes.sort();
    nodes.dedup();
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
    for node in &nodes {
        objects.extend([pod("client", node), pod("server", node), service(lab, node)]);
    }
    lab.apply_all(&objects.into_iter().map(|object| Manifest { line: 0, object }).collect::<Vec<_>>()).await?;
    let begin = Instant::now();
    loop {
        let pods = ready(lab, &nodes);
        // A pod that does not come is told of where it is missing.
        if pods.len() == 2 * nodes.len() || begin.elapsed() > PATIENCE {
            return Ok(Probes { pods, services: services(lab).await? });
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn pod(role: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{role}-{node}"), "namespace": NAMESPACE, "labels": {"flow": format!("{role}-{node}")}},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": role, "image": "agnhost", "args": ["netexec"], "readinessProbe": {
                "httpGet": {"path": "/healthz", "port": HTTP_PORT}, "periodSeconds": 1}}]}})
}

fn service(lab: &Lab, node: &str) -> Value {
    let name = format!("server-{node}");
    let policy = if lab.topology().is_dual_stack() { "RequireDualStack" } else { "SingleStack" };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "ipFamilyPolicy": policy, "selector": {"flow": name},
            "ports": [
                {"name": "http", "port": 80, "targetPort": HTTP_PORT},
                {"name": "udp", "port": 81, "targetPort": UDP_PORT, "protocol": "UDP"}]}})
}

fn ready(lab: &Lab, nodes: &[String]) -> BTreeMap<String, Probe> {
    let mut found = BTreeMap::new();
    for node in nodes {
        let Some(kubelet) = lab.kubelet(node) else { continue };
        let domain = &lab.topology().cluster.domain;
        let rules = match kubelet.node().spec.os {
            Os::Windows => Rules::windows_pod(NAMESPACE, domain),
            Os::Linux => Rules::linux_pod(NAMESPACE, domain),
        };
        let Ok(rules) = rules else { continue };
        for status in kubelet.status().into_iter().filter(|pod| pod.namespace == NAMESPACE && pod.is_ready) {
            let Some(namespace) = kubelet.namespace_of(NAMESPACE, &status.name) else { continue };
            let probe = Probe { name: status.name.clone(), addresses: status.addresses, namespace, rules: rules.clone() };
            found.insert(status.name, probe);
        }
    }
    found
}

async fn services(lab: &Lab) -> Result<BTreeMap<String, Vec<IpAddr>>, Failure> {
    let services: Api<Service> = Api::namespaced(lab.client().clone(), NAMESPACE);
    let listed = services.list(&ListParams::default()).await.map_err(|error| Failure::new(cause(&error)))?;
    let read = |service: Service| {
        let addresses = service.spec?.cluster_ips?.iter().filter_map(|text| text.parse().ok()).collect();
        Some((service.metadata.name?, addresses))
    };
    Ok(listed.items.into_iter().filter_map(read).collect())
}

/// Takes everything away again, and waits until it is gone.
pub(super) async fn remove(lab: &Lab) -> Result<(), Failure> {
    Ok(crate::api::remove_namespace(lab.client(), NAMESPACE, PATIENCE).await?)
}
