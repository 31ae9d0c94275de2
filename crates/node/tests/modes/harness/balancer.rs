//! Load balancers of tests, and who answers behind them.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use super::document::{policy, schema};
use super::probe::{meet, meet_soon, meet_udp};
use super::serve::PORT;
use super::{Node, PATIENCE, Place, Pod, eventually};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The virtual addresses of the tests.
pub(crate) const VIPS: [&str; 2] = ["10.96.0.10", "fd00:96::10"];

/// The port at the virtual addresses.
pub(crate) const FRONT: u16 = 80;

/// Flags of load balancers, and of their port mappings.
pub(crate) const DSR: u32 = 1;
pub(crate) const IPV6: u32 = 2;
pub(crate) const PRESERVE_DIP: u32 = 8;

/// A load balancer of the tests.
pub(crate) struct Balancer<'a> {
    pub(crate) vips: &'a [&'a str],
    pub(crate) backends: Vec<Guid>,
    pub(crate) flags: u32,
    pub(crate) mapping_flags: u32,
    pub(crate) distribution: u32,
    pub(crate) source: &'a str,
    pub(crate) extras: Value,
    pub(crate) port: u16,
}

impl Default for Balancer<'_> {
    fn default() -> Self {
        Self {
            vips: &VIPS,
            backends: Vec::new(),
            flags: 0,
            mapping_flags: 0,
            distribution: 0,
            source: "",
            extras: Value::Null,
            port: FRONT,
        }
    }
}

impl Balancer<'_> {
    /// Its document.
    pub(crate) fn document(&self) -> Value {
        let mapping = |protocol: u8| {
            json!({
                "Protocol": protocol, "InternalPort": PORT, "ExternalPort": self.port,
                "DistributionType": self.distribution, "Flags": self.mapping_flags,
            })
        };
        let mut document = json!({
            "HostComputeEndpoints": self.backends.iter().map(Guid::to_string).collect::<Vec<_>>(),
            "FrontendVIPs": self.vips,
            "SourceVIP": self.source,
            "PortMappings": [mapping(TCP), mapping(UDP)],
            "Flags": self.flags,
            "SchemaVersion": schema(),
        });
        if !self.extras.is_null() {
            document["AdditionalParams"] = self.extras.clone();
        }
        document
    }

    /// Makes it.
    pub(crate) fn on(&self, node: &Node) -> Guid {
        node.load_balancer(&self.document())
    }

    /// Changes one into it.
    pub(crate) fn change(&self, node: &Node, id: Guid) {
        node.client.modify(Kind::LoadBalancer, id, &self.document().to_string()).expect("the load balancer is changed");
    }
}

/// Where the virtual addresses are reached.
pub(crate) fn fronts() -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(vip.parse().expect("an address"), FRONT))
}

/// The address of a pod that is of the same family.
pub(crate) fn address_like(place: &Pod, like: SocketAddr) -> IpAddr {
    if like.is_ipv4() { place.v4() } else { place.v6() }
}

/// Everybody who answers at an address in some connections over TCP and UDP, and whom they see.
pub(crate) fn everybody(from: &Place, to: SocketAddr) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    met_by(from, to, |round| if round % 2 == 0 { meet(from, to) } else { meet_udp(from, to) })
}

/// Everybody who answers over TCP. Its clients do not use a port again soon, as those of UDP may: an earlier conversation would go on.
pub(crate) fn everybody_new(from: &Place, to: SocketAddr) -> BTreeSet<String> {
    met_by(from, to, |_| meet(from, to)).0
}

fn met_by(from: &Place, to: SocketAddr, ask: impl Fn(usize) -> io::Result<(String, SocketAddr)>) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
    let met = |round| ask(round).unwrap_or_else(|error| panic!("{} asks {to}: {error}", from.name));
    (0..24).map(met).map(|(name, client)| (name, client.ip())).unzip()
}

/// Where a port of an address is reached.
pub(crate) fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// Waits until somebody reaches exactly these. Nobody waits long for an answer: while there is no load balancer, the routes of some tests lead
/// packets in a circle, and a connection that began before a change may be lost with it.
pub(crate) fn comes_to(from: &Place, to: SocketAddr, wanted: &BTreeSet<String>) {
    // So many that hardly any backend is left out by chance.
    let everybody = || (0..wanted.len() * 6).map(|_| meet_soon(from, to)).collect::<io::Result<BTreeSet<String>>>();
    let (start, mut met) = (Instant::now(), everybody());
    while !met.as_ref().is_ok_and(|met| met == wanted) {
        assert!(start.elapsed() < PATIENCE, "{} reaches {met:?} at {to}, and not {wanted:?}", from.name);
        thread::sleep(Duration::from_millis(10));
        met = everybody();
    }
}

/// Waits until somebody is refused at once, over TCP and UDP.
pub(crate) fn is_refused(from: &Place, to: SocketAddr) {
    let is_refusal = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    eventually(&format!("{} is refused at {to}", from.name), || {
        meet_soon(from, to).is_err_and(is_refusal) && meet_udp(from, to).is_err_and(is_refusal)
    });
}

/// The names of pods.
pub(crate) fn names(pods: &[&Pod]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod.name.clone()).collect()
}

/// The way to an endpoint of the second node, on an overlay.
pub(crate) fn provider() -> Value {
    policy("ProviderAddress", json!({ "ProviderAddress": "192.168.0.2" }))
}

/// An endpoint of another node, as agents make them for backends.
pub(crate) fn remote_endpoint(node: &Node, network: Guid, of: &Pod, policies: &[Value]) -> Guid {
    let ips: Vec<Value> = of.addresses.iter().map(|ip| json!({ "IpAddress": ip.to_string() })).collect();
    let document = json!({
        "IpConfigurations": ips, "MacAddress": of.mac.to_string(), "Flags": 1, "SchemaVersion": schema(),
        "Policies": policies,
    });
    node.endpoint(network, &document)
}
