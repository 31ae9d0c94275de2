//! `azure-vnet`: endpoints that have addresses of the cloud's own network, on an L2Bridge or L2Tunnel network that the first of
//! them makes.
//!
//! There is one container network, called as the configuration; whose pods are whose is written in HNS, by the names and owners
//! of endpoints, and nowhere else. What needs an agent of the cloud on the node is refused.

mod names;
mod network;
mod settings;

use std::net::IpAddr;

use hcn::Hcn;
use hcn::endpoint::Endpoint;
use hcn::network::{Network, NetworkType};
use hcn::policy::endpoint::NatFlags;
use host::interface::{self, Interface};
use ipnet::IpNet;

use crate::config::{Attachment, Config, PortMapping};
use crate::environment::Environment;
use crate::error::Result;
use crate::hns::policy::{self, Policies};
use crate::hns::{self, Hns, Mode, Site, dns, endpoint, report};
use crate::netns::Netns;
use crate::plugin::{Call, Plugin};
use crate::result::{self, AddResult};

use settings::Settings;

/// What a network of this plugin may be. One that is there is taken as it is, whatever `mode` says.
const TYPES: [NetworkType; 2] = [NetworkType::L2Bridge, NetworkType::L2Tunnel];

/// How much of a container's id the reference puts into the name of an endpoint.
const FOREIGN_ID_LENGTH: usize = 8;

/// The plugin.
pub struct AzureVnet {
    hns: Hns,
    interfaces: fn() -> Vec<Interface>,
}

impl AzureVnet {
    /// On an HNS, on the machine that this is.
    pub fn new(hns: Hns) -> Self {
        Self::with_interfaces(hns, interface::list)
    }

    /// On an HNS whose machine has these interfaces.
    pub fn with_interfaces(hns: Hns, interfaces: fn() -> Vec<Interface>) -> Self {
        Self { hns, interfaces }
    }
}

impl Plugin for AzureVnet {
    fn name(&self) -> &'static str {
        "azure-vnet"
    }

    fn about(&self) -> &'static str {
        "attaches containers to the cloud's network by an L2Bridge or L2Tunnel network of HNS, and makes the network"
    }

    hns::commands!();
}

impl Mode for AzureVnet {
    fn network(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Network> {
        hns::network::require(hcn, call.config.name(), &TYPES)
    }

    fn network_to_use(&self, hcn: &dyn Hcn, call: &Call<'_>) -> Result<Option<Network>> {
        let found = hns::network::find(hcn, call.config.name())?;
        found.map(|found| hns::network::check_type(&found, &TYPES).map(|()| found)).transpose()
    }

    fn make_network(&self, hcn: &dyn Hcn, call: &Call<'_>, lease: Option<&AddResult>) -> Result<Network> {
        let wanted = network::draft(call, &Settings::read(call)?, lease, &(self.interfaces)())?;
        let made = hns::network::make(hcn, &wanted)?;
        hns::network::check_type(&made, &TYPES)?;
        Ok(made)
    }

    fn config_on(&self, call: &Call<'_>, network: &Network) -> Result<Config> {
        network::narrow(&call.config, network)
    }

    fn check_config(&self, call: &Call<'_>) -> Result<()> {
        Settings::read(call)?;
        names::of(call, None)?;
        policy::of_network(&call.config.root())?;
        policies(call, &[], false).map(|_| ())
    }

    fn endpoint(&self, site: &Site<'_>, lease: Option<&AddResult>) -> Result<Endpoint> {
        let names = names::of(site.call, lease)?;
        let mut wanted = endpoint::draft(&site.call.environment, &site.network, &site.name, names);
        let addresses = endpoint::addresses(&site.network, lease);
        for address in &addresses {
            endpoint::give(&mut wanted, address.addr(), network::gateway(*address, lease));
            wanted.ip_configurations.iter_mut().next_back().into_iter().for_each(|given| given.prefix_length = address.prefix_len());
        }
        endpoint::add_routes(&mut wanted, lease);
        let has_dsr = Settings::read(site.call)?.loopback_dsr && hns::network::has_dsr(&*site.hcn)?;
        wanted.policies = policies(site.call, &addresses, has_dsr)?.merged();
        Ok(wanted)
    }

    /// The interface is the one that was asked for. On Windows addresses belong to none in particular, which runtimes take for
    /// the one they asked for.
    fn report(&self, site: &Site<'_>, endpoint: &Endpoint) -> AddResult {
        let environment = &site.call.environment;
        let linux = matches!(environment.namespace(), Netns::Path(_));
        let interface = match linux {
            true => report::nic(environment, endpoint),
            false => {
                let (name, mac) = (environment.ifname.clone(), endpoint.mac_address.clone());
                result::Interface { name, mac, ..result::Interface::default() }
            }
        };
        let route =
            |route: &hcn::base::Route| Some(result::Route::new(route.destination_prefix.parse().ok()?, route.next_hop.parse().ok()));
        AddResult {
            interfaces: vec![interface],
            ips: report::ips(&site.network, endpoint, linux.then_some(0)),
            routes: endpoint.routes.iter().filter_map(route).collect(),
            dns: names::with_domain(dns::from_hcn(&endpoint.dns)),
        }
    }

    fn is_version_one(&self, call: &Call<'_>) -> Result<bool> {
        Ok(matches!(call.environment.namespace(), Netns::None | Netns::Container(_)))
    }

    fn endpoint_name(&self, environment: &Environment, _network: &str) -> String {
        name(environment.namespace().sandbox_id(&environment.container_id), &environment.ifname)
    }

    fn foreign_name(&self, environment: &Environment) -> Option<String> {
        let netns = environment.namespace();
        let id = netns.sandbox_id(&environment.container_id);
        id.get(..FOREIGN_ID_LENGTH).filter(|short| *short != id).map(|short| name(short, &environment.ifname))
    }

    fn is_stale(&self, endpoint: &Endpoint, network: &str, valid: &[Attachment]) -> bool {
        let is_named = |attachment: &Attachment| endpoint.name == name(&attachment.container_id, &attachment.ifname);
        // Another plugin of ours may have endpoints on this network, and calls them otherwise.
        let is_of_container = endpoint.name.contains('-') && endpoint::sandbox_of(endpoint, network).is_none();
        is_of_container && !valid.iter().any(is_named)
    }
}

/// What an endpoint is called. The whole id is in it: of two containers whose ids begin alike, neither must get the other's.
fn name(sandbox: &str, ifname: &str) -> String {
    format!("{sandbox}-{ifname}")
}

/// Those of the configuration, then loopback for Services, mapped ports and bandwidth.
fn policies(call: &Call<'_>, addresses: &[IpNet], has_dsr: bool) -> Result<Policies> {
    let mut policies = Policies::configured(&call.config.root().objects("AdditionalArgs")?, "EndpointPolicy")?;
    if has_dsr {
        addresses.iter().filter(|address| address.addr().is_ipv4()).for_each(|address| policies.loopback_dsr(address.addr()));
    }
    let has_ipv6 = addresses.iter().any(|address| address.addr().is_ipv6());
    for (index, mapping) in call.config.port_mappings()?.iter().enumerate() {
        for flags in families(mapping, has_ipv6) {
            policies.port_mapping(index, mapping, flags, &mapping.host_ip)?;
        }
    }
    policies.bandwidth(call.config.bandwidth()?);
    Ok(policies)
}

/// For which families a port is mapped: that of the host's address, else all that the container has. The node itself reaches
/// a port of IPv4 too.
fn families(mapping: &PortMapping, has_ipv6: bool) -> Vec<NatFlags> {
    let (ipv4, ipv6) = (NatFlags::LOCAL_ROUTED_VIP, NatFlags::IPV6);
    match mapping.host_ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => vec![ipv6],
        Err(_) if has_ipv6 => vec![ipv4, ipv6],
        _ => vec![ipv4],
    }
}
