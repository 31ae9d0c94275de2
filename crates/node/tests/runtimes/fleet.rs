//! Many pods on networks of several kinds, all on one node.

use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::document::{network, overlay_subnet, policy, subnet};
use crate::harness::{Node, Place, World};
use crate::plugin::{Outcome, Plugin};

/// Where the namespaces of pods are.
pub(crate) const NAMESPACES: &str = "/run/netns";

/// How often a runtime tries what fails.
pub(crate) const ATTEMPTS: usize = 100;

/// How long it waits between.
const PAUSE: Duration = Duration::from_millis(700);

/// A pod: a namespace, and the network that it is to be on.
pub(crate) struct Pod<'a> {
    pub(crate) id: String,
    pub(crate) place: Place,
    pub(crate) plugin: &'a Plugin,
    node: &'a Node,
}

impl<'a> Pod<'a> {
    /// Makes the namespace.
    pub(crate) fn make(node: &'a Node, plugin: &'a Plugin, id: &str) -> Self {
        Self { id: id.to_owned(), place: Place::make(Path::new(NAMESPACES), id), plugin, node }
    }

    /// What its endpoint is called.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}_{}", self.id, self.plugin.network())
    }

    /// Calls the plugin to its end.
    pub(crate) fn call(&self, command: &str) -> Outcome {
        self.plugin.start(self.node, command, &self.id).finish()
    }

    /// ADD, which must succeed.
    pub(crate) fn add(&self) -> Value {
        match self.call("ADD") {
            Outcome::Success(result) => result,
            other => panic!("ADD {}: {other:?}", self.endpoint()),
        }
    }

    /// DEL, which must succeed.
    pub(crate) fn del(&self) {
        let outcome = self.call("DEL");
        assert!(matches!(outcome, Outcome::Success(_)), "DEL {}: {outcome:?}", self.endpoint());
    }

    /// DEL as runtimes do it: until it succeeds.
    pub(crate) fn del_in_the_end(&self) {
        for _ in 0..ATTEMPTS {
            match self.call("DEL") {
                Outcome::Success(_) => return,
                Outcome::Failure(error) => expect_to_try_again(&error),
                Outcome::Killed => panic!("nobody kills this one"),
            }
        }
        panic!("DEL {} never succeeds", self.endpoint());
    }

    /// Starts the plugin, to be waited for or killed.
    pub(crate) fn start(&self, command: &str) -> crate::plugin::Running {
        self.plugin.start(self.node, command, &self.id)
    }
}

/// The only error that a daemon's death may lead to.
pub(crate) fn expect_to_try_again(error: &Value) {
    assert_eq!(error["code"], 11, "{error}");
    thread::sleep(PAUSE);
}

/// The addresses of a result.
pub(crate) fn addresses(result: &Value) -> Vec<IpAddr> {
    let texts = result["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str()?.split('/').next());
    texts.map(|text| text.parse().expect("an address")).collect()
}

/// Makes the networks that are there before any pod, and a plugin for each kind: addresses of host-local on an overlay and on a
/// bridge, and of HNS on a bridge, and on a network that the first ADD makes.
pub(crate) fn plugins(world: &World) -> Vec<Plugin> {
    let node = world.one();
    let router = policy("DrMacAddress", json!({ "Address": "00-15-5D-AA-00-01" }));
    let overlay = [overlay_subnet("10.244.1.0/24", "10.244.1.1", 4096), overlay_subnet("fd00:244:1::/64", "fd00:244:1::1", 4096)];
    node.network(&network("vxlan0", "Overlay", &overlay, &[router]));
    let bridge = [subnet("10.245.1.0/24", "10.245.1.2"), subnet("fd00:245:1::/64", "fd00:245:1::2")];
    node.network(&network("pods", "L2Bridge", &bridge, &[]));
    node.network(&network("plain", "L2Bridge", &[subnet("10.246.1.0/24", "10.246.1.1")], &[]));
    let behind = json!({ "cniVersion": "1.1.0", "name": "behind", "type": "nat", "ipam": { "subnet": "172.20.0.0/24" } });
    let plain = json!({ "cniVersion": "1.1.0", "name": "plain", "type": "win-bridge", "apiVersion": 2 });
    let configs = [both_families(node, "win-overlay", "vxlan0", 244), both_families(node, "win-bridge", "pods", 245), plain, behind];
    configs.into_iter().map(Plugin::new).collect()
}

fn both_families(node: &Node, plugin: &str, network: &str, part: u8) -> Value {
    let v4 = (format!("10.{part}.1.0/24"), format!("10.{part}.1.10"));
    let v6 = (format!("fd00:{part}:1::/64"), format!("fd00:{part}:1::10"));
    host_local(node, plugin, network, &[v4, v6])
}

/// A configuration with addresses of host-local, from subnets and the first address of each that is given out.
pub(crate) fn host_local(node: &Node, plugin: &str, network: &str, subnets: &[(String, String)]) -> Value {
    let ranges: Vec<Value> = subnets.iter().map(|(subnet, start)| json!([{ "subnet": subnet, "rangeStart": start }])).collect();
    let ipam = json!({ "type": "host-local", "dataDir": node.file("addresses"), "ranges": ranges });
    json!({ "cniVersion": "1.1.0", "name": network, "type": plugin, "apiVersion": 2, "ipam": ipam })
}

/// Makes pods, spread over the plugins.
pub(crate) fn pods<'a>(node: &'a Node, plugins: &'a [Plugin], count: usize) -> Vec<Pod<'a>> {
    let plugin_of = |number: usize| &plugins[number % plugins.len()];
    (0..count).map(|number| Pod::make(node, plugin_of(number), &format!("pod{number}"))).collect()
}
