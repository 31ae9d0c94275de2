//! One round of the agent: what should be, what is there, and the difference made.
//!
//! It blocks, as HNS does. Whoever calls it waits, gives it the Nodes as they are known, and publishes what it answers.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::annotation::Prefix;
use crate::backend::{Backend, Prepared, Site};
use crate::desired::{Desired, Own, desired};
use crate::interface::{Choice, Interface};
use crate::lease::Membership;
use crate::net_conf::NetConf;
use crate::prefix_like;
use crate::publication::Publication;
use crate::subnet_file::SubnetFile;
use crate::trouble::{Subject, Trouble};

/// What the machine tells of its interfaces.
pub trait Machine: Send {
    /// Those that can lead to other nodes.
    fn interfaces(&self) -> Result<Vec<Interface>, String>;

    /// The address from which this machine sends to another, if it has a way there.
    fn source_towards(&self, address: IpAddr) -> Result<Option<IpAddr>, String>;
}

/// How the agent is set up.
pub struct Settings {
    /// The name of this node.
    pub node_name: String,
    /// The pods' networks, and how nodes reach each other.
    pub net_conf: NetConf,
    /// What annotations begin with.
    pub prefix: Prefix,
    /// Which interface leads to other nodes.
    pub choice: Choice,
    /// The file for CNI plugins.
    pub subnet_file: PathBuf,
    /// Whether what leaves the pods' network gets the node's address.
    pub ip_masq: bool,
}

/// The agent.
pub struct Agent {
    settings: Settings,
    membership: Membership,
    backend: Box<dyn Backend>,
    machine: Box<dyn Machine>,
    seen: Option<Result<Desired, String>>,
}

/// What a round has found and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// This node, if the cluster knows it.
    pub own: Option<Own>,
    /// What is to be known of it; none, if it is not known what there is.
    pub publication: Option<Publication>,
    /// Whether CNI plugins have what they need.
    pub has_file: bool,
    /// What is not as it should be.
    pub troubles: Vec<Trouble>,
    /// What is wrong with other nodes, which this one can do nothing about.
    pub complaints: Vec<String>,
}

impl Agent {
    /// An agent that has done nothing yet.
    pub fn new(settings: Settings, backend: Box<dyn Backend>, machine: Box<dyn Machine>) -> Self {
        let membership = Membership {
            networks: settings.net_conf.networks.clone(),
            backend: backend.kind(),
            vni: backend.vni(),
            prefix: settings.prefix.clone(),
        };
        Self { settings, membership, backend, machine, seen: None }
    }

    /// What annotations begin with.
    pub fn prefix(&self) -> &Prefix {
        &self.settings.prefix
    }

    /// Whether the Nodes say something else than in the last round.
    pub fn is_new(&self, nodes: &[Arc<Node>]) -> bool {
        self.seen.as_ref() != Some(&desired(nodes, &self.settings.node_name, &self.membership))
    }

    /// Makes true what can be made true, and says what cannot.
    pub fn round(&mut self, nodes: &[Arc<Node>]) -> Round {
        let has_file = self.settings.subnet_file.exists();
        let found = desired(nodes, &self.settings.node_name, &self.membership);
        self.seen = Some(found.clone());
        let desired = match found {
            Ok(desired) => desired,
            Err(cause) => return Round { has_file, troubles: vec![Trouble::new(Subject::Node, cause)], ..Round::default() },
        };
        let mut round = Round { own: Some(desired.own.clone()), has_file, complaints: desired.complaints.clone(), ..Round::default() };
        if let Err(trouble) = self.make(&desired, &mut round) {
            round.troubles.push(trouble);
        }
        round
    }

    fn make(&mut self, desired: &Desired, round: &mut Round) -> Result<(), Trouble> {
        let (site, addresses) = self.site(&desired.own).map_err(|cause| Trouble::new(Subject::Interface, cause))?;
        let prepared = self.backend.prepare(&desired.own, &site)?;
        let publication = Publication { backend: self.backend.kind(), addresses, vtep: prepared.vtep, families: self.families() };
        round.publication = Some(publication);
        round.troubles.extend(self.backend.apply(&desired.own, &site, &desired.peers));
        self.write_file(&desired.own, prepared)?;
        round.has_file = true;
        Ok(())
    }

    fn families(&self) -> [bool; 2] {
        [true, false].map(|v4| prefix_like(&self.membership.networks, v4).is_some())
    }

    /// Where this node is, and under which addresses it is known.
    fn site(&self, own: &Own) -> Result<(Site, Vec<IpAddr>), String> {
        let all = self.machine.interfaces()?;
        let towards = |address| self.machine.source_towards(address);
        let interface = self.settings.choice.interface(&all, &own.annotations, &towards)?;
        // Tunnels carry both families over one of them; gateways are needed in both.
        let v4_underlay = self.membership.has_v4_underlay();
        let families = if self.membership.vni.is_some() { [v4_underlay, !v4_underlay] } else { self.families() };
        let addresses = self.settings.choice.addresses(interface, &own.annotations, families)?;
        let site = Site {
            interface: interface.clone(),
            is_chosen: self.settings.choice.is_made(),
            networks: self.membership.networks.clone(),
            v4_underlay,
            ip_masq: self.settings.ip_masq,
        };
        Ok((site, addresses))
    }

    fn write_file(&self, own: &Own, prepared: Prepared) -> Result<(), Trouble> {
        let file = SubnetFile {
            networks: self.membership.networks.clone(),
            subnets: own.subnets.clone(),
            mtu: prepared.mtu,
            ip_masq: self.settings.ip_masq,
        };
        let path = &self.settings.subnet_file;
        match file.write(path) {
            Ok(true) => tracing::info!(file = %path.display(), "wrote what CNI plugins need"),
            Ok(false) => {}
            Err(error) => {
                let text = format!("{} cannot be written: {error}; make room, or choose another with --subnet-file", path.display());
                return Err(Trouble::new(Subject::File, text));
            }
        }
        Ok(())
    }
}
