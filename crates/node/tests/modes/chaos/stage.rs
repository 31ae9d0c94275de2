//! Where it happens: two nodes with pods, an API server, and kube-proxy on the first node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::thread;

use hcn::endpoint::Endpoint;
use hcn::load_balancer::{LoadBalancer, LoadBalancerFlags, ProtocolType};
use hcn::{Guid, Hcn, HcnExt, Kind};
use serde_json::{Value, json};

use super::held::{self, Held};
use super::script::{Backends, Part, Step, THERE};
use crate::harness::api::Api;
use crate::harness::balancer::at;
use crate::harness::node::Daemon;
use crate::harness::serve::PORT;
use crate::harness::world::ROUTER;
use crate::harness::{Node, Pod, World};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

/// The source address of translated connections, on an overlay.
const SOURCE_VIP: &str = "10.244.1.200";

/// How many connections are held from a place, so that hardly any backend is without one.
const HELD: usize = 4;

/// The kind of network that pods are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Bridge,
    Overlay { dsr: bool },
}

impl Mode {
    const OVERLAY: Overlay<'static> = Overlay { name: "vxlan0", vni: crate::overlay::VNI, v6: false, more: Vec::new() };

    fn networks(self, world: &World) -> [Guid; 2] {
        match self {
            Self::Bridge => [routed(world, world.one()), routed(world, world.two())],
            Self::Overlay { .. } => Self::OVERLAY.on_both(world),
        }
    }

    fn pod(self, node: &Node, network: Guid, number: usize) -> Pod {
        match self {
            Self::Bridge => routed_pod(node, network, number, &[]),
            Self::Overlay { .. } => Self::OVERLAY.pod(node, network, number, &[]),
        }
    }

    fn kube_proxy(self, api: &Api, node: &Node) -> Daemon {
        match self {
            Self::Bridge => api.kube_proxy(node, "bridge", &[]),
            Self::Overlay { dsr: true } => api.kube_proxy(node, "vxlan0", &["--source-vip", SOURCE_VIP, "--enable-dsr"]),
            Self::Overlay { dsr: false } => api.kube_proxy(node, "vxlan0", &["--source-vip", SOURCE_VIP]),
        }
    }

    /// The addresses of a Service by number: of both families where pods have both.
    fn cluster_ips(self, service: usize) -> Vec<String> {
        let both = vec![format!("10.96.0.{}", 20 + service), format!("fd00:96::{}", 20 + service)];
        both.into_iter().take(if self == Self::Bridge { 2 } else { 1 }).collect()
    }
}

/// A Service by number, with all that clients of it are told.
fn spec(cluster_ips: &[String], service: usize, target_port: u16) -> Value {
    let port = |name: &str| {
        json!({
            "name": name, "protocol": name.to_uppercase(), "port": 80, "targetPort": target_port, "nodePort": node_port(service)})
    };
    let is_dual = cluster_ips.len() > 1;
    json!({
        "type": "NodePort", "clusterIP": cluster_ips[0], "clusterIPs": cluster_ips, "ports": [port("tcp"), port("udp")],
        "ipFamilies": if is_dual { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) },
        "ipFamilyPolicy": if is_dual { "RequireDualStack" } else { "SingleStack" }})
}

fn node_port(service: usize) -> u16 {
    30_020 + service as u16
}

/// The Service that nothing is done to.
const UNAFFECTED: usize = 9;

/// The stage, and who is on it now.
pub(super) struct Stage {
    mode: Mode,
    pub(super) world: World,
    api: Api,
    kube_proxy: Option<Daemon>,
    network: Guid,
    pub(super) client: Pod,
    here: BTreeMap<usize, Pod>,
    there: BTreeMap<usize, Pod>,
    /// The pods behind the Service that nothing is done to.
    unaffected: [Pod; 2],
    held: Vec<Held>,
}

impl Stage {
    /// Makes it, with connections through a Service that nothing will be done to.
    pub(super) fn new(mode: Mode) -> Self {
        let world = World::new(2);
        let [network, other] = mode.networks(&world);
        let api = Api::start(&world);
        let kube_proxy = Some(mode.kube_proxy(&api, world.one()));
        let client = mode.pod(world.one(), network, 11);
        let unaffected = [mode.pod(world.one(), network, 12), mode.pod(world.two(), other, 12)];
        unaffected.iter().for_each(|pod| held::start(pod));
        let there = THERE.map(|number| (number, mode.pod(world.two(), other, number))).collect();
        let mut stage = Self { mode, world, api, kube_proxy, network, client, here: BTreeMap::new(), there, unaffected, held: Vec::new() };
        stage.hold();
        stage
    }

    /// Begins the connections that must outlive everything: from a pod and from outside.
    fn hold(&mut self) {
        let cluster_ips = self.mode.cluster_ips(UNAFFECTED);
        self.api.service("unaffected", &spec(&cluster_ips, UNAFFECTED, held::PORT));
        let backends: Vec<(IpAddr, &Node)> =
            self.unaffected.iter().zip(&self.world.nodes).flat_map(|(pod, node)| addresses(pod, node)).collect();
        self.api.backends("unaffected", held::PORT, &backends);
        let node_port = SocketAddr::new(self.world.one().v4(), node_port(UNAFFECTED));
        let inside = cluster_ips.iter().map(|address| (&*self.client, at(address, 80)));
        let all = inside.chain([(&self.world.outside, node_port)]);
        self.held = all.flat_map(|(place, front)| (0..HELD).map(move |_| Held::begin(place, front))).collect();
    }

    /// Says something over every connection that is held, and expects to hear it back.
    pub(super) fn exchange(&mut self) {
        self.held.iter_mut().for_each(Held::exchange);
    }

    /// Does a step.
    pub(super) fn play(&mut self, step: &Step) {
        match step {
            Step::AddService(service) => {
                let spec = spec(&self.mode.cluster_ips(*service), *service, PORT);
                _ = self.api.service(&name(*service), &spec);
            }
            Step::RemoveService(service) => self.api.delete(&format!("/api/v1/namespaces/default/services/{}", name(*service))),
            Step::ChangeBackends(service, backends) => self.change_backends(*service, backends),
            Step::AddPod(pod) => _ = self.here.insert(*pod, self.mode.pod(self.world.one(), self.network, *pod)),
            Step::RemovePod(pod) => self.world.one().delete_pod(&self.here.remove(pod).expect("the pod is there")),
            Step::DeleteBalancers(service) => self.balancers_of(*service).iter().for_each(|balancer| self.delete(balancer)),
            Step::EmptyBalancers(service) => self.balancers_of(*service).into_iter().for_each(|balancer| self.empty(balancer)),
            Step::Kill(part) => self.kill(*part),
            Step::Start(part) => self.start(*part),
            Step::Wait(time) => thread::sleep(*time),
        }
    }

    fn change_backends(&self, service: usize, backends: &Backends) {
        let [one, two] = [self.world.one(), self.world.two()];
        // A pod's address is known before the pod is there, and after.
        let here = backends.here.iter().flat_map(|pod| {
            let addresses = [format!("10.244.1.{pod}"), format!("fd00:244:1::{pod}")];
            addresses.map(|address| (address.parse().expect("an address"), one))
        });
        let there = backends.there.iter().flat_map(|pod| addresses(&self.there[pod], two));
        self.api.backends(&name(service), PORT, &here.chain(there).collect::<Vec<_>>());
    }

    /// The load balancers of a Service that are there now.
    fn balancers_of(&self, service: usize) -> Vec<LoadBalancer> {
        let cluster_ips = self.mode.cluster_ips(service);
        let is_of_it = |balancer: &LoadBalancer| match balancer.frontend_vips.first() {
            Some(vip) => cluster_ips.contains(vip),
            None => balancer.port_mappings.iter().any(|mapping| mapping.external_port == node_port(service)),
        };
        self.balancers().into_iter().filter(is_of_it).collect()
    }

    fn balancers(&self) -> Vec<LoadBalancer> {
        self.world.one().client.objects(&[]).expect("the load balancers")
    }

    fn delete(&self, balancer: &LoadBalancer) {
        // kube-proxy may be about to do the same.
        _ = self.world.one().client.delete(Kind::LoadBalancer, balancer.id);
    }

    fn empty(&self, mut balancer: LoadBalancer) {
        balancer.endpoints.clear();
        balancer.additional_params = None;
        _ = self.world.one().client.modify(Kind::LoadBalancer, balancer.id, &hcn::print(&balancer));
    }

    fn kill(&mut self, part: Part) {
        match part {
            Part::Api => self.api.kill(),
            Part::Hnsd => self.world.nodes[0].hnsd = None,
            Part::KubeProxy => self.kube_proxy = None,
        }
    }

    fn start(&mut self, part: Part) {
        match part {
            Part::Api => self.api.run(&self.world),
            Part::Hnsd => self.world.nodes[0].start_hnsd(&[]),
            Part::KubeProxy => self.kube_proxy = Some(self.mode.kube_proxy(&self.api, self.world.one())),
        }
    }

    /// Where pods reach a Service, and where somebody outside does.
    pub(super) fn fronts(&self, service: usize) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let inside: Vec<SocketAddr> = self.mode.cluster_ips(service).iter().map(|address| at(address, 80)).collect();
        let outside = inside.iter().map(|front| SocketAddr::new(self.world.one().address_like(front.is_ipv4()), node_port(service)));
        let outside = outside.collect();
        (inside, outside)
    }

    /// The names of pods.
    pub(super) fn names(&self, backends: &Backends) -> BTreeSet<String> {
        let here = backends.here.iter().map(|pod| &self.here[pod]);
        here.chain(backends.there.iter().map(|pod| &self.there[pod])).map(|pod| pod.name.clone()).collect()
    }

    /// The frontends that the API asks for.
    pub(super) fn wanted_frontends(&self) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for service in self.api.list("/api/v1/namespaces/default/services") {
            let texts =
                |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
            for address in texts(&service["spec"]["clusterIPs"]) {
                for port in service["spec"]["ports"].as_array().into_iter().flatten() {
                    let protocol = port["protocol"].as_str().unwrap_or("TCP").to_lowercase();
                    wanted.insert(format!("{address} {} {protocol}", port["port"]));
                    let family = if address.contains(':') { "v6" } else { "v4" };
                    wanted.extend(port["nodePort"].as_u64().map(|number| format!("{family} {number} {protocol}")));
                }
            }
        }
        wanted
    }

    /// The frontends that HNS has load balancers at, each as often as there are.
    pub(super) fn frontends(&self) -> Vec<String> {
        let of_balancer = |balancer: LoadBalancer| {
            let family = if balancer.flags.has(LoadBalancerFlags::IPV6) { "v6" } else { "v4" };
            let place = balancer.frontend_vips.first().cloned().unwrap_or_else(|| family.to_owned());
            let mapping = &balancer.port_mappings[0];
            let protocol = if mapping.protocol == ProtocolType::Tcp { "tcp" } else { "udp" };
            format!("{place} {} {protocol}", mapping.external_port)
        };
        let mut found: Vec<String> = self.balancers().into_iter().map(of_balancer).collect();
        found.sort();
        found
    }

    /// The addresses that kube-proxy should have made endpoints for, if these are the backends of all Services.
    pub(super) fn wanted_endpoints(&self, services: &BTreeMap<usize, Backends>) -> BTreeSet<IpAddr> {
        let has_v6 = self.mode == Mode::Bridge;
        let there = services.values().flat_map(|backends| &backends.there).map(|pod| &self.there[pod]);
        let pods = there.chain([&self.unaffected[1]]).flat_map(|pod| pod.addresses.iter().copied());
        let mut wanted: BTreeSet<IpAddr> = pods.filter(|address| has_v6 || address.is_ipv4()).collect();
        wanted.insert(ROUTER[0]);
        if let Mode::Overlay { .. } = self.mode {
            let numbers = services.keys().copied().chain([UNAFFECTED]);
            let own = numbers.flat_map(|service| self.mode.cluster_ips(service));
            let texts = own.chain([SOURCE_VIP.to_owned(), "10.96.0.1".to_owned()]);
            wanted.extend(texts.map(|text| text.parse::<IpAddr>().expect("an address")));
        }
        wanted
    }

    /// The addresses of endpoints that kube-proxy has made.
    pub(super) fn endpoints(&self) -> BTreeSet<IpAddr> {
        let all: Vec<Endpoint> = self.world.one().client.objects(&[]).expect("the endpoints");
        let made = all.iter().filter(|endpoint| endpoint.name.starts_with("kube-proxy "));
        made.flat_map(|endpoint| &endpoint.ip_configurations).map(|ip| ip.ip_address.parse().expect("an address")).collect()
    }
}

fn name(service: usize) -> String {
    format!("s{service}")
}

/// Everything that a pod has on a node.
fn addresses<'a>(pod: &Pod, node: &'a Node) -> Vec<(IpAddr, &'a Node)> {
    pod.addresses.iter().map(|address| (*address, node)).collect()
}
