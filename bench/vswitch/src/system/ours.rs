//! Ourselves: hnsd and vswitchd on every node, told what to do by documents.

mod bulk;
mod document;
mod node;

use std::net::Ipv4Addr;

use hcn::{Guid, Kind};

pub(crate) use self::node::Bridged;

use self::node::Node;
use super::{System, Topology, service};
use crate::links;
use crate::options::Options;

/// Sets it up.
pub(crate) fn set_up(topology: Topology, options: &Options) -> Result<System, String> {
    match topology {
        Topology::SameNode => same_node("t", options),
        Topology::TwoNodes => two_nodes(options),
        Topology::Service => service(options),
    }
}

/// Two pods on a node. The names of its namespaces begin with `name`.
pub(crate) fn same_node(name: &str, options: &Options) -> Result<System, String> {
    Bridged::start(name, 2, options)?.into_system(None)
}

fn service(options: &Options) -> Result<System, String> {
    let bridged = Bridged::start("s", 2, options)?;
    let endpoints: Vec<Guid> = bridged.pods.iter().map(|pod| pod.endpoint).collect();
    let frontends = service::frontends();
    let ports: Vec<u16> = frontends.iter().map(|front| front.port).collect();
    bridged.node.create(Kind::LoadBalancer, None, &document::load_balancer(service::VIP, &ports, &endpoints[1..]))?;
    for number in 0..service::OTHERS {
        let front = service::other_frontend(number);
        bridged.node.create(Kind::LoadBalancer, None, &document::load_balancer(front.address, &[front.port], &endpoints))?;
    }
    bridged.into_system(Some(service::VIP))
}

fn two_nodes(options: &Options) -> Result<System, String> {
    let names = ["t-node1", "t-node2"];
    let namespaces = [links::namespace(names[0])?, links::namespace(names[1])?];
    links::wire([(names[0], Some("192.168.0.1/24")), (names[1], Some("192.168.0.2/24"))])?;
    let (mut pods, mut daemons) = (Vec::new(), Vec::new());
    for (index, (name, namespace)) in names.iter().zip(&namespaces).enumerate() {
        let number = index + 1;
        let node = Node::start(name, namespace, options)?;
        let network = node.create(Kind::Network, None, &document::overlay_network(number, 3 - number))?;
        pods.push(node.pod(network, "pod", &format!("10.244.{number}.11"), &format!("10.244.{number}.1"))?.namespace);
        daemons.extend(node.services.daemons);
    }
    let [client, server] = <[_; 2]>::try_from(pods).map_err(|_| "two pods were to be made")?;
    let nodes = names.map(str::to_owned).to_vec();
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 2, 11), nodes, daemons })
}
