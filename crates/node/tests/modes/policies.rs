//! Policies that no other file is about, each with what it does to packets and what it leaves alone.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread;

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};
use wire::{Ip, MacAddress};

use crate::harness::document::{endpoint, network, overlay_subnet, policy, subnet};
use crate::harness::probe::{self, meet};
use crate::harness::serve::PORT;
use crate::harness::sniff::Frame;
use crate::harness::world::{OUTSIDE, ROUTER};
use crate::harness::{MOMENT, Node, Place, Pod, Sniffer, Watch, World, answers, eventually, pings, refused, run, tcp, udp, watch};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::{Overlay, VNI, router_mac};

fn pair(pod: &Pod) -> [IpAddr; 2] {
    [pod.v4(), pod.v6()]
}

/// A network on the adapter's own subnets, with the router as gateway.
fn flat(node: &Node, policies: &[Value]) -> Guid {
    let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
    node.network(&network("flat", "L2Bridge", &subnets, policies))
}

fn flat_pod(node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
    let addresses = [format!("192.168.0.{number}/24"), format!("fd00:99::{number}/64")];
    let document =
        endpoint(&format!("pod{number}"), &addresses.each_ref().map(String::as_str), &["192.168.0.254", "fd00:99::fe"], policies);
    node.pod(network, &document)
}

/// The hardware address that a place knows of a neighbour.
fn neighbour(place: &Place, of: IpAddr) -> Option<MacAddress> {
    let known = place.netlink().neighbours(place.link("eth0").index).expect("the neighbours");
    known.iter().find(|neighbour| neighbour.address == of).and_then(|neighbour| neighbour.mac)
}

#[test]
fn the_mtu_is_what_the_policies_leave_and_holds_in_both_directions() {
    run("policies::the_mtu_is_what_the_policies_leave_and_holds_in_both_directions", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let overhead = policy("EncapOverhead", json!({ "Overhead": 150 }));
        let parameters = policy("InterfaceParameters", json!({ "Mtu": 1320 }));
        let plain = routed_pod(world.one(), network, 11, &[]);
        let (less, least) = (routed_pod(world.one(), network, 12, &[overhead]), routed_pod(world.one(), network, 13, &[parameters]));
        assert_eq!([&plain, &less, &least].map(|pod| pod.link("eth0").mtu), [1500, 1350, 1320]);
        for (at, outside) in OUTSIDE.into_iter().enumerate() {
            for narrow in [&less, &least] {
                probe::learns_of_narrow_path(&plain, pair(narrow)[at]);
                tcp(&plain, pair(narrow)[at]);
                tcp(narrow, outside);
            }
            let socket = less.run(|| probe::socket_like(SocketAddr::new(pair(&plain)[at], PORT))).expect("a socket");
            assert!(probe::ask(&socket, 1200).is_some());
            let wide = world.outside.run(|| probe::socket_like(SocketAddr::new(pair(&plain)[at], PORT))).expect("a socket");
            assert!(probe::ask(&wide, 1400).is_some(), "without a policy the adapter's MTU holds");
        }
    });
}

#[test]
fn packets_to_another_node_go_to_its_distributed_router() {
    run("policies::packets_to_another_node_go_to_its_distributed_router", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let (one, near) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.one(), first, 12, &[]));
        let far = overlay.pod(world.two(), second, 11, &[]);
        let wire = Sniffer::start(&world.underlay);
        for (at, gateway) in ["10.244.1.1", "fd00:244:1::1"].into_iter().enumerate() {
            pings(&one, pair(&far)[at]);
            pings(&one, pair(&near)[at]);
            assert_eq!(neighbour(&one, gateway.parse().expect("an address")), router_mac(1).parse().ok());
            assert_eq!(neighbour(&one, pair(&near)[at]), Some(near.mac), "a neighbour needs no router");
            let inner: Vec<_> =
                wire.arrived("node1").into_iter().filter(|frame| frame.inner() == Some((pair(&one)[at], pair(&far)[at]))).collect();
            assert!(!inner.is_empty());
            for frame in inner {
                // Behind the outer Ethernet, IPv4, UDP and VXLAN headers.
                let to: [u8; 6] = frame.bytes[50..56].try_into().expect("six bytes");
                assert_eq!(Some(MacAddress(to)), router_mac(2).parse().ok());
            }
        }
    });
}

#[test]
fn the_node_has_a_route_to_the_network_for_as_long_as_it_is_there() {
    run("policies::the_node_has_a_route_to_the_network_for_as_long_as_it_is_there", || {
        let world = World::new(1);
        let node = world.one();
        let subnets = [subnet("10.244.1.0/24", "10.244.1.1"), subnet("fd00:244:1::/64", "fd00:244:1::1")];
        let network = node.network(&network("bridge", "L2Bridge", &subnets, &[policy("HostRoute", json!({}))]));
        let pod = routed_pod(node, network, 11, &[]);
        let routes = || [node.ip("route show 10.244.1.0/24"), node.ip("-6 route show fd00:244:1::/64")];
        assert!(routes().iter().all(|route| route.contains("vEth-eth0")), "{:?}", routes());
        for (at, address) in pair(&pod).into_iter().enumerate() {
            assert_eq!(tcp(node, address).ip(), node.address_like(at == 0));
        }
        node.client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
        node.client.delete(Kind::Network, network).expect("the network goes");
        assert!(routes().iter().all(|route| route.trim().is_empty()), "{:?}", routes());
    });
}

/// A node with a second adapter, at the other end of which is a machine.
fn with_second_adapter() -> (World, Place) {
    let mut world = World::bare(1);
    let machine = Place::make(std::path::Path::new("/run/places"), "machine");
    let node = &world.nodes[0];
    node.netlink().create_veth("eth7", "peer7").expect("a cable");
    node.netlink().move_to(node.link("peer7").index, &machine.namespace).expect("the cable's other end");
    node.ip("link set eth7 up");
    machine.ip("link set peer7 up");
    node.ip("addr add 10.7.0.1/24 dev eth7");
    node.ip("addr add fd00:7::1/64 dev eth7 nodad");
    machine.ip("addr add 10.7.0.9/24 dev peer7");
    machine.ip("addr add fd00:7::9/64 dev peer7 nodad");
    crate::harness::serve::start(&machine);
    world.nodes[0].start_vswitchd();
    world.nodes[0].start_hnsd(&["--adapter", "Ethernet=eth0", "--adapter", "Second=eth7"]);
    (world, machine)
}

#[test]
fn a_network_is_on_the_adapter_that_its_policy_names() {
    run("policies::a_network_is_on_the_adapter_that_its_policy_names", || {
        let (world, machine) = with_second_adapter();
        let node = world.one();
        let subnets = [subnet("10.7.0.0/24", "10.7.0.254"), subnet("fd00:7::/64", "fd00:7::fe")];
        let other_wire = Sniffer::start(&world.underlay);
        for (kind, settings) in
            [("NetAdapterName", json!({ "NetworkAdapterName": "Second" })), ("InterfaceConstraint", json!({ "InterfaceAlias": "Second" }))]
        {
            let network = node.network(&network("second", "L2Bridge", &subnets, &[policy(kind, settings)]));
            let constraint = |alias: &str| policy("InterfaceConstraint", json!({ "InterfaceAlias": alias }));
            let document = |alias: &str| endpoint("pod", &["10.7.0.11/24", "fd00:7::11/64"], &[], &[constraint(alias)]);
            let refusal = node.client.create(Kind::Endpoint, Some(network), None, &document("Ethernet").to_string());
            let refusal = refusal.expect_err("another adapter");
            assert!(refusal.detail().field.as_deref().is_some_and(|field| field.ends_with("InterfaceAlias")), "{refusal}");
            let pod = node.pod(network, &document("Second"));
            for (at, to) in ["10.7.0.9", "fd00:7::9"].into_iter().enumerate() {
                let to: IpAddr = to.parse().expect("an address");
                assert_eq!(tcp(&pod, to).ip(), pair(&pod)[at], "{kind}");
                assert_eq!(tcp(&machine, pair(&pod)[at]).ip(), to);
            }
            let of_pod = |frame: &Frame| frame.ip().is_some_and(|(from, to, _)| pair(&pod).iter().any(|own| [from, to].contains(own)));
            assert!(!other_wire.arrived("node1").iter().any(of_pod), "nothing of it is on the wire of the other adapter");
            node.client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
            node.client.delete(Kind::Network, network).expect("the network goes");
        }
    });
}

#[test]
fn pods_are_told_the_hardware_address_that_the_network_says() {
    run("policies::pods_are_told_the_hardware_address_that_the_network_says", || {
        let world = World::new(1);
        let says = |prefix: &str| policy("NeighborDiscovery", json!({ "TargetIpPrefix": prefix, "SenderMacAddress": "02-15-5D-00-00-77" }));
        let network = flat(world.one(), &[says("192.168.0.200/29"), says("fd00:99::200/120")]);
        let pod = flat_pod(world.one(), network, 101, &[]);
        let wire = Sniffer::start(&world.underlay);
        let said = MacAddress([0x02, 0x15, 0x5d, 0, 0, 0x77]);
        for (named, other) in [("192.168.0.201", "192.168.0.210"), ("fd00:99::201", "fd00:99::301")] {
            let (named, other): (IpAddr, IpAddr) = (named.parse().expect("an address"), other.parse().expect("an address"));
            assert!(!answers(&pod, named) && !answers(&pod, other), "nobody is there");
            assert_eq!(neighbour(&pod, named), Some(said));
            assert_eq!(neighbour(&pod, other), None);
            let sent = wire.arrived("node1");
            let to: Vec<MacAddress> =
                sent.iter().filter(|frame| frame.ip().is_some_and(|(_, to, _)| to == named)).map(Frame::destination_mac).collect();
            assert!(!to.is_empty() && to.iter().all(|to| *to == said), "{to:?}");
        }
        ROUTER.into_iter().for_each(|router| pings(&pod, router));
    });
}

#[test]
fn a_route_leads_a_pods_packets_to_the_node() {
    run("policies::a_route_leads_a_pods_packets_to_the_node", || {
        let world = World::new(1);
        let node = world.one();
        let network = flat(node, &[]);
        let inside: [IpAddr; 2] = ["198.51.100.1", "fd00:51::1"].map(|address| address.parse().expect("an address"));
        inside.iter().for_each(|address| _ = node.ip(&format!("addr add {address} dev lo")));
        let route =
            |prefix: &str, next_hop: IpAddr| policy("SDNRoute", json!({ "DestinationPrefix": prefix, "NextHop": next_hop.to_string() }));
        let led = flat_pod(node, network, 101, &[route("198.51.100.0/24", node.v4()), route("fd00:51::/64", node.v6())]);
        let other = flat_pod(node, network, 102, &[]);
        for (at, to) in inside.into_iter().enumerate() {
            assert_eq!(tcp(&led, to).ip(), pair(&led)[at]);
            assert!(refused(&other, to), "without the policy the router has it, which knows no way");
            assert_eq!(tcp(&led, OUTSIDE[at]).ip(), pair(&led)[at], "other destinations go as before");
            assert_eq!(tcp(&led, pair(&other)[at]).ip(), pair(&led)[at]);
        }
    });
}

#[test]
fn the_wire_sees_the_source_that_the_network_says_of_pods_only() {
    run("policies::the_wire_sees_the_source_that_the_network_says_of_pods_only", || {
        let world = World::new(1);
        let node = world.one();
        let source = policy("SourceMacAddress", json!({ "SourceMacAddress": "02-15-5D-00-00-EE" }));
        let pod = flat_pod(node, flat(node, &[source]), 101, &[]);
        let wire = Sniffer::start(&world.underlay);
        for (at, outside) in OUTSIDE.into_iter().enumerate() {
            tcp(&pod, outside);
            tcp(node, outside);
            let sent = wire.arrived("node1");
            let sources = |of: IpAddr| -> Vec<MacAddress> {
                let mut macs: Vec<_> = sent.iter().filter(|frame| frame.is_between(of, outside)).map(Frame::source_mac).collect();
                macs.sort_unstable_by_key(|mac| mac.0);
                macs.dedup();
                macs
            };
            assert_eq!(sources(pair(&pod)[at]), [MacAddress([0x02, 0x15, 0x5d, 0, 0, 0xee])]);
            assert_eq!(sources(node.address_like(at == 0)), [node.mac()]);
        }
    });
}

#[test]
fn a_pod_has_no_more_ports_of_the_node_than_its_policy_says() {
    run("policies::a_pod_has_no_more_ports_of_the_node_than_its_policy_says", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let bounded = |flags: u32| policy("OutBoundNAT", json!({ "MaxPortPoolUsage": 4, "Flags": flags }));
        let policies = [bounded(0), bounded(2)];
        let (one, two) = (routed_pod(world.one(), network, 11, &policies), routed_pod(world.one(), network, 12, &policies));
        for outside in OUTSIDE {
            let to = SocketAddr::new(outside, PORT);
            let open = |pod: &Pod| pod.run(|| probe::socket_like(to)).expect("a socket");
            let sockets: Vec<_> = (0..4).map(|_| open(&one)).collect();
            let node = world.one().address_like(outside.is_ipv4());
            assert!(sockets.iter().all(|socket| probe::ask(socket, 100).is_some_and(|seen| seen.ip() == node)));
            let fifth = open(&one);
            fifth.set_read_timeout(Some(MOMENT)).expect("a timeout");
            assert!(fifth.send(&[1]).is_ok() && fifth.recv(&mut [0; 256]).is_err(), "a fifth gets no port");
            assert!(sockets.iter().all(|socket| probe::ask(socket, 100).is_some()), "the four go on");
            assert!(probe::ask(&open(&two), 100).is_some(), "another pod has its own share");
            let elsewhere = ROUTER[usize::from(outside.is_ipv6())];
            assert_eq!(udp(&one, elsewhere, 100).ip(), node, "towards another destination there are ports");
        }
    });
}

#[test]
fn translation_of_ipv6_may_have_destinations_and_an_address_of_its_own() {
    run("policies::translation_of_ipv6_may_have_destinations_and_an_address_of_its_own", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let to = |settings: Value| policy("OutBoundNAT", settings);
        let one = routed_pod(world.one(), network, 11, &[to(json!({ "Destinations": ["fd00:203::/64"], "Flags": 2 }))]);
        assert_eq!(tcp(&one, OUTSIDE[1]).ip(), world.one().v6());
        assert_eq!(tcp(&one, ROUTER[1]).ip(), one.v6());
        assert_eq!(tcp(&one, OUTSIDE[0]).ip(), one.v4());
        let two = routed_pod(world.one(), network, 12, &[to(json!({ "VirtualIP": "fd00:99::200", "Exceptions": ["fd00:99::fe"] }))]);
        assert_eq!(tcp(&two, OUTSIDE[1]).ip().to_string(), "fd00:99::200");
        assert_eq!(tcp(&two, ROUTER[1]).ip(), two.v6());
        assert_eq!(tcp(&two, OUTSIDE[0]).ip(), two.v4());
    });
}

#[test]
fn remote_endpoints_say_where_single_ipv6_pods_are() {
    run("policies::remote_endpoints_say_where_single_ipv6_pods_are", || {
        let world = World::new(2);
        let subnets = [overlay_subnet("fd00:50::/64", "fd00:50::1", VNI)];
        let document = network("flat", "Overlay", &subnets, &[policy("DrMacAddress", json!({ "Address": router_mac(9) }))]);
        let networks: Vec<Guid> = world.nodes.iter().map(|node| node.network(&document)).collect();
        let pod = |at: usize, address: &str| {
            world.nodes[at].pod(networks[at], &endpoint(&format!("pod{at}"), &[&format!("{address}/64")], &["fd00:50::1"], &[]))
        };
        let (one, two) = (pod(0, "fd00:50::12"), pod(1, "fd00:50::22"));
        assert!(!answers(&one, two.addresses[0]), "nobody has said where it is");
        for (at, other) in [(0, &two), (1, &one)] {
            let mut remote = endpoint("remote", &[&format!("{}/64", other.addresses[0])], &[], &[]);
            (remote["Flags"], remote["MacAddress"]) = (json!(1), json!(other.mac.to_string()));
            remote["Policies"] = json!([policy("ProviderAddress", json!({ "ProviderAddress": format!("192.168.0.{}", 2 - at) }))]);
            world.nodes[at].endpoint(networks[at], &remote);
        }
        assert_eq!(tcp(&one, two.addresses[0]).ip(), one.addresses[0]);
        assert_eq!(tcp(&two, one.addresses[0]).ip(), two.addresses[0]);
    });
}

#[test]
fn virtual_networks_with_the_same_ipv6_addresses_do_not_meet() {
    run("policies::virtual_networks_with_the_same_ipv6_addresses_do_not_meet", || {
        let world = World::new(2);
        let pods = [("red", 5001, 7101), ("blue", 5002, 7102)].map(|(name, vni, port)| {
            let overlay = Overlay { name, vni, ..Overlay::default() };
            let [first, second] = overlay.on_both(&world);
            let (one, two) = (overlay.pod(world.one(), first, 11, &[]), overlay.pod(world.two(), second, 11, &[]));
            let listener = two.run(|| TcpListener::bind(("::", port))).expect("a socket");
            (one, two, port, listener)
        });
        let reaches = |from: &Pod, to: &Pod, port: u16| {
            from.run(|| std::net::TcpStream::connect_timeout(&SocketAddr::new(to.v6(), port), MOMENT).is_ok())
        };
        for (at, (one, two, port, _)) in pods.iter().enumerate() {
            assert!(reaches(one, two, *port) && !reaches(one, two, pods[1 - at].2), "{}", one.name);
        }
    });
}

/// Whether a packet of a protocol has come from an address.
fn has(watch: &Watch, protocol: u8, from: IpAddr) -> bool {
    watch.seen().iter().any(|headers| (headers.id.protocol, headers.id.source) == (protocol, Ip::from(from)))
}

/// Sends a packet of a protocol that the kernel knows nothing of.
fn send(from: &Pod, to: &Pod, v4: bool, protocol: u8) {
    let packet = match (from.addresses[usize::from(!v4)], to.addresses[usize::from(!v4)]) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut packet =
                [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0], &source.octets()[..], &destination.octets(), &[7; 8]].concat();
            let sum = !wire::checksum::sum(&packet[..20]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            [&[0x08, 0x00][..], &packet].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, protocol, 64], &source.octets()[..], &destination.octets(), &[7; 8]].concat()
        }
        addresses => panic!("{addresses:?} are of two families"),
    };
    let bytes = [&to.mac.0[..], &from.mac.0, &packet].concat();
    watch::send(from, "eth0", &bytes);
}

#[test]
fn a_list_of_protocols_is_about_all_of_them_and_no_other() {
    run("policies::a_list_of_protocols_is_about_all_of_them_and_no_other", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let block = policy("ACL", json!({ "Action": "Block", "Direction": "In", "Protocols": "6,252", "Priority": 100 }));
        let (one, two) = (routed_pod(world.one(), network, 11, &[block]), routed_pod(world.one(), network, 12, &[]));
        for (at, own) in pair(&one).into_iter().enumerate() {
            let from = pair(&two)[at];
            let arrivals = Watch::start(&one, "eth0");
            assert!(refused(&two, own), "TCP is in the list");
            udp(&two, own, 1000);
            send(&two, &one, at == 0, 252);
            send(&two, &one, at == 0, 253);
            eventually("protocol 253 arrives", || has(&arrivals, 253, from));
            thread::sleep(MOMENT);
            assert!(!has(&arrivals, 252, from), "protocol 252 is in the list");
            let back = Watch::start(&two, "eth0");
            send(&one, &two, at == 0, 252);
            eventually("the list is about what comes in", || has(&back, 252, own));
        }
    });
}

#[test]
fn rules_of_the_hosts_firewall_and_outward_ones_hold_as_well() {
    run("policies::rules_of_the_hosts_firewall_and_outward_ones_hold_as_well", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let [one, two, three] = [11, 12, 13].map(|number| routed_pod(world.one(), network, number, &[]));
        let host = |direction: &str, fields: Value| {
            let mut settings = json!({ "Action": "Block", "Direction": direction, "RuleType": "Host", "Priority": 100 });
            settings.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
            policy("ACL", settings)
        };
        let of_two = format!("{},{}", two.v4(), two.v6());
        let of_three =
            json!({ "Action": "Block", "Direction": "Out", "RemoteAddresses": format!("{},{}", three.v4(), three.v6()), "Priority": 100 });
        let policies = [host("In", json!({ "Protocols": "6", "RemoteAddresses": of_two })), policy("ACL", of_three)];
        let request = json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": { "Policies": policies } });
        world.one().modify_endpoint(one.endpoint, &request);
        for (at, own) in pair(&one).into_iter().enumerate() {
            assert!(refused(&two, own), "the host's firewall");
            udp(&two, own, 1000);
            assert!(meet(&three, SocketAddr::new(own, PORT)).is_ok(), "answers to others pass");
            assert!(refused(&one, pair(&three)[at]), "outwards");
            tcp(&one, pair(&two)[at]);
        }
    });
}
