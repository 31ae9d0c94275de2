//! SDN routes: where packets of endpoints go for a prefix.

use crate::Guid;
use crate::base::{Health, SchemaVersion};
use crate::policy::endpoint::SdnRouteSettings;

document! {
    /// An SDN route, as HostComputeRoute.
    ///
    /// Microsoft's schema calls the list `Routes`, hcsshim `Setting`; both are read and both are printed, because
    /// hcsshim re-creates a route from the document it read back.
    pub struct SdnRoute {
        "ID" id: Guid,
        "Owner" owner: String,
        "Name" name: String,
        "Version" version: u64,
        "HostComputeNetwork" network: Guid,
        "HostComputeEndpoints" endpoints: Vec<Guid>,
        "Routes" routes: Vec<SdnRouteSettings>,
        "Setting" setting: Vec<SdnRouteSettings>,
        "Health" health: Health,
        "State" state: u16,
        "SchemaVersion" schema_version: SchemaVersion,
    }
}

impl SdnRoute {
    /// Makes the two names of the list agree; `Routes` wins where both are given.
    pub fn unify(&mut self) {
        match self.routes.is_empty() {
            true => self.routes = self.setting.clone(),
            false => self.setting = self.routes.clone(),
        }
    }
}
