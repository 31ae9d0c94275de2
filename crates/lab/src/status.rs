//! What there is in a lab and how it is.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A lab as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Where its API is on this machine.
    pub api: String,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// What belongs to the cluster as a whole.
    #[serde(default)]
    pub cluster: ClusterStatus,
    /// The router's addresses on the nodes' side, with the length of their subnet.
    #[serde(default)]
    pub router: Vec<String>,
    /// Its addresses on the other side.
    #[serde(default)]
    pub far_router: Vec<String>,
    /// The host outside.
    pub outside: Vec<IpAddr>,
    /// The pods.
    pub pods: Vec<PodStatus>,
    /// The Services.
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
}

/// What belongs to the cluster as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// How pods are connected: `overlay` with its number, `l2bridge` and the like, of all Windows nodes.
    pub network: String,
    /// The domain of Services' names.
    pub domain: String,
    /// Where pods have their addresses.
    pub pod_subnets: Vec<String>,
    /// Where Services have theirs.
    pub service_subnets: Vec<String>,
    /// Where names are served.
    pub dns: Option<IpAddr>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `windows` or `linux`.
    pub os: String,
    /// The build that its HNS runs as.
    pub build: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its pod subnets.
    pub subnets: Vec<String>,
    /// How its pods are connected: `overlay` with its number, `l2bridge` and the like; on Linux `host-gw` where there is no overlay.
    #[serde(default)]
    pub network: String,
    /// How its switch moves packets: `bpf`, known flows by the kernel, or `tap`; nothing on Linux.
    #[serde(default)]
    pub data_path: String,
    /// The name of its network namespace's file, as processes of the lab see it.
    pub namespace: String,
    /// What runs on it.
    pub daemons: Vec<DaemonStatus>,
}

/// A program that runs on a node, or for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    /// What it is.
    pub name: String,
    /// Whether it is ready.
    pub is_ready: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Why it is not ready, or why it ended last.
    pub trouble: String,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Its Kubernetes namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node it is on.
    pub node: String,
    /// `Running` and the like.
    pub phase: String,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// How often its containers were started again.
    pub restarts: u32,
    /// Why it is not running, if it is not.
    pub trouble: String,
    /// Its containers.
    pub containers: Vec<ContainerStatus>,
    /// How its processes resolve names.
    #[serde(default)]
    pub dns: DnsStatus,
}

/// How processes resolve names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DnsStatus {
    /// The servers.
    pub servers: Vec<IpAddr>,
    /// The suffixes that names are tried with.
    pub search: Vec<String>,
    /// Options of resolv.conf, such as `ndots:5`.
    pub options: Vec<String>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The process that it ends with, as processes of the lab see it; none while it does not run.
    pub pid: Option<u32>,
    /// Where its processes write to, as processes of the lab see it.
    pub log: String,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its Kubernetes namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `ClusterIP` and the like.
    pub kind: String,
    /// Its cluster IPs; none if it is headless.
    pub addresses: Vec<IpAddr>,
    /// Addresses outside of the cluster: those of the load balancer in front of it, and its external IPs.
    pub outside: Vec<IpAddr>,
    /// The name that it stands for, if it is one of type ExternalName.
    pub external_name: String,
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// The pods that it leads to, by their names in its Kubernetes namespace.
    pub backends: Vec<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PortStatus {
    /// `TCP` and the like.
    pub protocol: String,
    /// The port.
    pub port: u16,
    /// The port of its pods, by number or name.
    pub target: String,
    /// The port of every node, if there is one.
    pub node_port: Option<u16>,
}

impl fmt::Display for PortStatus {
    /// As kubectl prints it, with where it leads: `80:30080/TCP > 8080`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, port, target, node_port } = self;
        let node_port = node_port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "{port}{node_port}/{protocol}")?;
        if target.is_empty() || *target == port.to_string() { Ok(()) } else { write!(f, " > {target}") }
    }
}
