//! What flanneld is told, and by whom: its flags, its variables, and the cluster.

use std::fs;

use crate::agent::{Flanneld, vxlan};
use crate::cluster::Cluster;
use crate::harness::{World, eventually, run};
use crate::hns::cluster_of;

#[test]
fn the_interface_is_the_one_that_leads_somewhere() {
    run("options::the_interface_is_the_one_that_leads_somewhere", || {
        let world = World::bare(1);
        let node = world.one();
        node.netlink().create_veth("eth1", "far1").expect("a cable");
        ["eth1", "far1"].iter().for_each(|link| _ = node.ip(&format!("link set {link} up")));
        node.ip("addr add 198.18.0.1/24 dev eth1");
        node.ip("route add unreachable 198.19.0.0/24");
        let cluster = cluster_of(&world, false);
        let start = |address: &str| Flanneld::spawn(node, &cluster, "linux", &vxlan(), &["--iface-can-reach", address]);
        for (address, public) in [("198.18.0.77", "198.18.0.1"), ("203.0.113.9", "192.168.0.1")] {
            start(address).wait();
            assert_eq!(cluster.annotation("node1", "public-ip"), public, "by way of {address}");
        }
        let lost = start("198.19.0.7");
        lost.says("interface: no interface has a route to 198.19.0.7, as --iface-can-reach asks for; name one with --iface: ");
        node.ip("route del unreachable 198.19.0.0/24");
        lost.wait();
    });
}

#[test]
fn the_api_server_is_at_another_address_than_its_file_says() {
    run("options::the_api_server_is_at_another_address_than_its_file_says", || {
        let world = World::bare(1);
        let cluster = cluster_of(&world, false);
        let text = fs::read_to_string(cluster.kubeconfig()).expect("the kubeconfig");
        let (right, wrong) = ("https://192.168.0.254:6443", world.one().file("wrong-kubeconfig"));
        assert!(text.contains(right), "{text}");
        fs::write(&wrong, text.replace(right, "https://192.168.0.254:1")).expect("a kubeconfig");
        let lost = Flanneld::spawn_with(world.one(), &wrong, "linux", &vxlan(), &[]);
        lost.says("api: the API server does not answer");
        drop(lost);
        Flanneld::spawn_with(world.one(), &wrong, "linux", &vxlan(), &["--kube-api-url", right]).wait();
    });
}

#[test]
fn the_node_is_the_one_of_its_pod() {
    run("options::the_node_is_the_one_of_its_pod", || {
        let world = World::bare(2);
        let cluster = Cluster::start(&world);
        cluster.add("node1", &["10.244.1.0/24"]);
        cluster.add("node2", &["10.244.2.0/24"]);
        let pod = [("POD_NAMESPACE", "default"), ("POD_NAME", "kube-flannel-ds-x")];
        let one = Flanneld::spawn_as(world.one(), &pod, &cluster.kubeconfig(), "linux", &vxlan(), &[]);
        one.says("node: the pod default/kube-flannel-ds-x cannot be read: ");
        cluster.add_pod("kube-flannel-ds-x", "node1");
        one.wait();
        assert_eq!(cluster.annotation("node1", "public-ip"), "192.168.0.1");
        // A name that is given counts more.
        let named = [pod[0], pod[1], ("NODE_NAME", "node2")];
        let _two = Flanneld::spawn_as(world.two(), &named, &cluster.kubeconfig(), "linux", &vxlan(), &[]);
        eventually("the other node is told of", || cluster.annotation("node2", "public-ip") == "192.168.0.2");
    });
}
