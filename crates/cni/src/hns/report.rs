//! The result of ADD, read from what HNS made.

use std::net::IpAddr;

use hcn::endpoint::Endpoint;
use hcn::network::Network;
use ipnet::IpNet;

use super::{dns, endpoint, network};
use crate::environment::Environment;
use crate::netns::Netns;
use crate::result::{AddResult, Interface, IpConfig, Route};

/// As win-bridge and win-overlay report it: the interface is called after the endpoint, and the addresses belong to no
/// interface in particular, which runtimes on Windows take for the one they asked for. In a Linux namespace the interface is
/// the NIC that is there, and the addresses are its own.
pub(crate) fn windows(environment: &Environment, network: &Network, endpoint: &Endpoint) -> AddResult {
    let linux = matches!(environment.namespace(), Netns::Path(_));
    let interface = match linux {
        true => nic(environment, endpoint),
        false => Interface { name: endpoint.name.clone(), mac: endpoint.mac_address.clone(), ..Interface::default() },
    };
    let routes = endpoint.routes.iter().filter(|route| !route.is_default());
    let routes = routes.filter_map(|route| Some(Route::new(route.destination_prefix.parse().ok()?, route.next_hop.parse().ok())));
    AddResult {
        interfaces: vec![interface],
        ips: ips(network, endpoint, linux.then_some(0)),
        routes: routes.collect(),
        dns: dns::from_hcn(&endpoint.dns),
    }
}

/// As nat, sdnbridge and sdnoverlay report it: the interface is the one that was asked for.
pub(crate) fn named(environment: &Environment, network: &Network, endpoint: &Endpoint) -> AddResult {
    let interface = match environment.namespace() {
        Netns::Path(_) => nic(environment, endpoint),
        _ => Interface { name: environment.ifname.clone(), mac: endpoint.mac_address.clone(), ..Interface::default() },
    };
    AddResult { interfaces: vec![interface], ips: ips(network, endpoint, Some(0)), ..AddResult::default() }
}

/// A NIC as Linux shows it.
pub(crate) fn nic(environment: &Environment, endpoint: &Endpoint) -> Interface {
    Interface {
        name: environment.ifname.clone(),
        mac: endpoint.mac_address.replace('-', ":").to_ascii_lowercase(),
        sandbox: environment.netns.clone(),
        ..Interface::default()
    }
}

/// The addresses of an endpoint, of one of the interfaces or of none in particular.
pub(crate) fn ips(network: &Network, endpoint: &Endpoint, interface: Option<i64>) -> Vec<IpConfig> {
    let ip = |address: IpAddr, length: u8| {
        let length = network::prefix_length(network, address).unwrap_or(length);
        let address = IpNet::new(address, length).ok()?;
        Some(IpConfig { interface, address, gateway: endpoint::gateway(endpoint, address.addr().is_ipv4()) })
    };
    let configurations = endpoint.ip_configurations.iter();
    configurations.filter_map(|found| ip(found.ip_address.parse().ok()?, found.prefix_length)).collect()
}
