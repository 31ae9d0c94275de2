//! Network namespaces and the links between them.

use std::path::Path;
use std::process::Command;

use host::namespace::{self, Namespace};
use host::sysctl::Key;
use serde_json::Value;

use crate::process;
use crate::sandbox::NAMESPACES;

/// Settings of every namespace with traffic of ours.
const SETTINGS: &[(&str, &str)] = &[
    // Connections by the thousand need many ports, and them again soon.
    ("ipv4.ip_local_port_range", "1024 65535"),
    ("ipv4.tcp_tw_reuse", "1"),
    // What connections begin with, before each asks for the congestion control of the tests. BBR is the default of some machines, and
    // a connection that began with it stays paced by a timer for ever, which takes a fifth of all processor time.
    ("ipv4.tcp_congestion_control", "reno"),
];

/// Runs `ip` with the words of a line.
pub fn ip(line: &str) -> Result<(), String> {
    process::run(Command::new("ip").args(line.split_whitespace())).map(drop)
}

/// Makes a namespace with a name.
pub fn namespace(name: &str) -> Result<Namespace, String> {
    let made = namespace::create(Path::new(NAMESPACES), name).map_err(|error| error.to_string())?;
    ip(&format!("-n {name} link set dev lo up"))?;
    prepare(&made)?;
    Ok(made)
}

/// Gives a namespace the settings that all have alike.
pub fn prepare(namespace: &Namespace) -> Result<(), String> {
    let set = || SETTINGS.iter().try_for_each(|(name, value)| Key::global(name).write(value));
    namespace.run(set).and_then(|outcome| outcome).map_err(|error| error.to_string())
}

/// Lets a namespace route.
pub fn let_forward(namespace: &Namespace) -> Result<(), String> {
    let set = || Key::global("ipv4.ip_forward").write("1");
    namespace.run(set).and_then(|outcome| outcome).map_err(|error| error.to_string())
}

/// Makes a pod: a namespace with an `eth0`, whose other end is a link with the pod's name in the node.
pub fn pod(name: &str, node: &str, address: &str, mtu: u16) -> Result<Namespace, String> {
    let pod = namespace(name)?;
    ip(&format!("link add name eth0 netns {name} mtu {mtu} type veth peer name {name} mtu {mtu} netns {node}"))?;
    ip(&format!("-n {name} address add {address} dev eth0"))?;
    ip(&format!("-n {name} link set dev eth0 up"))?;
    ip(&format!("-n {node} link set dev {name} up"))?;
    Ok(pod)
}

/// Joins two namespaces by a wire with an `eth0` at both ends, which gets an address where one is given.
pub fn wire(ends: [(&str, Option<&str>); 2]) -> Result<(), String> {
    ip(&format!("link add name eth0 netns {} type veth peer name eth0 netns {}", ends[0].0, ends[1].0))?;
    for (name, address) in ends {
        if let Some(address) = address {
            ip(&format!("-n {name} address add {address} dev eth0"))?;
        }
        ip(&format!("-n {name} link set dev eth0 up"))?;
    }
    Ok(())
}

/// Features of an adapter that let packets larger than its MTU cross.
const LARGE: &[&str] = &["tso", "gso", "tx-udp-segmentation", "tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"];

/// Makes the `eth0` of a namespace like one with a wire, or like a veth again: frames leave in pieces that fit the MTU, and are
/// joined where they arrive.
pub fn set_wire_like(namespace: &str, wire_like: bool) -> Result<(), String> {
    let word = |on: bool| if on { "on" } else { "off" };
    for feature in LARGE {
        ethtool(namespace, feature, word(!wire_like))?;
    }
    ethtool(namespace, "gro", word(wire_like))
}

/// Packets and bytes that the `eth0` of a namespace has sent.
pub fn sent(namespace: &str) -> Result<[u64; 2], String> {
    let text = process::run(Command::new("ip").args(["-n", namespace, "-s", "-j", "link", "show", "dev", "eth0"]))?;
    let links: Value = serde_json::from_str(&text).map_err(|error| format!("what ip says of eth0 is no JSON: {error}"))?;
    let counters = &links[0]["stats64"]["tx"];
    Ok(["packets", "bytes"].map(|name| counters[name].as_u64().unwrap_or_default()))
}

/// Turns checksums and segmentation of the `eth0` of a namespace off.
pub fn turn_offloads_off(namespace: &str) -> Result<(), String> {
    ethtool(namespace, "tx", "off")
}

fn ethtool(namespace: &str, feature: &str, value: &str) -> Result<(), String> {
    let words = ["netns", "exec", namespace, "ethtool", "-K", "eth0", feature, value];
    process::run(Command::new("ip").args(words)).map(drop)
}
