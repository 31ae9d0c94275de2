//! A service in front of pods, of either family.

use std::sync::Arc;

use vfp::{Action, Backend, Backends, Conditions, LayerSpec, Masquerade, PortId, RuleSpec, Service};
use wire::{Headers, Ip};

use super::bench::{Bench, Carries, frame, ip, layer, mac, rule};
use super::outside::Node;

/// TCP and UDP.
pub(crate) const PROTOCOLS: [u8; 2] = [6, 17];

/// Both families with both protocols.
pub(crate) fn kinds() -> impl Iterator<Item = (bool, u8)> {
    [true, false].into_iter().flat_map(|v4| PROTOCOLS.map(|protocol| (v4, protocol)))
}

pub(crate) fn vip(v4: bool) -> Ip {
    ip(if v4 { "10.96.0.1" } else { "fd96::1" })
}

/// The address of the node.
pub(crate) fn node_address(v4: bool) -> Ip {
    ip(if v4 { "192.168.0.1" } else { "2001:db8::1" })
}

/// The address of a pod.
pub(crate) fn pod(last: u8, v4: bool) -> Ip {
    match v4 {
        true => ip(&format!("10.0.0.{last}")),
        false => ip(&format!("fd00::{last}")),
    }
}

/// Pods as backends, all at port 8080.
pub(crate) fn pods(list: &[u8], v4: bool) -> Backends {
    Backends::new(list.iter().map(|last| Backend { address: pod(*last, v4), port: 8080 }).collect())
}

/// A plain service with these pods.
pub(crate) fn plain(list: &[u8], v4: bool) -> Service {
    Service { backends: pods(list, v4), ..Service::default() }
}

/// As the node, with a port of its pool.
pub(crate) fn as_node(node: &Node, v4: bool, always: bool) -> Option<Masquerade> {
    Some(Masquerade { pool: node.pool, address: node_address(v4), always })
}

/// What is for port 80 of the service's address.
pub(crate) fn at_vip(v4: bool, protocol: u8) -> Conditions {
    Conditions { protocols: vec![protocol], destination_ports: vec![80..=80], ..Conditions::to(vip(v4)) }
}

/// The rule of a service.
pub(crate) fn redirect(v4: bool, protocol: u8, service: Service) -> RuleSpec {
    rule(&format!("web {protocol}"), 1, at_vip(v4, protocol), Action::Redirect(Arc::new(service)))
}

/// A layer with one service.
pub(crate) fn one(v4: bool, protocol: u8, service: Service) -> LayerSpec {
    layer("service", true, vec![redirect(v4, protocol, service)], vec![])
}

/// A packet of a pod to the service.
pub(crate) fn ask(last: u8, v4: bool, protocol: u8, port: u16) -> Vec<u8> {
    ask_with(last, v4, carries(protocol, port), b"question")
}

pub(crate) fn carries(protocol: u8, port: u16) -> Carries {
    match protocol {
        6 => Carries::Tcp(port, 80, 16),
        _ => Carries::Udp(port, 80),
    }
}

pub(crate) fn ask_with(last: u8, v4: bool, carries: Carries, payload: &[u8]) -> Vec<u8> {
    frame((mac(last), mac(9)), pod(last, v4), vip(v4), carries, payload)
}

/// Where a packet of a pod to the service ends: the last byte of the backend, or 0.
pub(crate) fn backend_of(bench: &mut Bench, port: PortId, bytes: &[u8]) -> u8 {
    let (_, _, came) = bench.pass(port, bytes);
    came.id.destination.0 as u8
}

/// The headers of bytes that are sound.
pub(crate) fn headers(bytes: &[u8]) -> Headers {
    Headers::parse(bytes).expect("it is sound")
}
