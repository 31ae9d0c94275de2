//! An adapter is taken over, used, and given back: properly, or by the death of the switch.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host::namespace::Namespace;
use host::netlink::{Address, Change, Hop, Link, Monitor, Netlink, Route};
use host::nftables::{Accept, IngressFilter};
use host::sysctl::{Family, Key};
use host::uplink::{Takeover, TakeoverError, alias};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, bind, sendto, setsockopt, socket, sockopt};

use crate::cable::{forward, packet_socket, tap};
use crate::ping::{answers_at_once, answers_once};
use crate::sandbox::{self, connect, dial, echo, echo_server, equip, eventually, ip, link};

/// Set in the process that is the switch, and is killed.
const SWITCH: &str = "TRANSOM_EDGES_SWITCH";

const VXLAN: u16 = 4789;
const NODE: [&str; 2] = ["10.1.0.1", "fd00:1::1"];
const PEER: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
const FAR: [&str; 2] = ["10.9.0.1", "fd00:9::1"];

/// Runs a test in a sandbox, if there can be TAPs.
fn run(test: &str, body: impl FnOnce()) {
    match std::fs::File::open("/dev/net/tun") {
        Ok(_) => sandbox::run(test, body),
        Err(error) => println!("skipped: /dev/net/tun cannot be opened: {error}"),
    }
}

/// The node is the sandbox; its `eth0` leads to the peer, and behind the peer is something far.
fn network() -> (Netlink, Namespace) {
    let here = Netlink::open().unwrap();
    let (peer, there) = sandbox::namespace("peer");
    // The hardest setting: sources must be where the routes lead.
    Key::interface(Family::V4, "all", "rp_filter").write("1").unwrap();
    connect(&here, "eth0", &peer, "wire");
    let index = equip(&here, "eth0", &["10.1.0.1/24", "10.1.0.100/24", "fd00:1::1/64"]);
    equip(&there, "wire", &["10.1.0.2/24", "fd00:1::2/64"]);
    equip(&there, "lo", &["10.9.0.1/32", "fd00:9::1/128"]);
    for (destination, gateway) in [("0.0.0.0/0", PEER[0]), ("::/0", PEER[1])] {
        here.prepend_route(&static_route(index, destination, gateway, 100)).unwrap();
    }
    for address in PEER.iter().chain(&FAR) {
        echo_server(&peer, SocketAddr::new(ip(address), 80));
    }
    eventually("the kernel has made a link-local address", || {
        let addresses = here.addresses(index).unwrap();
        addresses.iter().any(|address| address.scope == 253 && !address.tentative)
    });
    (here, peer)
}

fn overlay() -> Vec<(IpAddr, u16)> {
    NODE.iter().map(|address| (ip(address), VXLAN)).collect()
}

/// Everything that a takeover could leave behind.
fn state(netlink: &Netlink) -> (Vec<Link>, Vec<Address>, Vec<Route>, String) {
    let eth0 = link(netlink, "eth0");
    let addresses = netlink.addresses(eth0.index).unwrap();
    let routes = netlink.routes(eth0.index).unwrap();
    let tables = Command::new("nft").args(["list", "ruleset"]).output();
    let tables = tables.map(|output| String::from_utf8(output.stdout).unwrap()).unwrap_or_default();
    (netlink.links().unwrap(), addresses, routes, tables)
}

fn everything_answers(node: &Namespace, peer: &Namespace) {
    for address in PEER.iter().chain(&FAR) {
        assert!(node.run(|| answers_once(ip(address))).unwrap(), "{address} does not answer the node");
    }
    for address in NODE {
        assert!(peer.run(|| answers_once(ip(address))).unwrap(), "{address} does not answer the peer");
    }
}

/// The process that is killed: makes a vNIC, takes the adapter over, and forwards until it dies.
#[test]
fn switch_process() {
    if std::env::var_os(SWITCH).is_none() {
        return;
    }
    let netlink = Netlink::open().unwrap();
    let vnic = tap("vnic");
    let uplink = packet_socket(link(&netlink, "eth0").index);
    forward(&vnic, &uplink);
    let _takeover = Takeover::take("eth0", link(&netlink, "vnic").index, &overlay()).unwrap();
    println!("taken over");
    loop {
        std::thread::park();
    }
}

/// The switch's process. A test that fails must not leave it behind.
struct Switch(Child);

impl Switch {
    fn kill(&mut self) {
        // SIGKILL: it has no chance to clean up.
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        _ = self.0.kill();
    }
}

fn start_switch() -> Switch {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["takeover::switch_process", "--exact", "--nocapture"])
        .env(SWITCH, "1")
        .stdout(Stdio::piped())
        .spawn();
    let mut switch = Switch(child.unwrap());
    let lines = BufReader::new(switch.0.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("taken over")), "the switch did not start");
    switch
}

/// Which link the node's packets take by themselves, and which if they must leave by the adapter.
fn ways(netlink: &Netlink, destination: &str) -> (u32, u32) {
    let adapter = link(netlink, "eth0").index;
    let by = |only| netlink.lookup(ip(destination), only).unwrap().unwrap().index;
    (by(None), by(Some(adapter)))
}

#[test]
fn a_killed_switch_leaves_the_node_as_it_was() {
    run("takeover::a_killed_switch_leaves_the_node_as_it_was", || {
        let (netlink, peer) = network();
        let node = host::namespace::current().unwrap();
        everything_answers(&node, &peer);
        let before = state(&netlink);
        let adapter = link(&netlink, "eth0");

        let mut switch = start_switch();
        let vnic = link(&netlink, "vnic");
        assert_eq!((vnic.mac, vnic.mtu, vnic.alias.clone()), (adapter.mac, adapter.mtu, Some(alias("eth0"))));
        for destination in PEER.iter().chain(&FAR) {
            assert_eq!(ways(&netlink, destination), (vnic.index, adapter.index), "{destination}");
        }
        everything_answers(&node, &peer);
        let mut connections = PEER.iter().chain(&FAR).map(|address| dial(SocketAddr::new(ip(address), 80))).collect::<Vec<_>>();
        connections.iter_mut().for_each(|connection| echo(connection, 1_000_000));
        overlay_datagrams_arrive_once(&netlink, &peer);
        a_second_taker_is_refused(&netlink);

        switch.kill();
        for address in PEER.iter().chain(&FAR) {
            assert!(answers_at_once(ip(address)), "{address} does not answer after the crash");
        }
        for address in NODE {
            assert!(peer.run(|| answers_at_once(ip(address))).unwrap(), "{address} does not answer the peer after the crash");
        }
        connections.iter_mut().for_each(|connection| echo(connection, 1_000_000));
        assert_eq!(state(&netlink), before);
        drop(IngressFilter::install("eth0", &[]).unwrap());
    });
}

/// A socket that is bound to the adapter gets overlay datagrams, once; any other socket gets its own by the vNIC, once.
fn overlay_datagrams_arrive_once(netlink: &Netlink, peer: &Namespace) {
    let adapter = link(netlink, "eth0").index;
    for (node, remote) in NODE.iter().zip(PEER) {
        // The adapter has to ask for the peer anew.
        _ = netlink.delete_neighbour(adapter, ip(remote));
        let overlay = UdpSocket::bind((ip(node), VXLAN)).unwrap();
        setsockopt(&overlay, sockopt::BindToDevice, &"eth0".into()).unwrap();
        let plain = UdpSocket::bind((ip(node), 5353)).unwrap();
        let far = peer.run(|| UdpSocket::bind((ip(remote), VXLAN)).unwrap()).unwrap();
        for (socket, port) in [(&overlay, VXLAN), (&plain, 5353)] {
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            far.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            far.send_to(b"to the node", (ip(node), port)).unwrap();
            let mut buffer = [0; 100];
            assert_eq!(socket.recv(&mut buffer).unwrap(), 11, "{node} port {port}");
            assert!(socket.recv(&mut buffer).is_err(), "the datagram came twice");
            socket.send_to(b"back", (ip(remote), VXLAN)).unwrap();
            assert_eq!(far.recv(&mut buffer).unwrap(), 4, "{node} port {port}");
            assert!(far.recv(&mut buffer).is_err(), "the answer came twice");
        }
    }
}

fn a_second_taker_is_refused(netlink: &Netlink) {
    let _other = tap("other");
    let index = link(netlink, "other").index;
    let error = Takeover::take("eth0", index, &[]).unwrap_err();
    assert!(matches!(error, TakeoverError::Taken { .. }) && error.to_string().contains("vnic"), "{error}");
    // Without the alias the table tells.
    netlink.set_alias(link(netlink, "vnic").index, "").unwrap();
    let error = Takeover::take("eth0", index, &[]).unwrap_err();
    assert!(matches!(error, TakeoverError::Taken { .. }) && error.to_string().contains("transom-eth0"), "{error}");
    assert_eq!(netlink.addresses(index).unwrap(), [], "a refused takeover left addresses");
}

#[test]
fn what_cannot_be_taken_says_why() {
    run("takeover::what_cannot_be_taken_says_why", || {
        let netlink = Netlink::open().unwrap();
        let _vnic = tap("vnic");
        let vnic = link(&netlink, "vnic").index;
        netlink.create_veth("eth0", "peer").unwrap();
        let refusal = |name: &str, vnic| Takeover::take(name, vnic, &[]).unwrap_err();
        assert!(matches!(refusal("eth7", vnic), TakeoverError::NoAdapter(_)));
        assert!(matches!(refusal("lo", vnic), TakeoverError::Loopback(_)));
        assert!(matches!(refusal("eth0", vnic), TakeoverError::Down(_)));
        netlink.set_up(link(&netlink, "eth0").index).unwrap();
        assert!(matches!(refusal("eth0", 4711), TakeoverError::NoVnic(4711)));
        assert!(matches!(refusal("vnic", vnic), TakeoverError::NoEthernet(_)));
        Takeover::take("eth0", vnic, &[]).unwrap().give_back().unwrap();
    });
}

#[test]
fn the_vnic_follows_the_adapter_and_all_is_given_back() {
    run("takeover::the_vnic_follows_the_adapter_and_all_is_given_back", || {
        let (netlink, peer) = network();
        let node = host::namespace::current().unwrap();
        let adapter = link(&netlink, "eth0");
        let vnic_file = tap("vnic");
        forward(&vnic_file, &packet_socket(adapter.index));
        let vnic = link(&netlink, "vnic").index;
        Key::interface(Family::V4, "eth0", "rp_filter").write("1").unwrap();
        let (_, addresses, routes, tables) = state(&netlink);
        let mut takeover = Takeover::take("eth0", vnic, &[]).unwrap();
        everything_answers(&node, &peer);
        let networks = || netlink.addresses(vnic).unwrap().iter().map(|address| address.network.to_string()).collect::<Vec<_>>();
        let held = (networks(), netlink.routes(vnic).unwrap());
        takeover.refresh().unwrap();
        assert_eq!((networks(), netlink.routes(vnic).unwrap()), held, "a refresh without a reason changed something");

        adapter_changes(&netlink, adapter.index);
        takeover.refresh().unwrap();
        assert!(networks().contains(&"10.1.0.50/24".into()) && !networks().contains(&"10.1.0.100/24".into()), "{:?}", networks());
        assert_eq!(link(&netlink, "vnic").mtu, 1400);
        assert_eq!(ways(&netlink, "10.77.0.1"), (vnic, adapter.index));
        takeover.set_overlay(&overlay()).unwrap();
        everything_answers(&node, &peer);
        overlay_datagrams_arrive_once(&netlink, &peer);

        takeover.give_back().unwrap();
        assert_eq!((networks(), netlink.routes(vnic).unwrap()), (vec![], vec![]));
        assert_eq!(link(&netlink, "vnic").alias, None);
        assert_eq!(Key::interface(Family::V4, "eth0", "rp_filter").read().unwrap(), "1");
        restore_adapter(&netlink, adapter.index);
        drop(vnic_file);
        let after = state(&netlink);
        assert_eq!((after.1.len(), after.2.len(), after.3), (addresses.len(), routes.len(), tables));
        assert!(answers_at_once(ip(PEER[0])));
        drop(IngressFilter::install("eth0", &[Accept::ArpReply]).unwrap());
    });
}

#[test]
fn routes_of_all_kinds_are_copied_and_a_refresh_leaves_them_alone() {
    run("takeover::routes_of_all_kinds_are_copied_and_a_refresh_leaves_them_alone", || {
        let (netlink, _peer) = network();
        let adapter = link(&netlink, "eth0").index;
        for route in [
            "10.80.0.0/16 via 10.1.0.2 mtu 1300 table 77",
            "10.81.0.0/16 nexthop via 10.1.0.2 weight 2 nexthop via 10.1.0.3 weight 1",
            "10.82.0.0/16 via 192.0.2.77 dev eth0 onlink",
            "10.83.0.0/16 via inet6 fe80::77 dev eth0",
            "10.84.0.0/16 dev eth0 src 10.1.0.100",
            "10.85.0.0/16 via 10.1.0.7 dev eth0 metric 9",
            "10.85.0.0/16 via 10.1.0.8 dev eth0 metric 9 tos 0x10",
            "fd00:81::/64 nexthop via fd00:1::2 nexthop via fd00:1::3",
            "fd00:82::/64 via fe80::77 dev eth0 metric 7 pref high",
            "fd00:83::/64 dev eth0 mtu 1300 table 300",
        ] {
            let arguments = ["route", "add"].into_iter().chain(route.split(' '));
            assert!(Command::new("ip").args(arguments).status().unwrap().success(), "{route}");
        }
        let _vnic = tap("vnic");
        let vnic = link(&netlink, "vnic").index;
        let originals = netlink.routes(adapter).unwrap();
        let mut takeover = Takeover::take("eth0", vnic, &[]).unwrap();
        let copies = netlink.routes(vnic).unwrap();
        assert_eq!(copies.len(), originals.len(), "{originals:#?} {copies:#?}");
        for destination in ["10.81.0.1", "10.82.0.1", "10.83.0.1", "10.84.0.1", "10.85.0.1", "fd00:81::1", "fd00:82::1"] {
            assert_eq!(ways(&netlink, destination), (vnic, adapter), "{destination}");
        }
        let monitor = Monitor::open().unwrap();
        takeover.refresh().unwrap();
        let routes = monitor.receive().unwrap().into_iter().filter(|change| matches!(change, Change::Route(_) | Change::RouteGone(_)));
        assert_eq!(routes.collect::<Vec<_>>(), []);
        takeover.give_back().unwrap();
        assert_eq!(netlink.routes(vnic).unwrap(), []);
        assert_eq!(netlink.routes(adapter).unwrap(), originals);
    });
}

#[test]
fn what_keeps_the_adapters_addresses_alive_gets_through() {
    run("takeover::what_keeps_the_adapters_addresses_alive_gets_through", || {
        let (netlink, peer) = network();
        let adapter = link(&netlink, "eth0").index;
        Key::interface(Family::V6, "eth0", "accept_ra").write("2").unwrap();
        let vnic_file = tap("vnic");
        forward(&vnic_file, &packet_socket(adapter));
        let vnic = link(&netlink, "vnic").index;
        let mut takeover = Takeover::take("eth0", vnic, &[]).unwrap();

        let dhcp = UdpSocket::bind("0.0.0.0:68").unwrap();
        setsockopt(&dhcp, sockopt::BindToDevice, &"eth0".into()).unwrap();
        dhcp.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let server = peer.run(|| UdpSocket::bind("10.1.0.2:67").unwrap()).unwrap();
        server.send_to(b"acknowledged", "10.1.0.1:68").unwrap();
        assert_eq!(dhcp.recv(&mut [0; 100]).unwrap(), 12);

        let has_prefix = |index| {
            let addresses = netlink.addresses(index).unwrap();
            addresses.iter().any(|address| address.network.to_string().starts_with("fd00:5:") && !address.tentative)
        };
        advertise(&peer, &netlink, adapter);
        eventually("the adapter has made an address of the router's prefix", || has_prefix(adapter));
        assert!(!has_prefix(vnic), "the vNIC listens to routers itself");
        takeover.refresh().unwrap();
        assert!(has_prefix(vnic));
        assert_eq!(ways(&netlink, "fd00:5::99"), (vnic, adapter));
    });
}

/// The peer, as a router, tells the node of a prefix.
fn advertise(peer: &Namespace, node: &Netlink, adapter: u32) {
    let there = Netlink::open_in(peer).unwrap();
    let wire = link(&there, "wire").index;
    let local = |netlink: &Netlink, index| {
        let addresses = netlink.addresses(index).unwrap();
        addresses.into_iter().find(|address| address.scope == 253 && !address.tentative).map(|address| address.network.addr())
    };
    eventually("the peer has a link-local address", || local(&there, wire).is_some());
    let end = |address| match address {
        Some(IpAddr::V6(address)) => SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, wire)),
        other => panic!("{other:?} is no link-local address"),
    };
    // An advertisement for half an hour, with one prefix of 64 bits that is on the link and to make addresses of.
    let mut message = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0, 0, 0, 0x07, 0x08, 0, 0, 0x07, 0x08];
    message.extend([0; 4]);
    message.extend("fd00:5::".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let (from, to) = (end(local(&there, wire)), end(local(node, adapter)));
    peer.run(|| {
        let router = socket(AddressFamily::Inet6, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::IcmpV6).unwrap();
        setsockopt(&router, sockopt::Ipv6Ttl, &255).unwrap();
        bind(router.as_raw_fd(), &from).unwrap();
        sendto(router.as_raw_fd(), &message, &to, MsgFlags::empty()).unwrap();
    })
    .unwrap();
}

fn extra_route(index: u32) -> Route {
    static_route(index, "10.77.0.0/16", PEER[0], 0)
}

/// A route as an administrator makes it.
fn static_route(index: u32, destination: &str, gateway: &str, metric: u32) -> Route {
    let hop = Hop { index, gateway: Some(ip(gateway)), ..Hop::default() };
    let mut route = Route::new(destination.parse().unwrap(), hop, metric);
    route.protocol = 4;
    route
}

fn adapter_changes(netlink: &Netlink, index: u32) {
    netlink.delete_address(index, &Address::new("10.1.0.100/24".parse().unwrap())).unwrap();
    netlink.add_address(index, &Address::new("10.1.0.50/24".parse().unwrap())).unwrap();
    netlink.prepend_route(&extra_route(index)).unwrap();
    netlink.set_mtu(index, 1400).unwrap();
}

fn restore_adapter(netlink: &Netlink, index: u32) {
    netlink.delete_route(&extra_route(index)).unwrap();
    netlink.delete_address(index, &Address::new("10.1.0.50/24".parse().unwrap())).unwrap();
    netlink.add_address(index, &Address::new("10.1.0.100/24".parse().unwrap())).unwrap();
    netlink.set_mtu(index, 1500).unwrap();
}
