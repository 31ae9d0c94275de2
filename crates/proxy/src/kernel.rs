//! The same Services for a node whose networking is the kernel's: frontends, and pools of backends that they lead to.
//!
//! What is desired is computed as for HNS, with everything that Windows has no field for. Here it only changes its shape:
//!
//! | who connects | backends | source |
//! |---|---|---|
//! | a pod | those for clients inside | kept |
//! | the node itself | those for clients inside | the node's |
//! | somebody else | those for clients outside | kept with the Local policy, else the node's |
//!
//! Where nobody knows which addresses are pods', the source of connections to a cluster IP is kept for everybody else as well: they may be pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hcn::Guid;
use ipnet::IpNet;

use crate::cluster::Cluster;
use crate::desired::{self, Abilities, Balancer, Desired, Frontend, Role, Setting, Targets};
use crate::family::Family;
use crate::service::{PortKey, Protocol};

/// What the kernel can do: everything, and it keeps sources with the Local policy as DSR does.
const ABILITIES: Abilities = Abilities { dsr: true, modify: true, extras: true, dual_stack: true };

/// The namespace of the numbers that affinity is remembered by.
const SPACE: Guid = Guid::from_u128(0x7472_616e_736f_6d00_8000_6166_6669_6e69);

/// What the kernel should do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The addresses of pods, as far as they are known.
    pub pods: Vec<IpNet>,
    /// The backends, in groups that connections are spread over.
    pub pools: Vec<Pool>,
    /// Where clients connect to.
    pub frontends: Vec<Front>,
    /// Backends on this node, which may reach themselves.
    pub own_backends: Vec<IpAddr>,
}

/// Backends that connections are spread over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The port of a Service that they are of.
    pub cause: PortKey,
    /// Their addresses and ports; at least one.
    pub targets: Vec<SocketAddr>,
    /// How clients keep their backend.
    pub affinity: Option<Affinity>,
}

/// How clients keep their backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affinity {
    /// The number that it is remembered by: one for all pools of a port, and the same after a restart.
    pub id: u32,
    /// For how many seconds after a client's last connection.
    pub seconds: u32,
}

/// Where clients connect to, and where each kind of them is led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// The port of a Service that it is of.
    pub cause: PortKey,
    /// The address; the unspecified one is every address of the node.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// Where pods are led.
    pub for_pods: Way,
    /// Where programs of the node are led.
    pub for_node: Way,
    /// Where everybody else is led.
    pub for_others: Way,
    /// Who may connect; everybody if empty.
    pub source_ranges: Vec<IpNet>,
}

/// Where a connection is led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nowhere.
    Refused,
    /// To a backend.
    Pool {
        /// The position of the pool.
        index: usize,
        /// Whether the backend sees the node's address instead of the client's.
        is_hidden: bool,
    },
}

/// Computes what should be on a node of the kernel. `preserve-destination` means something to Windows only.
pub fn desired(mut cluster: Cluster, setting: &Setting) -> Desired {
    cluster.ports.iter_mut().for_each(|port| port.preserve_destination = false);
    // A source is only kept where the policy asks for it, and health checks reach the node without help.
    let setting = Setting { dsr: false, health_check_endpoint: None, ..setting.clone() };
    desired::compute(&cluster, &setting, ABILITIES)
}

/// What the kernel should do for it, where pods have these addresses.
pub fn rules(desired: &Desired, pods: &[IpNet]) -> Rules {
    let mut builder = Builder { rules: Rules { pods: pods.to_vec(), ..Rules::default() }, ..Builder::default() };
    desired.balancers.iter().for_each(|(frontend, balancer)| builder.add(frontend, balancer));
    let used: BTreeSet<IpAddr> = builder.rules.pools.iter().flat_map(|pool| &pool.targets).map(SocketAddr::ip).collect();
    builder.rules.own_backends = used.into_iter().filter(|address| desired.local_addresses.contains(address)).collect();
    builder.rules
}

/// The backends of a pool as something to find it by.
type Targeted<'a> = (&'a PortKey, &'a [(IpAddr, u16)]);

#[derive(Default)]
struct Builder<'a> {
    rules: Rules,
    pools: BTreeMap<Targeted<'a>, usize>,
    numbers: BTreeMap<&'a PortKey, u32>,
    taken: BTreeSet<u32>,
}

impl<'a> Builder<'a> {
    fn add(&mut self, frontend: &Frontend, balancer: &'a Balancer) {
        let Targets::Backends(outside) = &balancer.targets else { return };
        let inside = balancer.inside.as_ref().unwrap_or(outside);
        let (inside, outside) = (self.pool(balancer, inside), self.pool(balancer, outside));
        let may_be_pods = balancer.role == Role::ClusterIp && !self.knows_pods(frontend.family);
        self.rules.frontends.push(Front {
            cause: balancer.cause.clone(),
            address: frontend.vip.unwrap_or_else(|| every_address(frontend.family)),
            protocol: frontend.protocol,
            port: frontend.port,
            for_pods: way(inside, false),
            for_node: way(inside, true),
            for_others: way(outside, !balancer.dsr && !may_be_pods),
            source_ranges: balancer.source_ranges.clone(),
        });
    }

    fn knows_pods(&self, family: Family) -> bool {
        self.rules.pods.iter().any(|pods| Family::of(pods.addr()) == family)
    }

    /// The pool with these backends of a port; none if there are none.
    fn pool(&mut self, balancer: &'a Balancer, targets: &'a [(IpAddr, u16)]) -> Option<usize> {
        let cause = &balancer.cause;
        if targets.is_empty() {
            return None;
        }
        if let Some(index) = self.pools.get(&(cause, targets)) {
            return Some(*index);
        }
        let affinity = balancer.affinity_seconds.map(|seconds| Affinity { id: self.number(cause), seconds });
        let sockets = targets.iter().map(|(address, port)| SocketAddr::new(*address, *port)).collect();
        self.rules.pools.push(Pool { cause: cause.clone(), targets: sockets, affinity });
        let index = self.rules.pools.len() - 1;
        self.pools.insert((cause, targets), index);
        Some(index)
    }

    /// The number of a port: one of its name, and the next where another port has it.
    fn number(&mut self, cause: &'a PortKey) -> u32 {
        if let Some(number) = self.numbers.get(cause) {
            return *number;
        }
        let hash = Guid::new_v5(&SPACE, format!("{cause} {}", cause.family).as_bytes());
        let mut number = u32::from_be_bytes(*hash.as_bytes().first_chunk().expect("a GUID has sixteen bytes"));
        while !self.taken.insert(number) {
            number = number.wrapping_add(1);
        }
        self.numbers.insert(cause, number);
        number
    }
}

fn way(pool: Option<usize>, is_hidden: bool) -> Way {
    pool.map_or(Way::Refused, |index| Way::Pool { index, is_hidden })
}

fn every_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests;
