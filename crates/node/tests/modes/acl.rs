//! Access lists with real sockets: what is blocked is not reached, what is allowed is, and a change leaves what is still allowed alone.

use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::policy;
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{MOMENT, Node, Pod, World, eventually, pings, probe, refused, run, tcp, udp};
use crate::l2bridge::{routed, routed_pod};

/// What is sent over a connection that is watched: too little to be noticed by time.
const BYTES: usize = 64 << 10;

pub(crate) fn acl(action: &str, direction: &str, mut fields: Value) -> Value {
    fields["Action"] = json!(action);
    fields["Direction"] = json!(direction);
    policy("ACL", fields)
}

/// All addresses of some pods, as a list.
fn addresses(pods: &[&Pod]) -> String {
    pods.iter().flat_map(|pod| [pod.v4().to_string(), pod.v6().to_string()]).collect::<Vec<_>>().join(",")
}

fn change(node: &Node, kind: Kind, id: Guid, how: &str, policies: &[Value]) {
    let request = json!({ "ResourceType": "Policy", "RequestType": how, "Settings": { "Policies": policies } });
    node.client.modify(kind, id, &request.to_string()).unwrap_or_else(|error| panic!("{how} {policies:?}: {error}"));
}

pub(crate) fn change_pod(node: &Node, pod: &Pod, policies: &[Value]) {
    change(node, Kind::Endpoint, pod.endpoint, "Update", policies);
}

/// Three pods of one node, and their network.
fn three(world: &World) -> (Guid, [Pod; 3]) {
    let network = routed(world, world.one());
    (network, [11, 12, 13].map(|number| routed_pod(world.one(), network, number, &[])))
}

#[test]
fn a_port_that_is_blocked_is_not_reached_and_all_else_is() {
    run("acl::a_port_that_is_blocked_is_not_reached_and_all_else_is", || {
        let world = World::new(1);
        let (_, [one, two, _]) = three(&world);
        change_pod(world.one(), &one, &[acl("Block", "In", json!({ "Protocols": "6", "LocalPorts": format!("{PORT}"), "Priority": 100 }))]);
        for (own, other) in [(one.v4(), two.v4()), (one.v6(), two.v6())] {
            assert!(refused(&two, own) && refused(world.one(), own));
            udp(&two, own, 1000);
            pings(&two, own);
            tcp(&one, other);
        }
        assert!(world.one().drops("pod1-12", "acl-block") > 0);
        change_pod(world.one(), &one, &[]);
        tcp(&two, one.v4());
    });
}

#[test]
fn only_one_peer_is_allowed_in_and_answers_to_the_pod_pass() {
    run("acl::only_one_peer_is_allowed_in_and_answers_to_the_pod_pass", || {
        let world = World::new(1);
        let (_, [one, two, other]) = three(&world);
        let friends = json!({ "RemoteAddresses": addresses(&[&two]), "Priority": 100 });
        change_pod(world.one(), &one, &[acl("Allow", "In", friends), acl("Block", "In", json!({ "Priority": 200 }))]);
        for (own, of_other) in [(one.v4(), other.v4()), (one.v6(), other.v6())] {
            tcp(&two, own);
            assert!(refused(&other, own) && refused(world.one(), own));
            tcp(&one, of_other);
            udp(&one, of_other, 9000);
            pings(&one, of_other);
        }
        for node in [world.one().v4(), world.one().v6()] {
            tcp(&one, node);
        }
    });
}

#[test]
fn a_tier_decides_before_the_lists_and_passes_on() {
    run("acl::a_tier_decides_before_the_lists_and_passes_on", || {
        let world = World::new(1);
        let (_, [one, two, other]) = three(&world);
        let rules = json!([
            { "TierAclRuleAction": "Allow", "RemoteAddresses": addresses(&[&two]), "Priority": 1 },
            { "TierAclRuleAction": "Pass", "Protocols": "17", "Priority": 2 },
            { "TierAclRuleAction": "Block", "Priority": 3 },
        ]);
        let tier = policy("TierAcl", json!({ "Name": "first", "Direction": "In", "Order": 1, "TierAclRules": rules }));
        let list = acl("Block", "In", json!({ "Protocols": "6,17", "RemoteAddresses": addresses(&[&two]), "Priority": 100 }));
        change_pod(world.one(), &one, &[tier, list]);
        for own in [one.v4(), one.v6()] {
            tcp(&two, own);
            udp(&other, own, 1000);
            assert!(refused(&other, own));
        }
    });
}

/// The service at an address, over UDP.
fn socket_to(from: &Pod, to: IpAddr) -> UdpSocket {
    let socket = from.run(|| probe::socket_like(SocketAddr::new(to, PORT))).expect("a socket");
    socket.set_read_timeout(Some(MOMENT)).expect("a timeout");
    socket
}

/// Whether the service answers on a socket within a moment.
fn answers_on(socket: &UdpSocket) -> bool {
    socket.send(b"still there?").is_ok() && socket.recv(&mut [0; 1 << 10]).is_ok()
}

#[test]
fn a_set_that_changes_lets_others_in_and_leaves_connections_alone_that_are_still_allowed() {
    run("acl::a_set_that_changes_lets_others_in_and_leaves_connections_alone_that_are_still_allowed", || {
        let world = World::new(1);
        let node = world.one();
        let (network, [one, two, other]) = three(&world);
        let set = |pods: &[&Pod]| {
            policy("SetPolicy", json!({ "Id": "friends", "Name": "friends", "PolicyType": "IPSET", "Values": addresses(pods) }))
        };
        change(node, Kind::Network, network, "Add", &[set(&[&two])]);
        let friends = json!({ "RemoteAddresses": "friends", "Priority": 100 });
        change_pod(node, &one, &[acl("Allow", "In", friends), acl("Block", "In", json!({ "Priority": 200 }))]);
        for own in [one.v4(), one.v6()] {
            change(node, Kind::Network, network, "Update", &[set(&[&two])]);
            let open: TcpStream = two.run(|| TcpStream::connect(SocketAddr::new(own, PORT))).expect("a connection");
            let socket = socket_to(&two, own);
            eventually("the service answers", || answers_on(&socket));
            assert!(refused(&other, own));

            change(node, Kind::Network, network, "Update", &[set(&[&two, &other])]);
            tcp(&other, own);
            probe::talk(open, BYTES, BYTES).expect("the connection is still open");
            assert!(answers_on(&socket));

            change(node, Kind::Network, network, "Update", &[set(&[&other])]);
            assert!(!answers_on(&socket), "what is no longer allowed ends, although it was open");
            assert!(refused(&two, own));
            tcp(&other, own);
        }
        let request = json!({ "ResourceType": "Policy", "RequestType": "Remove", "Settings": { "Policies": [set(&[&other])] } });
        let refusal = node.client.modify(Kind::Network, network, &request.to_string()).expect_err("it is in use").to_string();
        assert!(refusal.contains("friends") && refusal.contains("pod1-11"), "{refusal}");
    });
}

#[test]
fn a_network_says_what_no_pod_may() {
    run("acl::a_network_says_what_no_pod_may", || {
        let world = World::new(1);
        let (network, [one, two, other]) = three(&world);
        change_pod(world.one(), &one, &[acl("Allow", "In", json!({ "Priority": 1 }))]);
        let list = policy(
            "NetworkACL",
            json!({ "Action": "Block", "Direction": "In", "Protocols": "6", "LocalPorts": format!("{PORT}"), "Priority": 100 }),
        );
        change(world.one(), Kind::Network, network, "Add", std::slice::from_ref(&list));
        for (own, of_two) in [(one.v4(), two.v4()), (one.v6(), two.v6())] {
            assert!(refused(&two, own) && refused(&one, of_two) && refused(&other, of_two));
            udp(&two, own, 1000);
            tcp(&two, world.one().address_like(own.is_ipv4()));
        }
        change(world.one(), Kind::Network, network, "Remove", &[list]);
        for own in [one.v4(), one.v6()] {
            tcp(&two, own);
        }
    });
}

#[test]
fn answers_that_come_past_the_node_pass_a_list_that_lets_nothing_in() {
    run("acl::answers_that_come_past_the_node_pass_a_list_that_lets_nothing_in", || {
        let world = World::new(1);
        let (_, [one, two, _]) = three(&world);
        change_pod(world.one(), &one, &[acl("Block", "In", json!({ "Priority": 200 }))]);
        for (own, outside) in [(one.v4(), OUTSIDE[0]), (one.v6(), OUTSIDE[1])] {
            assert!(refused(&world.outside, own) && refused(&two, own) && refused(world.one(), own));
            // The node routes what the pod sends, and what comes back goes from the wire to the pod.
            assert_eq!(tcp(&one, outside).ip(), own);
            assert_eq!(udp(&one, outside, 9000).ip(), own);
            pings(&one, outside);
            let open = one.run(|| TcpStream::connect(SocketAddr::new(outside, PORT))).expect("a connection");
            change_pod(world.one(), &one, &[acl("Block", "In", json!({ "Priority": 201 }))]);
            probe::talk(open, BYTES, BYTES).expect("the connection is still open");
            assert!(refused(&world.outside, own));
        }
        assert!(world.one().drops("eth0", "acl-block") > 0);
    });
}

#[test]
fn five_hundred_rules_are_applied_in_a_moment() {
    run("acl::five_hundred_rules_are_applied_in_a_moment", || {
        let world = World::new(1);
        let (_, [one, two, _]) = three(&world);
        let rule = |number: u16| {
            let fields = json!({ "Protocols": "6", "RemoteAddresses": format!("10.{}.0.0/16,fd00:{number:x}::/32", number % 200), "LocalPorts": format!("{}", number + 1), "Priority": 1000 + number });
            acl(if number.is_multiple_of(2) { "Allow" } else { "Block" }, "In", fields)
        };
        let rules: Vec<Value> = (0..500).map(rule).collect();
        let start = Instant::now();
        change_pod(world.one(), &one, &rules);
        let elapsed = start.elapsed();
        println!("500 rules took {elapsed:?}");
        // Builds without optimisation, on a machine that other tests keep busy, are no measure.
        let most = if cfg!(debug_assertions) { Duration::from_secs(2) } else { Duration::from_millis(100) };
        assert!(elapsed < most, "{elapsed:?}");
        tcp(&two, one.v4());
    });
}
