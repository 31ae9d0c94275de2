//! Our kube-proxy beside Kubernetes' own, on one HNS with one API content: who is reached, from where.
//!
//! Kubernetes' own is the Windows program that TRANSOM_KUBE_PROXY_EXE names, run by Wine in the prefix that WINEPREFIX names; `cargo xtask
//! interop windows-agents` builds both. Without it only our column of the table is compared.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use hcn::endpoint::Endpoint;
use hcn::{Hcn, HcnExt, Kind};
use serde_json::{Value, json};

use crate::harness::api::Api;
use crate::harness::node::Daemon;
use crate::harness::probe::{meet, meet_soon, meet_udp};
use crate::harness::sandbox::run_with_own_processes;
use crate::harness::serve::{self, PORT};
use crate::harness::world::OUTSIDE;
use crate::harness::{Place, Pod, World, agent};
use crate::kube_proxy::bridge;

/// The table, with what both do.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kube-proxy-compared.md");

/// How long load balancers may take under Wine.
const LONG: Duration = Duration::from_secs(240);

/// How long nothing must change until everything is taken to be there.
const QUIET: Duration = Duration::from_secs(6);

/// How often somebody asks who is there.
const ASKED: usize = 16;

#[test]
fn ours_reaches_what_the_original_reaches_and_more() {
    let original = env::var_os("TRANSOM_KUBE_PROXY_EXE").map(PathBuf::from);
    if original.is_none() {
        println!("skipped: TRANSOM_KUBE_PROXY_EXE names no kube-proxy.exe; only ours is compared with the table");
    }
    run_with_own_processes("compared::ours_reaches_what_the_original_reaches_and_more", || {
        let scene = Scene::new();
        let theirs = original.as_deref().map(|exe| scene.play(|scene| scene.start_original(exe)));
        scene.clear();
        let ours = scene.play(Scene::start_ours);
        let table = Table::read();
        let theirs = theirs.unwrap_or_else(|| table.theirs());
        let seen = Table::of(&theirs, &ours);
        if env::var_os("TRANSOM_UPDATE").is_some() {
            fs::write(TABLE, seen.text()).expect("the table is written");
        } else {
            assert_eq!(seen.text(), table.text(), "the table is not what was seen; TRANSOM_UPDATE=1 writes it anew");
        }
    });
}

/// Where somebody asks from.
#[derive(Clone, Copy)]
enum From {
    Pod,
    Node,
    Outside,
}

impl From {
    const ALL: [Self; 3] = [Self::Pod, Self::Node, Self::Outside];

    fn name(self) -> &'static str {
        match self {
            Self::Pod => "a pod",
            Self::Node => "the node",
            Self::Outside => "outside",
        }
    }
}

/// What was seen: the question, who asked, and the answer.
type Seen = Vec<(String, &'static str, String)>;

/// A node with pods, and an API server with a Service for every question.
struct Scene {
    world: World,
    api: Api,
    client: Pod,
    one: Pod,
    two: Pod,
}

impl Scene {
    fn new() -> Self {
        let world = World::new(1);
        let (api, [client, one, two]) = bridge(&world);
        let scene = Self { world, api, client, one, two };
        scene.fill();
        scene
    }

    fn fill(&self) {
        let node = self.world.one();
        self.api.patch(&format!("/api/v1/nodes/{}", node.name), &json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "here"}}}));
        let [one, two] = [&self.one, &self.two];
        let both = json!([self.here(one), self.here(two)]);
        let elsewhere = json!({"addresses": [OUTSIDE[0].to_string()], "nodeName": "elsewhere"});
        let ports = |number: u16| {
            json!([
                {"name": "tcp", "port": 80, "targetPort": PORT, "nodePort": number},
                {"name": "udp", "port": 80, "targetPort": PORT, "nodePort": number, "protocol": "UDP"}])
        };
        let everything = json!({
            "type": "LoadBalancer", "externalIPs": ["198.51.100.8"], "clusterIPs": ["10.96.0.10", "fd00:96::10"],
            "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack", "ports": ports(30080)});
        self.service("everything", "10.96.0.10", everything);
        self.api.give_ingress("everything", "198.51.100.9");
        self.slice("everything", "", both.clone(), PORT);
        self.api.backends("everything", PORT, &[(one.v6(), node), (two.v6(), node)]);
        self.service("nobody", "10.96.0.11", json!({}));
        self.service("near", "10.96.0.12", json!({"internalTrafficPolicy": "Local"}));
        self.slice("near", "", json!([self.here(one), elsewhere]), PORT);
        let outward = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports(30081)});
        self.service("outward", "10.96.0.13", outward);
        self.api.give_ingress("outward", "198.51.100.13");
        self.slice("outward", "", json!([self.here(one), elsewhere]), PORT);
        self.service("guarded", "10.96.0.14", json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.244.1.11/32"]}));
        self.api.give_ingress("guarded", "198.51.100.14");
        self.slice("guarded", "", json!([self.here(one)]), PORT);
        self.service("sticky", "10.96.0.15", json!({"sessionAffinity": "ClientIP"}));
        self.slice("sticky", "", both.clone(), PORT);
        self.service("own", "10.96.0.16", json!({}));
        self.slice("own", "", json!([self.here(&self.client)]), PORT);
        self.service("differing", "10.96.0.17", json!({}));
        self.slice("differing", "-a", json!([self.here(one)]), PORT);
        self.slice("differing", "-b", json!([self.here(two)]), PORT + 1);
        serve::start_at(two, PORT + 1);
        self.service("far", "10.96.0.20", json!({"type": "NodePort", "ports": ports(30082)}));
        self.slice("far", "", json!([elsewhere]), PORT);
        self.service("leaving", "10.96.0.18", json!({}));
        let mut leaving = self.here(one);
        leaving["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
        self.slice("leaving", "", json!([leaving]), PORT);
        self.service("zoned", "10.96.0.19", json!({"trafficDistribution": "PreferClose"}));
        let zoned = |pod: &Pod, zone: &str| {
            let mut endpoint = self.here(pod);
            endpoint["zone"] = zone.into();
            endpoint["hints"] = json!({"forZones": [{"name": zone}]});
            endpoint
        };
        self.slice("zoned", "", json!([zoned(one, "here"), zoned(two, "there")]), PORT);
    }

    fn here(&self, pod: &Pod) -> Value {
        json!({"addresses": [pod.v4().to_string()], "nodeName": self.world.one().name, "conditions": {"ready": true}})
    }

    fn service(&self, name: &str, address: &str, more: Value) {
        let mut spec = json!({"clusterIP": address, "ports": [{"name": "tcp", "port": 80, "targetPort": PORT}]});
        more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
        self.api.service(name, &spec);
    }

    fn slice(&self, service: &str, suffix: &str, endpoints: Value, port: u16) {
        let document = json!({
            "metadata": {"name": format!("{service}{suffix}"), "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "tcp", "port": port, "protocol": "TCP"}, {"name": "udp", "port": port, "protocol": "UDP"}]});
        self.api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &document);
    }

    fn place(&self, from: From) -> &Place {
        match from {
            From::Pod => &self.client,
            From::Node => self.world.one(),
            From::Outside => &self.world.outside,
        }
    }

    fn start_ours(&self) -> Daemon {
        self.api.kube_proxy(self.world.one(), "bridge", &[])
    }

    fn start_original(&self, exe: &Path) -> Daemon {
        let node = self.world.one();
        let mut command = Command::new("wine");
        command.arg(exe).args(["--proxy-mode", "kernelspace", "--network-name", "bridge", "--hostname-override", &node.name]);
        command.args(["--kubeconfig", &format!("Z:{}", self.api.kubeconfig().display()), "--bind-address", &node.v4().to_string()]);
        command.args(["--healthz-bind-address", "127.0.0.1:10256", "--metrics-bind-address", "127.0.0.1:10249"]);
        command.args(["--iptables-sync-period", "2s", "--iptables-min-sync-period", "100ms"]);
        agent::meet_hnsd(&mut command, node);
        node.launch(node, command, "kube-proxy")
    }

    /// Everything that is to be seen of one proxy.
    fn play(&self, start: impl Fn(&Self) -> Daemon) -> Seen {
        let proxy = start(self);
        self.settle();
        let mut seen = self.look();
        // Somebody deletes everything behind its back.
        self.delete(Kind::LoadBalancer);
        self.settle();
        seen.push(("after its load balancer was deleted".to_owned(), From::Pod.name(), self.who(From::Pod, "10.96.0.10", 80)));
        drop(proxy);
        seen
    }

    fn delete(&self, kind: Kind) {
        let client = &self.world.one().client;
        let ids = client.enumerate(kind, "{}").expect("HNS answers");
        ids.iter().for_each(|id| client.delete(kind, *id).expect("it goes"));
    }

    /// Removes what a proxy has made.
    fn clear(&self) {
        self.delete(Kind::LoadBalancer);
        let client = &self.world.one().client;
        let own = [&self.client, &self.one, &self.two].map(|pod| pod.endpoint);
        let endpoints: Vec<Endpoint> = client.objects(&[]).expect("HNS answers");
        for endpoint in endpoints.iter().filter(|endpoint| !own.contains(&endpoint.id)) {
            client.delete(Kind::Endpoint, endpoint.id).expect("it goes");
        }
    }

    /// Waits until load balancers come and go no more.
    fn settle(&self) {
        let list =
            || -> BTreeSet<_> { self.world.one().client.enumerate(Kind::LoadBalancer, "{}").expect("HNS answers").into_iter().collect() };
        let begin = Instant::now();
        let (mut last, mut since) = (list(), Instant::now());
        while since.elapsed() < QUIET || (last.is_empty() && begin.elapsed() < 4 * QUIET) {
            assert!(begin.elapsed() < LONG, "load balancers come and go");
            thread::sleep(Duration::from_millis(200));
            let now = list();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
    }

    fn look(&self) -> Seen {
        let node = self.world.one();
        let mut seen = Seen::new();
        let mut ask = |what: &str, from: From, answer: String| seen.push((what.to_owned(), from.name(), answer));
        let (v4, v6) = (node.v4().to_string(), node.v6().to_string());
        let fronts: [(&str, &str, u16); 6] = [
            ("cluster IP", "10.96.0.10", 80),
            ("cluster IP, IPv6", "fd00:96::10", 80),
            ("node port", &v4, 30080),
            ("node port, IPv6", &v6, 30080),
            ("external IP", "198.51.100.8", 80),
            ("load balancer IP", "198.51.100.9", 80),
        ];
        for (what, address, port) in fronts {
            From::ALL.into_iter().for_each(|from| ask(what, from, self.who(from, address, port)));
        }
        From::ALL.into_iter().for_each(|from| ask("cluster IP, UDP", from, self.who_over_udp(from, "10.96.0.10", 80)));
        From::ALL.into_iter().for_each(|from| ask("a backend elsewhere, cluster IP", from, self.who(from, "10.96.0.20", 80)));
        From::ALL.into_iter().for_each(|from| ask("a backend elsewhere, node port", from, self.who(from, &v4, 30082)));
        ask("its own Service", From::Pod, self.who(From::Pod, "10.96.0.16", 80));
        From::ALL.into_iter().for_each(|from| ask("no backends", from, self.who(from, "10.96.0.11", 80)));
        ask("internalTrafficPolicy: Local", From::Pod, self.who(From::Pod, "10.96.0.12", 80));
        From::ALL.into_iter().for_each(|from| ask("externalTrafficPolicy: Local, node port", from, self.who(from, &v4, 30081)));
        ask("externalTrafficPolicy: Local, the client's address", From::Outside, self.is_seen(&v4, 30081));
        ask("externalTrafficPolicy: Local, load balancer IP", From::Outside, self.who(From::Outside, "198.51.100.13", 80));
        ask("loadBalancerSourceRanges, within", From::Pod, self.who(From::Pod, "198.51.100.14", 80));
        ask("loadBalancerSourceRanges, not within", From::Outside, self.who(From::Outside, "198.51.100.14", 80));
        ask("sessionAffinity: ClientIP", From::Pod, self.how_many(From::Pod, "10.96.0.15", 80));
        ask("backends with different ports", From::Pod, self.who(From::Pod, "10.96.0.17", 80));
        ask("the only backend is leaving", From::Pod, self.who(From::Pod, "10.96.0.18", 80));
        ask("a zone of its own", From::Pod, self.who(From::Pod, "10.96.0.19", 80));
        seen
    }

    /// Who answers over TCP, in words.
    fn who(&self, from: From, address: &str, port: u16) -> String {
        let to = SocketAddr::new(address.parse().expect("an address"), port);
        self.in_words(|| meet_soon(self.place(from), to))
    }

    fn who_over_udp(&self, from: From, address: &str, port: u16) -> String {
        let to = SocketAddr::new(address.parse().expect("an address"), port);
        self.in_words(|| meet_udp(self.place(from), to).map(|(name, _)| name))
    }

    fn in_words(&self, meet: impl Fn() -> io::Result<String>) -> String {
        let met: io::Result<BTreeSet<String>> = (0..ASKED).map(|_| meet()).collect();
        match met {
            Ok(met) => met.iter().map(|name| self.called(name)).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", "),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => "refused".to_owned(),
            Err(_) => "no answer".to_owned(),
        }
    }

    /// What a place is called in the table.
    fn called<'a>(&self, name: &'a str) -> &'a str {
        let known =
            [(&self.client.name, "itself"), (&self.one.name, "one"), (&self.two.name, "two"), (&self.world.outside.name, "elsewhere")];
        known.iter().find(|(known, _)| *known == name).map_or(name, |(_, called)| called)
    }

    /// Whether a backend sees the client's address.
    fn is_seen(&self, address: &str, port: u16) -> String {
        let to = SocketAddr::new(address.parse::<IpAddr>().expect("an address"), port);
        match meet(&self.world.outside, to) {
            Ok((_, seen)) if seen.ip() == OUTSIDE[0] => "seen".to_owned(),
            Ok(_) => "hidden".to_owned(),
            Err(_) => "no answer".to_owned(),
        }
    }

    /// How many backends one client meets.
    fn how_many(&self, from: From, address: &str, port: u16) -> String {
        match self.who(from, address, port).as_str() {
            who @ ("refused" | "no answer") => who.to_owned(),
            who if who.contains(',') => "several".to_owned(),
            _ => "one of two".to_owned(),
        }
    }
}

/// The rows of the table: question, who asks, theirs, ours.
struct Table(Vec<[String; 4]>);

impl Table {
    fn of(theirs: &Seen, ours: &Seen) -> Self {
        let row = |((what, from, theirs), (_, _, ours)): (&(String, &str, String), &(String, &str, String))| {
            [what.clone(), (*from).to_owned(), theirs.clone(), ours.clone()]
        };
        Self(theirs.iter().zip(ours).map(row).collect())
    }

    /// The table as it is written down. One that is not there has no rows.
    fn read() -> Self {
        let text = fs::read_to_string(TABLE).unwrap_or_default();
        let cells = |line: &str| -> Option<[String; 4]> {
            let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            cells.try_into().ok()
        };
        Self(text.lines().filter(|line| line.starts_with('|')).skip(2).filter_map(cells).collect())
    }

    fn theirs(&self) -> Seen {
        let from = |name: &str| From::ALL.into_iter().map(From::name).find(|known| *known == name).unwrap_or("?");
        self.0.iter().map(|[what, asker, theirs, _]| (what.clone(), from(asker), theirs.clone())).collect()
    }

    fn text(&self) -> String {
        let mut text = INTRODUCTION.to_owned();
        for [what, from, theirs, ours] in &self.0 {
            text += &format!("| {what} | {from} | {theirs} | {ours} |\n");
        }
        text
    }
}

const INTRODUCTION: &str = "\
# kube-proxy.exe and `transom kube-proxy`

Who is reached behind a Service, by Kubernetes' own `kube-proxy.exe` (v1.37.1, under Wine) and by ours, on the same HNS (profile `transom`, an
L2Bridge network, no DSR) with the same API content and real connections. Backends are the pods *one* and *two* on the node; *elsewhere* is
on another machine, and *itself* is the pod that asks. `cargo xtask interop windows-agents` sees it anew and compares.

| Service | asked by | kube-proxy.exe | transom |
|---|---|---|---|
";
