//! Endpoints: how they are called, found, drafted and removed.

use std::net::IpAddr;

use hcn::base::{Route, SchemaVersion};
use hcn::endpoint::{Endpoint, IpConfiguration};
use hcn::network::Network;
use hcn::{Hcn, HcnExt, Kind};
use ipnet::IpNet;
use serde_json::json;

use super::namespace;
use super::{OWNER, failed, unless_gone};
use crate::environment::Environment;
use crate::error::Result;
use crate::netns::Netns;
use crate::result::AddResult;

/// What an endpoint is called: one for each sandbox on each network, whatever the interface.
pub(crate) fn name(environment: &Environment, network: &str) -> String {
    format!("{}_{network}", environment.namespace().sandbox_id(&environment.container_id))
}

/// The sandbox that an endpoint of a network belongs to, by its name.
pub(crate) fn sandbox_of<'a>(endpoint: &'a Endpoint, network: &str) -> Option<&'a str> {
    endpoint.name.strip_suffix(network)?.strip_suffix('_').filter(|sandbox| !sandbox.is_empty())
}

/// All endpoints with a name. There should be one at most.
pub(crate) fn find(hcn: &dyn Hcn, name: &str) -> Result<Vec<Endpoint>> {
    hcn.objects(&[("Name", name)]).map_err(|error| failed(format!("looking for the endpoint {name:?}"), &error))
}

/// An endpoint with all that does not depend on the plugin.
pub(crate) fn draft(environment: &Environment, network: &Network, name: &str, dns: crate::result::Dns) -> Endpoint {
    let interface_name = matches!(environment.namespace(), Netns::Path(_)).then(|| Box::new(json!({"InterfaceName": environment.ifname})));
    Endpoint {
        owner: OWNER.to_owned(),
        name: name.to_owned(),
        network: network.id,
        dns: super::dns::to_hcn(dns),
        additional_params: interface_name,
        schema_version: SchemaVersion::v2(),
        ..Endpoint::default()
    }
}

/// The addresses of a lease that an endpoint can have: the first, and the first of the other family if the network has it too.
pub(crate) fn addresses(network: &Network, lease: Option<&AddResult>) -> Vec<IpNet> {
    let mut chosen: Vec<IpNet> = Vec::new();
    for ip in lease.into_iter().flat_map(|lease| &lease.ips) {
        let ipv4 = ip.address.addr().is_ipv4();
        let is_new = chosen.iter().all(|other| other.addr().is_ipv4() != ipv4);
        if chosen.is_empty() || (is_new && super::network::has_family(network, ipv4)) {
            chosen.push(ip.address);
        }
    }
    chosen
}

/// Gives an endpoint an address and, by way of a gateway, everything else of that family. HNS knows how long the prefix is.
pub(crate) fn give(endpoint: &mut Endpoint, address: IpAddr, gateway: Option<IpAddr>) {
    endpoint.ip_configurations.push(IpConfiguration { ip_address: address.to_string(), ..IpConfiguration::default() });
    if let Some(gateway) = gateway {
        let everything = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        endpoint.routes.push(route(gateway, everything.to_owned()));
    }
}

/// Adds the routes that IPAM knows. Default routes are the plugin's to say.
pub(crate) fn add_routes(endpoint: &mut Endpoint, lease: Option<&AddResult>) {
    for wanted in lease.into_iter().flat_map(|lease| &lease.routes).filter(|route| route.dst.prefix_len() > 0) {
        let gateway = wanted.gw.or_else(|| gateway(endpoint, wanted.dst.addr().is_ipv4()));
        endpoint.routes.extend(gateway.map(|gateway| route(gateway, wanted.dst.trunc().to_string())));
    }
}

fn route(next_hop: IpAddr, destination_prefix: String) -> Route {
    Route { next_hop: next_hop.to_string(), destination_prefix, ..Route::default() }
}

/// The next hop of the default route of a family.
pub(crate) fn gateway(endpoint: &Endpoint, ipv4: bool) -> Option<IpAddr> {
    let hops = endpoint.routes.iter().filter(|route| route.is_default()).filter_map(|route| route.next_hop.parse::<IpAddr>().ok());
    hops.into_iter().find(|hop| hop.is_ipv4() == ipv4)
}

/// Removes an endpoint with its place in a namespace, and a namespace object of ours that was only there for it. What is gone
/// already is no failure.
pub(crate) fn remove(hcn: &dyn Hcn, endpoint: &Endpoint) -> Result<()> {
    let namespace = namespace::of(hcn, endpoint)?;
    let ours = namespace.as_ref().is_some_and(namespace::is_ours);
    if let Some(namespace) = namespace.as_ref().filter(|_| !ours) {
        namespace::leave(hcn, namespace.id, endpoint.id)?;
    }
    let deleted = unless_gone(hcn.delete(Kind::Endpoint, endpoint.id));
    deleted.map_err(|error| failed(format!("deleting the endpoint {:?}", endpoint.name), &error))?;
    namespace.filter(|_| ours).map_or(Ok(()), |namespace| namespace::sweep(hcn, namespace.id))
}

/// Removes all endpoints with a name.
pub(crate) fn remove_named(hcn: &dyn Hcn, name: &str) -> Result<()> {
    find(hcn, name)?.iter().try_for_each(|endpoint| remove(hcn, endpoint))
}
