//! `L4Proxy`: connections of pods are led to a proxy, which is a pod as well.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::policy;
use crate::harness::probe::{meet, meet_udp};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, Pod, World, exchange, pings, run};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A port at which nobody listens: whoever answers there was led to.
const ELSEWHERE: u16 = 8443;

fn pair(pod: &Pod) -> [IpAddr; 2] {
    [pod.v4(), pod.v6()]
}

/// Policies that lead to a proxy, one of each family.
fn to_proxy(proxy: &Pod, protocol: u8, exceptions: &[IpAddr], outbound_nat: bool) -> Vec<Value> {
    let of = |address: IpAddr| {
        let exceptions: Vec<String> = exceptions.iter().map(ToString::to_string).collect();
        let settings = json!({
            "IP": address.to_string(), "Port": PORT.to_string(), "Protocol": protocol, "Destination": "",
            "Exceptions": exceptions, "OutboundNAT": outbound_nat,
        });
        policy("L4Proxy", settings)
    };
    pair(proxy).map(of).to_vec()
}

fn update(node: &Node, kind: Kind, id: Guid, how: &str, policies: &[Value]) {
    let request = json!({ "ResourceType": "Policy", "RequestType": how, "Settings": { "Policies": policies } });
    node.client.modify(kind, id, &request.to_string()).unwrap_or_else(|error| panic!("{request}: {error}"));
}

/// Who answers over TCP, and as whom it sees the client.
fn met(from: &Place, to: IpAddr, port: u16) -> (String, IpAddr) {
    let (name, seen) = meet(from, SocketAddr::new(to, port)).unwrap_or_else(|error| panic!("{} asks {to} {port}: {error}", from.name));
    (name, seen.ip())
}

/// Who answers over UDP, and as whom it sees the client.
fn met_udp(from: &Place, to: IpAddr) -> (String, IpAddr) {
    let (name, seen) = meet_udp(from, SocketAddr::new(to, PORT)).unwrap_or_else(|error| panic!("{} asks {to}: {error}", from.name));
    (name, seen.ip())
}

fn is_refused(from: &Place, to: IpAddr, port: u16) -> bool {
    meet(from, SocketAddr::new(to, port)).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Four pods of one node: a client, a proxy, a server, and one that is reached directly.
fn four(world: &World) -> (Guid, [Pod; 4]) {
    let network = routed(world, world.one());
    (network, [11, 12, 13, 14].map(|number| routed_pod(world.one(), network, number, &[])))
}

#[test]
fn connections_are_led_to_the_proxy_and_exceptions_are_reached_directly() {
    run("proxy::connections_are_led_to_the_proxy_and_exceptions_are_reached_directly", || {
        let world = World::new(1);
        let (_, [client, proxy, server, direct]) = four(&world);
        for outbound_nat in [false, true] {
            update(world.one(), Kind::Endpoint, client.endpoint, "Update", &to_proxy(&proxy, TCP, &pair(&direct), outbound_nat));
            for (at, own) in pair(&client).into_iter().enumerate() {
                let node = world.one().address_like(own.is_ipv4());
                let seen = if outbound_nat { node } else { own };
                for (to, port) in [(pair(&server)[at], PORT), (pair(&server)[at], ELSEWHERE), (OUTSIDE[at], PORT), (OUTSIDE[at], ELSEWHERE)]
                {
                    assert_eq!(met(&client, to, port), (proxy.name.clone(), seen), "{to} {port}");
                }
                assert_eq!(exchange(&client, SocketAddr::new(OUTSIDE[at], ELSEWHERE), 4 << 20).ip(), seen);
                assert_eq!(met(&client, pair(&direct)[at], PORT), (direct.name.clone(), own));
                assert!(is_refused(&client, pair(&direct)[at], ELSEWHERE), "an exception is reached directly at every port");
                assert_eq!(met_udp(&client, pair(&server)[at]), (server.name.clone(), own));
                pings(&client, pair(&server)[at]);
                assert_eq!(met(&client, pair(&proxy)[at], PORT), (proxy.name.clone(), own), "the proxy itself");
                assert_eq!(met(&client, node, PORT).0, world.one().name, "the node");
                assert_eq!(met(&server, pair(&direct)[at], PORT), (direct.name.clone(), pair(&server)[at]), "another pod");
            }
        }
        update(world.one(), Kind::Endpoint, client.endpoint, "Update", &[]);
        for (own, to) in pair(&client).into_iter().zip(pair(&server)) {
            assert_eq!(met(&client, to, PORT), (server.name.clone(), own));
            assert!(is_refused(&client, to, ELSEWHERE));
        }
    });
}

#[test]
fn datagrams_are_led_where_the_policy_is_about_them() {
    run("proxy::datagrams_are_led_where_the_policy_is_about_them", || {
        let world = World::new(1);
        let (_, [client, proxy, server, direct]) = four(&world);
        update(world.one(), Kind::Endpoint, client.endpoint, "Update", &to_proxy(&proxy, UDP, &pair(&direct), false));
        for (at, own) in pair(&client).into_iter().enumerate() {
            assert_eq!(met_udp(&client, pair(&server)[at]), (proxy.name.clone(), own));
            assert_eq!(met_udp(&client, pair(&direct)[at]), (direct.name.clone(), own));
            assert_eq!(met(&client, pair(&server)[at], PORT), (server.name.clone(), own));
        }
    });
}

#[test]
fn only_the_destination_is_led_away() {
    run("proxy::only_the_destination_is_led_away", || {
        let world = World::new(1);
        let (_, [client, proxy, server, direct]) = four(&world);
        let mut policies = to_proxy(&proxy, TCP, &[], false);
        for (policy, destination) in policies.iter_mut().zip(pair(&server)) {
            policy["Settings"]["Destination"] = json!(destination.to_string());
        }
        update(world.one(), Kind::Endpoint, client.endpoint, "Update", &policies);
        for (at, outside) in OUTSIDE.into_iter().enumerate() {
            assert_eq!(met(&client, pair(&server)[at], ELSEWHERE).0, proxy.name);
            assert_eq!(met(&client, pair(&direct)[at], PORT).0, direct.name);
            assert_eq!(met(&client, outside, PORT).0, world.outside.name);
        }
    });
}

#[test]
fn a_network_leads_all_of_its_pods_but_the_proxy() {
    run("proxy::a_network_leads_all_of_its_pods_but_the_proxy", || {
        let world = World::new(1);
        let (network, [client, proxy, server, direct]) = four(&world);
        let policies = to_proxy(&proxy, TCP, &pair(&direct), false);
        update(world.one(), Kind::Network, network, "Add", &policies);
        for (at, own) in pair(&client).into_iter().enumerate() {
            assert_eq!(met(&client, pair(&server)[at], ELSEWHERE), (proxy.name.clone(), own));
            assert_eq!(met(&server, OUTSIDE[at], ELSEWHERE), (proxy.name.clone(), pair(&server)[at]));
            assert_eq!(met(&client, pair(&direct)[at], PORT), (direct.name.clone(), own));
            assert_eq!(met_udp(&client, pair(&server)[at]), (server.name.clone(), own));
            assert_eq!(met(&proxy, pair(&server)[at], PORT), (server.name.clone(), pair(&proxy)[at]), "what the proxy itself asks for");
        }
        let late = routed_pod(world.one(), network, 15, &[]);
        assert_eq!(met(&late, server.v4(), ELSEWHERE).0, proxy.name);
        update(world.one(), Kind::Network, network, "Remove", &policies);
        for at in 0..2 {
            assert_eq!(met(&client, pair(&server)[at], PORT).0, server.name);
            assert!(is_refused(&client, pair(&server)[at], ELSEWHERE));
        }
    });
}

#[test]
fn on_an_overlay_as_well() {
    run("proxy::on_an_overlay_as_well", || {
        let world = World::new(2);
        let overlay = Overlay::default();
        let [first, second] = overlay.on_both(&world);
        let [client, proxy, direct] = [11, 12, 13].map(|number| overlay.pod(world.one(), first, number, &[]));
        let far = overlay.pod(world.two(), second, 14, &[]);
        update(world.one(), Kind::Endpoint, client.endpoint, "Update", &to_proxy(&proxy, TCP, &pair(&direct), false));
        for (at, own) in pair(&client).into_iter().enumerate() {
            assert_eq!(met(&client, pair(&far)[at], ELSEWHERE), (proxy.name.clone(), own));
            assert_eq!(met(&client, pair(&direct)[at], PORT), (direct.name.clone(), own));
            assert_eq!(met_udp(&client, pair(&far)[at]), (far.name.clone(), own));
            assert_eq!(met(&proxy, pair(&far)[at], PORT), (far.name.clone(), pair(&proxy)[at]));
        }
    });
}
