//! The fabric of a cloud, as a stand-in of ours has it: all nodes are on it instead of on a bridge, and it decides about every packet.
//!
//! It knows what is behind every link, and sends packets by their destination alone. So it is told the ways of the router too: a next hop means
//! nothing to it.

use host::netlink::Netlink;
use ipnet::IpNet;
use serde_json::{Value, json};

use crate::daemon::{Daemon, NotReady, Program};
use crate::topology::{Topology, Way};
use crate::underlay::{BRIDGE, FABRIC, Host, UnderlayError, cable, index};

/// Where it reads what it is to do.
const FILE: &str = "/run/lab/fabric.json";

/// Starts it between the nodes and the router, and waits until it is ready.
pub(crate) async fn start(topology: &Topology, hosts: &[Host]) -> Result<Daemon, NotReady> {
    let failed = |error: &dyn std::fmt::Display| NotReady { cause: format!("the fabric cannot be made: {error}"), log: Vec::new() };
    let config = config(topology, hosts).map_err(|error| failed(&error))?;
    std::fs::write(FILE, config.to_string()).map_err(|error| failed(&error))?;
    let daemon = Daemon::start(Program::role("cloud", "fabric", &["--file".to_owned(), FILE.to_owned()]), None);
    daemon.ready().await?;
    Ok(daemon)
}

/// What it is told: who is behind which link, and what goes to whom besides.
fn config(topology: &Topology, hosts: &[Host]) -> Result<Value, UnderlayError> {
    let mut links = Vec::new();
    for (position, host) in hosts.iter().enumerate() {
        let own = topology.node_addresses(position).into_iter().map(|address| IpNet::from(address.addr()));
        let pods = topology.ways_to_pods(position).into_iter().map(|way| way.range);
        let mac = mac(&Netlink::open_in(&host.namespace)?, "eth0")?;
        links.push(json!({"interface": cable(position), "mac": mac, "addresses": own.chain(pods).collect::<Vec<IpNet>>()}));
    }
    let router: Vec<IpNet> = topology.router().into_iter().map(|address| IpNet::from(address.addr())).collect();
    links.push(json!({"interface": FABRIC, "mac": mac(&Netlink::open()?, BRIDGE)?, "addresses": router}));
    let everything = ["0.0.0.0/0", "::/0"].map(|prefix| json!({"prefix": prefix, "link": FABRIC}));
    let is_of_pods = |range: &IpNet| topology.cluster.pod_subnets.iter().any(|pods| pods.contains(range));
    let ways = topology.ways().into_iter().filter(|way| !is_of_pods(&way.range));
    let others = ways.filter_map(|Way { range, nodes }| Some(json!({"prefix": range, "link": cable(*nodes.first()?)})));
    Ok(json!({"links": links, "routes": everything.into_iter().chain(others).collect::<Vec<Value>>()}))
}

fn mac(netlink: &Netlink, link: &str) -> Result<String, UnderlayError> {
    let link = netlink.link_by_index(index(netlink, link)?)?;
    Ok(link.map(|link| link.mac.to_string()).unwrap_or_default())
}
