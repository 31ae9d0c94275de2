//! `win-bridge`: endpoints on networks of type L2Bridge and L2Tunnel that somebody else has made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// The plugin.
pub struct WinBridge {
    hns: Hns,
}

impl WinBridge {
    /// On an HNS.
    pub fn new(hns: Hns) -> Self {
        Self { hns }
    }
}

impl Plugin for WinBridge {
    fn name(&self) -> &'static str {
        "win-bridge"
    }

    fn about(&self) -> &'static str {
        "attaches containers to an L2Bridge or L2Tunnel network of HNS"
    }

    hns::commands!();
}

impl Mode for WinBridge {
    fn network(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Network> {
        network::require(hcn, call.config.name(), &[NetworkType::L2Bridge, NetworkType::L2Tunnel])
    }

    fn check_config(&self, call: &Call<'_>) -> Result<()> {
        is_schema_two(call)?;
        policies(call, &[], false).map(|_| ())
    }

    fn endpoint(&self, site: &Site<'_>, lease: Option<&AddResult>) -> Result<Endpoint> {
        let mut wanted = endpoint::draft(&site.call.environment, &site.network, &site.name, dns::merged(site.call, lease)?);
        let addresses = endpoint::addresses(&site.network, lease);
        for address in &addresses {
            endpoint::give(&mut wanted, address.addr(), Some(second_address(*address)));
        }
        endpoint::add_routes(&mut wanted, lease);
        let has_dsr = site.call.config.root().flag("loopbackDSR")? && network::has_dsr(&*site.hcn)?;
        wanted.policies = policies(site.call, &addresses, has_dsr)?.merged();
        Ok(wanted)
    }

    fn report(&self, site: &Site<'_>, endpoint: &Endpoint) -> AddResult {
        report::windows(&site.call.environment, &site.network, endpoint)
    }

    fn is_version_one(&self, call: &Call<'_>) -> Result<bool> {
        is_schema_two(call).map(|two| !two)
    }
}

/// `apiVersion`: whether HNS is asked in schema 2. Anything else is schema 1.
pub(crate) fn is_schema_two(call: &Call<'_>) -> Result<bool> {
    Ok(call.config.root().number::<i64>("apiVersion")? == Some(2))
}

fn policies(call: &Call<'_>, addresses: &[IpNet], has_dsr: bool) -> Result<Policies> {
    let root = call.config.root();
    let mut policies = Policies::configured(&root.objects("policies")?, "EndpointPolicy")?;
    let masqueraded = root.text("ipMasqNetwork")?;
    if !masqueraded.is_empty() && masqueraded.parse::<IpNet>().is_err() {
        return Err(Error::invalid_network_config(format!("ipMasqNetwork: {} is no prefix", quote(&masqueraded)))
            .details("write one such as 10.244.0.0/16"));
    }
    policies.except(&masqueraded);
    policies.port_mappings(&call.config.port_mappings()?)?;
    if has_dsr {
        addresses.iter().for_each(|address| policies.loopback_dsr(address.addr()));
    }
    policies.bandwidth(call.config.bandwidth()?);
    Ok(policies)
}

/// The gateway of a bridge, by convention the second address of the container's subnet: there the host has an endpoint. As in
/// the reference only the last byte is counted up.
fn second_address(address: IpNet) -> IpAddr {
    match address.network() {
        IpAddr::V4(network) => {
            let [a, b, c, d] = network.octets();
            Ipv4Addr::new(a, b, c, d.wrapping_add(2)).into()
        }
        IpAddr::V6(network) => {
            let mut octets = network.octets();
            octets[15] = octets[15].wrapping_add(2);
            Ipv6Addr::from(octets).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_is_the_second_address() {
        for (address, gateway) in [
            ("10.244.1.7/24", "10.244.1.2"),
            ("10.244.1.200/26", "10.244.1.194"),
            ("fd00:1::99/64", "fd00:1::2"),
            ("10.0.0.255/32", "10.0.0.1"),
        ] {
            assert_eq!(second_address(address.parse().unwrap()).to_string(), gateway, "{address}");
        }
    }
}
