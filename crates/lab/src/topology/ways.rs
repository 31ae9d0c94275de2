//! Where the underlay leads packets that are not for nodes themselves.

use ipnet::IpNet;

use super::{Mode, Os, Topology, ranges};

/// A range of addresses, and the nodes that what is for it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The range.
    pub(crate) range: IpNet,
    /// The nodes by their positions. Each gets a part of the connections; who can lead to one only takes the first.
    pub(crate) nodes: Vec<usize>,
}

impl Topology {
    /// The ways for everybody: to pods, where flannel does not lead to all of them, and to the addresses that the load balancer in front of the
    /// cluster gives out.
    pub(crate) fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        if self.is_routed() {
            ways.extend((0..self.nodes.len()).flat_map(|position| self.ways_to_pods(position)));
        }
        ways.push(Way { range: self.cluster.load_balancer_subnet, nodes: self.balancers() });
        ways
    }

    /// The ways to Services for those that have no kube-proxy: to Linux nodes. Others must not have them, or what their own kube-proxy cannot
    /// do would be done all the same.
    pub(crate) fn ways_to_services(&self) -> Vec<Way> {
        let linux: Vec<usize> = (0..self.nodes.len()).filter(|position| self.nodes[*position].os == Os::Linux).collect();
        self.cluster.service_subnets.iter().map(|range| Way { range: *range, nodes: linux.clone() }).collect()
    }

    /// Whose packets take these ways: pods that are on the wire, and nodes with pods behind them.
    pub(crate) fn without_services(&self) -> Vec<IpNet> {
        let is_in_front = |position: &usize| {
            let node = &self.nodes[*position];
            node.os == Os::Windows && self.network_of(node).mode == Mode::Nat
        };
        let in_front = (0..self.nodes.len()).filter(is_in_front).flat_map(|position| self.node_addresses(position));
        self.wire_subnets().into_iter().chain(in_front.map(|address| IpNet::from(address.addr()))).collect()
    }

    /// The pods of a node by its position. Those behind NAT have no way to them, and those of a transparent network are on the wire.
    pub(crate) fn ways_to_pods(&self, position: usize) -> Vec<Way> {
        let node = &self.nodes[position];
        let is_elsewhere = node.os == Os::Windows && matches!(self.network_of(node).mode, Mode::Nat | Mode::Transparent);
        match is_elsewhere {
            true => Vec::new(),
            false => self.node_subnets(position).into_iter().map(|range| Way { range, nodes: vec![position] }).collect(),
        }
    }

    /// The nodes with Services, those of Windows first.
    fn balancers(&self) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.nodes.len()).filter(|position| self.has_proxy(&self.nodes[*position])).collect();
        found.sort_by_key(|position| self.nodes[*position].os == Os::Linux);
        found
    }

    /// The pod subnets that are on the wire themselves, so that the router is their gateway.
    pub(crate) fn wire_subnets(&self) -> Vec<IpNet> {
        let is_on_wire = |position: &usize| {
            let node = &self.nodes[*position];
            node.os == Os::Windows && self.network_of(node).mode == Mode::Transparent
        };
        (0..self.nodes.len()).filter(is_on_wire).flat_map(|position| self.node_subnets(position)).collect()
    }

    /// The first address of a pod subnet, which is its gateway's.
    pub(crate) fn gateway_of(subnet: IpNet) -> IpNet {
        ranges::host(subnet, 1)
    }
}
