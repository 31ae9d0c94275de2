//! What goes wrong around flanneld: it says so, keeps what works, and recovers by itself.

use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Flanneld, networks, pod, subnet_env, vxlan};
use crate::cluster::{Cluster, PREFIX};
use crate::harness::fake_api::{Behaviour, Collection, FakeApi, expired, modified};
use crate::harness::{MOMENT, World, answers, eventually, pings, run};
use crate::hns::cluster_of;

#[test]
fn a_node_without_a_subnet_waits_for_one() {
    run("trouble::a_node_without_a_subnet_waits_for_one", || {
        let world = World::new(1);
        let cluster = Cluster::start(&world);
        cluster.add("node1", &[]);
        let one = Flanneld::spawn(world.one(), &cluster, "windows", &vxlan(), &[]);
        one.says("node: node node1 has no podCIDR within 10.244.0.0/16; start kube-controller-manager");
        assert_eq!(one.get("/healthz"), (true, "ok\n".to_owned()));
        eventually("an Event says so", || {
            cluster.events("node1").iter().any(|it| it.starts_with("FlannelTrouble node: node node1 has no podCIDR"))
        });
        assert_eq!(subnet_env(world.one()), "");
        cluster.change("node1", &json!({ "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"] } }));
        one.wait();
        assert!(subnet_env(world.one()).contains("FLANNEL_SUBNET=10.244.1.1/24"));
        eventually("an Event says that it is well", || cluster.events("node1").iter().any(|it| it.starts_with("FlannelIsUp")));
    });
}

#[test]
fn the_api_goes_and_comes_back() {
    run("trouble::the_api_goes_and_comes_back", || {
        let world = World::new(2);
        let mut cluster = cluster_of(&world, false);
        let one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        pings(&near, far.v4());
        cluster.kill();
        one.says("api: the API server does not answer");
        assert!(answers(&near, far.v4()), "what was known last stays in force");
        // Even an agent that starts meanwhile changes nothing.
        drop(two);
        let two = Flanneld::spawn(world.two(), &cluster, "windows", &vxlan(), &[]);
        two.says("nothing is known of the cluster yet");
        assert!(answers(&near, far.v4()));
        cluster.resume(&world);
        one.wait();
        two.wait();
        pings(&near, far.v4());
    });
}

#[test]
fn hns_goes_and_comes_back() {
    run("trouble::hns_goes_and_comes_back", || {
        let mut world = World::new(2);
        let cluster = cluster_of(&world, false);
        world.nodes[0].hnsd = None;
        let one = Flanneld::spawn(&world.nodes[0], &cluster, "windows", &vxlan(), &[]);
        one.says("hns: looking up the network vxlan0");
        eventually("an Event says so", || cluster.events("node1").iter().any(|it| it.starts_with("FlannelTrouble hns: looking up")));
        let hnsd = world.nodes[0].new_hnsd(&[]);
        one.wait();
        let _two = Flanneld::start(&world.nodes[1], &cluster, "windows", &vxlan());
        let (near, far) = (pod(&world.nodes[0], "vxlan0", 11), pod(&world.nodes[1], "vxlan0", 11));
        pings(&near, far.v4());
        drop(hnsd);
        one.says("hns: looking up the network vxlan0");
        assert!(answers(&near, far.v4()));
        let _hnsd = world.nodes[0].new_hnsd(&[]);
        one.wait();
        pings(&near, far.v4());
    });
}

#[test]
fn an_hns_that_hangs_is_told_of_and_waited_for() {
    run("trouble::an_hns_that_hangs_is_told_of_and_waited_for", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let _two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        pings(&near, far.v4());
        let hnsd = world.one().hnsd.as_ref().expect("hnsd runs");
        let ups = || cluster.events("node1").iter().filter(|it| it.starts_with("FlannelIsUp")).count();
        let before = ups();
        hnsd.pause();
        // So long a round may take, and some seconds pass until one begins.
        std::thread::sleep(Duration::from_secs(30));
        one.says("hns: it has not answered for ");
        assert_eq!(one.get("/healthz"), (true, "ok\n".to_owned()));
        eventually("an Event says so", || cluster.events("node1").iter().any(|it| it.starts_with("FlannelTrouble hns: it has not")));
        assert!(world.one().log("flanneld").contains("hns: it has not answered for 30 s"));
        assert!(answers(&near, far.v4()), "packets flow on");
        hnsd.resume();
        one.wait();
        eventually("an Event says that it is well", || ups() > before);
    });
}

#[test]
fn contradictory_nodes_are_complained_of_and_spoil_nothing() {
    run("trouble::contradictory_nodes_are_complained_of_and_spoil_nothing", || {
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let one = Flanneld::start(world.one(), &cluster, "windows", &vxlan());
        let _two = Flanneld::start(world.two(), &cluster, "windows", &vxlan());
        let (near, far) = (pod(world.one(), "vxlan0", 11), pod(world.two(), "vxlan0", 11));
        cluster.add("thief", &["10.244.2.0/25"]);
        let annotations = json!({
            format!("{PREFIX}/kube-subnet-manager"): "true", format!("{PREFIX}/backend-type"): "vxlan", format!("{PREFIX}/public-ip"): "192.168.0.9",
            format!("{PREFIX}/backend-data"): r#"{"VNI":4096,"VtepMAC":"02:15:5d:00:00:09"}"#,
        });
        cluster.change("thief", &json!({ "metadata": { "annotations": annotations } }));
        eventually("it is said", || {
            one.readiness().1.contains("note: node thief: its podCIDR 10.244.2.0/25 overlaps 10.244.2.0/24 of node node2")
        });
        assert!(one.readiness().0, "this node is well");
        eventually("an Event says so", || cluster.events("node1").iter().any(|it| it.starts_with("FlannelPeer node thief: its podCIDR")));
        pings(&near, far.v4());
    });
}

/// A Node as a fake server tells it: with everything that peers want to know.
fn told(number: usize, version: &str, address: &str) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": { "name": format!("node{number}"), "uid": format!("uid{number}"), "resourceVersion": version, "annotations": {
            format!("{PREFIX}/kube-subnet-manager"): "true", format!("{PREFIX}/backend-type"): "vxlan", format!("{PREFIX}/public-ip"): address,
            format!("{PREFIX}/backend-data"): format!(r#"{{"VNI":4096,"VtepMAC":"02:15:5d:00:00:0{number}"}}"#),
        } },
        "spec": { "podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")] },
    })
}

/// A server that knows these Nodes, under this version, and whose watches say these events.
fn serves(version: &'static str, items: Vec<Value>, events: Vec<Value>) -> Behaviour {
    Behaviour::Serves(vec![Collection { name: "nodes", version, items, events }])
}

/// The ways to other nodes that a node has, as its HNS shows them.
fn ways(world: &World) -> Vec<String> {
    use hcn::policy::network::{NetworkPolicyType, RemoteSubnetRouteSettings};
    let networks = networks(world.one(), "vxlan0");
    let policies = networks.iter().flat_map(|network| &network.policies);
    let remote = policies.filter(|policy| policy.is(&NetworkPolicyType::RemoteSubnetRoute));
    let mut ways: Vec<String> = remote
        .filter_map(|policy| policy.settings::<RemoteSubnetRouteSettings>().ok())
        .map(|route| format!("{} {}", route.destination_prefix, route.provider_address))
        .collect();
    ways.sort();
    ways
}

#[test]
fn an_api_that_refuses_or_says_nothing_is_told_of() {
    run("trouble::an_api_that_refuses_or_says_nothing_is_told_of", || {
        let world = World::new(1);
        let api = FakeApi::start(world.one(), Behaviour::Refuses(401));
        let one = Flanneld::spawn_with(world.one(), &api.kubeconfig, "windows", &vxlan(), &[]);
        one.says("api: the API server does not answer: ");
        one.says("go away");
        api.behave(Behaviour::Silent);
        one.says("nothing is known of the cluster yet");
        assert_eq!(one.get("/healthz"), (true, "ok\n".to_owned()));
        assert_eq!(networks(world.one(), "vxlan0").len(), 0, "nothing is made of nothing");
        drop(one);
        api.behave(serves("100", vec![told(1, "90", "192.168.0.1")], Vec::new()));
        let one = Flanneld::spawn_with(world.one(), &api.kubeconfig, "windows", &vxlan(), &[]);
        eventually("it has what it needs", || subnet_env(world.one()).contains("FLANNEL_SUBNET=10.244.1.1/24"));
        drop(one);
    });
}

#[test]
fn a_watch_that_breaks_and_repeats_changes_nothing_twice() {
    run("trouble::a_watch_that_breaks_and_repeats_changes_nothing_twice", || {
        let world = World::new(1);
        let nodes = vec![told(1, "90", "192.168.0.1"), told(2, "91", "192.168.0.2")];
        // The same again and again, and the end of the connection after each.
        let events = vec![modified(&nodes[1]), modified(&nodes[1])];
        let api = FakeApi::start(world.one(), serves("100", nodes.clone(), events));
        let one = Flanneld::spawn_with(world.one(), &api.kubeconfig, "windows", &vxlan(), &[]);
        eventually("the way is there", || ways(&world) == ["10.244.2.0/24 192.168.0.2"]);
        std::thread::sleep(MOMENT * 3);
        let changes = world.one().log("flanneld").matches("routes to other nodes").count();
        assert_eq!(changes, 1, "{}", world.one().log("flanneld"));
        // A server that has lost this node is not one to remove routes by.
        api.behave(serves("50", Vec::new(), vec![expired()]));
        one.says("there is no Node node1");
        assert_eq!(ways(&world), ["10.244.2.0/24 192.168.0.2"]);
        // Back in time and forward again: what is said last counts.
        let moved = vec![nodes[0].clone(), told(2, "120", "192.168.0.22")];
        api.behave(serves("120", moved, vec![expired()]));
        eventually("the way is another", || ways(&world) == ["10.244.2.0/24 192.168.0.22"]);
    });
}
