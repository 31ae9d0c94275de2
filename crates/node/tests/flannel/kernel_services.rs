//! Services on nodes whose networking is the kernel's.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Flanneld, dual, vxlan};
use crate::harness::api::Api;
use crate::harness::balancer::{at, comes_to, everybody_new, is_refused};
use crate::harness::node::Daemon;
use crate::harness::probe::{connect_soon, meet, meet_soon, meet_udp, talk};
use crate::harness::serve::{PORT, read_name};
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, World, eventually, exchange, probe, run};
use crate::mixed::{KernelPod, kernel_pod, pod_on_bridge};

/// The addresses of all pods.
const PODS: &str = "10.244.0.0/16,fd00:244::/32";

/// The addresses that lead to the first node from outside.
const OUTWARD: [&str; 2] = ["198.51.100.0/24", "fd00:198::/64"];

/// Starts kube-proxy on a node of the kernel, and waits until it has programmed what there is.
pub(crate) fn kernel_proxy(node: &Node, api: &Api, more: &[&str]) -> Daemon {
    let kubeconfig = api.kubeconfig().display().to_string();
    let usual = ["--os", "linux", "--kubeconfig", &kubeconfig, "--hostname-override", &node.name, "--min-sync-period", "100ms"];
    let listening = ["--healthz-bind-address", "127.0.0.1:10256", "--metrics-bind-address", "127.0.0.1:10249", "--sync-period", "2s"];
    let arguments: Vec<String> = usual.iter().chain(&listening).chain(more).map(|&argument| argument.to_owned()).collect();
    let daemon = node.spawn("kube-proxy", &arguments, "kube-proxy.log");
    eventually(&format!("kube-proxy of {} has synced:\n{}", node.name, node.log("kube-proxy")), || {
        metric(node, "kubeproxy_sync_proxy_rules_last_timestamp_seconds") > 0.0
    });
    daemon
}

/// A metric of a node's kube-proxy; zero if it does not answer.
fn metric(node: &Node, name: &str) -> f64 {
    let (_, text) = probe::get(node, at("127.0.0.1", 10_249), "/metrics");
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_default()
}

/// Two nodes of the kernel, the first with two pods and the second with one.
struct Cluster<'a> {
    world: &'a World,
    api: &'a Api,
    pods: [KernelPod; 3],
}

fn in_cluster(test: &str, body: impl FnOnce(&Cluster<'_>, Vec<Daemon>)) {
    run(test, || {
        let world = World::bare(2);
        let api = Api::start(&world);
        for node in &world.nodes {
            let (v4, v6) = (format!("10.244.{}.0/24", node.number), format!("fd00:244:{}::/64", node.number));
            api.patch(&format!("/api/v1/nodes/{}", node.name), &json!({"spec": {"podCIDR": v4, "podCIDRs": [v4, v6]}}));
        }
        let spawn = |node| Flanneld::spawn_with(node, &api.kubeconfig(), "linux", &dual(vxlan()), &["--ip-masq", "--iface", "eth0"]);
        let agents: Vec<Flanneld> = world.nodes.iter().map(spawn).collect();
        agents.iter().for_each(Flanneld::wait);
        world.route_to(world.one(), &OUTWARD);
        // One is told who is a pod, the other finds its own.
        let proxies = vec![kernel_proxy(world.one(), &api, &["--cluster-cidr", PODS]), kernel_proxy(world.two(), &api, &[])];
        let pods = [kernel_pod(world.one(), 1), pod_on_bridge(world.one(), 1, 12), kernel_pod(world.two(), 2)];
        body(&Cluster { world: &world, api: &api, pods }, proxies);
    });
}

impl<'a> Cluster<'a> {
    /// A Service by number, with node ports if it has a type, and these pods as backends.
    fn service(&self, number: usize, more: Value, backends: &[usize]) -> String {
        let port = |name: &str| {
            let mut port = json!({"name": name, "protocol": name.to_uppercase(), "port": 80, "targetPort": PORT});
            if more["type"].is_string() {
                port["nodePort"] = json!(30_000 + number);
            }
            port
        };
        let own = vips(number).map(|front| front.ip().to_string());
        let mut spec = json!({
            "clusterIP": own[0], "clusterIPs": own, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
            "ports": [port("tcp"), port("udp")]});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let name = format!("s{number}");
        self.api.service(&name, &spec);
        self.set_backends(&name, backends);
        name
    }

    fn set_backends(&self, service: &str, backends: &[usize]) {
        let all = backends.iter().flat_map(|index| self.pods[*index].addresses.iter().map(|address| (*address, self.node_of(*index))));
        self.api.backends(service, PORT, &all.collect::<Vec<_>>());
    }

    fn node_of(&self, pod: usize) -> &'a Node {
        &self.world.nodes[usize::from(pod == 2)]
    }

    fn names(&self, pods: &[usize]) -> BTreeSet<String> {
        pods.iter().map(|index| self.pods[*index].place.name.clone()).collect()
    }

    /// Pods, and then nodes.
    fn inside(&self) -> [&Place; 5] {
        [&self.pods[0].place, &self.pods[1].place, &self.pods[2].place, self.world.one(), self.world.two()]
    }

    fn node_ports(&self, number: usize) -> Vec<SocketAddr> {
        let port = 30_000 + number as u16;
        self.world.nodes.iter().flat_map(|node| [node.v4(), node.v6()]).map(|address| SocketAddr::new(address, port)).collect()
    }
}

/// Where a Service has its own addresses.
fn vips(number: usize) -> [SocketAddr; 2] {
    [at(&format!("10.96.0.{number}"), 80), at(&format!("fd00:96::{number}"), 80)]
}

/// Somebody on a node is refused over TCP at once; datagrams of its own programs the kernel does not even send.
fn is_refused_on_node(node: &Node, front: SocketAddr) {
    let refused = |error: io::Error| matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::PermissionDenied);
    eventually(&format!("{} is refused at {front}", node.name), || {
        meet_soon(node, front).is_err_and(refused) && meet_udp(node, front).is_err_and(refused)
    });
}

#[test]
fn services_of_every_kind_are_reached_from_everywhere() {
    in_cluster("kernel_services::services_of_every_kind_are_reached_from_everywhere", |cluster, _proxies| {
        let world = cluster.world;
        let external = ["198.51.100.8", "fd00:198::8"];
        cluster.service(80, json!({"type": "LoadBalancer", "externalIPs": external}), &[0, 1, 2]);
        cluster.api.give_ingress("s80", "198.51.100.9");
        let all = cluster.names(&[0, 1, 2]);
        let outward: Vec<SocketAddr> =
            external.into_iter().chain(["198.51.100.9"]).map(|address| at(address, 80)).chain(cluster.node_ports(80)).collect();
        for place in cluster.inside() {
            for front in vips(80).iter().chain(&outward) {
                comes_to(place, *front, &all);
            }
        }
        for front in &outward {
            comes_to(&world.outside, *front, &all);
        }
        for (place, front) in cluster.inside().into_iter().chain([&world.outside]).zip(outward.iter().cycle()) {
            exchange(place, *front, 256 << 10);
            let (name, _) = meet_udp(place, *front).unwrap_or_else(|error| panic!("{} asks {front} over UDP: {error}", place.name));
            assert!(all.contains(&name), "{name}");
        }
    });
}

#[test]
fn policies_affinity_and_source_ranges_hold() {
    in_cluster("kernel_services::policies_affinity_and_source_ranges_hold", |cluster, _proxies| {
        let world = cluster.world;
        let (outside, all) = (&world.outside, cluster.names(&[0, 1, 2]));
        let [one, two, far, ..] = cluster.inside();

        cluster.service(81, json!({"type": "NodePort", "sessionAffinity": "ClientIP"}), &[0, 1, 2]);
        for place in [one, far, world.one(), outside] {
            let fronts = if place.name == outside.name { cluster.node_ports(81) } else { vips(81).to_vec() };
            for front in fronts {
                eventually(&format!("{} reaches {front}", place.name), || meet_soon(place, front).is_ok());
                assert_eq!(everybody_new(place, front).len(), 1, "{} at {front}", place.name);
            }
        }

        cluster.service(82, json!({"internalTrafficPolicy": "Local"}), &[0, 1, 2]);
        for front in vips(82) {
            [one, two, world.one()].iter().for_each(|place| comes_to(place, front, &cluster.names(&[0, 1])));
            [far, world.two()].iter().for_each(|place| comes_to(place, front, &cluster.names(&[2])));
        }

        cluster.service(83, json!({"type": "NodePort", "externalTrafficPolicy": "Local"}), &[2]);
        for (position, front) in cluster.node_ports(83).into_iter().enumerate() {
            match position < 2 {
                true => is_refused(outside, front),
                false => {
                    comes_to(outside, front, &cluster.names(&[2]));
                    assert_eq!(meet(outside, front).expect("an answer").1.ip(), OUTSIDE[position - 2], "{front}");
                }
            }
            cluster.inside()[..2].iter().for_each(|place| comes_to(place, front, &cluster.names(&[2])));
        }

        let ranges = OUTSIDE.map(|address| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }));
        cluster.service(84, json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ranges}), &[0, 1, 2]);
        cluster.api.give_ingress("s84", "198.51.100.12");
        let guarded = at("198.51.100.12", 80);
        comes_to(outside, guarded, &all);
        for place in [one, far, world.one()] {
            let refusal = connect_soon(place, guarded).expect_err("others may not");
            assert_ne!(refusal.kind(), io::ErrorKind::ConnectionRefused, "nothing is said to {}", place.name);
        }
    });
}

#[test]
fn nobody_to_serve_and_oneself() {
    in_cluster("kernel_services::nobody_to_serve_and_oneself", |cluster, _proxies| {
        let world = cluster.world;
        cluster.service(85, json!({"type": "NodePort"}), &[]);
        for front in vips(85) {
            cluster.inside()[..3].iter().for_each(|place| is_refused(place, front));
            world.nodes.iter().for_each(|node| is_refused_on_node(node, front));
        }
        cluster.node_ports(85).into_iter().for_each(|front| is_refused(&world.outside, front));

        cluster.service(86, json!({"type": "NodePort"}), &[0]);
        for (front, own) in vips(86).into_iter().chain(cluster.node_ports(86)).zip(cluster.pods[0].addresses.iter().cycle()) {
            let pod = &cluster.pods[0].place;
            comes_to(pod, front, &cluster.names(&[0]));
            assert_ne!(meet(pod, front).expect("an answer").1.ip(), *own, "a pod that sees its own address answers itself");
        }
        // Between pods of the cluster, nobody is hidden at a Service's own address.
        for (front, own) in vips(86).into_iter().zip(&cluster.pods[2].addresses) {
            comes_to(&cluster.pods[2].place, front, &cluster.names(&[0]));
            assert_eq!(meet(&cluster.pods[2].place, front).expect("an answer").1.ip(), *own);
        }
    });
}

#[test]
fn what_changes_is_followed_and_what_runs_goes_on() {
    in_cluster("kernel_services::what_changes_is_followed_and_what_runs_goes_on", |cluster, mut proxies| {
        let (world, pod) = (cluster.world, &cluster.pods[0].place);
        let name = cluster.service(87, json!({}), &[2]);
        let [front, _] = vips(87);
        for backends in [&[2][..], &[1, 2], &[1], &[0, 1, 2], &[2]] {
            cluster.set_backends(&name, backends);
            vips(87).into_iter().for_each(|front| comes_to(pod, front, &cluster.names(backends)));
        }
        let held = connect_soon(pod, front).expect("a connection");

        let place = pod.hold();
        let transfer = thread::spawn(move || exchange(&place, front, 192 << 20));
        proxies.remove(0).stop();
        comes_to(pod, front, &cluster.names(&[2]));
        proxies.insert(0, kernel_proxy(world.one(), cluster.api, &["--cluster-cidr", PODS]));
        cluster.set_backends(&name, &[1]);
        comes_to(pod, front, &cluster.names(&[1]));
        assert!(!transfer.is_finished(), "the transfer was to last longer");
        transfer.join().expect("the transfer is whole");
        talk(held, 1 << 20, 1 << 20).expect("a connection that was there before goes on");

        assert!(world.one().command("nft", "delete table ip transom-services").0);
        comes_to(pod, front, &cluster.names(&[1]));

        cluster.api.delete(&format!("/api/v1/namespaces/default/services/{name}"));
        vips(87).into_iter().for_each(|front| eventually("the Service is gone", || connect_soon(pod, front).is_err()));

        proxies.remove(0).stop();
        let clean = ["kube-proxy", "--os", "linux", "--cleanup"].map(str::to_owned);
        for _ in 0..2 {
            assert_eq!(world.one().transom(&clean).0, Some(0));
            let tables = world.one().command("nft", "list tables").1;
            assert!(!tables.contains("transom-services"), "{tables}");
        }
        let (code, said) = world.one().transom(&["kube-proxy", "--cleanup"].map(str::to_owned));
        assert!(code == Some(2) && said.contains("--os linux"), "{code:?} {said}");
    });
}

/// Who answers a client that keeps its port. Somebody does at last.
fn answers_on(socket: &UdpSocket) -> String {
    let mut greeting = [0; 512];
    eventually("a client that keeps its port is answered", || socket.send(&[]).and_then(|_| socket.recv(&mut greeting)).is_ok());
    read_name(&greeting).expect("a name")
}

#[test]
fn a_client_over_udp_that_keeps_its_port_gets_another_backend() {
    in_cluster("kernel_services::a_client_over_udp_that_keeps_its_port_gets_another_backend", |cluster, _proxies| {
        let name = cluster.service(88, json!({"type": "NodePort"}), &[1]);
        let [v4, v6] = vips(88);
        comes_to(&cluster.pods[0].place, v4, &cluster.names(&[1]));
        let node_port = cluster.node_ports(88)[0];
        for (from, front) in [(&cluster.pods[0].place, v4), (&cluster.pods[0].place, v6), (&cluster.world.outside, node_port)] {
            cluster.set_backends(&name, &[1]);
            comes_to(&cluster.pods[0].place, v4, &cluster.names(&[1]));
            let any = if front.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = from.run(|| UdpSocket::bind(any)).expect("a socket");
            socket.connect(front).expect("a way");
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
            assert_eq!(answers_on(&socket), cluster.pods[1].place.name, "{front}");
            cluster.set_backends(&name, &[2]);
            eventually("the same port has another backend", || answers_on(&socket) == cluster.pods[2].place.name);
            // Without a backend it is refused, and with one it is answered again.
            cluster.set_backends(&name, &[]);
            let mut greeting = [0; 512];
            eventually("nobody answers", || socket.send(&[]).and_then(|_| socket.recv(&mut greeting)).is_err());
            cluster.set_backends(&name, &[1]);
            eventually("the same port is answered again", || answers_on(&socket) == cluster.pods[1].place.name);
        }
    });
}

#[test]
fn a_client_over_udp_that_was_there_before_the_service_is_led() {
    in_cluster("kernel_services::a_client_over_udp_that_was_there_before_the_service_is_led", |cluster, _proxies| {
        let [front, _] = vips(89);
        let socket = cluster.pods[0].place.run(|| UdpSocket::bind("0.0.0.0:0")).expect("a socket");
        socket.connect(front).expect("a way");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        for _ in 0..3 {
            _ = socket.send(&[]);
        }
        cluster.service(89, json!({}), &[2]);
        assert_eq!(answers_on(&socket), cluster.pods[2].place.name);
    });
}
