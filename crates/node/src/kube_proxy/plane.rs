//! What Services are made true by: HNS, or the kernel.

use std::sync::Arc;

use hcn::Hcn;
use hcn::event::Event;
use proxy::cluster::Cluster;
use proxy::desired::Setting;
use proxy::proxier::{Obstacle, Proxier, Report};

/// What Services are made true by.
pub enum Target {
    /// An HNS: this is a Windows node, or one whose networking is our HNS.
    Hns(Arc<dyn Hcn>),
    /// The kernel: this is a Linux node.
    Kernel,
}

/// Makes it do what the cluster says, as often as it is asked to.
pub(super) trait Plane: Send {
    /// Changes how the node is set.
    fn set(&mut self, setting: Setting);

    /// Takes in what it said. Returns whether it is news, and there may be something to do.
    fn note(&mut self, event: &Event) -> bool;

    /// Says that it may be another than it was.
    fn forget(&mut self);

    /// Makes what is what should be; if it is due, after a look whether somebody has changed anything without a word. An error is why that could not begin.
    fn sync(&mut self, cluster: Cluster, is_due: bool) -> Result<Report, String>;
}

/// HNS.
pub(super) struct Hns {
    proxier: Proxier,
    hcn: Arc<dyn Hcn>,
}

impl Hns {
    pub(super) fn new(hcn: Arc<dyn Hcn>, setting: Setting) -> Self {
        Self { proxier: Proxier::new(setting), hcn }
    }

    fn work(&mut self, cluster: &Cluster, is_due: bool) -> Result<Report, Obstacle> {
        if is_due && self.proxier.compare(&*self.hcn)? {
            tracing::info!("HNS has changed without a word");
        }
        self.proxier.sync(&*self.hcn, cluster)
    }
}

impl Plane for Hns {
    fn set(&mut self, setting: Setting) {
        self.proxier.set(setting);
    }

    fn note(&mut self, event: &Event) -> bool {
        self.proxier.note(event)
    }

    fn forget(&mut self) {
        self.proxier.forget();
    }

    fn sync(&mut self, cluster: Cluster, is_due: bool) -> Result<Report, String> {
        self.work(&cluster, is_due).map_err(|obstacle| obstacle.to_string())
    }
}
