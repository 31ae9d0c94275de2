//! What is there, compared with what should be, to the last file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::{self, File};
use std::net::IpAddr;
use std::path::Path;

use hcn::HcnExt;
use hcn::endpoint::Endpoint;
use hcn::namespace::Namespace;
use hcn::network::Network;
use serde_json::Value;

use crate::fleet::{Pod, addresses};
use crate::harness::{Node, Place, eventually};
use crate::plugin::Plugin;

/// Pods with the results of their ADDs.
pub(crate) type Live<'a> = BTreeMap<&'a str, Value>;

/// Everything there may be: a node, plugins, and pods.
pub(crate) struct Audit<'a> {
    node: &'a Node,
    plugins: &'a [Plugin],
    /// The links and the ports of the switch that are the node's own.
    links: BTreeSet<String>,
    ports: BTreeSet<String>,
}

impl<'a> Audit<'a> {
    /// Takes the node as it is now for one without pods.
    pub(crate) fn new(node: &'a Node, plugins: &'a [Plugin]) -> Self {
        let mut audit = Self { node, plugins, links: links(node), ports: ports(node) };
        // The first ADD of this plugin makes the network, whose NIC on the node stays.
        for plugin in plugins.iter().filter(|plugin| plugin.config["type"] == "nat") {
            audit.links.insert(format!("vEth-{}", plugin.network()));
            audit.ports.insert(format!("vEthernet ({})", plugin.network()));
        }
        audit
    }

    /// Exactly these pods are attached, now.
    pub(crate) fn expect(&self, pods: &[Pod<'_>], live: &Live<'_>) {
        nothing_goes(self.node);
        let findings = self.findings(pods, live);
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    /// Exactly these pods are attached, as soon as the switch has caught up with an HNS that was away.
    pub(crate) fn expect_soon(&self, pods: &[Pod<'_>], live: &Live<'_>) {
        eventually("the switch has what HNS has", || self.switch(pods, live).is_empty());
        self.expect(pods, live);
    }

    fn findings(&self, pods: &[Pod<'_>], live: &Live<'_>) -> Vec<String> {
        let mut findings = Vec::new();
        findings.extend(twice("results", live.values().flat_map(addresses)));
        findings.extend(self.service(pods, live));
        findings.extend(self.switch(pods, live));
        self.plugins.iter().filter(|plugin| plugin.has_ipam()).for_each(|plugin| findings.extend(self.leases(plugin, pods, live)));
        findings.extend(self.files());
        findings
    }

    /// What HNS has.
    fn service(&self, pods: &[Pod<'_>], live: &Live<'_>) -> Vec<String> {
        let endpoints: Vec<Endpoint> = self.node.client.objects(&[]).expect("the endpoints");
        let namespaces: Vec<Namespace> = self.node.client.objects(&[]).expect("the namespaces");
        let networks: Vec<Network> = self.node.client.objects(&[]).expect("the networks");
        let mut findings = Vec::new();
        let names: BTreeSet<&str> = networks.iter().map(|network| network.name.as_str()).collect();
        findings.extend(differ("how many networks", &networks.len(), &names.len()));
        findings.extend(twice("endpoints", endpoints.iter().flat_map(addresses_of)));
        let found: BTreeMap<String, BTreeSet<IpAddr>> =
            endpoints.iter().map(|endpoint| (endpoint.name.clone(), addresses_of(endpoint).into_iter().collect())).collect();
        let expected = |pod: &Pod<'_>| Some((pod.endpoint(), addresses(live.get(pod.id.as_str())?).into_iter().collect()));
        findings.extend(differ("endpoints", &found, &pods.iter().filter_map(expected).collect()));
        findings.extend(differ("how many endpoints", &endpoints.len(), &found.len()));
        let paths: BTreeSet<String> = live.keys().map(|id| format!("/run/netns/{id}")).collect();
        findings.extend(differ("namespaces", &namespaces.iter().map(|namespace| namespace.name.clone()).collect(), &paths));
        findings.extend(differ("how many namespaces", &namespaces.len(), &paths.len()));
        findings
    }

    /// What the switch has, and what is in the namespaces.
    fn switch(&self, pods: &[Pod<'_>], live: &Live<'_>) -> Vec<String> {
        let mut expected = self.ports.clone();
        expected.extend(pods.iter().filter(|pod| live.contains_key(pod.id.as_str())).map(Pod::endpoint));
        let mut findings: Vec<String> = differ("ports", &ports(self.node), &expected).into_iter().collect();
        let with_ends = self.links.iter().cloned().chain(ends(self.node)).collect();
        findings.extend(differ("links of the node", &links(self.node), &with_ends));
        for pod in pods {
            let result = live.get(pod.id.as_str());
            let expected = ["lo"].into_iter().chain(result.map(|_| "eth0")).map(str::to_owned).collect();
            let found = links(&pod.place);
            findings.extend(differ(&format!("links of {}", pod.id), &found, &expected));
            if let Some(result) = result.filter(|_| found == expected) {
                let has = pod.place.addresses("eth0");
                findings.extend(addresses(result).iter().filter(|ip| !has.contains(ip)).map(|ip| format!("{} has no {ip}", pod.id)));
            }
        }
        findings
    }

    /// The files of host-local, and their lock.
    fn leases(&self, plugin: &Plugin, pods: &[Pod<'_>], live: &Live<'_>) -> Vec<String> {
        let directory = self.node.file("addresses").join(plugin.network());
        let mut found = BTreeMap::new();
        let mut findings = Vec::new();
        for name in names(&directory) {
            let content = fs::read_to_string(directory.join(&name)).expect("a file");
            match name.parse::<IpAddr>() {
                Ok(address) => _ = found.insert(address, content),
                Err(_) if name == "lock" || name.starts_with("last_reserved_ip.") => {}
                Err(_) => findings.push(format!("what is {name} in {}?", directory.display())),
            }
        }
        let mut expected = BTreeMap::new();
        for pod in pods.iter().filter(|pod| pod.plugin.network() == plugin.network()) {
            let own = live.get(pod.id.as_str()).map(addresses).unwrap_or_default();
            expected.extend(own.into_iter().map(|address| (address, format!("{}\r\neth0", pod.id))));
        }
        findings.extend(differ(&format!("addresses of {}", plugin.network()), &found, &expected));
        let lock = directory.join("lock");
        let held = File::open(&lock).is_ok_and(|file| file.try_lock().is_err());
        findings.extend(held.then(|| format!("somebody holds {}", lock.display())));
        findings
    }

    /// What is in the directories of the daemons.
    fn files(&self) -> Vec<String> {
        let left = names(&self.node.file("namespaces"));
        let mut findings: Vec<String> = differ("namespaces of the switch", &left, &Vec::new()).into_iter().collect();
        let temporary = |name: &String| name.contains("tmp") || name.contains("temp") || name.starts_with('.');
        findings.extend(names(&self.node.file("state")).into_iter().filter(temporary).map(|name| format!("{name} is left in the state")));
        findings
    }
}

/// Waits until the links of pods that went are gone: the kernel takes its time.
pub(crate) fn nothing_goes(node: &Node) {
    eventually("no link is about to go", || !links(node).iter().any(|name| name.starts_with("gone")));
}

/// The switch's ends of NICs, and what is beside them, where known flows go by the kernel.
fn ends(node: &Node) -> BTreeSet<String> {
    if node.look("/data-path")["DataPath"] != "bpf" {
        return BTreeSet::new();
    }
    let endpoints: Vec<Endpoint> = node.client.objects(&[]).expect("the endpoints");
    let attached = endpoints.iter().filter(|endpoint| !endpoint.namespace.is_nil());
    attached.flat_map(|endpoint| ["v", "t"].map(|prefix| format!("{prefix}{}", &endpoint.id.simple().to_string()[..12]))).collect()
}

/// The names of the links in a place.
fn links(place: &Place) -> BTreeSet<String> {
    place.netlink().links().expect("the links").into_iter().map(|link| link.name).collect()
}

/// The names of the ports that the switch has.
fn ports(node: &Node) -> BTreeSet<String> {
    let rows = node.look("/ports");
    rows.as_array().into_iter().flatten().filter_map(|row| row["Name"].as_str()).map(str::to_owned).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn addresses_of(endpoint: &Endpoint) -> Vec<IpAddr> {
    endpoint.ip_configurations.iter().map(|ip| ip.ip_address.parse().expect("an address")).collect()
}

/// Addresses that somebody else has too.
fn twice(where_: &str, all: impl Iterator<Item = IpAddr>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|address| !seen.insert(*address)).map(|address| format!("{address} is there twice in the {where_}")).collect()
}

fn differ<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Option<String> {
    (found != expected).then(|| format!("{what}:\n  found    {found:?}\n  expected {expected:?}"))
}
