//! The pods and Services that scenarios are played with: a client and two servers on a node of the build, and a third server on another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcn::HcnExt;
use hcn::load_balancer::LoadBalancer;
use host::namespace::Namespace;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::ask::{meet, meet_soon};
use super::subject::Subject;
use super::{Finding, NAMESPACE, Observed, hns};
use crate::api::{cause, remove_namespace};
use crate::lab::{Failure, Lab};
use crate::node::LabNode;
use crate::status::PodStatus;
use crate::topology::Manifest;

/// Where servers listen, and where Services are.
pub(super) const HTTP_PORT: u16 = 8080;
pub(super) const UDP_PORT: u16 = 8081;
pub(super) const SERVICE_HTTP: u16 = 80;
pub(super) const SERVICE_UDP: u16 = 81;

/// How long all of it may take to be there, and to go.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a Service is asked that is to lead to all servers. By chance alone one of three is missed once in hundreds of tries, and then
/// they are asked again.
const QUESTIONS: usize = 16;

/// For how long load balancers have to stay as they are to be done.
const CALM: Duration = Duration::from_millis(300);

/// The servers. The last one is on the other node, if there is one.
pub(super) const SERVERS: [&str; 3] = ["server-1", "server-2", "server-3"];
pub(super) const CLIENT: &str = "client";

/// A pod.
#[derive(Clone)]
pub(super) struct Actor {
    /// Its addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// Where it is.
    pub(super) namespace: Arc<Namespace>,
}

impl Actor {
    /// Its address of a family.
    pub(super) fn address(&self, v6: bool) -> Result<IpAddr, String> {
        let found = self.addresses.iter().copied().find(|address| address.is_ipv6() == v6);
        found.ok_or_else(|| "a pod has no address of this family".to_owned())
    }
}

/// All of it.
pub(super) struct Stage {
    /// The lab.
    pub(super) lab: Arc<Lab>,
    /// The build.
    pub(super) subject: Subject,
    /// The node of the build.
    pub(super) here: Arc<LabNode>,
    /// Another node, of the same build if there is one.
    pub(super) there: Option<Arc<LabNode>>,
    /// The host outside.
    pub(super) outside: Arc<Namespace>,
    pods: BTreeMap<&'static str, Actor>,
}

impl Stage {
    /// Makes everything, and waits until it is ready.
    pub(super) async fn make(lab: &Arc<Lab>) -> Result<Self, Failure> {
        let (here, subject) = leading(lab)?;
        let there = other(lab, &here, &subject);
        let mut objects = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})];
        let far = there.as_ref().unwrap_or(&here);
        objects.push(client(&here.spec.name, &lab.topology().cluster.domain));
        for (name, node) in SERVERS.into_iter().zip([&here, &here, far]) {
            objects.push(server(name, &node.spec.name));
        }
        objects.extend(services(lab.topology().is_dual_stack()));
        apply(lab, objects).await?;
        let pods = ready(lab).await?;
        let stage = Self { lab: lab.clone(), subject, here, there, outside: lab.outside()?, pods };
        if stage.subject.mode.has_load_balancers() {
            stage.wait_for_services().await?;
        }
        Ok(stage)
    }

    /// Waits until a Service leads to all servers, and load balancers stay as they are. A build that cannot change one in place makes another
    /// for every server that becomes ready, and connections meanwhile are lost, as they are there.
    async fn wait_for_services(&self) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut missing = self.missing().await;
        while let Err(cause) = missing {
            if begin.elapsed() > PATIENCE {
                return Err(Failure::new(format!("Services do not settle: {cause}")));
            }
            missing = self.missing().await;
        }
        Ok(())
    }

    /// What is still missing.
    async fn missing(&self) -> Result<(), String> {
        let before = self.balancers().await?;
        let plain = self.service("plain").await.and_then(|service| service.at(false))?;
        let mut met = BTreeSet::from([meet_soon(&self.pod(CLIENT).namespace, plain).await?.name]);
        for _ in 1..QUESTIONS {
            met.insert(meet(&self.pod(CLIENT).namespace, plain).await?.name);
        }
        if let Some(name) = SERVERS.into_iter().find(|name| !met.contains(*name)) {
            return Err(format!("nobody is led to {name}"));
        }
        sleep(CALM).await;
        if self.balancers().await? == before { Ok(()) } else { Err("load balancers change all the time".to_owned()) }
    }

    /// The load balancers of the node.
    pub(super) async fn balancers(&self) -> Result<Vec<LoadBalancer>, String> {
        hns::call(self, |hcn| hcn.objects(&[])).await
    }

    /// A pod.
    pub(super) fn pod(&self, name: &'static str) -> &Actor {
        // All of them were ready when the stage was made.
        &self.pods[name]
    }

    /// A Service as it is now.
    pub(super) async fn service(&self, name: &str) -> Result<Front, String> {
        let services: Api<Service> = Api::namespaced(self.lab.client().clone(), NAMESPACE);
        services.get(name).await.map(|service| Front::of(&service)).map_err(|error| cause(&error))
    }

    /// Makes or changes objects.
    pub(super) async fn apply(&self, objects: Vec<Value>) -> Result<(), String> {
        apply(&self.lab, objects).await.map_err(|failure| failure.cause)
    }

    /// How a pod of the node is.
    pub(super) fn status(&self, name: &str) -> Option<PodStatus> {
        let kubelet = self.lab.kubelet(&self.here.spec.name)?;
        kubelet.status().into_iter().find(|pod| pod.namespace == NAMESPACE && pod.name == name)
    }

    /// An address of the node.
    pub(super) fn node_address(&self) -> Result<IpAddr, String> {
        self.here.addresses().into_iter().find(IpAddr::is_ipv4).ok_or_else(|| "the node has no IPv4 address".to_owned())
    }
}

/// What is said where a lab has one node only.
pub(super) fn needs_another_node() -> Observed {
    Observed::new(Finding::NotHere, "it takes a second node")
}

/// Where a Service is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Front {
    cluster: Vec<IpAddr>,
    node_port: Option<u16>,
    ingress: Option<IpAddr>,
}

impl Front {
    fn of(service: &Service) -> Self {
        let spec = service.spec.clone().unwrap_or_default();
        let ports = spec.ports.unwrap_or_default();
        let ingress = || service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.as_deref()?.parse().ok();
        Self {
            cluster: spec.cluster_ips.unwrap_or_default().iter().filter_map(|text| text.parse().ok()).collect(),
            node_port: ports.first().and_then(|port| u16::try_from(port.node_port?).ok()),
            ingress: ingress(),
        }
    }

    /// The cluster IP of a family.
    pub(super) fn cluster_ip(&self, v6: bool) -> Result<IpAddr, String> {
        self.cluster.iter().copied().find(|address| address.is_ipv6() == v6).ok_or_else(|| "no cluster IP of this family".to_owned())
    }

    /// HTTP at the cluster IP of a family.
    pub(super) fn at(&self, v6: bool) -> Result<SocketAddr, String> {
        self.cluster_ip(v6).map(|address| SocketAddr::new(address, SERVICE_HTTP))
    }

    /// The first port of nodes.
    pub(super) fn node_port(&self) -> Result<u16, String> {
        self.node_port.ok_or_else(|| "it has no node port".to_owned())
    }

    /// The address that a load balancer in front of the cluster gave it.
    pub(super) fn ingress(&self) -> Result<IpAddr, String> {
        self.ingress.ok_or_else(|| "it has got no address from outside".to_owned())
    }
}

/// The first Windows node, and its build.
fn leading(lab: &Lab) -> Result<(Arc<LabNode>, Subject), Failure> {
    let found = lab.nodes().iter().find_map(|node| Some((node, Subject::of(&node.spec, lab.topology())?)));
    let (here, subject) = found.ok_or_else(|| Failure::new("the lab has no Windows node, whose limits could be tried"))?;
    Ok((here.clone(), subject))
}

/// Another node than the first: one of the same build and network, or else any whose pods are reached. Behind NAT nobody is.
fn other(lab: &Lab, here: &LabNode, subject: &Subject) -> Option<Arc<LabNode>> {
    let others = || lab.nodes().iter().filter(|node| node.spec.name != here.spec.name);
    let of = |node: &Arc<LabNode>| Subject::of(&node.spec, lab.topology());
    let is_like = |node: &&Arc<LabNode>| of(node).is_some_and(|it| it.mode == subject.mode && it.plugin == subject.plugin);
    let is_alike = |node: &&Arc<LabNode>| is_like(node) && of(node).is_some_and(|it| it.profile.name == subject.profile.name);
    let is_reached = |node: &&Arc<LabNode>| of(node).is_none_or(|it| !it.is_behind_nat());
    let any = || others().find(is_reached).filter(|_| !subject.is_behind_nat());
    others().find(is_alike).or_else(|| others().find(is_like)).or_else(any).cloned()
}

async fn apply(lab: &Lab, objects: Vec<Value>) -> Result<(), Failure> {
    lab.apply_all(&objects.into_iter().map(|object| Manifest { line: 0, object }).collect::<Vec<_>>()).await
}

/// The client asks for suffixes besides its own, which not every build gives it.
fn client(node: &str, domain: &str) -> Value {
    let mut pod = server(CLIENT, node);
    pod["metadata"]["labels"] = json!({});
    pod["spec"]["dnsConfig"] = json!({"searches": [format!("kube-system.svc.{domain}"), format!("svc.{domain}"), domain]});
    pod
}

fn server(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"role": "server", "server": name}},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "server", "image": "agnhost", "args": ["netexec"], "readinessProbe": {
                "httpGet": {"path": "/healthz", "port": HTTP_PORT}, "periodSeconds": 1}}]}})
}

fn services(is_dual_stack: bool) -> Vec<Value> {
    let everybody = json!({"role": "server"});
    let mut preserved = service("preserved", json!({"type": "LoadBalancer", "selector": everybody}));
    preserved["metadata"]["annotations"] = json!({"preserve-destination": "true"});
    // What is preserved is the port too.
    preserved["spec"]["ports"] = json!([{"name": "http", "port": HTTP_PORT, "targetPort": HTTP_PORT}]);
    let mut all = vec![
        service("sticky", json!({"sessionAffinity": "ClientIP", "selector": everybody})),
        service("moving", json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 3}}})),
        service("far", json!({"selector": {"server": SERVERS[2]}})),
        service("ports", json!({"type": "NodePort", "selector": everybody})),
        service("local", json!({"type": "NodePort", "externalTrafficPolicy": "Local", "selector": everybody})),
        preserved,
    ];
    if is_dual_stack {
        all.push(service("both", json!({"ipFamilyPolicy": "RequireDualStack", "selector": everybody})));
    }
    all.push(service("plain", json!({"selector": everybody})));
    all
}

/// A Service with the ports of servers.
pub(super) fn service(name: &str, mut spec: Value) -> Value {
    spec["ports"] = json!([
        {"name": "http", "port": SERVICE_HTTP, "targetPort": HTTP_PORT},
        {"name": "udp", "port": SERVICE_UDP, "targetPort": UDP_PORT, "protocol": "UDP"}]);
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

/// Backends of a Service that selects none by itself.
pub(super) fn slice(service: &str, number: usize, addresses: &[IpAddr]) -> Value {
    let endpoint = |address: &IpAddr| json!({"addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false}});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("{service}-{number}"), "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "transom-check"}},
        "ports": [{"name": "http", "port": HTTP_PORT, "protocol": "TCP"}, {"name": "udp", "port": UDP_PORT, "protocol": "UDP"}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>()})
}

async fn ready(lab: &Lab) -> Result<BTreeMap<&'static str, Actor>, Failure> {
    let begin = Instant::now();
    loop {
        let found: BTreeMap<&'static str, Actor> =
            SERVERS.into_iter().chain([CLIENT]).filter_map(|name| Some((name, actor(lab, name)?))).collect();
        if found.len() == SERVERS.len() + 1 {
            return Ok(found);
        }
        if begin.elapsed() > PATIENCE {
            return Err(Failure::new(format!("pods in {NAMESPACE} do not become ready; see `transom lab status`")));
        }
        sleep(Duration::from_millis(20)).await;
    }
}

fn actor(lab: &Lab, name: &str) -> Option<Actor> {
    lab.nodes().iter().find_map(|node| {
        let kubelet = lab.kubelet(&node.spec.name)?;
        let status = kubelet.status().into_iter().find(|pod| pod.namespace == NAMESPACE && pod.name == name && pod.is_ready)?;
        Some(Actor { addresses: status.addresses, namespace: kubelet.namespace_of(NAMESPACE, name)? })
    })
}

/// Takes everything away again, and waits until it is gone.
pub(super) async fn remove(lab: &Lab) -> Result<(), Failure> {
    remove_namespace(lab.client(), NAMESPACE, PATIENCE).await?;
    let begin = Instant::now();
    // The API forgets pods before their nodes are done with them.
    let is_left = || lab.pods().iter().any(|pod| pod.namespace == NAMESPACE);
    while is_left() && begin.elapsed() < PATIENCE {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
