//! An HNS in memory that counts and can be made to fail, a cluster of documents, and a proxier between them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hcn::api::Events;
use hcn::endpoint::Endpoint;
use hcn::error::detail;
use hcn::load_balancer::LoadBalancer;
use hcn::{Guid, Hcn, HcnExt, Kind};
use hns::machine::FakeMachine;
use hns::switch::Recorder;
use hns::{Build, Options, Service as Hns};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proxy::backend::SeenSlice;
use proxy::cluster::Cluster;
use proxy::desired::Setting;
use proxy::proxier::{Obstacle, Proxier, Report};
use proxy::service::SeenService;
use serde_json::{Value, json};

/// The node that the proxier runs on.
pub(crate) const NODE: &str = "here";

/// An HNS that counts what it is asked, and fails when it is told to.
pub(crate) struct Counting {
    service: Hns,
    reads: AtomicUsize,
    changes: AtomicUsize,
    is_down: AtomicBool,
    /// Kinds of objects, and how many changes of them are refused.
    refused: Mutex<BTreeMap<Kind, usize>>,
}

impl Counting {
    fn read<T>(&self, call: impl FnOnce(&Hns) -> hcn::Result<T>) -> hcn::Result<T> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.unless_down()?;
        call(&self.service)
    }

    fn change<T>(&self, kind: Kind, call: impl FnOnce(&Hns) -> hcn::Result<T>) -> hcn::Result<T> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.unless_down()?;
        if let Some(left) = self.refused.lock().unwrap().get_mut(&kind).filter(|left| **left > 0) {
            *left -= 1;
            return Err(hcn::Error::OutOfMemory(detail("the test refuses")));
        }
        call(&self.service)
    }

    fn unless_down(&self) -> hcn::Result<()> {
        match self.is_down.load(Ordering::Relaxed) {
            true => Err(hcn::Error::ServiceUnavailable(detail("the test has cut the line"))),
            false => Ok(()),
        }
    }
}

impl Hcn for Counting {
    fn enumerate(&self, kind: Kind, query: &str) -> hcn::Result<Vec<Guid>> {
        self.read(|service| service.enumerate(kind, query))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> hcn::Result<Guid> {
        self.change(kind, |service| service.create(kind, network, id, settings))
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> hcn::Result<Value> {
        self.read(|service| service.query(kind, id, query))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> hcn::Result<()> {
        self.change(kind, |service| service.modify(kind, id, settings))
    }

    fn delete(&self, kind: Kind, id: Guid) -> hcn::Result<()> {
        self.change(kind, |service| service.delete(kind, id))
    }

    fn call(&self, method: &str, path: &str, request: &str) -> hcn::Result<Value> {
        self.read(|service| service.call(method, path, request))
    }

    fn events(&self) -> hcn::Result<Events> {
        self.service.events()
    }

    fn list(&self, kind: Kind, query: &str) -> hcn::Result<Vec<Value>> {
        self.read(|service| service.list(kind, query))
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) hns: Counting,
    pub(crate) network: Guid,
    pub(crate) proxier: Proxier,
    pub(crate) setting: Setting,
    services: BTreeMap<String, Service>,
    slices: BTreeMap<String, EndpointSlice>,
    node: Node,
}

impl World {
    /// A node with a network of this type, as this build of Windows.
    pub(crate) fn new(profile: &str, network_type: &str) -> Self {
        let options = Options {
            state_dir: None,
            build: Build::named(profile, &[], &[]).unwrap(),
            machine: Arc::new(FakeMachine::with_ethernet()),
            switch: Arc::new(Recorder::default()),
        };
        let service = Hns::start(options).unwrap();
        let hns = Counting {
            service,
            reads: AtomicUsize::default(),
            changes: AtomicUsize::default(),
            is_down: AtomicBool::default(),
            refused: Mutex::default(),
        };
        let setting = Setting {
            network: "pods".into(),
            source_vips: if network_type == "Overlay" { vec![address("10.1.1.2")] } else { Vec::new() },
            node_addresses: vec![address("192.0.2.10")],
            host_mac: Some("00-15-5D-00-00-01".into()),
            external_ips: true,
            health_port: 10256,
            ..Setting::default()
        };
        let node = serde_json::from_value(json!({"metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": "a"}}})).unwrap();
        let mut world = Self {
            hns,
            network: Guid::nil(),
            proxier: Proxier::new(setting.clone()),
            setting,
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            node,
        };
        world.make_network(network_type);
        world
    }

    /// Makes the network that pods are on; on an overlay another node has 10.1.2.0/24.
    pub(crate) fn make_network(&mut self, network_type: &str) {
        let remote = json!({"Type": "RemoteSubnetRoute", "Settings": {
            "DestinationPrefix": "10.1.2.0/24", "IsolationId": 4096, "ProviderAddress": "192.0.2.11",
            "DistributedRouterMacAddress": "00-15-5D-00-00-02"}});
        let overlay = network_type == "Overlay";
        let document = json!({
            "Name": "pods", "Type": network_type,
            "Ipams": [{"Type": "Static", "Subnets": [{
                "IpAddressPrefix": "10.1.1.0/24", "Routes": [{"NextHop": "10.1.1.1", "DestinationPrefix": "0.0.0.0/0"}],
                "Policies": if overlay { json!([{"Type": "VSID", "Settings": {"IsolationId": 4096}}]) } else { json!([]) },
            }]}],
            "Policies": if overlay { json!([remote]) } else { json!([]) },
            "SchemaVersion": {"Major": 2, "Minor": 0},
        });
        self.network = self.hns.service.create(Kind::Network, None, None, &document.to_string()).unwrap();
    }

    /// A pod on this node, attached to its namespace.
    pub(crate) fn pod(&self, address: &str) -> Guid {
        let document = json!({
            "Name": format!("pod-{address}"), "HostComputeNetwork": self.network.to_string(),
            "IpConfigurations": [{"IpAddress": address}], "SchemaVersion": {"Major": 2, "Minor": 0}});
        let endpoint = self.hns.service.create(Kind::Endpoint, None, None, &document.to_string()).unwrap();
        let namespace = json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}});
        let namespace = self.hns.service.create(Kind::Namespace, None, None, &namespace.to_string()).unwrap();
        let request = json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint.to_string()}});
        self.hns.service.modify(Kind::Namespace, namespace, &request.to_string()).unwrap();
        endpoint
    }

    /// A Service in the cluster.
    pub(crate) fn service(&mut self, name: &str, spec: Value) {
        let ingress = spec.get("ingress").cloned().unwrap_or_default();
        let document = json!({
            "metadata": {"name": name, "namespace": "default", "annotations": spec.get("annotations").cloned().unwrap_or_default()},
            "spec": spec,
            "status": {"loadBalancer": {"ingress": ingress}}});
        self.services.insert(name.into(), serde_json::from_value(document).unwrap());
    }

    pub(crate) fn remove_service(&mut self, name: &str) {
        self.services.remove(name);
        self.slices.retain(|key, _| !key.starts_with(&format!("{name} ")));
    }

    /// The backends of a port of a Service: addresses, a `!` before those on this node.
    pub(crate) fn backends(&mut self, service: &str, port_name: &str, port: u16, addresses: &[&str]) {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|address| {
                let node = if address.starts_with('!') { NODE } else { "elsewhere" };
                json!({"addresses": [address.trim_start_matches('!')], "nodeName": node, "conditions": {"ready": true}})
            })
            .collect();
        self.slice(service, port_name, port, json!(endpoints));
    }

    pub(crate) fn slice(&mut self, service: &str, port_name: &str, port: u16, endpoints: Value) {
        let document = json!({
            "metadata": {"name": service, "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}]});
        self.slices.insert(format!("{service} {port_name} {port}"), serde_json::from_value(document).unwrap());
    }

    pub(crate) fn drop_slice(&mut self, service: &str, port_name: &str, port: u16) {
        self.slices.remove(&format!("{service} {port_name} {port}"));
    }

    pub(crate) fn cluster(&self) -> Cluster {
        let services: Vec<_> = self.services.values().map(|service| Arc::new(SeenService::read(service))).collect();
        let slices: Vec<_> = self.slices.values().map(|slice| Arc::new(SeenSlice::read(slice, NODE))).collect();
        Cluster::of(NODE, Some(&self.node), &services, &slices)
    }

    /// A sync that must have no failures.
    #[track_caller]
    pub(crate) fn sync(&mut self) -> Report {
        let report = self.try_sync().unwrap();
        assert!(report.failures.is_empty(), "{:?}", report.failures);
        report
    }

    pub(crate) fn try_sync(&mut self) -> Result<Report, Obstacle> {
        let cluster = self.cluster();
        self.proxier.sync(&self.hns, &cluster)
    }

    /// A sync that must find nothing to do. Returns how many questions it asked.
    #[track_caller]
    pub(crate) fn nothing_to_do(&mut self) -> usize {
        let (reads, changes) = (self.hns.reads.load(Ordering::Relaxed), self.changes());
        let report = self.sync();
        assert_eq!(self.changes(), changes, "{report:?}");
        self.hns.reads.load(Ordering::Relaxed) - reads
    }

    /// Does something to HNS, and lets the proxier hear of it.
    pub(crate) fn behind_its_back(&mut self, act: impl FnOnce(&Hns)) {
        let mut events = self.hns.service.events().unwrap();
        act(&self.hns.service);
        // One that ends the stream of what was done.
        let marker = json!({"Type": "Host", "Name": "marker", "SchemaVersion": {"Major": 2, "Minor": 0}});
        let marker = self.hns.service.create(Kind::Namespace, None, None, &marker.to_string()).unwrap();
        loop {
            let event = events.next().unwrap().unwrap();
            if event.id == marker {
                return;
            }
            _ = self.proxier.note(&event);
        }
    }

    /// Does something to HNS of which the proxier hears nothing.
    pub(crate) fn quietly(&self, act: impl FnOnce(&Hns)) {
        act(&self.hns.service);
    }

    /// Another process in the same place: it knows nothing.
    pub(crate) fn restart(&mut self) {
        self.proxier = Proxier::new(self.setting.clone());
    }

    pub(crate) fn changes(&self) -> usize {
        self.hns.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn go_down(&self, is_down: bool) {
        self.hns.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Refuses this many changes of objects of a kind.
    pub(crate) fn refuse(&self, kind: Kind, count: usize) {
        self.hns.refused.lock().unwrap().insert(kind, count);
    }

    pub(crate) fn balancers(&self) -> Vec<LoadBalancer> {
        self.hns.service.objects::<LoadBalancer>(&[]).unwrap()
    }

    /// The load balancer at a frontend, written `10.0.0.1:80`, or `:30080` for a node port.
    #[track_caller]
    pub(crate) fn balancer(&self, frontend: &str) -> LoadBalancer {
        self.find(frontend).unwrap_or_else(|| panic!("nothing at {frontend}: {:#?}", self.balancers()))
    }

    pub(crate) fn find(&self, frontend: &str) -> Option<LoadBalancer> {
        let (vip, port) = frontend.split_once(':').unwrap();
        self.balancers().into_iter().find(|balancer| {
            balancer.frontend_vips.first().map_or("", String::as_str) == vip && balancer.port_mappings[0].external_port.to_string() == port
        })
    }

    /// The addresses that a load balancer leads to, in order.
    #[track_caller]
    pub(crate) fn leads_to(&self, frontend: &str) -> Vec<String> {
        self.addresses(&self.balancer(frontend).endpoints)
    }

    pub(crate) fn addresses(&self, endpoints: &[Guid]) -> Vec<String> {
        let address = |id: &Guid| self.hns.service.object::<Endpoint>(*id).unwrap().ip_configurations[0].ip_address.clone();
        let mut found: Vec<String> = endpoints.iter().map(address).collect();
        found.sort();
        found
    }

    pub(crate) fn endpoints_at(&self, address: &str) -> Vec<Endpoint> {
        let all = self.hns.service.objects::<Endpoint>(&[]).unwrap();
        all.into_iter().filter(|endpoint| endpoint.ip_configurations.iter().any(|ip| ip.ip_address == address)).collect()
    }
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A ClusterIP Service with one port, 80.
pub(crate) fn plain(cluster_ip: &str) -> Value {
    json!({"clusterIP": cluster_ip, "ports": [{"port": 80, "targetPort": 8080}]})
}

/// A Service of type LoadBalancer with a node port and an ingress address.
pub(crate) fn outward(cluster_ip: &str, ingress: &str, policy: &str) -> Value {
    json!({
        "type": "LoadBalancer", "clusterIP": cluster_ip, "externalTrafficPolicy": policy, "ingress": [{"ip": ingress}],
        "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30080}]})
}
