//! `L4WFPPROXY`: connections of a pod are led to a proxy inside it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use hcn::{Guid, Hcn, Kind};
use nix::sys::socket::{SockaddrIn, SockaddrIn6, getsockopt, sockopt};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, policy, subnet};
use crate::harness::probe::{meet, meet_udp, socket_like};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, PATIENCE, Place, Pod, World, pings, run, tcp};
use crate::l2bridge::{routed, routed_pod};

const OUTBOUND: u16 = 15_001;
const INBOUND: u16 = 15_003;

/// A port at which nobody listens: whoever answers there was led to.
const ELSEWHERE: u16 = 8443;

/// The tests run as this user.
const ROOT: &str = "S-1-5-21-1-2-3-0";

/// Nobody here is this user.
const SOMEBODY: &str = "S-1-5-21-1-2-3-1337";

/// A proxy that says what it is, where the connection was meant to go, and from where it came.
fn serve(pod: &Pod, name: &'static str, port: u16) {
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    let listener = pod.run(|| TcpListener::bind(everywhere)).expect("a socket");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A client that gives up is the client's to complain of.
            _ = describe(&stream).and_then(|text| stream.write_all(format!("{name} {text}").as_bytes()));
        }
    });
}

/// Where a connection was meant to go, as the kernel says to a proxy, and from where it came.
fn describe(stream: &TcpStream) -> io::Result<String> {
    let peer = stream.peer_addr()?.ip().to_canonical();
    let meant = match peer {
        IpAddr::V4(_) => SockaddrIn::from(getsockopt_v4(stream)?).to_string(),
        IpAddr::V6(_) => SockaddrIn6::from(getsockopt_v6(stream)?).to_string(),
    };
    Ok(format!("{meant} {peer}"))
}

fn getsockopt_v4(stream: &TcpStream) -> io::Result<nix::libc::sockaddr_in> {
    Ok(getsockopt(stream, sockopt::OriginalDst)?)
}

fn getsockopt_v6(stream: &TcpStream) -> io::Result<nix::libc::sockaddr_in6> {
    Ok(getsockopt(stream, sockopt::Ip6tOriginalDst)?)
}

/// What a proxy says of a connection.
fn asked(from: &Place, to: IpAddr, port: u16) -> String {
    let told = || -> io::Result<String> {
        let mut stream = from.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, port), PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    told().unwrap_or_else(|error| panic!("{} asks {to} {port}: {error}", from.name))
}

/// What a proxy is to say.
fn led(name: &str, to: IpAddr, port: u16, from: IpAddr) -> String {
    format!("{name} {} {from}", SocketAddr::new(to, port))
}

/// Who answers directly, and as whom it sees the client.
fn met(from: &Place, to: IpAddr) -> (String, IpAddr) {
    let (name, seen) = meet(from, SocketAddr::new(to, PORT)).unwrap_or_else(|error| panic!("{} asks {to}: {error}", from.name));
    (name, seen.ip())
}

fn is_refused(from: &Place, to: IpAddr, port: u16) -> bool {
    let tried = from.run(|| TcpStream::connect_timeout(&SocketAddr::new(to, port), PATIENCE));
    tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn pair(pod: &Pod) -> [IpAddr; 2] {
    [pod.v4(), pod.v6()]
}

fn change(node: &Node, pod: &Pod, policies: &[Value]) {
    let request = json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": { "Policies": policies } });
    node.modify_endpoint(pod.endpoint, &request);
}

fn proxies(pod: &Pod) {
    serve(pod, "out", OUTBOUND);
    serve(pod, "in", INBOUND);
}

/// Two pods and their network; in the first are proxies.
fn two(world: &World) -> (Guid, [Pod; 2]) {
    let network = routed(world, world.one());
    let pods = [11, 12].map(|number| routed_pod(world.one(), network, number, &[]));
    proxies(&pods[0]);
    (network, pods)
}

#[test]
fn what_a_pod_sends_is_led_to_its_proxy_and_exceptions_are_not() {
    run("container_proxy::what_a_pod_sends_is_led_to_its_proxy_and_exceptions_are_not", || {
        let world = World::new(1);
        let (_, [pod, peer]) = two(&world);
        let proxied = |more: Value| {
            let mut settings =
                json!({ "OutboundProxyPort": OUTBOUND.to_string(), "UserSID": SOMEBODY, "FilterTuple": { "Protocols": "6" } });
            settings.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
            policy("L4WFPPROXY", settings)
        };
        change(world.one(), &pod, &[proxied(json!({}))]);
        for (at, own) in pair(&pod).into_iter().enumerate() {
            let to = pair(&peer)[at];
            assert_eq!(asked(&pod, to, ELSEWHERE), led("out", to, ELSEWHERE, own));
            assert_eq!(asked(&pod, OUTSIDE[at], 80), led("out", OUTSIDE[at], 80, own));
            assert_eq!(meet_udp(&pod, SocketAddr::new(to, PORT)).expect("UDP is left alone").0, peer.name);
            pings(&pod, to);
            assert_eq!(met(&peer, own), (pod.name.clone(), to), "what arrives is left alone");
            assert_eq!(met(&pod, own), (pod.name.clone(), own), "what stays in the pod is left alone");
        }
        let exceptions = json!({
            "IpAddressExceptions": pair(&peer).map(|address| address.to_string()), "PortExceptions": ["22", "8000-8100"],
        });
        change(world.one(), &pod, &[proxied(json!({ "OutboundExceptions": exceptions }))]);
        for (at, own) in pair(&pod).into_iter().enumerate() {
            let to = pair(&peer)[at];
            assert_eq!(met(&pod, to), (peer.name.clone(), own));
            assert_eq!(asked(&pod, OUTSIDE[at], 80), led("out", OUTSIDE[at], 80, own));
            for port in [22, 8000, 8050, 8100] {
                assert!(is_refused(&pod, OUTSIDE[at], port), "{port} is an exception");
            }
            assert_eq!(asked(&pod, OUTSIDE[at], 8101), led("out", OUTSIDE[at], 8101, own));
        }
        change(world.one(), &pod, &[]);
        for (at, own) in pair(&pod).into_iter().enumerate() {
            assert_eq!(met(&pod, pair(&peer)[at]), (peer.name.clone(), own));
            assert!(is_refused(&pod, pair(&peer)[at], ELSEWHERE));
            tcp(&pod, pair(&peer)[at]);
        }
    });
}

#[test]
fn the_proxys_own_connections_go_out() {
    run("container_proxy::the_proxys_own_connections_go_out", || {
        let world = World::new(1);
        let (_, [pod, peer]) = two(&world);
        for (sid, spared) in [(SOMEBODY, false), (ROOT, true)] {
            let settings = json!({ "OutboundProxyPort": OUTBOUND.to_string(), "UserSID": sid, "FilterTuple": {} });
            change(world.one(), &pod, &[policy("L4WFPPROXY", settings)]);
            for (own, to) in pair(&pod).into_iter().zip(pair(&peer)) {
                match spared {
                    true => assert_eq!(met(&pod, to), (peer.name.clone(), own)),
                    false => assert_eq!(asked(&pod, to, PORT), led("out", to, PORT, own)),
                }
            }
        }
    });
}

#[test]
fn what_arrives_at_a_pod_is_led_to_its_proxy_and_exceptions_are_not() {
    run("container_proxy::what_arrives_at_a_pod_is_led_to_its_proxy_and_exceptions_are_not", || {
        let world = World::new(1);
        let (_, [pod, peer]) = two(&world);
        let settings = json!({
            "InboundProxyPort": INBOUND.to_string(), "FilterTuple": { "Protocols": "6", "LocalPorts": "80,8400-8500" },
            "InboundExceptions": { "PortExceptions": ["8444"], "IpAddressExceptions": ["203.0.113.0/24", "fd00:203::/64"] },
        });
        change(world.one(), &pod, &[policy("L4WFPPROXY", settings)]);
        for (at, own) in pair(&pod).into_iter().enumerate() {
            let from = pair(&peer)[at];
            for port in [80, 8400, ELSEWHERE, 8500] {
                assert_eq!(asked(&peer, own, port), led("in", own, port, from));
            }
            let node = world.one().address_like(own.is_ipv4());
            assert_eq!(asked(world.one(), own, 80), led("in", own, 80, node));
            assert!(is_refused(&peer, own, 8444), "a port that is an exception");
            assert!(is_refused(&world.outside, own, 80), "an address that is an exception");
            assert_eq!(met(&peer, own), (pod.name.clone(), from), "a port that the filter does not name");
            assert_eq!(met(&pod, from), (peer.name.clone(), own), "what the pod sends is left alone");
        }
    });
}

#[test]
fn of_several_policies_the_first_decides_and_addresses_are_of_one_family() {
    run("container_proxy::of_several_policies_the_first_decides_and_addresses_are_of_one_family", || {
        let world = World::new(1);
        let (_, [pod, peer]) = two(&world);
        let of = |proxy: u16, priority: u16, remote: &str| {
            let tuple = json!({ "Protocols": "6", "RemoteAddresses": remote, "Priority": priority });
            policy("L4WFPPROXY", json!({ "OutboundProxyPort": proxy.to_string(), "FilterTuple": tuple }))
        };
        change(world.one(), &pod, &[of(OUTBOUND, 0, "203.0.113.0/24,10.0.0.0/8"), of(INBOUND, 7, &peer.v4().to_string())]);
        assert_eq!(asked(&pod, peer.v4(), PORT), led("in", peer.v4(), PORT, pod.v4()));
        assert_eq!(asked(&pod, OUTSIDE[0], PORT), led("out", OUTSIDE[0], PORT, pod.v4()));
        assert_eq!(met(&pod, peer.v6()), (peer.name.clone(), pod.v6()), "no IPv6 address is named");
        assert_eq!(met(&pod, OUTSIDE[1]), (world.outside.name.clone(), pod.v6()));
    });
}

#[test]
fn datagrams_are_led_where_the_filter_names_them() {
    run("container_proxy::datagrams_are_led_where_the_filter_names_them", || {
        let world = World::new(1);
        let (_, [pod, peer]) = two(&world);
        for loopback in ["127.0.0.1", "::1"] {
            echo(&pod, SocketAddr::new(loopback.parse().expect("an address"), OUTBOUND));
        }
        let tuple = json!({ "Protocols": "17", "RemotePorts": "8000-9000" });
        change(world.one(), &pod, &[policy("L4WFPPROXY", json!({ "OutboundProxyPort": OUTBOUND.to_string(), "FilterTuple": tuple }))]);
        for (own, to) in pair(&pod).into_iter().zip(pair(&peer)) {
            let socket = pod.run(|| socket_like(SocketAddr::new(to, ELSEWHERE))).expect("a socket");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let mut answer = [0; 64];
            let length = socket.send(b"?").and_then(|_| socket.recv(&mut answer)).expect("the proxy answers");
            assert_eq!(std::str::from_utf8(&answer[..length]), Ok(format!("out {own}").as_str()));
            assert_eq!(meet_udp(&pod, SocketAddr::new(to, PORT)).expect("the peer answers").0, peer.name);
            assert!(is_refused(&pod, to, ELSEWHERE), "TCP is left alone");
        }
    });
}

/// A proxy for datagrams that says what it is and from where they came. It answers from where it was asked.
fn echo(pod: &Pod, at: SocketAddr) {
    let socket = pod.run(|| UdpSocket::bind(at)).expect("a socket");
    thread::spawn(move || {
        while let Ok((_, asker)) = socket.recv_from(&mut [0; 64]) {
            _ = socket.send_to(format!("out {}", asker.ip()).as_bytes(), asker);
        }
    });
}

#[test]
fn on_networks_of_other_types_and_after_a_restart_of_the_switch() {
    run("container_proxy::on_networks_of_other_types_and_after_a_restart_of_the_switch", || {
        let mut world = World::new(1);
        let proxy = policy("L4WFPPROXY", json!({ "OutboundProxyPort": OUTBOUND.to_string(), "FilterTuple": { "Protocols": "6" } }));
        let subnets = [subnet("172.20.0.0/24", "172.20.0.1"), subnet("fd00:20::/64", "fd00:20::1")];
        let nat = world.one().network(&network("nat", "NAT", &subnets, &[]));
        let document = endpoint("pod", &["172.20.0.11/24", "fd00:20::11/64"], &["172.20.0.1", "fd00:20::1"], std::slice::from_ref(&proxy));
        let pod = world.one().pod(nat, &document);
        proxies(&pod);
        let check = |world: &World| {
            for (at, own) in pair(&pod).into_iter().enumerate() {
                assert_eq!(asked(&pod, OUTSIDE[at], ELSEWHERE), led("out", OUTSIDE[at], ELSEWHERE, own));
                assert_eq!(met(world.one(), own).0, pod.name);
            }
        };
        check(&world);
        world.nodes[0].vswitchd.take().expect("it runs").kill();
        world.nodes[0].start_vswitchd();
        crate::harness::eventually("the proxy has it again", || {
            let answer = pod.run(|| TcpStream::connect_timeout(&SocketAddr::new(OUTSIDE[0], ELSEWHERE), PATIENCE));
            answer.is_ok() && world.one().look("/ports").as_array().is_some_and(|ports| ports.iter().any(|port| port["Name"] == "pod"))
        });
        check(&world);
        world.one().client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
    });
}

#[test]
fn what_cannot_be_led_is_refused_by_field() {
    run("container_proxy::what_cannot_be_led_is_refused_by_field", || {
        let world = World::new(1);
        let (_, [pod, _]) = two(&world);
        let table = [
            (json!({ "OutboundProxyPort": "0" }), "OutboundProxyPort"),
            (json!({ "InboundProxyPort": "http" }), "InboundProxyPort"),
            (json!({ "FilterTuple": { "Protocols": "1" } }), "Protocols"),
            (json!({ "FilterTuple": { "RemoteAddresses": "10.0.0.0/33" } }), "RemoteAddresses"),
            (json!({ "FilterTuple": { "RemotePorts": "90-80" } }), "RemotePorts"),
            (json!({ "UserSID": "root" }), "UserSID"),
            (json!({ "OutboundExceptions": { "IpAddressExceptions": ["here"] } }), "IpAddressExceptions"),
            (json!({ "OutboundExceptions": { "PortExceptions": ["90-80"] } }), "PortExceptions"),
        ];
        for (fields, field) in table {
            let mut settings = json!({ "OutboundProxyPort": "15001", "FilterTuple": { "Protocols": "6" } });
            settings.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
            let policies = json!({ "Policies": [policy("L4WFPPROXY", settings)] });
            let request = json!({ "ResourceType": "Policy", "RequestType": "Add", "Settings": policies });
            let refusal = world.one().client.modify(Kind::Endpoint, pod.endpoint, &request.to_string()).expect_err(field);
            assert!(refusal.detail().field.as_deref().is_some_and(|found| found.ends_with(field)), "{field}: {refusal}");
        }
    });
}
