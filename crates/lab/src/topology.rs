//! What a lab consists of: nodes, networks and ranges of addresses, read from a file and checked before anything is made.
//!
//! A file is a stream of YAML documents. The first one, or the only one of kind `Lab`, is the topology; all others are ordinary Kubernetes
//! manifests. Where a file has none, the topology is the built-in one, so that any file of manifests is a lab.

mod check;
mod families;
mod network;
mod octal;
mod ranges;
mod read;
#[cfg(test)]
mod tests;
mod ways;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use network::{Mode, NetworkSpec, Plugin};
pub(crate) use ranges::all_but;
pub use read::{Manifest, Mistake, Plan, read};
pub(crate) use ways::Way;

/// The topology and the manifests of `transom lab up` without a file.
pub const DEFAULT: &str = include_str!("default.yaml");

/// The version of the schema.
pub const API_VERSION: &str = "transom/v1";

/// The kind of a topology.
pub const KIND: &str = "Lab";

/// A lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// The version of the schema.
    pub api_version: String,
    /// Always `Lab`.
    pub kind: String,
    /// What the lab is called where the command line does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How pods of all nodes are connected, unless a node has its own way.
    #[serde(default)]
    pub network: NetworkSpec,
    /// What nodes are connected by.
    #[serde(default)]
    pub underlay: Underlay,
    /// What belongs to the cluster as a whole.
    #[serde(default)]
    pub cluster: ClusterSpec,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
}

/// What nodes are connected by: a router between them and somebody outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Underlay {
    /// Where nodes have their addresses, one range a family.
    pub subnets: Vec<IpNet>,
    /// Where the host outside has its address, one range a family.
    pub outside: Vec<IpNet>,
    /// The largest packet.
    pub mtu: u32,
}

impl Default for Underlay {
    fn default() -> Self {
        Self {
            subnets: vec![v4([192, 168, 10, 0], 24), v6([0xfd00, 0x10, 0, 0, 0, 0, 0, 0], 64)],
            outside: vec![v4([203, 0, 113, 0], 24), v6([0x2001, 0xdb8, 0x203, 0, 0, 0, 0, 0], 64)],
            mtu: 1500,
        }
    }
}

/// What belongs to the cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterSpec {
    /// The domain of Services' names.
    pub domain: String,
    /// Where pods have their addresses, one range a family; every node gets a part. Where a file does not say, there are both families, or
    /// IPv4 alone if a Windows build among the nodes cannot have both in the network's mode. A file that asks for both gets what the build
    /// makes of it.
    pub pod_subnets: Vec<IpNet>,
    /// Where Services have their addresses, one range a family; by default those that pods have.
    pub service_subnets: Vec<IpNet>,
    /// Where Services of type LoadBalancer get their addresses from.
    pub load_balancer_subnet: IpNet,
    /// Where names are served; by default the tenth address of Services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_address: Option<IpAddr>,
}

impl Default for ClusterSpec {
    fn default() -> Self {
        Self {
            domain: "cluster.local".to_owned(),
            pod_subnets: vec![v4([10, 244, 0, 0], 16), v6([0xfd00, 0x244, 0, 0, 0, 0, 0, 0], 48)],
            service_subnets: vec![v4([10, 96, 0, 0], 16), v6([0xfd00, 0x96, 0, 0, 0, 0, 0, 0], 112)],
            load_balancer_subnet: v4([198, 51, 100, 0], 24),
            dns_address: None,
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Whose networking it has.
    pub os: Os,
    /// The build of Windows that its HNS runs as; `transom`, which has none of Windows' limits, by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// What is added to the build's features, limits and defects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// What is taken away from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// How its pods are connected, on Windows, if not as the topology says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    /// Labels of the Node besides those that every Node has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How its kube-proxy is set.
    #[serde(default)]
    pub kube_proxy: KubeProxySpec,
    /// Whose CNI plugins connect its pods, if not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniSpec>,
}

/// How kube-proxy is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeProxySpec {
    /// Whether backends answer clients straight.
    #[serde(default)]
    pub dsr: bool,
    /// Another kube-proxy than ours, as arguments of a command line beginning with the program. One whose name ends in `.exe` is run by Wine.
    /// `$(NAME)` stands for a variable of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Variables of that program, besides those that the lab gives it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
}

/// CNI plugins of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CniSpec {
    /// The directory they are in, where `$(NAME)` stands for a variable: as programs of this system or, with `.exe` at the end of their names, as those of Windows.
    pub path: String,
    /// The configuration; by default that of the plugin that the mode needs, with host-local for addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Value>,
    /// Variables of the plugins, besides those that the lab gives them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
}

/// Whose networking a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    /// That of Windows: HNS and its switch.
    Windows,
    /// That of the Linux kernel.
    Linux,
}

impl Os {
    /// As Kubernetes has it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Linux => "linux",
        }
    }
}

impl Topology {
    /// Whether pods have addresses of both families.
    pub fn is_dual_stack(&self) -> bool {
        self.cluster.pod_subnets.len() > 1
    }

    /// Whether pods have addresses of a family.
    pub fn has_family(&self, v6: bool) -> bool {
        self.cluster.pod_subnets.iter().any(|range| range.addr().is_ipv6() == v6)
    }

    /// The addresses of the router on the nodes' side.
    pub fn router(&self) -> Vec<IpNet> {
        self.underlay.subnets.iter().map(|subnet| ranges::host(*subnet, 1)).collect()
    }

    /// The addresses of a node by its position in the list.
    pub fn node_addresses(&self, position: usize) -> Vec<IpNet> {
        self.underlay.subnets.iter().map(|subnet| ranges::host(*subnet, 10 + position as u128)).collect()
    }

    /// The pod subnets of a node by its position in the list.
    pub fn node_subnets(&self, position: usize) -> Vec<IpNet> {
        self.cluster.pod_subnets.iter().filter_map(|range| ranges::part(*range, position as u128)).collect()
    }

    /// The addresses of the router on the other side.
    pub fn far_router(&self) -> Vec<IpNet> {
        self.underlay.outside.iter().map(|subnet| ranges::host(*subnet, 1)).collect()
    }

    /// The addresses of the host outside.
    pub fn outside(&self) -> Vec<IpNet> {
        self.underlay.outside.iter().map(|subnet| ranges::host(*subnet, 9)).collect()
    }

    /// Where pods reach the API: the first address of Services.
    pub fn api_service(&self) -> IpAddr {
        ranges::host(self.cluster.service_subnets[0], 1).addr()
    }

    /// Where names are served.
    pub fn dns_address(&self) -> IpAddr {
        self.cluster.dns_address.unwrap_or_else(|| ranges::host(self.cluster.service_subnets[0], 10).addr())
    }
}

fn v4(octets: [u8; 4], length: u8) -> IpNet {
    Ipv4Net::new_assert(Ipv4Addr::from(octets), length).into()
}

fn v6(segments: [u16; 8], length: u8) -> IpNet {
    Ipv6Net::new_assert(Ipv6Addr::from(segments), length).into()
}
