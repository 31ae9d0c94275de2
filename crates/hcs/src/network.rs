//! What a container knows of its network: one place for it, from which its registry and its files are made.

use std::net::IpAddr;

use hcn::endpoint::{Endpoint, EndpointFlags};
use hcn::namespace::Namespace;
use hcn::{Guid, Hcn, HcnExt};
use ipnet::IpNet;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// The container's host name.
    pub host_name: String,
    /// Its adapters, the first one first.
    pub adapters: Vec<Adapter>,
    /// Suffixes that a name without a dot is asked with, beyond those of adapters.
    pub search: Vec<String>,
    /// Whether a name without a dot is also asked as it is.
    pub allow_unqualified_queries: bool,
}

/// A NIC of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adapter {
    /// The endpoint's id.
    pub id: Guid,
    /// What people call it, such as `vEthernet (cbr0_web)`.
    pub name: String,
    /// Its addresses, with the length of their prefixes.
    pub addresses: Vec<IpNet>,
    /// Where packets go that have no other way.
    pub gateways: Vec<Gateway>,
    /// Other ways.
    pub routes: Vec<Route>,
    /// Servers to ask for names, the first one first.
    pub dns_servers: Vec<IpAddr>,
    /// The suffix of this connection.
    pub dns_suffix: String,
    /// Further suffixes.
    pub search: Vec<String>,
    /// The size of packets, if it is not the usual one.
    pub mtu: Option<u32>,
    /// How dear the adapter is; nothing means that the system decides.
    pub metric: Option<u32>,
}

/// A way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// The router.
    pub address: IpAddr,
    /// How dear it is; zero means that the system decides.
    pub metric: u32,
}

/// A way to somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub destination: IpNet,
    /// The router.
    pub next_hop: IpAddr,
    /// How dear it is.
    pub metric: u32,
}

/// How many suffixes a container has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchList {
    /// One, that of the pod's Kubernetes namespace, as on Windows.
    #[default]
    First,
    /// All that the cluster names.
    Whole,
}

impl Network {
    /// The servers of all adapters, each once.
    pub fn dns_servers(&self) -> Vec<IpAddr> {
        unique(self.adapters.iter().flat_map(|adapter| adapter.dns_servers.iter().copied()))
    }

    /// The suffixes that a name without a dot is asked with, in order, each once: those of the container, or those of its
    /// adapters.
    pub fn suffixes(&self, list: SearchList) -> Vec<String> {
        let own = self.search.iter().cloned();
        let of_adapters = self.adapters.iter().flat_map(|adapter| {
            let suffix = (!adapter.dns_suffix.is_empty()).then(|| adapter.dns_suffix.clone());
            // A plugin that knows a list puts the namespace's suffix in front of it, and the cluster's as the domain.
            adapter.search.iter().cloned().chain(suffix)
        });
        let mut suffixes = match self.search.is_empty() {
            true => unique(of_adapters),
            false => unique(own),
        };
        if list == SearchList::First {
            suffixes.truncate(1);
        }
        suffixes
    }
}

fn unique<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut list, value| {
        if !list.contains(&value) {
            list.push(value);
        }
        list
    })
}

/// The adapters of a namespace, as HNS tells of them.
pub fn adapters(hcn: &dyn Hcn, namespace: Guid) -> hcn::Result<Vec<Adapter>> {
    let namespace: Namespace = hcn.object(namespace)?;
    namespace.endpoints().map(|id| Ok(adapter(&hcn.object(id?)?))).collect()
}

/// An endpoint as an adapter. What is no address is left out: HNS has taken the document as it is.
pub fn adapter(endpoint: &Endpoint) -> Adapter {
    let mut adapter = Adapter {
        id: endpoint.id,
        name: format!("vEthernet ({})", endpoint.name),
        dns_servers: endpoint.dns.server_list.iter().filter_map(|server| server.parse().ok()).collect(),
        dns_suffix: endpoint.dns.domain.clone(),
        search: endpoint.dns.search.clone(),
        // The value that Windows gives an interface that is preferred.
        metric: endpoint.flags.has(EndpointFlags::ENABLE_LOW_METRIC).then_some(5),
        ..Adapter::default()
    };
    for configuration in &endpoint.ip_configurations {
        let address = configuration.ip_address.parse::<IpAddr>().ok();
        adapter.addresses.extend(address.and_then(|address| IpNet::new(address, configuration.prefix_length).ok()));
    }
    for route in &endpoint.routes {
        let Ok(next_hop) = route.next_hop.parse::<IpAddr>() else {
            continue;
        };
        let metric = u32::from(route.metric);
        match (route.is_default(), route.destination_prefix.parse::<IpNet>()) {
            (true, _) => adapter.gateways.push(Gateway { address: next_hop, metric }),
            (false, Ok(destination)) => adapter.routes.push(Route { destination, next_hop, metric }),
            (false, Err(_)) => {}
        }
    }
    adapter
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A pod's endpoint, as a plugin makes it.
    pub(crate) const ENDPOINT: &str = r#"{
        "ID": "5f0b1190-63be-4e0c-b974-bd0f55675a42", "Name": "cbr0_web", "Flags": 8,
        "IpConfigurations": [{"IpAddress": "10.244.1.5", "PrefixLength": 24}, {"IpAddress": "fd00:1::5", "PrefixLength": 64}],
        "Dns": {"Domain": "cluster.local", "Search": ["shop.svc.cluster.local", "svc.cluster.local"], "ServerList": ["10.96.0.10"]},
        "Routes": [
            {"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"},
            {"NextHop": "fd00:1::1", "DestinationPrefix": "::/0", "Metric": 10},
            {"NextHop": "10.244.1.1", "DestinationPrefix": "10.96.0.0/12", "Metric": 256},
            {"NextHop": "fd00:1::1", "DestinationPrefix": "fd00:96::/112", "Metric": 256}
        ]}"#;

    /// What its container knows.
    pub(crate) fn network() -> Network {
        let endpoint: Endpoint = hcn::parse(ENDPOINT).unwrap();
        Network { host_name: "web-0".into(), adapters: vec![adapter(&endpoint)], ..Network::default() }
    }

    #[test]
    fn an_endpoint_becomes_an_adapter() {
        let adapter = &network().adapters[0];
        assert_eq!(adapter.name, "vEthernet (cbr0_web)");
        assert_eq!(adapter.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.244.1.5/24", "fd00:1::5/64"]);
        assert_eq!((adapter.gateways.len(), adapter.routes.len()), (2, 2));
        assert_eq!(adapter.gateways[1].metric, 10);
        assert_eq!(adapter.metric, Some(5));
    }

    #[test]
    fn windows_has_one_suffix() {
        let mut network = network();
        assert_eq!(network.suffixes(SearchList::First), ["shop.svc.cluster.local"]);
        assert_eq!(network.suffixes(SearchList::Whole), ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
        network.search = vec!["own.local".into()];
        assert_eq!(network.suffixes(SearchList::Whole), ["own.local"]);
    }
}
