//! `SourceMacAddress`: the hardware address that a network's endpoints have on the wire.
//!
//! | field | meaning |
//! |---|---|
//! | `SourceMacAddress` | the address that frames leave with, instead of the adapter's |
//!
//! On L2Bridge and L2Tunnel networks endpoints hide behind the adapter's hardware address; with this policy, behind another one. Frames get
//! it where they leave by the adapter, and whoever asks there for an endpoint's address is told it. The adapter then receives frames to all
//! addresses. What is translated (`OutBoundNAT`) leaves as the node's own, with the adapter's address. On other networks, whose endpoints
//! hide behind nobody, the policy is refused.

use hcn::network::Network;
use hcn::policy::network::{NetworkPolicyType, SourceMacAddressSettings};
use hcn::policy::{self};
use wire::MacAddress;

use super::{AdapterSite, CompileError, mac};

/// The address that a network asks for, if it does.
pub fn wanted(network: &Network) -> Result<Option<MacAddress>, CompileError> {
    let settings: Option<SourceMacAddressSettings> = policy::find(&network.policies, &NetworkPolicyType::SourceMacAddress);
    settings.map(|settings| mac("SourceMacAddress", &settings.source_mac_address)).transpose()
}

/// The address that a network's endpoints have on the wire.
pub(super) fn of(network: &Network, adapter: &AdapterSite) -> Result<MacAddress, CompileError> {
    Ok(wanted(network)?.unwrap_or(adapter.mac))
}
