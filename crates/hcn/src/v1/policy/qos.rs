//! `QOS` and `L2Driver`: how fast packets go, and who moves them.

use super::Flat;
use crate::policy::endpoint::QosSettings;

document! {
    /// `QOS`: a rate limit.
    pub struct QosPolicy {
        "Type" policy_type: String => always,
        "MaximumOutgoingBandwidthInBytes" maximum_outgoing_bandwidth_in_bytes: u64,
    }
}

impl Flat for QosPolicy {
    const V2_TYPE: &'static str = "QOS";
    type Settings = QosSettings;

    fn raise(self) -> QosSettings {
        QosSettings { maximum_outgoing_bandwidth_in_bytes: self.maximum_outgoing_bandwidth_in_bytes, extra: self.extra }
    }

    fn lower(settings: QosSettings) -> Self {
        Self {
            policy_type: "QOS".to_owned(),
            maximum_outgoing_bandwidth_in_bytes: settings.maximum_outgoing_bandwidth_in_bytes,
            extra: settings.extra,
        }
    }
}

document! {
    /// `L2Driver`: HNS adds it itself on some networks. It has no fields, in v1 or v2.
    pub struct L2DriverPolicy {
        "Type" policy_type: String => always,
    }
}
