//! `QOS`: how fast an endpoint may send.
//!
//! | field | meaning |
//! |---|---|
//! | `MaximumOutgoingBandwidthInBytes` | bytes of frames in a second; a large frame that a wire would carry in pieces counts once, with one header |
//!
//! The NIC of an endpoint that has sent more is not read until it may send again: packets wait in the NIC's queue, and are lost only
//! when that is full. Of several such policies the strictest holds.

use std::num::NonZeroU64;

use hcn::endpoint::Endpoint;
use hcn::policy::endpoint::{EndpointPolicyType, QosSettings};

use super::{CompileError, settings};

/// Bytes a second, if there is a bound.
pub fn rate(endpoint: &Endpoint) -> Result<Option<NonZeroU64>, CompileError> {
    let policies: Vec<QosSettings> = settings(&endpoint.policies, &EndpointPolicyType::Qos)?;
    Ok(policies.iter().filter_map(|policy| NonZeroU64::new(policy.maximum_outgoing_bandwidth_in_bytes)).min())
}
