//! Where the kernel is not Linux, it serves no Services.

use hcn::event::Event;
use proxy::cluster::Cluster;
use proxy::desired::Setting;
use proxy::proxier::Report;

use super::plane::Plane;

/// What it says to everything.
const CAUSE: &str = "Services by the kernel are for Linux; leave out --os linux";

/// No kernel.
pub(super) struct Kernel;

impl Kernel {
    pub(super) fn new(_: Setting) -> Self {
        Self
    }
}

impl Plane for Kernel {
    fn set(&mut self, _: Setting) {}

    fn note(&mut self, _: &Event) -> bool {
        false
    }

    fn forget(&mut self) {}

    fn sync(&mut self, _: Cluster, _: bool) -> Result<Report, String> {
        Err(CAUSE.to_owned())
    }
}

pub(super) fn clean_up() -> Result<(), String> {
    Err(CAUSE.to_owned())
}

pub(super) fn look_at_settings() {}
