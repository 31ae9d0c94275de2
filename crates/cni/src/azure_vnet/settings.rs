//! What azure-vnet reads of a configuration, and what it refuses.

use hcn::network::NetworkType;

use crate::error::{Error, Result};
use crate::object::quote;
use crate::plugin::Call;

/// What a network that is made gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Its type.
    pub(super) network_type: NetworkType,
    /// The interface of the machine that it is on; empty for the one that has the addresses' subnet.
    pub(super) master: String,
    /// The adapter that HNS is told; empty for `master`.
    pub(super) adapter_name: String,
    /// Whether a pod reaches itself by way of a Service.
    pub(super) loopback_dsr: bool,
}

impl Settings {
    pub(super) fn read(call: &Call<'_>) -> Result<Self> {
        refuse_agents(call)?;
        let root = call.config.root();
        let windows = root.object("windowsSettings")?;
        Ok(Self {
            network_type: network_type(&root.text("mode")?)?,
            master: root.text("master")?,
            adapter_name: root.text("adapterName")?,
            loopback_dsr: windows.map_or(Ok(false), |windows| windows.flag("enableLoopbackDSR"))?,
        })
    }
}

/// `mode`. Without it, everything goes by the fabric.
fn network_type(mode: &str) -> Result<NetworkType> {
    let remedy = "set mode to bridge or tunnel";
    match mode {
        "" | "tunnel" | "l2-tunnel" => Ok(NetworkType::L2Tunnel),
        "bridge" | "l2-bridge" => Ok(NetworkType::L2Bridge),
        "transparent" | "transparent-vlan" => {
            Err(Error::unsupported_field(format!("mode: {} is for nodes without an HNS", quote(mode))).details(remedy))
        }
        other => Err(Error::invalid_network_config(format!("mode: there is no mode {}", quote(other))).details(remedy)),
    }
}

/// What only works with an agent of the cloud on the node, or for nodes of several tenants.
fn refuse_agents(call: &Call<'_>) -> Result<()> {
    let root = call.config.root();
    let refuse =
        |key: &str, value: &str, remedy: &str| Err(Error::unsupported_field(format!("{key}: {value} is not supported")).details(remedy));
    if root.flag("multiTenancy")? {
        return refuse("multiTenancy", "true", "leave it out; a node is of one tenant");
    }
    let ipv6 = root.text("ipv6Mode")?;
    if !ipv6.is_empty() {
        return refuse("ipv6Mode", &quote(&ipv6), "leave it out; for both families set ipam to host-local with a range of each");
    }
    let execution = root.text("executionMode")?;
    if !matches!(execution.as_str(), "" | "default") {
        return refuse("executionMode", &quote(&execution), "leave it out, and set ipam.type to azure-vnet-ipam");
    }
    let ipam = call.config.ipam_type()?;
    match ipam.as_str() {
        "" => {
            Err(Error::invalid_network_config("ipam.type is missing").details("set it to azure-vnet-ipam, or to host-local with a subnet"))
        }
        "azure-cns" => refuse("ipam.type", &quote(&ipam), "set it to azure-vnet-ipam, or to host-local with a subnet"),
        _ => {
            let mode = call.config.ipam()?.map_or(Ok(String::new()), |ipam| ipam.text("mode"))?;
            match mode.is_empty() {
                true => Ok(()),
                false => refuse("ipam.mode", &quote(&mode), "leave it out; on an overlay use win-overlay"),
            }
        }
    }
}
