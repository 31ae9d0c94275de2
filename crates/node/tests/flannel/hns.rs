//! Nodes whose networking is HNS: tunnels and gateways.

use std::net::IpAddr;
use std::thread;

use serde_json::json;

use crate::agent::{Flanneld, dual, network, networks, pod, pod_in, subnet_env, vxlan};
use crate::cluster::Cluster;
use crate::harness::serve::PORT;
use crate::harness::{Pod, World, answers, eventually, exchange, pings, run, tcp};

/// A cluster of nodes with a subnet each, by their numbers.
pub(crate) fn cluster_of(world: &World, dual: bool) -> Cluster {
    let cluster = Cluster::start(world);
    for node in &world.nodes {
        let (v4, v6) = (format!("10.244.{}.0/24", node.number), format!("fd00:244:{}::/64", node.number));
        cluster.add(&node.name, &[v4.as_str(), &v6][..if dual { 2 } else { 1 }]);
    }
    cluster
}

fn meet(one: &Pod, two: &Pod) {
    for (from, to) in one.addresses.iter().zip(&two.addresses) {
        pings(one, *to);
        assert_eq!(tcp(one, *to).ip(), *from);
    }
}

#[test]
fn pods_of_two_nodes_reach_each_other_through_tunnels() {
    run("hns::pods_of_two_nodes_reach_each_other_through_tunnels", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, true);
        let _agents: Vec<Flanneld> = world.nodes.iter().map(|node| Flanneld::start(node, &cluster, "windows", &dual(vxlan()))).collect();
        let expected = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd00:244::/32\n\
                        FLANNEL_IPV6_SUBNET=fd00:244:1::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n";
        assert_eq!(subnet_env(world.one()), expected);
        let (one, two) = (pod_in(world.one(), "vxlan0", 1, 11, true), pod_in(world.two(), "vxlan0", 2, 11, true));
        meet(&one, &two);
        meet(&two, &one);
        assert_eq!(cluster.annotation("node1", "public-ip"), "192.168.0.1");
        assert_eq!(cluster.annotation("node1", "backend-type"), "vxlan");
        let conditions = cluster.node("node1").status.and_then(|status| status.conditions).unwrap_or_default();
        assert!(conditions.iter().any(|it| it.type_ == "NetworkUnavailable" && it.status == "False"), "{conditions:?}");
    });
}

#[test]
fn another_virtual_network_and_port_and_a_large_number() {
    run("hns::another_virtual_network_and_port_and_a_large_number", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let conf = json!({ "Network": "10.244.0.0/16", "Backend": { "Type": "vxlan", "VNI": 70_000, "Port": 8472 } });
        let _agents: Vec<Flanneld> = world.nodes.iter().map(|node| Flanneld::start(node, &cluster, "windows", &conf)).collect();
        let (one, two) = (pod(world.one(), "flannel.70000", 11), pod(world.two(), "flannel.70000", 11));
        meet(&one, &two);
        assert!(cluster.annotation("node1", "backend-data").starts_with(r#"{"VNI":70000,"VtepMAC":""#));
    });
}

#[test]
fn nodes_leave_and_come_back_with_another_subnet() {
    run("hns::nodes_leave_and_come_back_with_another_subnet", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let _one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        pings(&near, far.v4());
        cluster.remove("node2");
        two.says("there is no Node node2; register it");
        eventually("the way to it is gone", || !answers(&near, far.v4()));
        cluster.add("node2", &["10.244.7.0/24"]);
        // Its pods hold the network of the old subnet, which works until they go.
        two.says("is attached");
        delete(&world.nodes[1], &far);
        two.wait();
        eventually("the file says so", || subnet_env(world.two()).contains("FLANNEL_SUBNET=10.244.7.1/24"));
        assert_eq!(networks(world.two(), "vxlan0").len(), 1);
        let again = pod_in(world.two(), "vxlan0", 7, 11, false);
        pings(&near, again.v4());
        assert_eq!(tcp(&again, near.v4()).ip(), again.v4());
    });
}

/// Takes a pod away.
fn delete(node: &crate::harness::Node, pod: &Pod) {
    use hcn::{Hcn, Kind};
    node.client.delete(Kind::Namespace, pod.namespace).expect("the namespace goes");
    node.client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
}

#[test]
fn a_node_gets_another_address() {
    run("hns::a_node_gets_another_address", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let _one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        pings(&near, far.v4());
        world.two().ip("addr del 192.168.0.2/24 dev eth0");
        world.two().ip("addr add 192.168.0.22/24 dev eth0");
        world.two().ip("route add default via 192.168.0.254 dev eth0");
        eventually("the others are told", || cluster.annotation("node2", "public-ip") == "192.168.0.22");
        two.wait();
        pings(&near, far.v4());
        assert_eq!(tcp(&far, near.v4()).ip(), far.v4());
    });
}

#[test]
fn a_restart_leaves_a_transfer_alone_and_finds_its_network() {
    run("hns::a_restart_leaves_a_transfer_alone_and_finds_its_network", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let _two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        pings(&near, far.v4());
        let (id, to): (_, IpAddr) = (network(world.one(), "vxlan0"), far.v4());
        let place = near.hold();
        let transfer = thread::spawn(move || exchange(&place, (to, PORT).into(), 192 << 20));
        drop(one);
        let again = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        assert!(!transfer.is_finished(), "the transfer was to last longer");
        transfer.join().expect("the transfer is whole");
        assert_eq!(networks(world.one(), "vxlan0").iter().map(|network| network.id).collect::<Vec<_>>(), [id]);
        let log = world.one().log("flanneld");
        let changes = log.matches("made the network").count() + log.matches("routes to other nodes").count();
        assert_eq!(changes, 2, "the second life changed nothing:\n{log}");
        drop(again);
    });
}

#[test]
fn a_network_that_somebody_deletes_is_made_again() {
    run("hns::a_network_that_somebody_deletes_is_made_again", || {
        use hcn::{Hcn, Kind};
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let _agents: Vec<Flanneld> = world.nodes.iter().map(|node| Flanneld::start(node, &cluster, "windows", &vxlan())).collect();
        let far = pod(world.two(), "vxlan0", 11);
        let id = network(world.one(), "vxlan0");
        world.one().client.delete(Kind::Network, id).expect("the network goes");
        eventually("there is another", || networks(world.one(), "vxlan0").iter().any(|network| network.id != id));
        let near = pod(world.one(), "vxlan0", 12);
        pings(&near, far.v4());
        assert_eq!(tcp(&far, near.v4()).ip(), far.v4());
    });
}

#[test]
fn a_changed_configuration_replaces_the_network() {
    run("hns::a_changed_configuration_replaces_the_network", || {
        let world = World::new(1);
        let cluster = cluster_of(&world, false);
        drop(Flanneld::start(world.one(), &cluster, "windows", &vxlan()));
        let before = network(world.one(), "vxlan0");
        let mut conf = vxlan();
        conf["Backend"]["VNI"] = json!(5000);
        conf["Backend"]["MTU"] = json!(1400);
        conf["Colour"] = json!("blue");
        let _one = Flanneld::start(world.one(), &cluster, "windows", &conf);
        let after = networks(world.one(), "vxlan0");
        assert!(after.len() == 1 && after[0].id != before, "{after:?}");
        assert!(cluster.annotation("node1", "backend-data").starts_with(r#"{"VNI":5000,"#));
        assert!(subnet_env(world.one()).contains("FLANNEL_MTU=1350\n"));
        assert!(world.one().log("flanneld").contains("net-conf.json: Colour means nothing here"));
    });
}
