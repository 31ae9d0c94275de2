//! Some of the flows between the pods that are there. All of them would be as many as pairs of pods, so that pairs are drawn: of every pair of
//! systems, on one node and across, about as many as of the others, and the same ones for the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use host::namespace::Namespace;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};

use super::probe::{Task, Where};
use super::{Ends, Flow, Planned, Protocol, kinds, probes, ways};
use crate::api::cause;
use crate::kubelet::image::{self, Ports};
use crate::lab::{Failure, Lab};
use crate::names;
use crate::outside::DOMAIN;
use crate::status::{PodStatus, ServiceStatus};
use crate::topology::Topology;

/// How often a pair is drawn before there seem to be no others.
const TRIES: usize = 50;

/// Which flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Between how many pairs of pods.
    pub pairs: usize,
    /// What the drawing begins with.
    pub seed: u64,
}

/// A pod that can be an end.
struct End {
    status: PodStatus,
    spec: k8s_openapi::api::core::v1::PodSpec,
    /// Where it answers, if it runs the built-in server.
    ports: Option<Ports>,
}

impl End {
    /// What it calls itself.
    fn host_name(&self) -> &str {
        self.spec.hostname.as_deref().unwrap_or(&self.status.name)
    }

    fn title(&self) -> String {
        format!("{}/{}", self.status.namespace, self.status.name)
    }

    fn address(&self, v6: bool) -> Option<IpAddr> {
        of_family(&self.status.addresses, v6)
    }

    fn port(&self, protocol: Protocol) -> Option<u16> {
        self.ports.and_then(|ports| match protocol {
            Protocol::Tcp => Some(ports.http),
            Protocol::Udp => ports.udp,
        })
    }
}

/// Draws pairs, and says what is to be sent between them.
pub(super) async fn plan(lab: &Lab, sample: Sample) -> Result<Vec<Planned>, Failure> {
    let pods = ends(lab).await?;
    let services = crate::services::list(lab.client()).await?;
    let by_name: BTreeMap<(&str, &str), &End> =
        pods.iter().map(|end| ((end.status.namespace.as_str(), end.status.name.as_str()), end)).collect();
    let pairs = draw(lab.topology(), &pods, sample);
    if pairs.is_empty() && sample.pairs > 0 {
        let cause = "no two pods are ready of which one runs the built-in server; start some, or leave --sample away";
        return Err(Failure::new(cause));
    }
    let mut planned = Vec::new();
    for (from, to, title) in pairs {
        let pair = Pair { lab, from, to, service: service_of(&services, to), by_name: &by_name };
        let Some(network) = pair.network() else { continue };
        let ends = Ends { from: from.status.node.clone(), to: to.status.node.clone(), pods: Some((from.title(), to.title())), title };
        for flow in Flow::ALL {
            for (protocol, v6) in ways(lab.topology()) {
                if let Some((target, expected)) = pair.target(flow, protocol, v6) {
                    let task = pair.task(flow, &network, target, protocol, expected);
                    planned.push(Planned { flow, protocol, v6, ends: ends.clone(), task });
                }
            }
        }
    }
    Ok(planned)
}

/// The pods that are ready and have a network of their own, in the order of their names.
async fn ends(lab: &Lab) -> Result<Vec<End>, Failure> {
    let listed = Api::<Pod>::all(lab.client().clone()).list(&ListParams::default()).await;
    let listed = listed.map_err(|error| Failure::new(format!("pods cannot be listed: {}", cause(&error))))?;
    let key = |pod: &Pod| (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default());
    let mut specs: BTreeMap<(String, String), _> = listed.items.into_iter().map(|pod| (key(&pod), pod.spec.unwrap_or_default())).collect();
    let mut ready: Vec<PodStatus> = lab.pods().into_iter().filter(|pod| pod.is_ready).collect();
    ready.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let ends = ready.into_iter().filter_map(|status| {
        let spec = specs.remove(&(status.namespace.clone(), status.name.clone()))?;
        let ports = spec.containers.iter().find_map(image::server_ports);
        (spec.host_network != Some(true)).then_some(End { status, spec, ports })
    });
    Ok(ends.collect())
}

/// Pairs of one who asks and one who answers, with what to call them.
fn draw<'a>(topology: &Topology, pods: &'a [End], sample: Sample) -> Vec<(&'a End, &'a End, String)> {
    let mut random = Random(sample.seed);
    let mut drawn = BTreeSet::new();
    let mut pairs = Vec::new();
    let kinds = kinds(topology);
    for kind in kinds.iter().cycle().take(if kinds.is_empty() { 0 } else { sample.pairs }) {
        for _ in 0..TRIES {
            let Some(ends) = random.choose(kind) else { break };
            let on = |node: &str| pods.iter().enumerate().filter(|(_, end)| end.status.node == node).collect::<Vec<_>>();
            let servers: Vec<_> = on(&ends.to).into_iter().filter(|(_, end)| end.ports.is_some()).collect();
            let clients = on(&ends.from);
            let (Some((from, client)), Some((to, server))) = (random.choose(&clients), random.choose(&servers)) else { continue };
            if from != to && drawn.insert((*from, *to)) {
                pairs.push((*client, *server, ends.title.clone()));
                break;
            }
        }
    }
    pairs
}

/// The Service that leads to a pod's server, if there is one.
fn service_of<'a>(services: &'a [ServiceStatus], to: &End) -> Option<&'a ServiceStatus> {
    let leads = |service: &&ServiceStatus| {
        service.namespace == to.status.namespace && !service.addresses.is_empty() && service.backends.contains(&to.status.name)
    };
    services.iter().filter(leads).find(|service| service_port(service, to, Protocol::Tcp).is_some())
}

/// The port of a Service behind which a pod's server is.
fn service_port(service: &ServiceStatus, to: &End, protocol: Protocol) -> Option<u16> {
    let wanted = to.port(protocol)?;
    let named = |name: &str| {
        let ports = to.spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
        ports.filter(|port| port.name.as_deref() == Some(name)).find_map(|port| u16::try_from(port.container_port).ok())
    };
    let label = if protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let mut ports = service.ports.iter().filter(|port| port.protocol == label);
    let target = |target: &str, port: u16| if target.is_empty() { Some(port) } else { target.parse().ok().or_else(|| named(target)) };
    ports.find(|port| target(&port.target, port.port) == Some(wanted)).map(|port| port.port)
}

/// Who asks whom.
struct Pair<'a> {
    lab: &'a Lab,
    from: &'a End,
    to: &'a End,
    service: Option<&'a ServiceStatus>,
    by_name: &'a BTreeMap<(&'a str, &'a str), &'a End>,
}

impl Pair<'_> {
    fn network(&self) -> Option<Arc<Namespace>> {
        let PodStatus { namespace, name, node, .. } = &self.from.status;
        self.lab.kubelet(node)?.namespace_of(namespace, name)
    }

    /// Where a flow leads, and who may answer; nothing if the pair has no such flow.
    fn target(&self, flow: Flow, protocol: Protocol, v6: bool) -> Option<(Where, Vec<String>)> {
        let Pair { lab, from, to, service, .. } = self;
        let topology = lab.topology();
        let domain = &topology.cluster.domain;
        let at = |address: IpAddr, port: u16| Where::Address(SocketAddr::new(address, port));
        let named = |name: String, port: u16| Where::Name { name, v6, port };
        let everywhere = if protocol == Protocol::Tcp { probes::HTTP_PORT } else { probes::UDP_PORT };
        let is_of_cluster = matches!(flow, Flow::PodToPodByName | Flow::PodToServiceByShortName | Flow::PodToServiceByFqdn);
        if is_of_cluster && !from.status.dns.servers.contains(&topology.dns_address()) {
            // A pod may ask whom it likes, and others do not know the cluster's names.
            return None;
        }
        let target = match flow {
            Flow::PodToPodByIp | Flow::NodeToPod => at(to.address(v6)?, to.port(protocol)?),
            Flow::PodToPodByName => {
                let dashed = to.address(v6)?.to_string().replace(['.', ':'], "-");
                named(format!("{dashed}.{}.pod.{domain}", to.status.namespace), to.port(protocol)?)
            }
            Flow::PodToServiceByIp => at(of_family(&service.as_ref()?.addresses, v6)?, self.service_port(protocol, v6)?),
            // A short name is one of the asker's own Kubernetes namespace.
            Flow::PodToServiceByShortName if from.status.namespace != to.status.namespace => return None,
            Flow::PodToServiceByShortName => named(service.as_ref()?.name.clone(), self.service_port(protocol, v6)?),
            Flow::PodToServiceByFqdn => {
                let ServiceStatus { namespace, name, .. } = service.as_ref()?;
                named(format!("{name}.{namespace}.svc.{domain}"), self.service_port(protocol, v6)?)
            }
            Flow::PodToOutsideByIp => {
                let outside: Vec<IpAddr> = topology.outside().iter().map(ipnet::IpNet::addr).collect();
                at(of_family(&outside, v6)?, everywhere)
            }
            Flow::PodToOutsideByName => named(format!("www.{DOMAIN}"), everywhere),
            Flow::PodToNode => at(of_family(&lab.node(&to.status.node)?.addresses(), v6)?, everywhere),
        };
        Some((target, self.expected(flow)))
    }

    fn service_port(&self, protocol: Protocol, v6: bool) -> Option<u16> {
        let service = self.service?;
        of_family(&service.addresses, v6)?;
        service_port(service, self.to, protocol)
    }

    fn expected(&self, flow: Flow) -> Vec<String> {
        let name = |end: &End| end.host_name().to_owned();
        match flow {
            Flow::PodToPodByIp | Flow::PodToPodByName | Flow::NodeToPod => vec![name(self.to)],
            Flow::PodToServiceByIp | Flow::PodToServiceByShortName | Flow::PodToServiceByFqdn => {
                let backends = self.service.iter().flat_map(|service| service.backends.iter().map(|pod| (&*service.namespace, &**pod)));
                backends.filter_map(|key| self.by_name.get(&key)).map(|end| name(end)).collect()
            }
            Flow::PodToOutsideByIp | Flow::PodToOutsideByName | Flow::PodToNode => Vec::new(),
        }
    }

    fn task(&self, flow: Flow, network: &Arc<Namespace>, target: Where, protocol: Protocol, expected: Vec<String>) -> Result<Task, String> {
        let topology = self.lab.topology();
        let PodStatus { namespace, node, .. } = &self.from.status;
        let node = self.lab.node(node).ok_or("there is no such node")?;
        let dns = names::settings(&self.from.spec, namespace, &node.spec, topology);
        let server = dns.servers.first().copied().unwrap_or_else(|| topology.dns_address());
        Ok(Task {
            namespace: if flow == Flow::NodeToPod { node.namespace.clone() } else { network.clone() },
            rules: dns.rules(node.spec.os),
            dns: SocketAddr::new(server, 53),
            target,
            protocol,
            expected,
        })
    }
}

fn of_family(addresses: &[IpAddr], v6: bool) -> Option<IpAddr> {
    addresses.iter().copied().find(|address| address.is_ipv6() == v6)
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = self.next().checked_rem(from.len() as u64)?;
        from.get(usize::try_from(at).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::{DEFAULT, read};

    fn end(name: &str, node: &str, ports: Option<Ports>) -> End {
        let status = PodStatus { namespace: "default".to_owned(), name: name.to_owned(), node: node.to_owned(), ..PodStatus::default() };
        let spec = json!({"containers": [{"name": "it", "ports": [{"name": "web", "containerPort": 8080}]}]});
        End { status, spec: serde_json::from_value(spec).unwrap(), ports }
    }

    fn pods() -> Vec<End> {
        let server = Some(Ports { http: 8080, udp: Some(8081) });
        let names = ["a", "b", "c", "d"];
        let on = |node: &'static str| names.iter().map(move |name| end(&format!("{name}-{node}"), node, server));
        on("win1").chain(on("win2")).chain(on("linux1")).chain([end("silent", "linux1", None)]).collect()
    }

    #[test]
    fn every_kind_of_pair_is_drawn_and_a_seed_draws_the_same() {
        let topology = read(DEFAULT, &|_| Ok(())).unwrap().topology;
        let pods = pods();
        let names = |seed| -> Vec<String> {
            let pairs = draw(&topology, &pods, Sample { pairs: 15, seed });
            pairs.iter().map(|(from, to, title)| format!("{} {} {title}", from.status.name, to.status.name)).collect()
        };
        let drawn = names(7);
        assert_eq!(drawn.len(), 15);
        assert_eq!(drawn, names(7));
        assert_ne!(drawn, names(8));
        for title in ["windows -> windows, same node", "windows -> linux, across", "linux -> windows, across", "linux -> linux, same node"]
        {
            assert_eq!(drawn.iter().filter(|name| name.ends_with(title)).count(), 3, "{drawn:?}");
        }
        assert!(drawn.iter().all(|name| name.split(' ').nth(1) != Some("silent")), "{drawn:?}");
    }

    #[test]
    fn a_service_is_found_by_the_port_of_the_server() {
        let service = |target: &str| ServiceStatus {
            namespace: "default".to_owned(),
            backends: vec!["a-win1".to_owned()],
            addresses: vec!["10.96.0.7".parse().unwrap()],
            ports: vec![crate::status::PortStatus { protocol: "TCP".to_owned(), port: 80, target: target.to_owned(), node_port: None }],
            ..ServiceStatus::default()
        };
        let to = &pods()[0];
        for (target, expected) in [("8080", Some(80)), ("web", Some(80)), ("9090", None), ("", None)] {
            assert_eq!(service_port(&service(target), to, Protocol::Tcp), expected, "{target}");
            assert_eq!(service_of(&[service(target)], to).is_some(), expected.is_some());
        }
        assert!(service_of(&[service("8080")], &pods()[1]).is_none());
    }
}
