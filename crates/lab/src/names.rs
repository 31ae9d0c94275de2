//! How a pod's processes resolve names.

use std::net::IpAddr;

use dns::client::Rules;
use hcn::profile::Limit;
use hickory_proto::rr::Name;
use k8s_openapi::api::core::v1::PodSpec;

use crate::topology::{NodeSpec, Os, Topology};

/// How a pod's processes resolve names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dns {
    /// The servers.
    pub(crate) servers: Vec<IpAddr>,
    /// The suffixes that names are tried with. On Windows there is one, that of the pod's Kubernetes namespace; a build without that limit
    /// has those too that the pod asks for.
    pub(crate) search: Vec<String>,
    /// Options of resolv.conf, such as `ndots:5`.
    pub(crate) options: Vec<String>,
}

/// What a pod's spec asks for.
pub(crate) fn settings(spec: &PodSpec, namespace: &str, node: &NodeSpec, topology: &Topology) -> Dns {
    let own = spec.dns_config.as_ref();
    let list =
        |read: fn(&k8s_openapi::api::core::v1::PodDNSConfig) -> Option<&Vec<String>>| own.and_then(read).cloned().unwrap_or_default();
    let (servers, searches) = (list(|config| config.nameservers.as_ref()), list(|config| config.searches.as_ref()));
    let servers = servers.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    let options = own.and_then(|config| config.options.as_ref()).into_iter().flatten().filter_map(|option| {
        let name = option.name.clone()?;
        Some(option.value.as_ref().map_or(name.clone(), |value| format!("{name}:{value}")))
    });
    let is_host = spec.host_network == Some(true) && spec.dns_policy.as_deref() != Some("ClusterFirstWithHostNet");
    let mut dns = match spec.dns_policy.as_deref() {
        Some("None") => Dns::default(),
        Some("Default") => outside(topology),
        _ if is_host => outside(topology),
        _ => cluster(namespace, node.os, topology),
    };
    dns.servers.extend(servers);
    dns.search.extend(searches);
    dns.options.extend(options);
    if node.is_limited(Limit::OneDnsSuffix) {
        dns.search.truncate(1);
    }
    dns
}

impl Dns {
    /// How a resolver on a node asks. Who has a list on Windows goes through it after the name as it is, as `ndots:1` says.
    pub(crate) fn rules(&self, os: Os) -> Rules {
        let mut search: Vec<Name> = self.search.iter().filter_map(|text| Name::from_ascii(format!("{text}.")).ok()).collect();
        match os {
            Os::Windows if search.len() < 2 => Rules::Windows { suffix: search.pop() },
            Os::Windows => Rules::Linux { search, ndots: 1 },
            Os::Linux => Rules::Linux { search, ndots: 5 },
        }
    }
}

fn cluster(namespace: &str, os: Os, topology: &Topology) -> Dns {
    let domain = &topology.cluster.domain;
    let own = format!("{namespace}.svc.{domain}");
    match os {
        Os::Windows => Dns { servers: vec![topology.dns_address()], search: vec![own], options: Vec::new() },
        Os::Linux => Dns {
            servers: vec![topology.dns_address()],
            search: vec![own, format!("svc.{domain}"), domain.clone()],
            options: vec!["ndots:5".to_owned()],
        },
    }
}

/// Names as the node resolves them: the server outside.
fn outside(topology: &Topology) -> Dns {
    Dns { servers: topology.outside().first().map(ipnet::IpNet::addr).into_iter().collect(), ..Dns::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::{DEFAULT, read};

    #[test]
    fn windows_has_one_suffix_and_linux_a_list() {
        let topology = read(DEFAULT, &|_| Ok(())).unwrap().topology;
        let of = |spec: serde_json::Value, node: &str| {
            let node = serde_norway::from_str(&format!("{{name: it, {node}}}")).unwrap();
            let dns = settings(&serde_json::from_value(spec).unwrap(), "shop", &node, &topology);
            format!("{:?} {} {}", dns.servers, dns.search.join(" "), dns.options.join(" "))
        };
        let (linux, windows, transom) = ("os: linux", "os: windows, build: ws2022", "os: windows");
        assert_eq!(of(json!({"containers": []}), windows), "[10.96.0.10] shop.svc.cluster.local ");
        assert_eq!(of(json!({"containers": []}), transom), "[10.96.0.10] shop.svc.cluster.local ");
        assert_eq!(of(json!({"containers": []}), linux), "[10.96.0.10] shop.svc.cluster.local svc.cluster.local cluster.local ndots:5");
        assert_eq!(of(json!({"containers": [], "dnsPolicy": "Default"}), linux), "[203.0.113.9]  ");
        let own = json!({"containers": [], "dnsPolicy": "None", "dnsConfig": {
            "nameservers": ["192.0.2.1"], "searches": ["a.example", "b.example"], "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]}});
        assert_eq!(of(own.clone(), linux), "[192.0.2.1] a.example b.example ndots:2 edns0");
        assert_eq!(of(own.clone(), windows), "[192.0.2.1] a.example ndots:2 edns0");
        assert_eq!(of(own, transom), "[192.0.2.1] a.example b.example ndots:2 edns0");
    }
}
