//! kube-proxy end to end: Services of an API server, reached with real sockets from pods, from nodes and from outside.

mod trouble;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::api::Api;
use crate::harness::balancer::{at, comes_to, everybody, everybody_new, is_refused, names};
use crate::harness::probe::meet;
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{MOMENT, Node, Pod, World, eventually, exchange, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

const CLUSTER_IPS: [&str; 2] = ["10.96.0.10", "fd00:96::10"];

/// A dual-stack Service at fixed addresses, whose backends are the tests' own services.
fn spec(more: Value) -> Value {
    let port = |name: &str, protocol: &str| json!({"name": name, "port": 80, "targetPort": PORT, "protocol": protocol});
    let mut spec = json!({
        "clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
        "ports": [port("tcp", "TCP"), port("udp", "UDP")]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// Everything that pods have on a node.
fn addresses<'a>(pods: &[&Pod], node: &'a Node) -> Vec<(IpAddr, &'a Node)> {
    pods.iter().flat_map(|pod| pod.addresses.iter().map(|address| (*address, node))).collect()
}

/// A node with an L2Bridge network, a client and two backends, an API server, and the way to Services from outside.
pub(crate) fn bridge(world: &World) -> (Api, [Pod; 3]) {
    let node = world.one();
    let network = routed(world, node);
    world.route_to(node, &["10.96.0.0/16", "fd00:96::/64", "198.51.100.0/24"]);
    (Api::start(world), [11, 12, 13].map(|number| routed_pod(node, network, number, &[])))
}

#[test]
fn services_of_every_kind_are_reached_from_everywhere() {
    run("kube_proxy::services_of_every_kind_are_reached_from_everywhere", || {
        let world = World::new(1);
        let node = world.one();
        let (api, [client, one, two]) = bridge(&world);
        let _proxy = api.kube_proxy(node, "bridge", &[]);
        let ports = json!([
            {"name": "tcp", "port": 80, "targetPort": PORT, "nodePort": 30080},
            {"name": "udp", "port": 80, "targetPort": PORT, "protocol": "UDP", "nodePort": 30080}]);
        api.service("web", &spec(json!({"type": "LoadBalancer", "externalIPs": ["198.51.100.8"], "ports": ports})));
        api.give_ingress("web", "198.51.100.9");
        api.backends("web", PORT, &addresses(&[&one, &two], node));
        let both = names(&[&one, &two]);
        let fronts = [at(CLUSTER_IPS[0], 80), at(CLUSTER_IPS[1], 80), at("198.51.100.8", 80), at("198.51.100.9", 80)];
        let node_ports = [SocketAddr::new(node.v4(), 30080), SocketAddr::new(node.v6(), 30080)];
        for front in fronts.into_iter().chain(node_ports) {
            for place in [&*client, &**node, &world.outside] {
                comes_to(place, front, &both);
                assert_eq!(everybody(place, front).0, both, "{} asks {front}", place.name);
                exchange(place, front, 1 << 20);
            }
        }
        // A backend goes; nobody meets it any more.
        api.backends("web", PORT, &addresses(&[&two], node));
        fronts.iter().for_each(|front| comes_to(&client, *front, &names(&[&two])));
        // All go, and clients are refused at once, from everywhere.
        api.backends("web", PORT, &[]);
        for place in [&*client, &**node, &world.outside] {
            for front in fronts.into_iter().chain(node_ports) {
                is_refused(place, front);
            }
        }
        // The Service goes, and with it everything that was made for it.
        api.delete("/api/v1/namespaces/default/services/web");
        let count = |kind| node.client.enumerate(kind, "{}").expect("HNS answers").len();
        eventually("nothing is left", || count(Kind::LoadBalancer) == 1);
        assert_eq!(count(Kind::Endpoint), 4, "the pods, the API server, and nothing else");
    });
}

#[test]
fn policies_of_services_hold() {
    run("kube_proxy::policies_of_services_hold", || {
        let world = World::new(1);
        let node = world.one();
        let (api, [client, one, two]) = bridge(&world);
        let _proxy = api.kube_proxy(node, "bridge", &[]);
        // A backend elsewhere: somebody outside, whom clients meet unless a policy is Local.
        let elsewhere = (OUTSIDE[0], &world.outside.name);
        let collection = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let slice = |name: &str, endpoints: Value, port: u16| {
            let document = json!({
                "metadata": {"name": format!("{name}-{port}"), "labels": {"kubernetes.io/service-name": name}}, "addressType": "IPv4",
                "endpoints": endpoints, "ports": [{"name": "", "port": port, "protocol": "TCP"}]});
            api.create(collection, &document);
        };
        let here = |pod: &Pod| json!({"addresses": [pod.v4().to_string()], "nodeName": node.name});
        let there = json!({"addresses": [elsewhere.0.to_string()], "nodeName": "elsewhere"});
        let single = |cluster_ip: &str, more: Value| {
            let mut spec = json!({"clusterIP": cluster_ip, "ports": [{"port": 80, "targetPort": PORT}]});
            more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
            spec
        };
        api.service("inside", &single("10.96.0.11", json!({"internalTrafficPolicy": "Local"})));
        slice("inside", json!([here(&one), there]), PORT);
        let ports = json!([{"port": 80, "targetPort": PORT, "nodePort": 30081}]);
        let outward = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports});
        api.service("outward", &single("10.96.0.12", outward));
        api.give_ingress("outward", "198.51.100.12");
        slice("outward", json!([here(&one), there]), PORT);
        api.service("guarded", &single("10.96.0.13", json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.244.1.11/32"]})));
        api.give_ingress("guarded", "198.51.100.13");
        slice("guarded", json!([here(&one)]), PORT);
        api.service("sticky", &single("10.96.0.14", json!({"sessionAffinity": "ClientIP"})));
        slice("sticky", json!([here(&one), here(&two)]), PORT);

        let all = names(&[&one]).into_iter().chain([world.outside.name.clone()]).collect();
        comes_to(&client, at("10.96.0.11", 80), &names(&[&one]));
        comes_to(&client, at("10.96.0.12", 80), &all);
        let node_port = SocketAddr::new(node.v4(), 30081);
        for front in [node_port, at("198.51.100.12", 80)] {
            // Clients outside meet pods of the node they came to, who see their address; clients inside meet everybody.
            comes_to(&world.outside, front, &names(&[&one]));
            assert_eq!(meet(&world.outside, front).expect("an answer").1.ip(), OUTSIDE[0], "{front}");
            comes_to(&client, front, &all);
        }
        comes_to(&client, at("198.51.100.13", 80), &names(&[&one]));
        comes_to(&world.outside, at("10.96.0.13", 80), &names(&[&one]));
        let refused = world.outside.run(|| TcpStream::connect_timeout(&at("198.51.100.13", 80), MOMENT));
        assert!(refused.is_err(), "who is not in the source ranges does not get in");
        assert!(node.drops("eth0", "acl-block") > 0, "and it is counted");
        eventually("affinity is programmed", || meet(&client, at("10.96.0.14", 80)).is_ok());
        assert_eq!(everybody_new(&client, at("10.96.0.14", 80)).len(), 1, "one client, one backend");
    });
}

#[test]
fn connections_survive_restarts_of_everything_but_the_switch() {
    run("kube_proxy::connections_survive_restarts_of_everything_but_the_switch", || {
        let mut world = World::new(1);
        let (mut api, [client, one, two]) = bridge(&world);
        let mut proxy = api.kube_proxy(world.one(), "bridge", &[]);
        api.service("web", &spec(json!({})));
        api.backends("web", PORT, &addresses(&[&one, &two], world.one()));
        let front = at(CLUSTER_IPS[0], 80);
        comes_to(&client, front, &names(&[&one, &two]));
        let place = client.hold();
        let begin = Instant::now();
        // Short connections all the time, and not one of them may fail.
        let pinging = thread::spawn(move || {
            let mut count = 0;
            while begin.elapsed() < Duration::from_secs(6) {
                meet(&place, front).unwrap_or_else(|error| panic!("connection {count} after {:?}: {error}", begin.elapsed()));
                count += 1;
            }
            count
        });
        let before: BTreeSet<Guid> = world.one().client.enumerate(Kind::LoadBalancer, "{}").expect("HNS answers").into_iter().collect();
        proxy.kill();
        proxy = api.kube_proxy(world.one(), "bridge", &[]);
        world.nodes[0].hnsd.as_mut().expect("hnsd runs").kill();
        thread::sleep(Duration::from_millis(300));
        world.nodes[0].start_hnsd(&[]);
        api.kill();
        thread::sleep(Duration::from_millis(500));
        api.run(&world);
        let count = pinging.join().expect("no connection failed");
        assert!(count > 100, "{count} connections");
        let after: BTreeSet<Guid> = world.one().client.enumerate(Kind::LoadBalancer, "{}").expect("HNS answers").into_iter().collect();
        assert_eq!(before, after, "what was right has not changed");
        // And it still follows.
        api.backends("web", PORT, &addresses(&[&two], world.one()));
        comes_to(&client, front, &names(&[&two]));
        // A load balancer that somebody deletes comes back by itself.
        let ids = world.one().client.enumerate(Kind::LoadBalancer, "{}").expect("HNS answers");
        ids.iter().for_each(|id| world.one().client.delete(Kind::LoadBalancer, *id).expect("it goes"));
        comes_to(&client, front, &names(&[&two]));
        proxy.stop();
    });
}

#[test]
fn backends_on_other_nodes_of_an_overlay_are_reached() {
    run("kube_proxy::backends_on_other_nodes_of_an_overlay_are_reached", || {
        let world = World::new(2);
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let networks = overlay.on_both(&world);
        let api = Api::start(&world);
        let [one, two] = [world.one(), world.two()];
        let _proxies: Vec<_> = [one, two]
            .into_iter()
            .map(|node| api.kube_proxy(node, "vxlan0", &["--source-vip", &format!("10.244.{}.200", node.number), "--enable-dsr"]))
            .collect();
        let (here, there) = (&overlay.pod(one, networks[0], 11, &[]), &overlay.pod(two, networks[1], 11, &[]));
        let ports = json!([
            {"name": "tcp", "port": 80, "targetPort": PORT, "nodePort": 30080},
            {"name": "udp", "port": 80, "targetPort": PORT, "protocol": "UDP", "nodePort": 30080}]);
        api.service("web", &json!({"clusterIP": CLUSTER_IPS[0], "type": "NodePort", "ports": ports}));
        api.backends("web", PORT, &[(here.v4(), one), (there.v4(), two)]);
        let both = names(&[here, there]);
        for place in [&**here, &**there] {
            comes_to(place, at(CLUSTER_IPS[0], 80), &both);
            exchange(place, at(CLUSTER_IPS[0], 80), 1 << 20);
        }
        for node in [one, two] {
            let front = SocketAddr::new(node.v4(), 30080);
            comes_to(&world.outside, front, &both);
            exchange(&world.outside, front, 1 << 20);
        }
    });
}
