//! `PortMapping` where the switch itself leads ports of the node in: L2Bridge, L2Tunnel and Overlay. Behind NAT the node does, see `nat`.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, policy, subnet};
use crate::harness::probe::{meet, meet_udp};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{MEGABYTES, Node, PATIENCE, Place, Pod, World, exchange, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

const TCP: u8 = 6;
const UDP: u8 = 17;

const EXTERNAL: u16 = 8080;

fn mapping(protocol: u8, external: u16, vip: &str) -> Value {
    policy("PortMapping", json!({ "Protocol": protocol, "InternalPort": PORT, "ExternalPort": external, "VIP": vip }))
}

fn at(node: &Node, like: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(node.address_like(like.is_ipv4()), port)
}

/// Who answers over TCP and over UDP, and whom it sees.
fn both(from: &Place, to: SocketAddr) -> [(String, IpAddr); 2] {
    let met = [meet(from, to), meet_udp(from, to)];
    met.map(|met| met.map(|(name, seen)| (name, seen.ip())).unwrap_or_else(|error| panic!("{} asks {to}: {error}", from.name)))
}

fn is_refused(from: &Place, to: SocketAddr) -> bool {
    let tried = from.run(|| TcpStream::connect_timeout(&to, PATIENCE));
    tried.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// The mapped ports of a pod on the first node lead in from outside, from the node and from another pod, and other ports do not.
fn lead_in(world: &World, mapped: &Pod, client: &Pod) {
    let node = world.one();
    for outside in OUTSIDE {
        let to = at(node, outside, EXTERNAL);
        let seen = [(mapped.name.clone(), outside), (mapped.name.clone(), outside)];
        assert_eq!(both(&world.outside, to), seen, "the pod sees who asks");
        exchange(&world.outside, to, MEGABYTES);
        for (place, address) in [(&**node, to.ip()), (&**client, if outside.is_ipv4() { client.v4() } else { client.v6() })] {
            let answers = both(place, to);
            assert!(answers.iter().all(|(name, _)| *name == mapped.name), "{}: {answers:?}", place.name);
            assert!(place.name == node.name || answers.iter().all(|(_, seen)| *seen == address), "{}: {answers:?}", place.name);
            exchange(place, to, 1 << 20);
        }
        assert_eq!(meet(mapped, to).expect("the pod answers").0, mapped.name, "itself");
        for place in [&world.outside, &**node, &**client] {
            assert!(is_refused(place, at(node, outside, EXTERNAL + 1)), "another port is the node's");
            assert_eq!(meet(place, at(node, outside, PORT)).expect("the node answers").0, node.name, "the same port without a mapping");
        }
    }
}

#[test]
fn mapped_ports_lead_to_bridged_pods_from_everywhere() {
    run("port_mapping::mapped_ports_lead_to_bridged_pods_from_everywhere", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let mapped = routed_pod(world.one(), network, 11, &[mapping(TCP, EXTERNAL, ""), mapping(UDP, EXTERNAL, "")]);
        let client = routed_pod(world.one(), network, 12, &[]);
        lead_in(&world, &mapped, &client);
        let request = json!({ "ResourceType": "Policy", "RequestType": "Update", "Settings": { "Policies": [mapping(TCP, 9090, "")] } });
        world.one().modify_endpoint(mapped.endpoint, &request);
        for outside in OUTSIDE {
            for place in [&world.outside, &**world.one(), &*client] {
                assert!(is_refused(place, at(world.one(), outside, EXTERNAL)), "{}", place.name);
                assert_eq!(meet(place, at(world.one(), outside, 9090)).expect("the pod answers").0, mapped.name);
            }
        }
        world.one().client.delete(Kind::Endpoint, mapped.endpoint).expect("the endpoint goes");
        for place in [&world.outside, &**world.one(), &*client] {
            assert!(is_refused(place, at(world.one(), OUTSIDE[0], 9090)), "{}: the port is closed with its pod", place.name);
        }
    });
}

#[test]
fn mapped_ports_lead_to_pods_of_an_overlay_from_everywhere() {
    run("port_mapping::mapped_ports_lead_to_pods_of_an_overlay_from_everywhere", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let mapped = overlay.pod(world.one(), first, 11, &[mapping(TCP, EXTERNAL, ""), mapping(UDP, EXTERNAL, "")]);
        let client = overlay.pod(world.one(), first, 12, &[]);
        lead_in(&world, &mapped, &client);
        let far = overlay.pod(world.two(), second, 13, &[]);
        for outside in OUTSIDE {
            let to = at(world.one(), outside, EXTERNAL);
            assert!(both(world.two(), to).iter().all(|(name, _)| *name == mapped.name), "from another node");
            assert!(is_refused(&far, at(world.two(), outside, EXTERNAL)), "the other node has no such port");
        }
    });
}

#[test]
fn mapped_ports_lead_to_tunnelled_pods_from_outside() {
    run("port_mapping::mapped_ports_lead_to_tunnelled_pods_from_outside", || {
        let world = World::new(1);
        let node = world.one();
        let subnets = [subnet("192.168.0.0/24", "192.168.0.254"), subnet("fd00:99::/64", "fd00:99::fe")];
        let tunnelled = node.network(&network("tunnel", "L2Tunnel", &subnets, &[]));
        let mappings = [mapping(TCP, EXTERNAL, ""), mapping(UDP, EXTERNAL, "")];
        let document = endpoint("pod", &["192.168.0.101/24", "fd00:99::101/64"], &["192.168.0.254", "fd00:99::fe"], &mappings);
        let mapped = node.pod(tunnelled, &document);
        for outside in OUTSIDE {
            let seen = [(mapped.name.clone(), outside), (mapped.name.clone(), outside)];
            assert_eq!(both(&world.outside, at(node, outside, EXTERNAL)), seen);
            exchange(&world.outside, at(node, outside, EXTERNAL), MEGABYTES);
            assert!(is_refused(&world.outside, at(node, outside, EXTERNAL + 1)));
        }
    });
}

#[test]
fn a_mapping_at_an_address_is_at_no_other() {
    run("port_mapping::a_mapping_at_an_address_is_at_no_other", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        world.route_to(node, &["10.96.0.0/16", "fd00:96::/64"]);
        let vips = ["10.96.0.10", "fd00:96::10"];
        let mapped = routed_pod(node, network, 11, &vips.map(|vip| mapping(TCP, EXTERNAL, vip)));
        for (vip, outside) in vips.into_iter().zip(OUTSIDE) {
            let to = SocketAddr::new(vip.parse().expect("an address"), EXTERNAL);
            let (name, seen) = meet(&world.outside, to).expect("the pod answers");
            assert_eq!((name, seen.ip()), (mapped.name.clone(), outside));
            assert!(is_refused(&world.outside, at(node, outside, EXTERNAL)), "the node's own address");
        }
        let own = node.v4().to_string();
        let second = routed_pod(node, network, 12, &[mapping(TCP, 9090, &own)]);
        assert_eq!(meet(&world.outside, at(node, OUTSIDE[0], 9090)).expect("the pod answers").0, second.name);
        assert!(is_refused(&world.outside, at(node, OUTSIDE[1], 9090)), "the address of the other family");
    });
}

#[test]
fn a_port_that_somebody_has_is_refused() {
    run("port_mapping::a_port_that_somebody_has_is_refused", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let first = routed_pod(node, network, 11, &[mapping(TCP, EXTERNAL, "")]);
        let second = |network: hcn::Guid, mapping: Value| {
            let document = endpoint("second", &[], &[], &[mapping]);
            node.client.create(Kind::Endpoint, Some(network), None, &document.to_string())
        };
        let overlay = Overlay { v6: false, ..Overlay::default() }.on(node, 2);
        for (on, mapping) in [(network, mapping(TCP, EXTERNAL, "")), (overlay, mapping(TCP, EXTERNAL, ""))] {
            let refusal = second(on, mapping).expect_err("the port is taken");
            assert!(refusal.detail().field.as_deref().is_some_and(|field| field.ends_with("ExternalPort")), "{refusal}");
            assert!(refusal.to_string().contains(&first.endpoint.to_string()), "{refusal}");
        }
        let balancer = |port: u16| {
            json!({
                "SchemaVersion": { "Major": 2, "Minor": 0 }, "HostComputeEndpoints": [first.endpoint.to_string()],
                "PortMappings": [{ "Protocol": TCP, "InternalPort": PORT, "ExternalPort": port }],
            })
        };
        let refusal = node.client.create(Kind::LoadBalancer, None, None, &balancer(EXTERNAL).to_string()).expect_err("the port is taken");
        assert!(refusal.to_string().contains(&first.endpoint.to_string()), "{refusal}");
        let id = node.load_balancer(&balancer(9090));
        let refusal = second(network, mapping(TCP, 9090, "")).expect_err("the port is taken");
        assert!(refusal.to_string().contains(&id.to_string()), "{refusal}");
        second(network, mapping(UDP, EXTERNAL, "")).expect("another protocol");
        let mut elsewhere = balancer(EXTERNAL);
        elsewhere["FrontendVIPs"] = json!(["10.96.0.10"]);
        node.load_balancer(&elsewhere);
        assert_eq!(meet(&world.outside, at(node, OUTSIDE[0], EXTERNAL)).expect("the pod answers").0, first.name);
    });
}
