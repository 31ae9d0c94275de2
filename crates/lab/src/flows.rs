//! The flows of the documents, each sent with real sockets: who reaches whom, over what, and why not.

pub mod expectation;
mod probe;
mod probes;
mod sample;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::lab::{Failure, Lab};
use crate::outside::DOMAIN;
use crate::topology::{Mode, NodeSpec, Os, Plugin, Topology};
use expectation::{Expectation, expect};
use probe::{Task, Where};
pub(crate) use probes::NAMESPACE;
pub use sample::Sample;

/// How many flows are tried at once.
const AT_ONCE: usize = 16;

/// How often what should work is tried, and how long is waited after the first time; after each of the others twice as long.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// Who talks to whom, and how the other is found. The order is the documents'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// A pod to a pod, by its address.
    PodToPodByIp,
    /// A pod to a pod, by its name.
    PodToPodByName,
    /// A pod to a Service, by its address.
    PodToServiceByIp,
    /// A pod to a Service, by a name without a dot.
    PodToServiceByShortName,
    /// A pod to a Service, by its whole name.
    PodToServiceByFqdn,
    /// A pod to somebody outside, by the address.
    PodToOutsideByIp,
    /// A pod to somebody outside, by the name.
    PodToOutsideByName,
    /// A node to a pod.
    NodeToPod,
    /// A pod to a node.
    PodToNode,
}

impl Flow {
    /// All nine.
    pub const ALL: [Self; 9] = [
        Self::PodToPodByIp,
        Self::PodToPodByName,
        Self::PodToServiceByIp,
        Self::PodToServiceByShortName,
        Self::PodToServiceByFqdn,
        Self::PodToOutsideByIp,
        Self::PodToOutsideByName,
        Self::NodeToPod,
        Self::PodToNode,
    ];

    /// For people, as the documents have it.
    pub fn title(self) -> &'static str {
        match self {
            Self::PodToPodByIp => "pod -> pod (IP)",
            Self::PodToPodByName => "pod -> pod (name)",
            Self::PodToServiceByIp => "pod -> Service (cluster IP)",
            Self::PodToServiceByShortName => "pod -> Service (short name)",
            Self::PodToServiceByFqdn => "pod -> Service (FQDN)",
            Self::PodToOutsideByIp => "pod -> outside (IP)",
            Self::PodToOutsideByName => "pod -> outside (DNS)",
            Self::NodeToPod => "node -> pod",
            Self::PodToNode => "pod -> node",
        }
    }

    /// Whether it ends outside of the cluster, so that there is nobody at another place.
    fn ends_outside(self) -> bool {
        matches!(self, Self::PodToOutsideByIp | Self::PodToOutsideByName)
    }
}

/// What packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The ends of a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ends {
    /// The node of the one who asks.
    pub from: String,
    /// The node of the other.
    pub to: String,
    /// The pods, where they are not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<(String, String)>,
    /// What to call them: systems, and whether they are on one node.
    pub title: String,
}

/// What came of one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The flow.
    pub flow: Flow,
    /// What packets carried.
    pub protocol: Protocol,
    /// Whether over IPv6.
    pub v6: bool,
    /// The ends.
    pub ends: Ends,
    /// Whether the right one answered.
    pub works: bool,
    /// Why not, or what was seen.
    pub reason: String,
    /// What the documents promise.
    pub documents: Expectation,
}

/// All pairs of nodes by what they have in common: of every pair of kinds of nodes those on one node and those on two, as far as there are any.
fn kinds(topology: &Topology) -> Vec<Vec<Ends>> {
    let mut found: BTreeMap<(Kind, Kind, bool), Vec<Ends>> = BTreeMap::new();
    for from in &topology.nodes {
        for to in &topology.nodes {
            let is_same = from.name == to.name;
            let place = if is_same { "same node" } else { "across" };
            let (source, target) = (Kind::of(from, topology), Kind::of(to, topology));
            let title = format!("{source} -> {target}, {place}");
            let ends = Ends { from: from.name.clone(), to: to.name.clone(), pods: None, title };
            found.entry((source, target, !is_same)).or_default().push(ends);
        }
    }
    found.into_values().collect()
}

/// What nodes have in common as ends of flows: their system and, where Windows nodes differ in that, how their pods are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Windows(Option<(Mode, Plugin)>),
    Linux,
}

impl Kind {
    fn of(node: &NodeSpec, topology: &Topology) -> Self {
        let network = topology.network_of(node);
        match node.os {
            Os::Windows => Self::Windows(topology.is_mixed().then(|| (network.mode, network.plugin()))),
            Os::Linux => Self::Linux,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Windows(None) => f.write_str("windows"),
            Self::Windows(Some((mode, Plugin::AzureVnet))) => write!(f, "windows {mode} {}", Plugin::AzureVnet),
            Self::Windows(Some((mode, _))) => write!(f, "windows {mode}"),
            Self::Linux => f.write_str("linux"),
        }
    }
}

/// The ends that are tried: of every kind one pair.
pub(crate) fn pairs(topology: &Topology) -> Vec<Ends> {
    kinds(topology).into_iter().filter_map(|kind| kind.into_iter().next()).collect()
}

/// What packets can be: the protocols, over the families that pods have.
fn ways(topology: &Topology) -> Vec<(Protocol, bool)> {
    let all = [(Protocol::Tcp, false), (Protocol::Tcp, true), (Protocol::Udp, false), (Protocol::Udp, true)];
    all.into_iter().filter(|(_, v6)| topology.has_family(*v6)).collect()
}

/// A flow to be tried.
struct Planned {
    flow: Flow,
    protocol: Protocol,
    v6: bool,
    ends: Ends,
    /// What is to be sent, or why nothing can be.
    task: Result<Task, String>,
}

/// Tries flows between pods that are made for it, one pair of each kind; or between some of those that are there.
pub(crate) async fn run(lab: &Arc<Lab>, sample: Option<Sample>) -> Result<Vec<Outcome>, Failure> {
    match sample {
        Some(sample) => Ok(send(lab.topology(), sample::plan(lab, sample).await?).await),
        None => run_all(lab).await,
    }
}

async fn run_all(lab: &Lab) -> Result<Vec<Outcome>, Failure> {
    let topology = lab.topology();
    let pairs = pairs(topology);
    let nodes: Vec<String> = pairs.iter().flat_map(|ends| [ends.from.clone(), ends.to.clone()]).collect();
    let probes = probes::make(lab, &nodes).await?;
    let mut planned = Vec::new();
    for ends in &pairs {
        for flow in Flow::ALL {
            // Outside is one place only.
            if flow.ends_outside() && ends.from != ends.to {
                continue;
            }
            for (protocol, v6) in ways(topology) {
                let task = task(lab, &probes, flow, protocol, v6, ends);
                planned.push(Planned { flow, protocol, v6, ends: ends.clone(), task });
            }
        }
    }
    let outcomes = send(topology, planned).await;
    probes::remove(lab).await?;
    Ok(outcomes)
}

/// Sends everything, and says what came of it.
async fn send(topology: &Topology, planned: Vec<Planned>) -> Vec<Outcome> {
    let outcomes = stream::iter(planned).map(|Planned { flow, protocol, v6, ends, task }| async move {
        let documents = expect(topology, flow, v6, &ends);
        let answer = match task {
            Ok(task) => try_it(&task, if documents.works { TRIES } else { 1 }).await,
            Err(cause) => Err(cause),
        };
        let (works, reason) = match answer {
            Ok(reason) => (true, reason),
            Err(reason) => (false, reason),
        };
        Outcome { flow, protocol, v6, ends, works, reason, documents }
    });
    outcomes.buffered(AT_ONCE).collect().await
}

/// Sends something, and once more if it fails: a Service that is new takes a moment to be everywhere.
async fn try_it(task: &Task, tries: usize) -> Result<String, String> {
    let mut outcome = task.run().await;
    let mut pause = PAUSE;
    for _ in 1..tries {
        if outcome.is_ok() {
            break;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
        outcome = task.run().await;
    }
    outcome
}

/// What is to be sent for one flow.
fn task(lab: &Lab, probes: &probes::Probes, flow: Flow, protocol: Protocol, v6: bool, ends: &Ends) -> Result<Task, String> {
    let topology = lab.topology();
    let client = probes.client(&ends.from)?;
    let server = probes.server(&ends.to)?;
    let port = |service: bool| match (protocol, service) {
        (Protocol::Tcp, false) => probes::HTTP_PORT,
        (Protocol::Udp, false) => probes::UDP_PORT,
        (Protocol::Tcp, true) => 80,
        (Protocol::Udp, true) => 81,
    };
    let of_family = |addresses: &[IpAddr]| addresses.iter().copied().find(|address| address.is_ipv6() == v6);
    let at = |address: Option<IpAddr>, port: u16| {
        let address = address.ok_or_else(|| format!("it has no address of {}", if v6 { "IPv6" } else { "IPv4" }))?;
        Ok::<Where, String>(Where::Address(SocketAddr::new(address, port)))
    };
    let named = |name: String, port: u16| Where::Name { name, v6, port };
    let domain = &topology.cluster.domain;
    let service = format!("server-{}", ends.to);
    let (expected, target) = match flow {
        Flow::PodToPodByIp | Flow::NodeToPod => (Some(&server.name), at(of_family(&server.addresses), port(false))?),
        Flow::PodToPodByName => {
            let address = of_family(&server.addresses).ok_or("the pod has no address of this family")?;
            let dashed = address.to_string().replace(['.', ':'], "-");
            (Some(&server.name), named(format!("{dashed}.{NAMESPACE}.pod.{domain}"), port(false)))
        }
        Flow::PodToServiceByIp => (Some(&server.name), at(of_family(probes.service(&ends.to)?), port(true))?),
        Flow::PodToServiceByShortName => (Some(&server.name), named(service, port(true))),
        Flow::PodToServiceByFqdn => (Some(&server.name), named(format!("{service}.{NAMESPACE}.svc.{domain}"), port(true))),
        Flow::PodToOutsideByIp => {
            let outside: Vec<IpAddr> = topology.outside().iter().map(ipnet::IpNet::addr).collect();
            (None, at(of_family(&outside), port(false))?)
        }
        Flow::PodToOutsideByName => (None, named(format!("www.{DOMAIN}"), port(false))),
        Flow::PodToNode => (None, at(of_family(&lab.node(&ends.to).map(|node| node.addresses()).unwrap_or_default()), port(false))?),
    };
    let from_node = flow == Flow::NodeToPod;
    let namespace = match from_node {
        true => lab.node(&ends.from).map(|node| node.namespace.clone()).ok_or("there is no such node")?,
        false => client.namespace.clone(),
    };
    Ok(Task {
        namespace,
        rules: client.rules.clone(),
        dns: SocketAddr::new(topology.dns_address(), 53),
        target,
        protocol,
        expected: expected.cloned().into_iter().collect(),
    })
}
