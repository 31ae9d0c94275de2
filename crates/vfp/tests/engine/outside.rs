//! A node for tests of translation: pods, an uplink, an underlay and a pool of ports.

use std::sync::Arc;

use vfp::{
    Action, Backend, Backends, Conditions, DomainId, LayerSpec, NatPoolSpec, NextHop, PoolId, PortId, PortKind, ProgramSpec, Service,
    UnderlayId, UnderlaySpec,
};

use super::bench::{Bench, ip, layer, mac, port_spec, prefix, rule};

/// One pod (10.0.0.1, fd00::1) behind a node (192.168.0.1, 2001:db8::1) with a gateway.
pub(crate) struct Node {
    pub(crate) bench: Bench,
    pub(crate) domain: DomainId,
    pub(crate) pod: PortId,
    pub(crate) uplink: PortId,
    pub(crate) underlay: UnderlayId,
    pub(crate) pool: PoolId,
}

impl Node {
    /// A node whose pod is translated.
    pub(crate) fn new(ports: std::ops::RangeInclusive<u16>) -> Self {
        let bench = Bench::new();
        let domain = bench.domain("pods");
        let uplink = bench.port("uplink", PortKind::Uplink, domain, 100, &[], ProgramSpec::default());
        let gateway = |text: &str, gateway: &str| (prefix(text), NextHop::Gateway(ip(gateway)));
        let routes = vec![gateway("0.0.0.0/0", "192.168.0.254"), gateway("::/0", "2001:db8::fe")];
        let underlay = bench.switch.add_underlay(UnderlaySpec { uplink, mac: mac(100), routes });
        for gateway in ["192.168.0.254", "2001:db8::fe"] {
            bench.switch.set_neighbour(underlay, ip(gateway), Some(mac(254))).expect("the underlay");
        }
        let pool = bench.switch.add_pool(NatPoolSpec { ports });
        let mut node = Self { bench, domain, pod: PortId(0), uplink, underlay, pool };
        node.pod = node.add_pod(1, vec![node.nat(None)]);
        node
    }

    /// A pod with these layers, known by the last byte of its addresses.
    pub(crate) fn add_pod(&self, last: u8, layers: Vec<LayerSpec>) -> PortId {
        let (v4, v6) = (format!("10.0.0.{last}"), format!("fd00::{last}"));
        let pod = self.bench.port(&format!("pod{last}"), PortKind::Nic, self.domain, last, &[&v4, &v6], ProgramSpec { layers });
        self.bench.deliver(self.domain, &v4, pod, last);
        self.bench.deliver(self.domain, &v6, pod, last);
        pod
    }

    /// Gives the first pod other layers.
    pub(crate) fn refilter(&self, layers: Vec<LayerSpec>) {
        let spec = port_spec("pod1", PortKind::Nic, self.domain, 1, &["10.0.0.1", "fd00::1"], ProgramSpec { layers });
        self.bench.switch.change_port(self.pod, spec).expect("the pod");
    }

    /// The layer that gives the pod the node's address.
    pub(crate) fn nat(&self, most: Option<u16>) -> LayerSpec {
        let nat = |name: &str, text: &str, address: &str| {
            let action = Action::SourceNat { pool: self.pool, address: ip(address), underlay: self.underlay, most };
            rule(name, 1, Conditions::to_prefix(prefix(text)), action)
        };
        layer("nat", true, vec![nat("v4", "0.0.0.0/0", "192.168.0.1"), nat("v6", "::/0", "2001:db8::1")], vec![])
    }

    pub(crate) fn leases(&self) -> usize {
        self.bench.switch.pool_usage(self.pool).expect("the pool")
    }
}

/// A layer that sends what goes to 10.96.0.1:80 to one of these addresses, port 8080.
pub(crate) fn service(addresses: &[&str]) -> LayerSpec {
    let backends = Backends::new(addresses.iter().map(|address| Backend { address: ip(address), port: 8080 }).collect());
    let service = Service { backends, ..Service::default() };
    let vip = if addresses.first().is_some_and(|address| address.contains(':')) { "fd96::1" } else { "10.96.0.1" };
    let conditions = Conditions { destination_ports: vec![80..=80], ..Conditions::to(ip(vip)) };
    layer("service", true, vec![rule("web", 1, conditions, Action::Redirect(Arc::new(service)))], vec![])
}
