//! Services: virtual addresses in front of pods, from everywhere and in every form.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use hcn::{Guid, Hcn, Kind};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt};
use serde_json::json;

use crate::harness::balancer::{
    Balancer, DSR, IPV6, PRESERVE_DIP, VIPS, address_like, everybody, everybody_new, fronts, names, provider, remote_endpoint,
};
use crate::harness::document::{schema, subnet};
use crate::harness::probe::{greet, meet, meet_udp};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{PATIENCE, Place, Pod, Sniffer, World, eventually, exchange, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::{Overlay, VNI};

/// A node with an L2Bridge network, a client and two backends.
pub(crate) fn bridge(world: &World) -> (Guid, [Pod; 3]) {
    let node = world.one();
    let network = routed(world, node);
    (network, [11, 12, 13].map(|number| routed_pod(node, network, number, &[])))
}

#[test]
fn a_service_is_reached_from_pods_the_node_and_outside() {
    run("services::a_service_is_reached_from_pods_the_node_and_outside", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        world.route_to(node, &["10.96.0.0/16", "fd00:96::/64"]);
        for flags in [0, DSR] {
            let balancer = Balancer { backends: vec![one.endpoint, two.endpoint], flags, ..Balancer::default() }.on(node);
            for (front, outside) in fronts().into_iter().zip(OUTSIDE) {
                assert_eq!(everybody(&client, front), (names(&[&one, &two]), [address_like(&client, front)].into()), "{front}");
                let of_node = node.address_like(front.is_ipv4());
                assert_eq!(everybody(node, front), (names(&[&one, &two]), [of_node].into()), "{front}");
                assert_eq!(everybody(&world.outside, front), (names(&[&one, &two]), [outside].into()), "{front}");
                exchange(&client, front, 4 << 20);
                exchange(node, front, 1 << 20);
                exchange(&world.outside, front, 1 << 20);
            }
            node.client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
        }
    });
}

#[test]
fn a_service_without_backends_refuses_at_once() {
    run("services::a_service_without_backends_refuses_at_once", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, _]) = bridge(&world);
        world.route_to(node, &["10.96.0.0/16", "fd00:96::/64"]);
        let refused = |place: &Place| {
            for front in fronts() {
                let begin = Instant::now();
                let tcp = meet(place, front).expect_err("nobody is there");
                assert_eq!(tcp.kind(), io::ErrorKind::ConnectionRefused, "{} {front}: {tcp}", place.name);
                let udp = meet_udp(place, front).expect_err("nobody is there");
                assert_eq!(udp.kind(), io::ErrorKind::ConnectionRefused, "{} {front}: {udp}", place.name);
                assert!(begin.elapsed() < Duration::from_secs(2), "at once, and not after {:?}", begin.elapsed());
            }
        };
        let id = Balancer::default().on(node);
        [&*client, &**node, &world.outside].into_iter().for_each(refused);
        Balancer { backends: vec![one.endpoint], ..Balancer::default() }.change(node, id);
        assert_eq!(everybody(&client, fronts()[0]).0, names(&[&one]));
        Balancer::default().change(node, id);
        refused(&client);
        assert!(node.drops(&client.name, "no-backend") > 0);
    });
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    run("services::a_pod_reaches_itself_through_its_service", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [pod, ..]) = bridge(&world);
        for flags in [0, DSR] {
            let id = Balancer { backends: vec![pod.endpoint], flags, ..Balancer::default() }.on(node);
            for front in fronts() {
                let of_node = node.address_like(front.is_ipv4());
                assert_eq!(everybody(&pod, front), (names(&[&pod]), [of_node].into()), "{front} with flags {flags}");
                exchange(&pod, front, 1 << 20);
            }
            node.client.delete(Kind::LoadBalancer, id).expect("the load balancer goes");
        }
    });
}

#[test]
fn a_node_port_is_at_every_address_of_the_node_also_for_the_node_itself() {
    run("services::a_node_port_is_at_every_address_of_the_node_also_for_the_node_itself", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        const NODE_PORT: u16 = 30_080;
        for family in [0, IPV6] {
            let flags = 2 | 16;
            let backends = vec![one.endpoint, two.endpoint];
            Balancer { vips: &[], backends, flags: family, mapping_flags: flags, port: NODE_PORT, ..Balancer::default() }.on(node);
        }
        for address in [node.v4(), node.v6()] {
            let at = SocketAddr::new(address, NODE_PORT);
            for place in [&*client, &world.outside, &**node] {
                assert_eq!(everybody(place, at).0, names(&[&one, &two]), "{} asks {at}", place.name);
                exchange(place, at, 1 << 20);
            }
        }
    });
}

#[test]
fn the_virtual_address_itself_reaches_the_backend() {
    run("services::the_virtual_address_itself_reaches_the_backend", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, _]) = bridge(&world);
        world.route_to(node, &["10.96.0.0/16", "fd00:96::/64"]);
        one.ip("address add 10.96.0.10/32 dev lo");
        one.ip("address add fd00:96::10/128 dev lo");
        let mut document =
            Balancer { backends: vec![one.endpoint], flags: DSR, mapping_flags: PRESERVE_DIP, ..Balancer::default() }.document();
        for mapping in document["PortMappings"].as_array_mut().expect("mappings") {
            mapping["ExternalPort"] = json!(PORT);
        }
        node.load_balancer(&document);
        let inside = Sniffer::start(&one);
        for (vip, outside) in VIPS.into_iter().zip(OUTSIDE) {
            let at = SocketAddr::new(vip.parse().expect("an address"), PORT);
            // Over TCP alone: a server that listens everywhere answers datagrams from its own address.
            let (name, seen) = meet(&client, at).expect("the pod answers");
            assert_eq!((name, seen.ip()), (one.name.clone(), address_like(&client, at)));
            let (name, seen) = meet(&world.outside, at).expect("the pod answers");
            assert_eq!((name, seen.ip()), (one.name.clone(), outside));
            exchange(&client, at, 1 << 20);
            assert!(inside.arrived("eth0").iter().any(|frame| frame.ip().is_some_and(|(_, to, _)| to == at.ip())), "{at} reaches the pod");
        }
    });
}

#[test]
fn backends_may_have_ports_of_their_own() {
    run("services::backends_may_have_ports_of_their_own", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        let other = 7070;
        let listener = two.run(|| std::net::TcpListener::bind((two.v4(), other))).expect("a socket");
        let extras = json!({ "BackendPorts": { two.endpoint.to_string(): other } });
        let balancer = Balancer { backends: vec![one.endpoint, two.endpoint], extras, ..Balancer::default() };
        balancer.on(node);
        listener.set_nonblocking(true).expect("a socket");
        let mut taken = 0;
        for _ in 0..64 {
            let stream = client.run(|| TcpStream::connect_timeout(&fronts()[0], PATIENCE)).expect("somebody is there");
            taken += usize::from(listener.accept().is_ok());
            drop(stream);
        }
        assert!((8..56).contains(&taken), "{taken} of 64 connections went to the other port");
    });
}

#[test]
fn established_connections_survive_changes_of_their_service() {
    run("services::established_connections_survive_changes_of_their_service", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        let id = Balancer { backends: vec![one.endpoint], ..Balancer::default() }.on(node);
        let mut stream = client.run(|| TcpStream::connect_timeout(&fronts()[0], PATIENCE)).expect("somebody is there");
        let both = Balancer { backends: vec![two.endpoint, one.endpoint], ..Balancer::default() };
        for round in 0..20 {
            match round % 2 {
                0 => both.change(node, id),
                _ => Balancer { backends: vec![one.endpoint], ..Balancer::default() }.change(node, id),
            }
        }
        assert_eq!(greet(&mut stream).expect("the connection lives").0, one.name);
        // Its backend goes: whatever comes now is somebody else's.
        Balancer { backends: vec![two.endpoint], ..Balancer::default() }.change(node, id);
        assert_eq!(everybody(&client, fronts()[0]).0, names(&[&two]));
    });
}

#[test]
fn a_client_keeps_its_backend_for_as_long_as_it_says() {
    run("services::a_client_keeps_its_backend_for_as_long_as_it_says", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let pods: Vec<Pod> = (11..17).map(|number| routed_pod(node, network, number, &[])).collect();
        let (client, backends) = (&pods[0], &pods[1..]);
        let of = |pods: &[Pod]| Balancer {
            backends: pods.iter().map(|pod| pod.endpoint).collect(),
            distribution: 2,
            extras: json!({ "AffinityTimeoutSeconds": 2 }),
            ..Balancer::default()
        };
        let front = fronts()[0];
        // Where the hash alone would send this client, with all backends.
        let id = of(backends).on(node);
        let all = everybody_new(client, front);
        assert_eq!(all.len(), 1, "one client has one backend: {all:?}");
        let favourite = all.first().cloned().expect("somebody");
        node.client.delete(Kind::LoadBalancer, id).expect("the load balancer goes");
        // Without that one it has another, and keeps it when the favourite comes.
        let without: Vec<Guid> = backends.iter().filter(|pod| pod.name != favourite).map(|pod| pod.endpoint).collect();
        let id = Balancer { backends: without, ..of(&[]) }.on(node);
        let kept = everybody_new(client, front);
        assert_eq!(kept.len(), 1);
        of(backends).change(node, id);
        assert_eq!(everybody_new(client, front), kept, "the client keeps its backend");
        std::thread::sleep(Duration::from_millis(2600));
        assert_eq!(everybody_new(client, front), [favourite].into(), "and forgets it after a while");
    });
}

#[test]
fn across_nodes_the_backend_sees_the_client_and_answers_it_directly() {
    run("services::across_nodes_the_backend_sees_the_client_and_answers_it_directly", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let client = overlay.pod(world.one(), first, 11, &[]);
        let backend = overlay.pod(world.two(), second, 12, &[]);
        let remote = remote_endpoint(world.one(), first, &backend, &[provider()]);
        Balancer { backends: vec![remote], flags: DSR, ..Balancer::default() }.on(world.one());
        let wire = Sniffer::start(&world.underlay);
        for front in fronts() {
            assert_eq!(everybody(&client, front), (names(&[&backend]), [address_like(&client, front)].into()));
            exchange(&client, front, 4 << 20);
        }
        let tunnelled: Vec<_> = ["node1", "node2"].into_iter().flat_map(|link| wire.arrived(link)).collect();
        assert!(tunnelled.iter().any(|frame| frame.vni() == Some(VNI)));
        for vip in VIPS {
            let vip: IpAddr = vip.parse().expect("an address");
            let named = |frame: &crate::harness::sniff::Frame| frame.inner().is_some_and(|(from, to)| from == vip || to == vip);
            assert!(!tunnelled.iter().any(named), "the virtual address stays at the client");
        }
    });
}

#[test]
fn across_nodes_the_source_address_leads_answers_back() {
    run("services::across_nodes_the_source_address_leads_answers_back", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let client = overlay.pod(world.one(), first, 11, &[]);
        let near = overlay.pod(world.one(), first, 12, &[]);
        let far = overlay.pod(world.two(), second, 12, &[]);
        let remote = remote_endpoint(world.one(), first, &far, &[provider()]);
        world.route_to(world.one(), &["10.96.0.0/16"]);
        let source = "10.244.1.9";
        let vips = &VIPS[..1];
        Balancer { vips, backends: vec![near.endpoint, remote], source, ..Balancer::default() }.on(world.one());
        let source: IpAddr = source.parse().expect("an address");
        let front = fronts()[0];
        for place in [&*client, &**world.one(), &world.outside] {
            assert_eq!(everybody(place, front), (names(&[&near, &far]), [source].into()), "{}", place.name);
            exchange(place, front, 1 << 20);
        }
    });
}

#[test]
fn two_thousand_backends_share_the_connections() {
    run("services::two_thousand_backends_share_the_connections", || {
        let world = World::new(1);
        let node = world.one();
        let v4 = "10.244.0.0/16";
        let network = node.network(&crate::harness::document::network("bridge", "L2Bridge", &[subnet(v4, "10.244.0.1")], &[]));
        let client = node.pod(network, &crate::harness::document::endpoint("client", &["10.244.0.11/16"], &["10.244.0.1"], &[]));
        let remote = |number: usize| {
            let ip = format!("10.244.{}.{}", 10 + number / 200, 10 + number % 200);
            let mac = format!("02-11-0A-F4-{:02X}-{:02X}", number / 200, number % 200);
            let document = json!({
                "IpConfigurations": [{ "IpAddress": ip, "PrefixLength": 16 }], "MacAddress": mac, "Flags": 1, "SchemaVersion": schema(),
            });
            node.endpoint(network, &document)
        };
        let backends: Vec<Guid> = (0..2000).map(remote).collect();
        Balancer { vips: &VIPS[..1], backends, ..Balancer::default() }.on(node);
        let socket_count = 400;
        for _ in 0..socket_count {
            let socket = client.run(|| crate::harness::probe::socket_like(fronts()[0])).expect("a socket");
            _ = socket.send(b"anybody?");
        }
        eventually("the connections have different backends", || {
            let flows = node.look("/flows");
            let text = flows.to_string();
            let chosen: BTreeSet<&str> =
                text.split('"').filter(|word| word.starts_with("10.244.1") || word.starts_with("10.244.2")).collect();
            chosen.len() > 200
        });
    });
}

#[test]
fn one_port_of_a_client_may_ask_two_services_with_one_backend() {
    run("services::one_port_of_a_client_may_ask_two_services_with_one_backend", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, backend, _]) = bridge(&world);
        let others = ["10.96.0.11", "fd00:96::11"];
        for vips in [VIPS, others] {
            Balancer { vips: &vips, backends: vec![backend.endpoint], ..Balancer::default() }.on(node);
        }
        for (front, other) in fronts().into_iter().zip(others) {
            let other = SocketAddr::new(other.parse().expect("an address"), front.port());
            let direct = SocketAddr::new(address_like(&backend, front), PORT);
            // All three at once, and each of them answered.
            let mut streams = [front, other, direct].map(|to| client.run(|| connect_from(40_000, to)).expect("the backend is there"));
            let seen = streams.each_mut().map(|stream| greet(stream).expect("the backend answers"));
            assert!(seen.iter().all(|(name, client_seen)| *name == backend.name && client_seen.ip() == address_like(&client, front)));
            let ports: BTreeSet<u16> = seen.iter().map(|(_, client)| client.port()).collect();
            assert_eq!(ports.len(), 3, "the backend can tell them apart: {seen:?}");
            assert!(ports.contains(&40_000), "the first keeps its port: {seen:?}");
        }
    });
}

/// Connects from a port that other connections of the client have too.
fn connect_from(port: u16, to: SocketAddr) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(any, port)))?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(TcpStream::from(socket))
}

#[test]
fn every_combination_of_flags_is_served() {
    run("services::every_combination_of_flags_is_served", || {
        let world = World::new(1);
        let node = world.one();
        let (_, [client, one, two]) = bridge(&world);
        world.route_to(node, &["10.96.0.0/16", "fd00:96::/64"]);
        let backends = vec![one.endpoint, two.endpoint];
        // ILB, LocalRoutedVIP, UseMux and VipExternalIP, alone and together.
        let mapping_flags = (0..32).filter(|flags| flags & PRESERVE_DIP == 0);
        let mut count = 0;
        for mapping_flags in mapping_flags {
            for (flags, distribution) in [0, DSR].into_iter().flat_map(|flags| [0, 1, 2].map(|distribution| (flags, distribution))) {
                for source in ["", "10.244.1.9"] {
                    let with_source =
                        Balancer { backends: backends.clone(), flags, mapping_flags, distribution, source, ..Balancer::default() };
                    let balancer = with_source.on(node);
                    for place in [&*client, &**node, &world.outside] {
                        for front in fronts() {
                            let met = meet(place, front).map(|(name, _)| name);
                            let met =
                                met.unwrap_or_else(|error| panic!("{} asks {front} of {}: {error}", place.name, with_source.document()));
                            assert!([&one.name, &two.name].contains(&&met));
                        }
                    }
                    node.client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
                    count += 1;
                }
            }
        }
        assert_eq!(count, 16 * 6 * 2);
    });
}
