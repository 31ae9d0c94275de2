//! What is in the API server of a world, and kube-proxies that follow it.

use std::path::{Path, PathBuf};

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use super::api_server::ApiServer;
use super::node::Daemon;
use super::{Node, World};

/// The Kubernetes API at the router, with a Node for every node.
pub(crate) struct Api {
    server: ApiServer,
}

impl Api {
    /// Starts it.
    pub(crate) fn start(world: &World) -> Self {
        let api = Self { server: ApiServer::start(world) };
        for node in &world.nodes {
            let addresses = json!([
                {"type": "InternalIP", "address": node.v4().to_string()}, {"type": "InternalIP", "address": node.v6().to_string()}]);
            let document = json!({"metadata": {"name": node.name}, "status": {"addresses": addresses}});
            api.create("/api/v1/nodes", &document);
            api.ask(Method::PUT, &format!("/api/v1/nodes/{}/status", node.name), Some(&document));
        }
        api
    }

    /// Starts it again.
    pub(crate) fn run(&mut self, world: &World) {
        self.server.run(world);
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.server.kill();
    }

    /// How others reach it.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig()
    }

    /// Makes an object in a collection.
    pub(crate) fn create(&self, collection: &str, document: &Value) -> Value {
        self.ask(Method::POST, collection, Some(document))
    }

    /// Changes an object by a merge patch.
    pub(crate) fn patch(&self, path: &str, patch: &Value) -> Value {
        self.ask(Method::PATCH, path, Some(patch))
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, path: &str) {
        self.ask(Method::DELETE, path, None);
    }

    fn ask(&self, method: Method, path: &str, document: Option<&Value>) -> Value {
        let body = document.map(Value::to_string).unwrap_or_default();
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(&method).uri(path).header("content-type", content_type).body(body.into_bytes());
        let request = request.expect("a request");
        let what = format!("{method} {path} {document:?}");
        self.server.ask(&what, async |client: Client| client.request::<Value>(request).await)
    }

    /// A Service, and what became of it.
    pub(crate) fn service(&self, name: &str, spec: &Value) -> Value {
        let document = json!({"metadata": {"name": name}, "spec": spec});
        self.create("/api/v1/namespaces/default/services", &document)
    }

    /// The address that a load balancer in front of the cluster gave to a Service.
    pub(crate) fn give_ingress(&self, name: &str, address: &str) {
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        self.patch(&format!("/api/v1/namespaces/default/services/{name}/status"), &status);
    }

    /// The backends of a Service in a family, with the nodes that they are on.
    pub(crate) fn backends(&self, service: &str, port: u16, backends: &[(std::net::IpAddr, &Node)]) {
        for (family, v4) in [("IPv4", true), ("IPv6", false)] {
            let endpoints: Vec<Value> = backends
                .iter()
                .filter(|(address, _)| address.is_ipv4() == v4)
                .map(|(address, node)| json!({"addresses": [address.to_string()], "nodeName": node.name, "conditions": {"ready": true}}))
                .collect();
            let name = format!("{service}-{}", family.to_lowercase());
            let document = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}}, "addressType": family,
                "endpoints": endpoints, "ports": [
                    {"name": "tcp", "port": port, "protocol": "TCP"}, {"name": "udp", "port": port, "protocol": "UDP"}]});
            let collection = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
            let is_new = self.list(collection).iter().all(|slice| slice["metadata"]["name"] != name.as_str());
            match is_new {
                true => _ = self.create(collection, &document),
                false => _ = self.ask(Method::PATCH, &format!("{collection}/{name}"), Some(&json!({"endpoints": endpoints}))),
            }
        }
    }

    /// Everything in a collection.
    pub(crate) fn list(&self, collection: &str) -> Vec<Value> {
        let answer = self.ask(Method::GET, collection, None);
        answer["items"].as_array().cloned().unwrap_or_default()
    }

    /// Starts kube-proxy on a node, for one of its networks.
    pub(crate) fn kube_proxy(&self, node: &Node, network: &str, more: &[&str]) -> Daemon {
        kube_proxy(node, &self.server.kubeconfig(), network, more)
    }
}

/// The same with any server.
pub(crate) fn kube_proxy(node: &Node, kubeconfig: &Path, network: &str, more: &[&str]) -> Daemon {
    let kubeconfig = kubeconfig.display().to_string();
    let mut arguments: Vec<String> = [
        "--kubeconfig",
        &kubeconfig,
        "--network-name",
        network,
        "--hostname-override",
        &node.name,
        "--healthz-bind-address",
        "127.0.0.1:10256",
        "--metrics-bind-address",
        "127.0.0.1:10249",
        "--min-sync-period",
        "100ms",
        "--sync-period",
        "2s",
        "--log-level",
        "debug,kube=info,hyper=info,tower=info",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(more.iter().map(|&argument| argument.to_owned()));
    node.agent("kube-proxy", &arguments)
}
