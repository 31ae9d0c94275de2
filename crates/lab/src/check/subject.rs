//! What the documents are asked about: a build, in the setting of a lab.

use hcn::profile::Profile;

use crate::topology::{Mode, NodeSpec, Plugin, Topology};

/// The build numbers that the documents name.
pub(super) const WS2019: u32 = 17763;
pub(super) const VERSION_1903: u32 = 18362;
pub(super) const VERSION_20H2: u32 = 19042;
pub(super) const WS2022: u32 = 20348;

/// A build, in the setting of a lab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    /// The build's profile.
    pub(super) profile: &'static Profile,
    /// What the switch does to packets.
    pub(super) mode: Mode,
    /// Who connects pods.
    pub(super) plugin: Plugin,
    /// Whether kube-proxy is told that backends answer clients straight.
    pub(super) dsr: bool,
}

impl Subject {
    /// The build of a node; none if it runs no Windows.
    pub(super) fn of(node: &NodeSpec, topology: &Topology) -> Option<Self> {
        let network = topology.network_of(node);
        Some(Self { profile: node.profile()?, mode: network.mode, plugin: network.plugin(), dsr: node.kube_proxy.dsr })
    }

    /// Whether it is a build of Microsoft's, which the documents are about.
    pub(super) fn is_windows(&self) -> bool {
        self.profile.build != 0
    }

    /// Whether it is a build of Microsoft's that is older than another.
    pub(super) fn is_before(&self, build: u32) -> bool {
        self.is_windows() && self.profile.build < build
    }

    /// Whether pods have their node's address for everybody elsewhere.
    pub(super) fn is_behind_nat(&self) -> bool {
        self.mode == Mode::Nat
    }

    /// Whether pods are on an overlay.
    pub(super) fn is_overlay(&self) -> bool {
        self.mode == Mode::Overlay
    }
}
