//! What a filter at a device's entrance lets through, and what it keeps out.

use std::net::UdpSocket;
use std::time::Duration;

use host::namespace::Namespace;
use host::netlink::Netlink;
use host::nftables::{Accept, IngressFilter, NftError};

use crate::ping::{answers_at_once, answers_once};
use crate::sandbox::{self, connect, equip, ip};

const NODE: [&str; 2] = ["10.1.0.1", "fd00:1::1"];
const PEER: [&str; 2] = ["10.1.0.2", "fd00:1::2"];

fn network() -> Namespace {
    let here = Netlink::open().unwrap();
    let (peer, there) = sandbox::namespace("peer");
    connect(&here, "eth0", &peer, "wire");
    equip(&here, "eth0", &["10.1.0.1/24", "fd00:1::1/64"]);
    equip(&there, "wire", &["10.1.0.2/24", "fd00:1::2/64"]);
    // Both ends know each other from here on, so that only what is tested has to get through.
    assert!(PEER.iter().all(|address| answers_once(ip(address))));
    peer
}

/// Whether a datagram of this length from the peer reaches the node.
fn arrives(peer: &Namespace, family: usize, port: u16, length: usize) -> bool {
    let here = UdpSocket::bind((ip(NODE[family]), port)).unwrap();
    here.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let there = peer.run(|| UdpSocket::bind((ip(PEER[family]), 0)).unwrap()).unwrap();
    there.send_to(&vec![1; length], (ip(NODE[family]), port)).unwrap();
    here.recv(&mut [0; 4096]).is_ok()
}

#[test]
fn only_what_is_listed_and_in_one_piece() {
    sandbox::run("ingress::only_what_is_listed_and_in_one_piece", || {
        let peer = network();
        let listed: Vec<Accept> = NODE.iter().map(|address| Accept::Udp(ip(address), 4789)).collect();
        let mut filter = IngressFilter::install("eth0", &listed).unwrap();
        for family in [0, 1] {
            assert!(arrives(&peer, family, 4789, 100));
            assert!(!arrives(&peer, family, 4789, 3000), "fragments came through");
            assert!(!arrives(&peer, family, 4790, 100));
            assert!(!answers_at_once(ip(PEER[family])));
        }
        assert_eq!(fragments_seen(), 0, "a first fragment came through");
        filter.update(&[Accept::UdpV4(4790), Accept::UdpV6(4790)]).unwrap();
        for family in [0, 1] {
            assert!(arrives(&peer, family, 4790, 100));
            assert!(!arrives(&peer, family, 4789, 100));
        }
        drop(filter);
        for family in [0, 1] {
            assert!(arrives(&peer, family, 4789, 3000));
            assert!(answers_at_once(ip(PEER[family])));
        }
        assert_ne!(fragments_seen(), 0);
    });
}

/// How many IPv4 fragments the node's stack was given to put together.
fn fragments_seen() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    names.zip(values).find(|(name, _)| *name == "ReasmReqds").unwrap().1.parse().unwrap()
}

#[test]
fn one_filter_for_a_device_that_exists() {
    sandbox::run("ingress::one_filter_for_a_device_that_exists", || {
        let _peer = network();
        let first = IngressFilter::install("eth0", &[]).unwrap();
        let error = IngressFilter::install("eth0", &[]).unwrap_err();
        assert!(matches!(error, NftError::Busy { .. }) && error.to_string().contains("transom-eth0"), "{error}");
        drop(first);
        drop(IngressFilter::install("eth0", &[]).unwrap());
        let error = IngressFilter::install("eth7", &[]).unwrap_err();
        assert!(error.to_string().contains("eth7"), "{error}");
    });
}

/// Set in the process that has no privilege.
const POWERLESS: &str = "TRANSOM_EDGES_POWERLESS";

/// The process without privilege: root, but in a user namespace that the network does not belong to.
#[test]
fn powerless_process() {
    if std::env::var_os(POWERLESS).is_none() {
        return;
    }
    let error = IngressFilter::install("lo", &[]).unwrap_err();
    assert!(matches!(error, NftError::Forbidden { .. }) && error.to_string().contains("run as root"), "{error}");
    let error = Netlink::open().unwrap().set_mtu(1, 1500).unwrap_err();
    assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
}

#[test]
fn without_privilege_it_says_so() {
    sandbox::run("ingress::without_privilege_it_says_so", || {
        let output = std::process::Command::new("unshare")
            .args(["--user", "--map-root-user"])
            .arg(std::env::current_exe().unwrap())
            .args(["ingress::powerless_process", "--exact", "--nocapture"])
            .env(POWERLESS, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
