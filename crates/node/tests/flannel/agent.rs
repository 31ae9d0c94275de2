//! flanneld on a node of the world.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hcn::network::Network;
use hcn::{Guid, HcnExt};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::harness::agent::command as program_of;
use crate::harness::document::{endpoint, outbound_nat, outbound_nat_v6};
use crate::harness::node::Daemon;
use crate::harness::{Node, Pod, eventually, probe};
use crate::program::program;

/// Where `/readyz` is.
const HEALTH: &str = "127.0.0.1:10252";

/// A running flanneld.
pub(crate) struct Flanneld<'a> {
    pub(crate) node: &'a Node,
    _daemon: Daemon,
}

/// Tunnels as Windows has them.
pub(crate) fn vxlan() -> Value {
    json!({ "Network": "10.244.0.0/16", "Backend": { "Type": "vxlan", "Name": "vxlan0", "VNI": 4096, "Port": 4789 } })
}

/// Gateways.
pub(crate) fn host_gw() -> Value {
    json!({ "Network": "10.244.0.0/16", "Backend": { "Type": "host-gw", "Name": "cbr0", "DNSServerList": "10.96.0.10" } })
}

/// The same with IPv6.
pub(crate) fn dual(mut conf: Value) -> Value {
    conf["EnableIPv6"] = json!(true);
    conf["IPv6Network"] = json!("fd00:244::/32");
    conf
}

impl<'a> Flanneld<'a> {
    /// Starts it, and does not wait.
    pub(crate) fn spawn(node: &'a Node, cluster: &Cluster, os: &str, conf: &Value, more: &[&str]) -> Self {
        Self::spawn_with(node, &cluster.kubeconfig(), os, conf, more)
    }

    /// The same with any kubeconfig.
    pub(crate) fn spawn_with(node: &'a Node, kubeconfig: &Path, os: &str, conf: &Value, more: &[&str]) -> Self {
        Self::spawn_as(node, &[("NODE_NAME", &node.name)], kubeconfig, os, conf, more)
    }

    /// The same with variables that say which node this is.
    pub(crate) fn spawn_as(node: &'a Node, variables: &[(&str, &str)], kubeconfig: &Path, os: &str, conf: &Value, more: &[&str]) -> Self {
        fs::write(node.file("net-conf.json"), conf.to_string()).expect("a configuration");
        let path = |name: &str| node.file(name).display().to_string();
        let mut arguments: Vec<String> = ["--os", os].map(str::to_owned).to_vec();
        arguments.extend(["--kubeconfig-file".to_owned(), kubeconfig.display().to_string()]);
        arguments.extend(["--net-config-path", &path("net-conf.json"), "--subnet-file", &path("subnet.env")].map(str::to_owned));
        arguments.extend(["--healthz-ip", "127.0.0.1", "--healthz-port", "10252", "--log-level", "info"].map(str::to_owned));
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        let (mut command, service) = match os {
            "linux" => (Command::new(program()), Vec::new()),
            _ => program_of(node),
        };
        arguments.extend(service);
        command.env_remove("NODE_NAME").envs(variables.iter().copied());
        Self { node, _daemon: node.start(node, command, "flanneld", &arguments, "flanneld.log") }
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn start(node: &'a Node, cluster: &Cluster, os: &str, conf: &Value) -> Self {
        let flanneld = Self::spawn(node, cluster, os, conf, &[]);
        flanneld.wait();
        flanneld
    }

    /// Waits until it is ready.
    pub(crate) fn wait(&self) {
        let start = std::time::Instant::now();
        while !self.readiness().0 {
            let patience = crate::harness::PATIENCE * 2;
            assert!(start.elapsed() < patience, "{}: {}\n{}", self.node.name, self.readiness().1, self.node.log("flanneld"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it says something at `/readyz` that contains a text.
    pub(crate) fn says(&self, text: &str) {
        eventually(&format!("{} says {text:?}: {:?}", self.node.name, self.readiness()), || {
            let (is_ready, said) = self.readiness();
            !is_ready && said.contains(text)
        });
    }

    /// What `/readyz` says.
    pub(crate) fn readiness(&self) -> (bool, String) {
        self.get("/readyz")
    }

    pub(crate) fn get(&self, path: &str) -> (bool, String) {
        probe::get(self.node, HEALTH.parse().expect("an address"), path)
    }
}

/// What CNI plugins read on a node.
pub(crate) fn subnet_env(node: &Node) -> String {
    fs::read_to_string(node.file("subnet.env")).unwrap_or_default()
}

/// The networks of a node with a name.
pub(crate) fn networks(node: &Node, name: &str) -> Vec<Network> {
    node.client.objects(&[("Name", name)]).expect("the networks")
}

/// The network of a node.
pub(crate) fn network(node: &Node, name: &str) -> Guid {
    networks(node, name).first().unwrap_or_else(|| panic!("{} has no network {name}", node.name)).id
}

/// A pod on a network of HNS, with the subnet that the node has by its number.
pub(crate) fn pod(node: &Node, name: &str, number: usize) -> Pod {
    pod_in(node, name, node.number, number, false)
}

/// The same in any subnet, with IPv6 if wanted.
pub(crate) fn pod_in(node: &Node, name: &str, subnet: usize, number: usize, v6: bool) -> Pod {
    let mut addresses = vec![format!("10.244.{subnet}.{number}/24")];
    let mut gateways = vec![format!("10.244.{subnet}.1")];
    let mut translations = vec![outbound_nat(&["10.244.0.0/16"])];
    if v6 {
        addresses.push(format!("fd00:244:{subnet}::{number}/64"));
        gateways.push(format!("fd00:244:{subnet}::1"));
        translations.push(outbound_nat_v6(&["fd00:244::/32"]));
    }
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let gateways: Vec<&str> = gateways.iter().map(String::as_str).collect();
    let document = endpoint(&format!("pod{subnet}-{number}"), &addresses, &gateways, &translations);
    node.pod(network(node, name), &document)
}
