//! `host-gw` on the kernel: a route by every other node.

use crate::backend::kernel::{Kernel, serve_pods};
use crate::backend::{Backend, Prepared, Site, router};
use crate::desired::Own;
use crate::lease::Lease;
use crate::trouble::{Subject, Trouble};

/// The backend.
pub struct HostGw {
    kernel: Box<dyn Kernel>,
}

impl HostGw {
    /// On a kernel.
    pub fn new(kernel: Box<dyn Kernel>) -> Self {
        Self { kernel }
    }
}

impl Backend for HostGw {
    fn kind(&self) -> &'static str {
        "host-gw"
    }

    fn vni(&self) -> Option<u32> {
        None
    }

    fn prepare(&mut self, own: &Own, site: &Site) -> Result<Prepared, Trouble> {
        serve_pods(self.kernel.as_ref(), own, site)?;
        Ok(Prepared { vtep: None, mtu: site.interface.mtu })
    }

    fn apply(&mut self, _own: &Own, site: &Site, peers: &[Lease]) -> Vec<Trouble> {
        router::reconcile(self.kernel.as_ref(), site.interface.index, &site.networks, &router::by_address(peers), Subject::Kernel)
    }
}
