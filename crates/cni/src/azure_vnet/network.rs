//! The network that the first ADD makes, and what IPAM is told of one that is there.

use std::net::IpAddr;

use hcn::base::{Dns, SchemaVersion};
use hcn::network::{Ipam, Network, NetworkFlags, Subnet};
use hcn::policy::Policy;
use hcn::policy::network::{NetAdapterNameSettings, NetworkPolicyType};
use host::interface::Interface;
use ipnet::IpNet;
use serde_json::Value;

use super::Settings;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::hns::policy;
use crate::hns::{OWNER, network};
use crate::plugin::Call;
use crate::result::AddResult;

/// The host's own end of a network that is there. HNS knows no adapter of that name.
const HOST_NIC: &str = "vEthernet";

/// The IPAM plugins that have pools to choose from, and whether theirs are of IPv4.
const POOLED: [(&str, bool); 2] = [("azure-vnet-ipam", true), ("azure-vnet-ipamv6", false)];

/// The network for the addresses that IPAM gave: one subnet of each family, on the adapter that has the first.
pub(super) fn draft(call: &Call<'_>, settings: &Settings, lease: Option<&AddResult>, here: &[Interface]) -> Result<Network> {
    let subnets = subnets(lease)?;
    let mut policies = policy::of_network(&call.config.root())?;
    policies.extend(adapter(settings, lease, here)?.map(|name| {
        let settings = NetAdapterNameSettings { name, ..NetAdapterNameSettings::default() };
        Policy::new(&NetworkPolicyType::NetAdapterName, &settings)
    }));
    Ok(Network {
        owner: OWNER.to_owned(),
        name: call.config.name().to_owned(),
        network_type: settings.network_type.clone(),
        // After a reboot the machine may have other interfaces and subnets, and no pod is left.
        flags: NetworkFlags::ENABLE_NON_PERSISTENT,
        policies,
        // What the configuration says of all pods; what the runtime says of one is for its endpoint.
        dns: Dns { server_list: call.config.dns()?.nameservers, ..Dns::default() },
        ipams: vec![Ipam { subnets, ..Ipam::default() }],
        schema_version: SchemaVersion::v2(),
        ..Network::default()
    })
}

fn subnets(lease: Option<&AddResult>) -> Result<Vec<Subnet>> {
    let mut subnets: Vec<(IpNet, IpAddr)> = Vec::new();
    for ip in lease.into_iter().flat_map(|lease| &lease.ips) {
        let is_new = subnets.iter().all(|(prefix, _)| prefix.addr().is_ipv4() != ip.address.addr().is_ipv4());
        let gateway = ip.gateway.ok_or_else(|| {
            Error::invalid_network_config(format!("ipam.type: the plugin gave {} without a gateway, and a network needs one", ip.address))
                .details("have the IPAM plugin name the gateway of its subnet")
        })?;
        if is_new {
            subnets.push((ip.address.trunc(), gateway));
        }
    }
    Ok(subnets.into_iter().map(|(prefix, gateway)| network::subnet(prefix, gateway)).collect())
}

/// The gateway of an address of a lease.
pub(super) fn gateway(address: IpNet, lease: Option<&AddResult>) -> Option<IpAddr> {
    lease.into_iter().flat_map(|lease| &lease.ips).find(|ip| ip.address == address).and_then(|ip| ip.gateway)
}

/// What HNS is told about the adapter; nothing where a network is there already that has it.
fn adapter(settings: &Settings, lease: Option<&AddResult>, here: &[Interface]) -> Result<Option<String>> {
    if !settings.adapter_name.is_empty() {
        return Ok(Some(settings.adapter_name.clone()));
    }
    let master = match settings.master.as_str() {
        "" => owner(lease, here)?,
        master => master,
    };
    Ok((!master.starts_with(HOST_NIC)).then(|| master.to_owned()))
}

/// The interface that has the subnet of the addresses.
fn owner<'a>(lease: Option<&AddResult>, here: &'a [Interface]) -> Result<&'a str> {
    let subnets: Vec<IpNet> = lease.into_iter().flat_map(|lease| &lease.ips).map(|ip| ip.address.trunc()).collect();
    let has = |interface: &&Interface| interface.addresses.iter().any(|address| subnets.contains(&address.trunc()));
    here.iter().find(has).map(|interface| interface.name.as_str()).ok_or_else(|| {
        let wanted: Vec<String> = subnets.iter().map(IpNet::to_string).collect();
        let of =
            |interface: &Interface| interface.addresses.iter().map(|address| format!("{} {address}", interface.name)).collect::<Vec<_>>();
        let found: Vec<String> = here.iter().flat_map(of).collect();
        Error::invalid_network_config(format!(
            "master: no interface is in the subnet {}; there are [{}]",
            wanted.join(" or "),
            found.join(", ")
        ))
        .details("set master to the interface that leads to that subnet")
    })
}

/// The configuration with the network's subnet in `ipam`, so that no address comes from another one.
pub(super) fn narrow(config: &Config, network: &Network) -> Result<Config> {
    let name = config.ipam_type()?;
    let pooled = POOLED.iter().find(|(known, _)| *known == name);
    let prefix = pooled.and_then(|(_, ipv4)| network::prefix_of_family(network, *ipv4));
    match (config.ipam()?, prefix) {
        (Some(ipam), Some(prefix)) if ipam.text("subnet")?.is_empty() => {
            let mut narrowed = ipam.map().clone();
            narrowed.retain(|key, _| !key.eq_ignore_ascii_case("subnet"));
            narrowed.insert("subnet".to_owned(), prefix.to_string().into());
            let mut document = config.root().map().clone();
            // The exact spelling counts, whatever else is there.
            document.insert("ipam".to_owned(), Value::Object(narrowed));
            config.with_document(document)
        }
        _ => Ok(config.clone()),
    }
}
