//! `win-overlay`: endpoints on networks of type Overlay that somebody else has made.

use std::net::{IpAddr, Ipv4Addr};

use hcn::Hcn;
use hcn::endpoint::Endpoint;
use hcn::network::{Network, NetworkType};
use ipnet::IpNet;

use crate::error::{Error, Result};
use crate::hns::policy::Policies;
use crate::hns::{self, Hns, Mode, Site, dns, endpoint, network, report};
use crate::object::quote;
use crate::plugin::{Call, Plugin};
use crate::result::AddResult;
use crate::win_bridge::is_schema_two;

/// What MAC addresses of endpoints begin with, unless the configuration says otherwise.
const MAC_PREFIX: &str = "0E-2A";

/// The plugin.
pub struct WinOverlay {
    hns: Hns,
}

impl WinOverlay {
    /// On an HNS.
    pub fn new(hns: Hns) -> Self {
        Self { hns }
    }
}

impl Plugin for WinOverlay {
    fn name(&self) -> &'static str {
        "win-overlay"
    }

    fn about(&self) -> &'static str {
        "attaches containers to an Overlay network of HNS"
    }

    hns::commands!();
}

impl Mode for WinOverlay {
    fn network(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Network> {
        network::require(hcn, call.config.name(), &[NetworkType::Overlay])
    }

    fn check_config(&self, call: &Call<'_>) -> Result<()> {
        let root = call.config.root();
        is_schema_two(call)?;
        mac_prefix(call)?;
        root.flag("ipMasq")?;
        root.flag("loopbackDSR")?;
        Policies::configured(&root.objects("policies")?, "EndpointPolicy")?.port_mappings(&call.config.port_mappings()?)
    }

    fn endpoint(&self, site: &Site<'_>, lease: Option<&AddResult>) -> Result<Endpoint> {
        let mut wanted = endpoint::draft(&site.call.environment, &site.network, &site.name, dns::merged(site.call, lease)?);
        let addresses = endpoint::addresses(&site.network, lease);
        if lease.is_some() {
            wanted.mac_address = mac_of(&mac_prefix(site.call)?, ipv4_of(&addresses)?);
        }
        for address in &addresses {
            endpoint::give(&mut wanted, address.addr(), network::gateway(&site.network, address.addr()));
        }
        endpoint::add_routes(&mut wanted, lease);
        wanted.policies = policies(site, &addresses)?.merged();
        Ok(wanted)
    }

    fn report(&self, site: &Site<'_>, endpoint: &Endpoint) -> AddResult {
        report::windows(&site.call.environment, &site.network, endpoint)
    }

    fn is_version_one(&self, call: &Call<'_>) -> Result<bool> {
        is_schema_two(call).map(|two| !two)
    }
}

fn policies(site: &Site<'_>, addresses: &[IpNet]) -> Result<Policies> {
    let root = site.call.config.root();
    let mut policies = Policies::configured(&root.objects("policies")?, "EndpointPolicy")?;
    if root.flag("loopbackDSR")? && network::has_dsr(&*site.hcn)? {
        addresses.iter().for_each(|address| policies.loopback_dsr(address.addr()));
    }
    policies.provider_address(&network::management_ip(&*site.hcn, site.network.id)?);
    if root.flag("ipMasq")? {
        policies.except(network::first_prefix(&site.network));
    }
    policies.port_mappings(&site.call.config.port_mappings()?)?;
    policies.bandwidth(site.call.config.bandwidth()?);
    Ok(policies)
}

/// `endpointMacPrefix`: two bytes.
fn mac_prefix(call: &Call<'_>) -> Result<String> {
    let prefix = call.config.root().text("endpointMacPrefix")?;
    let is_prefix =
        |text: &str| text.len() == 5 && text.split('-').all(|byte| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit()));
    match prefix.as_str() {
        "" => Ok(MAC_PREFIX.to_owned()),
        text if is_prefix(text) => Ok(prefix),
        text => Err(Error::invalid_network_config(format!("endpointMacPrefix: {} is no beginning of a MAC address", quote(text)))
            .details(format!("write two bytes such as {MAC_PREFIX}, or leave it out"))),
    }
}

/// The MAC address is made of the IPv4 address, so that other nodes can compute it.
fn mac_of(prefix: &str, address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{prefix}-{a:02x}-{b:02x}-{c:02x}-{d:02x}")
}

fn ipv4_of(addresses: &[IpNet]) -> Result<Ipv4Addr> {
    let first = addresses.iter().find_map(|address| match address.addr() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    });
    first.ok_or_else(|| {
        Error::invalid_network_config("ipam: there is no IPv4 address among those it gave")
            .details("give the IPAM plugin an IPv4 range; the MAC address of an endpoint is made of its IPv4 address")
    })
}
