//! The network that a configuration means: the one of HNS with its name.

use std::net::IpAddr;

use hcn::base::Route;
use hcn::network::{Network, NetworkType, Subnet};
use hcn::v1::network::HnsNetwork;
use hcn::{Field, Guid, Hcn, HcnExt, Path};
use ipnet::IpNet;

use super::failed;
use crate::error::{Error, Result};

/// The network with a name, if there is one.
pub(crate) fn find(hcn: &dyn Hcn, name: &str) -> Result<Option<Network>> {
    let networks: Vec<Network> =
        hcn.objects(&[("Name", name)]).map_err(|error| failed(format!("looking for the network {name:?}"), &error))?;
    Ok(networks.into_iter().next())
}

/// The network with a name, which has one of these types.
pub(crate) fn require(hcn: &dyn Hcn, name: &str, types: &[NetworkType]) -> Result<Network> {
    let network = find(hcn, name)?.ok_or_else(|| {
        Error::invalid_network_config(format!("name: HNS has no network {name:?}"))
            .details("make the network first, or correct the name; `transom network list` shows which there are")
    })?;
    check_type(&network, types)?;
    Ok(network)
}

/// Refuses a network of another type than these.
pub(crate) fn check_type(network: &Network, types: &[NetworkType]) -> Result<()> {
    if types.contains(&network.network_type) {
        return Ok(());
    }
    let wanted: Vec<String> = types.iter().map(NetworkType::to_string).collect();
    let message = format!("name: the network {:?} is of type {}, not {}", network.name, network.network_type, wanted.join(" or "));
    Err(Error::invalid_network_config(message).details("use the plugin for networks of that type, or name another network"))
}

/// The prefix of a subnet.
fn prefix(subnet: &Subnet) -> Option<IpNet> {
    subnet.ip_address_prefix.parse().ok()
}

/// Whether the network has a subnet of a family.
pub(crate) fn has_family(network: &Network, ipv4: bool) -> bool {
    network.subnets().filter_map(prefix).any(|prefix| prefix.addr().is_ipv4() == ipv4)
}

/// Whether an address can be one of the network's: it is in a subnet, or there are none to be in.
pub(crate) fn has_room_for(network: &Network, address: IpAddr) -> bool {
    let mut prefixes = network.subnets().filter_map(prefix).peekable();
    prefixes.peek().is_none() || prefixes.any(|prefix| prefix.contains(&address))
}

/// The prefix of the first subnet of a family.
pub(crate) fn prefix_of_family(network: &Network, ipv4: bool) -> Option<IpNet> {
    network.subnets().filter_map(prefix).find(|prefix| prefix.addr().is_ipv4() == ipv4)
}

/// Makes a network, or finds the one that somebody else, for another container, was faster to make.
pub(crate) fn make(hcn: &dyn Hcn, wanted: &Network) -> Result<Network> {
    match hcn.create_object(wanted) {
        Ok(made) => Ok(made),
        Err(error) => find(hcn, &wanted.name)?.ok_or_else(|| failed(format!("making the network {:?}", wanted.name), &error)),
    }
}

/// A subnet with its gateway.
pub(crate) fn subnet(prefix: IpNet, gateway: IpAddr) -> Subnet {
    let destination_prefix = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" }.to_owned();
    let route = Route { next_hop: gateway.to_string(), destination_prefix, ..Route::default() };
    Subnet { ip_address_prefix: prefix.to_string(), routes: vec![route], ..Subnet::default() }
}

/// The subnet that an address is in, else the first of its family.
fn subnet_of(network: &Network, address: IpAddr) -> Option<&Subnet> {
    let contains = |subnet: &&Subnet| prefix(subnet).is_some_and(|prefix| prefix.contains(&address));
    let like = |subnet: &&Subnet| prefix(subnet).is_some_and(|prefix| prefix.addr().is_ipv4() == address.is_ipv4());
    network.subnets().find(contains).or_else(|| network.subnets().find(like))
}

/// How long the prefix of an address's subnet is.
pub(crate) fn prefix_length(network: &Network, address: IpAddr) -> Option<u8> {
    subnet_of(network, address).and_then(prefix).map(|prefix| prefix.prefix_len())
}

/// The gateway of an address's subnet.
pub(crate) fn gateway(network: &Network, address: IpAddr) -> Option<IpAddr> {
    subnet_of(network, address)?.gateway()?.parse().ok()
}

/// The prefix of the first subnet, as it is written.
pub(crate) fn first_prefix(network: &Network) -> &str {
    network.subnets().next().map(|subnet| subnet.ip_address_prefix.as_str()).unwrap_or_default()
}

/// The address by which other nodes reach this one, which only the older view of a network has. Empty as long as HNS does not
/// know it.
pub(crate) fn management_ip(hcn: &dyn Hcn, id: Guid) -> Result<String> {
    let view = hcn.call("GET", &format!("/networks/{id}"), "").and_then(|view| HnsNetwork::read(view, &Path::Root));
    Ok(view.map_err(|error| failed(format!("asking for the older view of the network {id}"), &error))?.management_ip)
}

/// Whether this HNS can answer clients directly, by its version.
pub(crate) fn has_dsr(hcn: &dyn Hcn) -> Result<bool> {
    let version = hcn.call("GET", "/globals/version", "").map_err(|error| failed("asking HNS for its version", &error))?;
    let number = |key: &str| version.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let version = (number("Major"), number("Minor"));
    Ok(((9, 3)..(10, 0)).contains(&version) || version >= (10, 2))
}
