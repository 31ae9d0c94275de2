//! Networks that are made for a question: with an end on each of two nodes, or two on one, between which datagrams go both ways. Whether HNS
//! refuses such a network or nobody hears anything on it, the answer is no.

mod document;
mod exchange;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use hcn::client::Client;
use hcn::{Guid, Hcn, Kind};
use host::namespace::{self, Namespace};

use super::stage::Stage;
use crate::node::{LabNode, directory};
use crate::topology::Mode;
use document::attach;

/// A network that could be.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Its number: trials that run side by side have their own addresses.
    number: u8,
    /// What its switch does to packets.
    mode: Mode,
    /// Whether it has IPv6, for each of its families.
    families: Vec<bool>,
    /// Its VNI.
    vni: u32,
    /// Its UDP port, if it is not the usual one.
    port: Option<u16>,
}

/// A node that takes part.
struct Site {
    name: String,
    hcn: Arc<Client>,
    /// Where network namespaces have their names.
    namespaces: PathBuf,
    /// Where tunnels end.
    address: IpAddr,
}

/// An end of the network, where a pod would be.
struct End(Namespace);

/// What was made, with whom, in order.
#[derive(Default)]
struct Made(Vec<(Arc<Client>, Kind, Guid)>);

impl Trial {
    /// One in the mode of the node, with these families. Its VNI is near that of the lab's own network.
    pub(super) fn new(stage: &Stage, number: u8, families: &[bool]) -> Self {
        let vni = stage.lab.topology().network_of(&stage.here.spec).vni() + u32::from(number);
        // The fabric of a cloud knows only addresses that it has given out.
        let mode = if stage.subject.mode == Mode::L2tunnel { Mode::L2bridge } else { stage.subject.mode };
        Self { number, mode, families: families.to_vec(), vni, port: None }
    }

    fn is_overlay(&self) -> bool {
        self.mode == Mode::Overlay
    }

    /// The same with another VNI and port.
    pub(super) fn with_tunnel(self, vni: u32, port: u16) -> Self {
        Self { vni, port: Some(port), ..self }
    }

    /// Whether datagrams go both ways over every family. An error says who refused what, or that there was no answer.
    pub(super) async fn observe(self, stage: &Stage) -> Result<String, String> {
        let sites = sites(stage, self.is_overlay())?;
        let play = move || {
            let mut made = Made::default();
            let outcome = self.play(&sites, &mut made);
            made.remove();
            outcome
        };
        tokio::task::spawn_blocking(play).await.map_err(|error| error.to_string())?
    }

    /// Offers the documents of its network, with a way to the other node, to another HNS of this node. An error says why it refused them.
    pub(super) async fn offer_to(self, hcn: Arc<Client>, stage: &Stage) -> Result<String, String> {
        let here = site(&stage.here).ok_or("the node has no HNS")?;
        let there = stage.there.as_deref().and_then(site).ok_or("the other node has no HNS")?;
        let (here, network) = (Site { hcn, ..here }, self.network(0, Some(&there)));
        let play = move || {
            let mut made = Made::default();
            let outcome = made.create(&here, Kind::Network, None, network);
            made.remove();
            outcome.map(|_| format!("{} takes a network with a way to {}", here.name, there.name))
        };
        tokio::task::spawn_blocking(play).await.map_err(|error| error.to_string())?
    }

    fn play(&self, sites: &[Site], made: &mut Made) -> Result<String, String> {
        let first = sites.first().ok_or("there is no node to try it on")?;
        let last = sites.last().unwrap_or(first);
        let near = made.create(first, Kind::Network, None, self.network(0, sites.get(1)))?;
        let far = match sites.len() {
            1 => near,
            _ => made.create(last, Kind::Network, None, self.network(1, Some(first)))?,
        };
        let from = self.end(first, near, 0, made)?;
        let to = self.end(last, far, 1, made)?;
        for v6 in &self.families {
            exchange::both_ways(&from, self.address(0, *v6), &to, self.address(1, *v6))?;
        }
        let families: Vec<&str> = self.families.iter().map(|v6| if *v6 { "IPv6" } else { "IPv4" }).collect();
        Ok(format!(
            "on a network made for it, datagrams go both ways between {} and {} over {}",
            first.name,
            last.name,
            families.join(" and ")
        ))
    }

    fn end(&self, site: &Site, network: Guid, side: u8, made: &mut Made) -> Result<End, String> {
        let endpoint = made.create(site, Kind::Endpoint, Some(network), self.endpoint(side))?;
        let namespace = made.create(site, Kind::Namespace, None, document::namespace())?;
        site.hcn.modify(Kind::Namespace, namespace, &attach(endpoint).to_string()).map_err(|error| error.to_string())?;
        let path = site.namespaces.join(namespace.to_string());
        namespace::open(&path).map(End).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The nodes that take part: on an overlay two of one build where there are two, as it is tunnels that are asked about.
fn sites(stage: &Stage, is_overlay: bool) -> Result<Vec<Site>, String> {
    let here = site(&stage.here).ok_or("the node has no HNS")?;
    let is_alike = |node: &&Arc<LabNode>| node.spec.profile().is_some_and(|profile| profile.name == stage.subject.profile.name);
    let there = stage.there.as_ref().filter(|_| is_overlay).filter(is_alike).and_then(|node| site(node));
    Ok([Some(here), there].into_iter().flatten().collect())
}

fn site(node: &LabNode) -> Option<Site> {
    Some(Site {
        name: node.spec.name.clone(),
        hcn: node.hcn()?,
        namespaces: directory(&node.spec.name).join("namespaces"),
        address: *node.addresses().first()?,
    })
}

impl Made {
    fn create(&mut self, site: &Site, kind: Kind, network: Option<Guid>, document: serde_json::Value) -> Result<Guid, String> {
        let id = site.hcn.create(kind, network, None, &document.to_string()).map_err(|error| error.to_string())?;
        self.0.push((site.hcn.clone(), kind, id));
        Ok(id)
    }

    /// Takes everything away again, the last first.
    fn remove(&mut self) {
        for (hcn, kind, id) in self.0.drain(..).rev() {
            if let Err(error) = hcn.delete(kind, id) {
                tracing::warn!(%error, "what was made to try something could not be taken away");
            }
        }
    }
}
