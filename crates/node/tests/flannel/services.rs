//! Services in mixed clusters: kube-proxy on two nodes whose networking is HNS, on a third that is the kernel's, and backends on all of them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use crate::agent::{dual, host_gw, pod_in, vxlan};
use crate::harness::agent as agent_program;
use crate::harness::api::Api;
use crate::harness::balancer::{at, comes_to, everybody_new, is_refused, names};
use crate::harness::probe::{meet, meet_udp};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, Pod, World, exchange, run};
use crate::kernel_services::kernel_proxy;
use crate::mixed::{KernelPod, kernel_pod, mixed_world, start};

/// The addresses that lead to the first node from outside, whichever Service they are given to.
const OUTWARD: &str = "198.51.100.0/24";

/// A mixed cluster with a pod on every node.
struct Cluster<'a> {
    world: &'a World,
    api: &'a Api,
    pods: &'a [Pod; 2],
    kernel: &'a KernelPod,
}

/// The addresses of a Service by number.
fn cluster_ips(service: usize) -> [String; 2] {
    [format!("10.96.0.{service}"), format!("fd00:96::{service}")]
}

fn node_port(service: usize) -> u16 {
    30_000 + service as u16
}

impl<'a> Cluster<'a> {
    /// A Service by number, and its backends.
    fn service(&self, number: usize, more: Value, backends: &[(IpAddr, &Node)]) {
        let has_node_port = more["type"].is_string();
        let port = |name: &str| {
            let mut port = json!({"name": name, "protocol": name.to_uppercase(), "port": 80, "targetPort": PORT});
            if has_node_port {
                port["nodePort"] = json!(node_port(number));
            }
            port
        };
        let own = cluster_ips(number);
        let mut spec = json!({
            "clusterIP": own[0], "clusterIPs": own, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
            "ports": [port("tcp"), port("udp")]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let name = format!("s{number}");
        self.api.service(&name, &spec);
        self.api.backends(&name, PORT, backends);
    }

    /// Everybody, with the node they are on.
    fn everybody(&self) -> Vec<(IpAddr, &'a Node)> {
        let pods =
            self.pods.iter().zip(&self.world.nodes).flat_map(|(pod, node)| pod.addresses.iter().map(move |address| (*address, node)));
        pods.chain(self.kernel_backend()).collect()
    }

    /// The kernel's pod, with the node it is on.
    fn kernel_backend(&self) -> impl Iterator<Item = (IpAddr, &'a Node)> {
        self.kernel.addresses.iter().map(|address| (*address, &self.world.nodes[2]))
    }

    fn all_names(&self) -> BTreeSet<String> {
        names(&[&self.pods[0], &self.pods[1]]).into_iter().chain([self.kernel.place.name.clone()]).collect()
    }

    /// The nodes whose networking is HNS.
    fn hns_nodes(&self) -> &'a [Node] {
        &self.world.nodes[..2]
    }

    /// The node whose networking is the kernel's.
    fn kernel_node(&self) -> &'a Node {
        &self.world.nodes[2]
    }

    /// Pods and nodes: whom load balancers serve where they are.
    fn inside(&self) -> [&'a Place; 6] {
        let [one, two, three] = [0, 1, 2].map(|index| &*self.world.nodes[index]);
        [&self.pods[0], &self.pods[1], &self.kernel.place, one, two, three]
    }

    /// Every node with the name of its pod.
    fn nodes_and_names(&self) -> [(&'a Node, &'a str); 3] {
        let names = [self.pods[0].name.as_str(), &self.pods[1].name, &self.kernel.place.name];
        [0, 1, 2].map(|index| (&self.world.nodes[index], names[index]))
    }

    /// Where a node port is on a node.
    fn node_port(&self, node: &Node, service: usize) -> [SocketAddr; 2] {
        [node.v4(), node.v6()].map(|address| SocketAddr::new(address, node_port(service)))
    }

    /// Where a node port is, on all nodes.
    fn node_ports(&self, service: usize) -> Vec<SocketAddr> {
        self.world.nodes.iter().flat_map(|node| self.node_port(node, service)).collect()
    }

    /// All addresses of a Service with backends everywhere are reached from everywhere, over TCP and UDP.
    fn is_reached_from_everywhere(&self) {
        self.service(80, json!({"type": "LoadBalancer", "externalIPs": ["198.51.100.8"]}), &self.everybody());
        self.api.give_ingress("s80", "198.51.100.9");
        let all = self.all_names();
        let outward = [at("198.51.100.8", 80), at("198.51.100.9", 80)].into_iter().chain(self.node_ports(80));
        let fronts = cluster_ips(80).map(|address| at(&address, 80)).into_iter().chain(outward.clone());
        let inside = self.inside().into_iter().flat_map(|place| fronts.clone().map(move |front| (place, front)));
        let outside = outward.map(|front| (&self.world.outside, front));
        for (place, front) in inside.chain(outside) {
            comes_to(place, front, &all);
            for _ in 0..4 {
                let (name, _) = meet_udp(place, front).unwrap_or_else(|error| panic!("{} asks {front} over UDP: {error}", place.name));
                assert!(all.contains(&name), "{} meets {name} at {front}", place.name);
            }
            exchange(place, front, 256 << 10);
        }
    }

    /// A client keeps its backend.
    fn affinity_holds(&self) {
        self.service(81, json!({"type": "NodePort", "sessionAffinity": "ClientIP"}), &self.everybody());
        let inside = self.inside().into_iter().flat_map(|place| cluster_ips(81).map(|address| (place, at(&address, 80))));
        let outside = self.node_ports(81).into_iter().map(|front| (&self.world.outside, front));
        for (place, front) in inside.chain(outside) {
            crate::harness::eventually(&format!("{} reaches {front}", place.name), || meet(place, front).is_ok());
            let met = everybody_new(place, front);
            assert_eq!(met.len(), 1, "{} at {front} meets {met:?}", place.name);
        }
    }

    /// With the internal policy Local, clients have the backends of their node.
    fn the_internal_policy_holds(&self) {
        self.service(82, json!({"internalTrafficPolicy": "Local"}), &self.everybody());
        let places = self.inside();
        for (index, (_, name)) in self.nodes_and_names().into_iter().enumerate() {
            for place in [places[index], places[index + 3]] {
                cluster_ips(82).iter().for_each(|address| comes_to(place, at(address, 80), &[name.to_owned()].into()));
            }
        }
    }

    /// With the external policy Local, clients from outside have the backends of the node they came to, which see their address.
    fn the_external_policy_holds(&self) {
        self.service(83, json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"}), &self.everybody());
        self.api.give_ingress("s83", "198.51.100.12");
        let kernel = self.kernel_node();
        for (place, own) in [(&self.world.outside, OUTSIDE), (&**kernel, [kernel.v4(), kernel.v6()])] {
            // What the kernel's node asks of itself is asked from inside.
            let asked = self.nodes_and_names().into_iter().filter(|(node, _)| node.name != place.name);
            for (node, name) in asked {
                for (front, own) in self.node_port(node, 83).into_iter().zip(own) {
                    self.comes_to_unchanged(place, front, name, own);
                }
            }
        }
        self.comes_to_unchanged(&self.world.outside, at("198.51.100.12", 80), &self.pods[0].name, OUTSIDE[0]);
        for place in self.inside() {
            cluster_ips(83).iter().for_each(|address| comes_to(place, at(address, 80), &self.all_names()));
        }
    }

    /// Somebody meets only this one, who sees their own address.
    fn comes_to_unchanged(&self, place: &Place, front: SocketAddr, name: &str, own: IpAddr) {
        comes_to(place, front, &[name.to_owned()].into());
        assert_eq!(meet(place, front).expect("an answer").1.ip(), own, "{} at {front}", place.name);
    }

    /// A Service whose only backend is the kernel's: there is nobody for clients whom the external policy keeps at other nodes.
    fn only_the_kernel_has_a_backend(&self) {
        let backend: Vec<_> = self.kernel_backend().collect();
        self.service(84, json!({"type": "NodePort", "externalTrafficPolicy": "Local"}), &backend);
        let only = [self.kernel.place.name.clone()].into();
        for place in self.inside() {
            cluster_ips(84).iter().for_each(|address| comes_to(place, at(address, 80), &only));
        }
        for place in [&self.world.outside, &**self.kernel_node()] {
            self.hns_nodes().iter().flat_map(|node| self.node_port(node, 84)).for_each(|front| is_refused(place, front));
        }
        for (front, own) in self.node_port(self.kernel_node(), 84).into_iter().zip(OUTSIDE) {
            self.comes_to_unchanged(&self.world.outside, front, &self.kernel.place.name, own);
        }
    }
}

/// Makes a cluster and tries all kinds of Services in it; kube-proxy has these arguments on a node.
fn services_are_served(test: &str, conf: fn() -> Value, network: &str, arguments: fn(usize) -> Vec<String>) {
    run(test, || {
        let world = mixed_world();
        let api = Api::start(&world);
        for node in &world.nodes {
            let (v4, v6) = (format!("10.244.{}.0/24", node.number), format!("fd00:244:{}::/64", node.number));
            api.patch(&format!("/api/v1/nodes/{}", node.name), &json!({"spec": {"podCIDR": v4, "podCIDRs": [v4, v6]}}));
        }
        let _agents = start(&world, &api.kubeconfig(), &dual(conf()));
        world.route_to(world.one(), &[OUTWARD]);
        let start = |node: &Node| {
            let arguments = arguments(node.number);
            api.kube_proxy(node, network, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let _proxies: Vec<_> = world.nodes[..2].iter().map(start).collect();
        let _kernel_proxy = kernel_proxy(&world.nodes[2], &api, &["--cluster-cidr", "10.244.0.0/16,fd00:244::/32"]);
        let pods = [1, 2].map(|n| pod_in(&world.nodes[n - 1], network, n, 11, true));
        let kernel = kernel_pod(&world.nodes[2], 3);
        let cluster = Cluster { world: &world, api: &api, pods: &pods, kernel: &kernel };
        cluster.is_reached_from_everywhere();
        cluster.affinity_holds();
        cluster.the_internal_policy_holds();
        cluster.the_external_policy_holds();
        cluster.only_the_kernel_has_a_backend();
    });
}

#[test]
fn services_over_tunnels() {
    // With DSR on one node and without on the other.
    let arguments = |number: usize| {
        let mut arguments = vec!["--source-vip".to_owned(), format!("10.244.{number}.200,fd00:244:{number}::200")];
        arguments.extend((number == 1).then(|| "--enable-dsr".to_owned()));
        arguments
    };
    services_are_served("services::services_over_tunnels", vxlan, "vxlan0", arguments);
}

#[test]
fn services_over_gateways() {
    if let Some(why) = agent_program::cannot_route() {
        return println!("{why}");
    }
    services_are_served("services::services_over_gateways", host_gw, "cbr0", |_| Vec::new());
}
