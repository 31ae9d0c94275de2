//! Mixed clusters: two nodes whose networking is HNS, and one that is the kernel's.

use std::net::IpAddr;
use std::path::Path;

use serde_json::Value;

use crate::agent::{Flanneld, dual, host_gw, network, networks, pod_in, subnet_env, vxlan};
use crate::cluster::Cluster;
use crate::harness::agent as agent_program;
use crate::harness::document::endpoint;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, Pod, World, answers, eventually, pings, run, serve, tcp};
use crate::hns::cluster_of;

/// A pod of the kernel: what the CNI plugin `bridge` makes of the first subnet of a node.
pub(crate) struct KernelPod {
    pub(crate) place: Place,
    pub(crate) addresses: Vec<IpAddr>,
}

/// A world whose third node is the kernel's own.
pub(crate) fn mixed_world() -> World {
    let mut world = World::bare(3);
    for node in &mut world.nodes[..2] {
        node.start_vswitchd();
        node.start_hnsd(&[]);
    }
    world
}

/// Starts an agent on every node, and waits until all are ready.
pub(crate) fn start<'a>(world: &'a World, kubeconfig: &Path, conf: &Value) -> Vec<Flanneld<'a>> {
    let os = |node: &Node| if node.number == 3 { "linux" } else { "windows" };
    let agents: Vec<Flanneld> =
        world.nodes.iter().map(|node| Flanneld::spawn_with(node, kubeconfig, os(node), conf, &["--ip-masq", "--iface", "eth0"])).collect();
    agents.iter().for_each(Flanneld::wait);
    agents
}

/// The bridge of a node, and a pod on it.
pub(crate) fn kernel_pod(node: &Node, subnet: usize) -> KernelPod {
    node.ip("link add cni0 type bridge");
    node.ip(&format!("addr add 10.244.{subnet}.1/24 dev cni0"));
    node.ip(&format!("addr add fd00:244:{subnet}::1/64 dev cni0 nodad"));
    node.ip("link set cni0 up");
    pod_on_bridge(node, subnet, 11)
}

/// A pod on the bridge of a node, by its number there.
pub(crate) fn pod_on_bridge(node: &Node, subnet: usize, number: usize) -> KernelPod {
    let place = Place::make(Path::new("/run/places"), &format!("kernel-pod{subnet}-{number}"));
    let mtu = subnet_env(node).lines().find_map(|line| line.strip_prefix("FLANNEL_MTU=").map(str::to_owned)).expect("an MTU");
    let near = format!("pod{number}");
    node.netlink().create_veth(&near, "peer0").expect("a cable");
    node.netlink().move_to(node.link("peer0").index, &place.namespace).expect("its other end");
    node.ip(&format!("link set {near} master cni0 up"));
    // As flannel has it from `bridge`, so that a pod reaches itself by a Service.
    node.ip(&format!("link set {near} type bridge_slave hairpin on"));
    place.ip("link set peer0 name eth0");
    place.ip(&format!("link set eth0 up mtu {mtu}"));
    place.ip(&format!("addr add 10.244.{subnet}.{number}/24 dev eth0"));
    place.ip(&format!("addr add fd00:244:{subnet}::{number}/64 dev eth0 nodad"));
    place.ip(&format!("route add default via 10.244.{subnet}.1"));
    place.ip(&format!("route add default via fd00:244:{subnet}::1"));
    serve::start(&place);
    let addresses = [format!("10.244.{subnet}.{number}"), format!("fd00:244:{subnet}::{number}")];
    KernelPod { place, addresses: addresses.iter().map(|text| text.parse().expect("an address")).collect() }
}

/// Everybody reaches everybody, under their own addresses.
fn all_meet(pods: &[Pod; 2], kernel: &KernelPod) {
    let everybody = [(&*pods[0], &pods[0].addresses), (&*pods[1], &pods[1].addresses), (&kernel.place, &kernel.addresses)];
    for (from, own) in everybody {
        for (to, others) in everybody.iter().filter(|(to, _)| to.name != from.name) {
            for (own, other) in own.iter().zip(others.iter()) {
                pings(from, *other);
                assert_eq!(tcp(from, *other).ip(), *own, "{} to {}", from.name, to.name);
            }
        }
    }
}

#[test]
fn tunnels_between_hns_and_the_kernel() {
    run("mixed::tunnels_between_hns_and_the_kernel", || {
        let world = mixed_world();
        let cluster = cluster_of(&world, true);
        let agents = start(&world, &cluster.kubeconfig(), &dual(vxlan()));
        let pods = [1, 2].map(|n| pod_in(&world.nodes[n - 1], "vxlan0", n, 11, true));
        let kernel = kernel_pod(&world.nodes[2], 3);
        all_meet(&pods, &kernel);
        assert_eq!(tcp(&kernel.place, OUTSIDE[0]).ip(), world.nodes[2].v4(), "what leaves has the node's address");
        assert_eq!(tcp(&kernel.place, OUTSIDE[1]).ip(), world.nodes[2].v6());
        // A restart leaves the device and its hardware address alone.
        let before = world.nodes[2].link("flannel.4096");
        drop(agents);
        pings(&kernel.place, pods[0].v4());
        assert_eq!(tcp(&kernel.place, OUTSIDE[0]).ip(), world.nodes[2].v4(), "also while there is no agent");
        let agents = start(&world, &cluster.kubeconfig(), &dual(vxlan()));
        assert_eq!(world.nodes[2].link("flannel.4096").index, before.index);
        // What somebody takes away is made again.
        world.nodes[2].ip("link del flannel.4096");
        eventually("there is a device again", || world.nodes[2].find_link("flannel.4096").is_some_and(|link| link.index != before.index));
        pings(&kernel.place, pods[0].v4());
        all_meet(&pods, &kernel);
        cluster.remove("node1");
        eventually("there is no way any more", || !answers(&kernel.place, pods[0].v4()));
        assert!(!world.nodes[2].ip("route").contains("10.244.1.0/24"));
        drop(agents);
    });
}

#[test]
fn gateways_of_hns_and_the_kernel() {
    if let Some(why) = agent_program::cannot_route() {
        return println!("{why}");
    }
    run("mixed::gateways_of_hns_and_the_kernel", || {
        let world = mixed_world();
        let cluster = cluster_of(&world, true);
        let agents = start(&world, &cluster.kubeconfig(), &dual(host_gw()));
        assert!(subnet_env(world.one()).contains("FLANNEL_MTU=1500\nFLANNEL_IPMASQ=true\n"));
        assert_eq!(networks(world.one(), "cbr0")[0].dns.server_list, ["10.96.0.10"]);
        let pods = [1, 2].map(|n| pod_in(&world.nodes[n - 1], "cbr0", n, 11, true));
        let kernel = kernel_pod(&world.nodes[2], 3);
        all_meet(&pods, &kernel);
        assert_eq!(tcp(&kernel.place, OUTSIDE[0]).ip(), world.nodes[2].v4());
        // A route that somebody takes away comes back, and one that is wrong goes.
        world.nodes[2].ip("route del 10.244.1.0/24");
        world.nodes[2].ip("route add 10.244.9.0/24 via 192.168.0.1");
        eventually("the routes are right", || {
            let routes = world.nodes[2].ip("route");
            routes.contains("10.244.1.0/24 via 192.168.0.1") && !routes.contains("10.244.9.0/24")
        });
        pings(&kernel.place, pods[0].v4());
        cluster.remove("node2");
        eventually("nobody has a way there", || !world.one().ip("route").contains("10.244.2.0/24 via"));
        assert!(!answers(&pods[0], pods[1].v4()));
        drop(agents);
    });
}

#[test]
fn tunnels_over_ipv6() {
    run("mixed::tunnels_over_ipv6", || {
        let world = mixed_world();
        let cluster = Cluster::start(&world);
        world.nodes.iter().for_each(|node| cluster.add(&node.name, &[&format!("fd00:244:{}::/64", node.number)]));
        let mut conf = dual(vxlan());
        conf["EnableIPv4"] = false.into();
        let _agents = start(&world, &cluster.kubeconfig(), &conf);
        assert_eq!(cluster.annotation("node1", "public-ipv6"), "fd00:99::1");
        let expected = "FLANNEL_IPV6_NETWORK=fd00:244::/32\nFLANNEL_IPV6_SUBNET=fd00:244:1::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n";
        assert_eq!(subnet_env(world.one()), expected);
        let pods = [1, 2].map(|n| {
            let document = endpoint("pod", &[&format!("fd00:244:{n}::11/64")], &[&format!("fd00:244:{n}::1")], &[]);
            world.nodes[n - 1].pod(network(&world.nodes[n - 1], "vxlan0"), &document)
        });
        let kernel = kernel_pod(&world.nodes[2], 3);
        for (from, to, own) in [
            (&*pods[0], pods[1].v6(), pods[0].v6()),
            (&*pods[0], kernel.addresses[1], pods[0].v6()),
            (&kernel.place, pods[1].v6(), kernel.addresses[1]),
        ] {
            pings(from, to);
            assert_eq!(tcp(from, to).ip(), own);
        }
    });
}

#[test]
fn a_node_of_the_kernel_gets_another_address() {
    run("mixed::a_node_of_the_kernel_gets_another_address", || {
        let world = mixed_world();
        let cluster = cluster_of(&world, true);
        let agents = start(&world, &cluster.kubeconfig(), &dual(vxlan()));
        let pods = [1, 2].map(|n| pod_in(&world.nodes[n - 1], "vxlan0", n, 11, true));
        let kernel = kernel_pod(&world.nodes[2], 3);
        pings(&kernel.place, pods[0].v4());
        world.nodes[2].ip("addr del 192.168.0.3/24 dev eth0");
        world.nodes[2].ip("addr add 192.168.0.33/24 dev eth0");
        world.nodes[2].ip("route add default via 192.168.0.254 dev eth0");
        eventually("the others are told", || cluster.annotation("node3", "public-ip") == "192.168.0.33");
        pings(&kernel.place, pods[0].v4());
        all_meet(&pods, &kernel);
        // A node that is made anew with another subnet: what was there for the old one goes.
        cluster.remove("node3");
        cluster.add("node3", &["10.244.8.0/24", "fd00:244:8::/64"]);
        eventually("the file says so", || subnet_env(&world.nodes[2]).contains("FLANNEL_SUBNET=10.244.8.1/24"));
        let addresses = world.nodes[2].addresses("flannel.4096");
        assert!(
            addresses.contains(&"10.244.8.0".parse().expect("an address"))
                && !addresses.contains(&"10.244.3.0".parse().expect("an address"))
        );
        drop(agents);
    });
}
