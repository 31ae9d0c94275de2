//! The manifests that every lab has: names.

use serde_json::{Value, json};

use crate::lab::KUBECONFIG;
use crate::owner::Owner;
use crate::topology::{Manifest, Os, Topology};

/// Where the DNS server listens in its pod.
const DNS_PORT: u16 = 53;

/// The Kubernetes namespace of all of it.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The manifests, in the order they are to be applied in.
pub(crate) fn manifests(topology: &Topology, owner: Option<&Owner>) -> Vec<Manifest> {
    vec![Manifest { line: 0, object: dns_server(topology, owner) }, dns_service(topology, owner)]
}

/// What the DNS server and its Service are called: in a cluster that has one already, otherwise than that.
fn names(owner: Option<&Owner>) -> [String; 3] {
    match owner {
        Some(owner) => [(); 3].map(|()| format!("{}-dns", owner.scheduler)),
        None => ["dns", "kube-dns", "kube-dns"].map(str::to_owned),
    }
}

/// The DNS server: on a Linux node, as in other clusters, if there is one.
fn dns_server(topology: &Topology, owner: Option<&Owner>) -> Value {
    let [name, _, label] = names(owner);
    let system = if topology.nodes.iter().any(|node| node.os == Os::Linux) { Os::Linux } else { Os::Windows };
    let outside = topology.outside().first().map(|net| net.addr().to_string()).unwrap_or_default();
    let command = json!([
        host::container::SELF,
        "dns",
        "--kubeconfig",
        KUBECONFIG,
        "--cluster-domain",
        topology.cluster.domain,
        "--forward",
        outside
    ]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"k8s-app": label}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"k8s-app": label}},
            "template": {
                "metadata": {"labels": {"k8s-app": label}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": system.label()}, "dnsPolicy": "Default",
                    "containers": [{
                        "name": "dns", "image": "transom/dns", "command": command,
                        "ports": [
                            {"name": "dns", "containerPort": DNS_PORT, "protocol": "UDP"},
                            {"name": "dns-tcp", "containerPort": DNS_PORT, "protocol": "TCP"}],
                        "readinessProbe": {"tcpSocket": {"port": DNS_PORT}, "periodSeconds": 5}}]}}},
    })
}

/// Its Service. In a cluster of others it takes the address that it gets, unless the topology says which.
pub(crate) fn dns_service(topology: &Topology, owner: Option<&Owner>) -> Manifest {
    let [_, name, label] = names(owner);
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"k8s-app": label}},
        "spec": {
            "selector": {"k8s-app": label},
            "ports": [
                {"name": "dns", "port": DNS_PORT, "protocol": "UDP"}, {"name": "dns-tcp", "port": DNS_PORT, "protocol": "TCP"}]},
    });
    if owner.is_none() || topology.cluster.dns_address.is_some() {
        object["spec"]["clusterIP"] = json!(topology.dns_address().to_string());
    }
    Manifest { line: 0, object }
}
