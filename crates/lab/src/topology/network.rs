//! How pods of a node are connected: the mode of the HNS network, and the plugin that makes it so.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{NodeSpec, Os, Topology};

/// The number and the port of an overlay, where the file does not say.
const DEFAULT_VNI: u32 = 4096;
const DEFAULT_PORT: u16 = 4789;

/// How pods are connected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkSpec {
    /// What the switch does to packets.
    #[serde(default)]
    pub mode: Mode,
    /// Which plugin makes it so; by default the one that is usual for the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Plugin>,
    /// The number of the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<u32>,
    /// The UDP port of the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl NetworkSpec {
    /// The number of the overlay.
    pub fn vni(&self) -> u32 {
        self.vni.unwrap_or(DEFAULT_VNI)
    }

    /// The UDP port of the overlay.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// The plugin.
    pub fn plugin(&self) -> Plugin {
        self.plugin.unwrap_or(self.mode.plugins()[0])
    }

    /// The program that attaches pods; flannel hands that on.
    pub(crate) fn plugin_name(&self) -> &'static str {
        match self.plugin() {
            Plugin::Flannel if self.mode == Mode::Overlay => "win-overlay",
            Plugin::Flannel => "win-bridge",
            Plugin::AzureVnet => "azure-vnet",
            Plugin::Sdnbridge => "sdnbridge",
            Plugin::Nat => "nat",
        }
    }

    /// Whether another one is the same, however much of it is said.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let whole = |it: &Self| (it.mode, it.plugin(), it.vni(), it.port());
        whole(self) == whole(other)
    }

    /// The name of the HNS network that pods are on.
    pub fn name(&self) -> &'static str {
        match (self.mode, self.plugin()) {
            (Mode::Overlay, _) => "vxlan0",
            (Mode::L2bridge, Plugin::Flannel) => "cbr0",
            (Mode::L2bridge | Mode::L2tunnel, _) => "azure",
            (Mode::Transparent, _) => "transparent",
            (Mode::Nat, _) => "nat",
        }
    }
}

impl fmt::Display for NetworkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mode.fmt(f)?;
        match (self.mode, self.plugin()) {
            (Mode::Overlay, _) => write!(f, ", VNI {}, port {}", self.vni(), self.port()),
            (_, Plugin::AzureVnet) => write!(f, ", {}", Plugin::AzureVnet),
            _ => Ok(()),
        }
    }
}

/// The modes of a network on Windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Packets between nodes travel in VXLAN.
    #[default]
    Overlay,
    /// Packets leave with the node's hardware address, and nodes are each other's gateways.
    L2bridge,
    /// As l2bridge, but the fabric of a cloud decides about every packet, also between pods of one node.
    L2tunnel,
    /// Pods are on the wire as they are, with hardware addresses of their own.
    Transparent,
    /// Pods are behind the address of their node.
    Nat,
}

impl Mode {
    /// The plugins that can make it, the usual one first.
    pub(super) fn plugins(self) -> &'static [Plugin] {
        match self {
            Self::Overlay => &[Plugin::Flannel],
            Self::L2bridge => &[Plugin::Flannel, Plugin::AzureVnet],
            Self::L2tunnel => &[Plugin::AzureVnet],
            Self::Transparent => &[Plugin::Sdnbridge],
            Self::Nat => &[Plugin::Nat],
        }
    }

    /// The type of network in the words of HCN.
    pub(crate) fn network_type(self) -> &'static str {
        match self {
            Self::Overlay => "Overlay",
            Self::L2bridge => "L2Bridge",
            Self::L2tunnel => "L2Tunnel",
            Self::Transparent => "Transparent",
            Self::Nat => "NAT",
        }
    }

    /// Whether HNS has load balancers for pods of such a network, so that kube-proxy can serve them.
    pub(crate) fn has_load_balancers(self) -> bool {
        matches!(self, Self::Overlay | Self::L2bridge | Self::L2tunnel)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlay => "overlay",
            Self::L2bridge => "l2bridge",
            Self::L2tunnel => "l2tunnel",
            Self::Transparent => "transparent",
            Self::Nat => "nat",
        })
    }
}

/// Who connects pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plugin {
    /// flanneld, and the plugin of its name in front of win-overlay or win-bridge.
    Flannel,
    /// azure-vnet, with addresses that the cloud has given to the node.
    AzureVnet,
    /// sdnbridge, on a network that the lab makes: no plugin of ours makes a transparent one.
    Sdnbridge,
    /// nat.
    Nat,
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flannel => "flannel",
            Self::AzureVnet => "azure-vnet",
            Self::Sdnbridge => "sdnbridge",
            Self::Nat => "nat",
        })
    }
}

impl Topology {
    /// How the pods of a node are connected. Linux nodes go along with the others.
    pub fn network_of<'a>(&'a self, node: &'a NodeSpec) -> &'a NetworkSpec {
        node.network.as_ref().unwrap_or(&self.network)
    }

    /// The networks of the Windows nodes; the topology's, where there are none.
    fn networks(&self) -> Vec<&NetworkSpec> {
        let windows: Vec<&NetworkSpec> =
            self.nodes.iter().filter(|node| node.os == Os::Windows).map(|node| self.network_of(node)).collect();
        if windows.is_empty() { vec![&self.network] } else { windows }
    }

    /// The overlay that all nodes are on, if they are on one.
    pub(crate) fn overlay(&self) -> Option<&NetworkSpec> {
        self.networks().into_iter().find(|network| network.mode == Mode::Overlay)
    }

    /// Whether a mode is among those of the Windows nodes.
    pub(crate) fn has_mode(&self, mode: Mode) -> bool {
        self.networks().iter().any(|network| network.mode == mode)
    }

    /// Whether Windows nodes are connected in different ways.
    pub(crate) fn is_mixed(&self) -> bool {
        let networks = self.networks();
        networks.iter().any(|network| !network.is_like(networks[0]))
    }

    /// Whether somebody besides flannel connects pods, so that the underlay has to know where they are.
    pub(crate) fn is_routed(&self) -> bool {
        self.networks().iter().any(|network| network.plugin() != Plugin::Flannel)
    }

    /// Whether kube-proxy serves a node's pods.
    pub(crate) fn has_proxy(&self, node: &NodeSpec) -> bool {
        node.os == Os::Linux || self.network_of(node).mode.has_load_balancers()
    }

    /// All networks, for people.
    pub(crate) fn network_text(&self) -> String {
        let mut texts: Vec<String> = self.networks().iter().map(ToString::to_string).collect();
        texts.sort();
        texts.dedup();
        texts.join("; ")
    }

    /// How a node's pods are connected, for people.
    pub(crate) fn network_text_of(&self, node: &NodeSpec) -> String {
        match (node.os, self.overlay()) {
            (Os::Windows, _) => self.network_of(node).to_string(),
            (Os::Linux, Some(overlay)) => overlay.to_string(),
            (Os::Linux, None) => "host-gw".to_owned(),
        }
    }
}
