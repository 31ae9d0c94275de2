//! One way out for a prefix, and ports of the node that lead inside.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use host::namespace::Namespace;
use host::netlink::{Hop, Netlink, Route};
use host::nftables::{Masquerade, NftError, PortMapping, Translation, TranslationRules};
use host::sysctl::Key;

use crate::sandbox::{self, connect, dial, echo, echo_server, equip, ip, link};

const TCP: u8 = 6;

/// A node between the outside, which knows no way to the inside, and two pods on a bridge inside.
fn network() -> (Namespace, Namespace, Namespace) {
    let here = Netlink::open().unwrap();
    let (outside, outer) = sandbox::namespace("outside");
    connect(&here, "eth0", &outside, "wire");
    equip(&here, "eth0", &["192.0.2.1/24", "2001:db8::1/64"]);
    equip(&outer, "wire", &["192.0.2.2/24", "2001:db8::2/64"]);
    here.create_bridge("inside").unwrap();
    equip(&here, "inside", &["10.1.0.1/24", "fd00:1::1/64"]);
    let pods = ["10", "11"].map(|number| pod(&here, number));
    for key in ["ipv4.ip_forward", "ipv6.conf.all.forwarding"] {
        Key::global(key).write("1").unwrap();
    }
    // The bridge only stands in for a switch; where it looks into packets itself, it translates what it should pass on.
    for key in ["bridge.bridge-nf-call-iptables", "bridge.bridge-nf-call-ip6tables"] {
        _ = Key::global(key).write("0");
    }
    let [first, second] = pods;
    (outside, first, second)
}

fn pod(here: &Netlink, number: &str) -> Namespace {
    let (pod, netlink) = sandbox::namespace(&format!("pod{number}"));
    let name = format!("pod{number}");
    connect(here, &name, &pod, "nic");
    here.set_up(link(here, &name).index).unwrap();
    bridge(&name);
    let index = equip(&netlink, "nic", &[&format!("10.1.0.{number}/24"), &format!("fd00:1::{number}/64")]);
    for (destination, gateway) in [("0.0.0.0/0", "10.1.0.1"), ("::/0", "fd00:1::1")] {
        let hop = Hop { index, gateway: Some(ip(gateway)), ..Hop::default() };
        netlink.prepend_route(&Route::new(destination.parse().unwrap(), hop, 0)).unwrap();
    }
    pod
}

/// Makes a link a port of the bridge. The product has no use for this, so it is done by the tool.
fn bridge(name: &str) {
    let status = std::process::Command::new("ip").args(["link", "set", name, "master", "inside"]).status().unwrap();
    assert!(status.success());
}

fn rules(mappings: &[(Option<&str>, u16, &str)]) -> TranslationRules {
    let masquerade = |prefix: &str| Masquerade { prefix: prefix.parse().unwrap(), interface: "inside".into() };
    let mapping = |(external, external_port, internal): &(Option<&str>, u16, &str)| PortMapping {
        protocol: TCP,
        external: external.map(ip),
        external_port: *external_port,
        internal: internal.parse().unwrap(),
    };
    TranslationRules {
        masquerades: ["10.1.0.0/24", "fd00:1::/64"].map(masquerade).into(),
        mappings: mappings.iter().map(mapping).collect(),
    }
}

fn refused(address: &str) -> bool {
    TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_millis(300)).is_err()
}

fn reaches(address: &str) {
    echo(&mut dial(address.parse::<SocketAddr>().unwrap()), 100_000);
}

#[test]
fn out_by_the_nodes_address_and_in_by_its_ports() {
    sandbox::run("translation::out_by_the_nodes_address_and_in_by_its_ports", || {
        let (outside, pod, other_pod) = network();
        for server in ["192.0.2.2:80", "[2001:db8::2]:80"] {
            echo_server(&outside, server.parse().unwrap());
        }
        for server in ["10.1.0.10:80", "[fd00:1::10]:80"] {
            echo_server(&pod, server.parse().unwrap());
        }
        pod.run(|| assert!(refused("192.0.2.2:80"), "it works without a translation")).unwrap();
        let inward = [(Some("192.0.2.1"), 8080, "10.1.0.10:80"), (None, 8081, "10.1.0.10:80"), (None, 8081, "[fd00:1::10]:80")];
        let mut translation = Translation::install("test", &rules(&inward)).unwrap();
        pod.run(|| ["192.0.2.2:80", "[2001:db8::2]:80"].into_iter().for_each(reaches)).unwrap();
        let ports = ["192.0.2.1:8080", "192.0.2.1:8081", "[2001:db8::1]:8081"];
        outside.run(|| ports.into_iter().for_each(reaches)).unwrap();
        ports.into_iter().for_each(reaches);
        // A pod reaches the other by the node's port, and even itself.
        other_pod.run(|| ports.into_iter().for_each(reaches)).unwrap();
        pod.run(|| ports.into_iter().for_each(reaches)).unwrap();
        assert!(refused("127.0.0.1:8081"), "the loopback was translated");

        translation.update(&rules(&[(None, 9090, "10.1.0.10:80")])).unwrap();
        outside.run(|| reaches("192.0.2.1:9090")).unwrap();
        outside.run(|| assert!(refused("192.0.2.1:8080"))).unwrap();
        assert!(matches!(Translation::install("test", &rules(&[])), Err(NftError::Busy { .. })));
        drop(translation);
        outside.run(|| assert!(refused("192.0.2.1:9090"))).unwrap();
        drop(Translation::install("test", &rules(&[])).unwrap());
    });
}

#[test]
fn thousands_of_ports_in_one_batch() {
    sandbox::run("translation::thousands_of_ports_in_one_batch", || {
        let many: Vec<(Option<&str>, u16, &str)> = (0..4000).map(|port| (None, 10_000 + port, "10.1.0.10:80")).collect();
        match Translation::install("many", &rules(&many)) {
            Ok(mut translation) => translation.update(&rules(&many[..10])).unwrap(),
            // Older kernels limit the send buffer of whoever is root in a user namespace only.
            Err(error) => assert!(error.to_string().contains("wmem_max") && !is_true_root(), "{error}"),
        }
    });
}

/// Whether root here is root of the machine.
fn is_true_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}
