//! `ACL`: which packets an endpoint may send and receive. Each field has packets that it is about, and some that it is not.

use hns::profile::Limit;
use serde_json::{Value, json};

use crate::access::{SUBNETS, a, acl, judge, node};
use crate::bench::Node;
use crate::documents::{endpoint, network, overlay};

/// Blocks by these fields, beyond `Action` and `Direction`.
fn block(direction: &str, mut fields: Value) -> Value {
    fields["Action"] = json!("Block");
    fields["Direction"] = json!(direction);
    acl(fields)
}

/// Allows by these fields.
fn allow(direction: &str, mut fields: Value) -> Value {
    fields["Action"] = json!("Allow");
    fields["Direction"] = json!(direction);
    acl(fields)
}

#[test]
fn the_verdict_names_the_rule() {
    let rules = json!([block("Out", json!({"RemotePorts": "80", "Id": "no-web"})), block("In", json!({"RuleType": "Host"}))]);
    node(json!([]), rules).check(&[
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", "drop acl-block by acl/ACL/1 no-web"),
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:81 @b", "b: a > b | 10.1.0.2:1000 > 10.1.0.3:81"),
        ("b", "tcp 10.1.0.3:1000 > 10.1.0.2:80 @a", "drop acl-block by firewall/ACL/1"),
    ]);
}

#[test]
fn direction() {
    for (direction, out, inward) in [("Out", false, true), ("In", true, false)] {
        judge(
            &mut node(json!([]), json!([block(direction, json!({}))])),
            &[
                ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", out),
                ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b", out),
                ("a", "echo 10.1.0.2 > 10.1.0.3 @b", out),
                ("b", "udp 10.1.0.3:7 > 10.1.0.2:8 @a", inward),
                ("b", "udp [fd10::3]:7 > [fd10::2]:8 @a", inward),
                ("uplink", "udp 192.0.2.20:7 > 10.1.0.2:8 as peer @host", inward),
                ("host", "udp [fd01::10]:7 > [fd10::2]:8 @a", inward),
                ("b", "udp 10.1.0.3:7 > 10.1.0.4:8 @c", true),
            ],
        );
    }
}

#[test]
fn protocols() {
    judge(
        &mut node(json!([]), json!([block("Out", json!({"Protocols": "6,1,58,252"}))])),
        &[
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:2 @b", false),
            ("a", "tcp [fd10::2]:1 > [fd10::3]:2 @b", false),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", true),
            ("a", "sctp 10.1.0.2:1 > 10.1.0.3:2 @b", true),
            ("a", "echo 10.1.0.2 > 10.1.0.3 @b", false),
            ("a", "echo fd10::2 > fd10::3 @b", false),
            ("a", "raw252 10.1.0.2 > 10.1.0.3 @b", false),
            ("a", "raw252 fd10::2 > fd10::3 @b", false),
            ("a", "raw253 10.1.0.2 > 10.1.0.3 @b", true),
            ("b", "raw252 10.1.0.3 > 10.1.0.2 @a", true),
        ],
    );
}

#[test]
fn addresses() {
    let rules = json!([block("Out", json!({"RemoteAddresses": "10.1.0.3,192.0.2.16/28,fd10::3,fd01::/64"}))]);
    judge(
        &mut node(json!([]), rules),
        &[
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", false),
            ("a", "udp 10.1.0.2:1 > 10.1.0.4:2 @c", true),
            ("a", "udp 10.1.0.2:1 > 192.0.2.20:2 @peer", false),
            ("a", "udp 10.1.0.2:1 > 192.0.2.33:2 @peer", true),
            ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b", false),
            ("a", "udp [fd10::2]:1 > [fd10::4]:2 @c", true),
            ("a", "udp [fd10::2]:1 > [fd01::20]:2 @peer", false),
        ],
    );
    judge(
        &mut node(json!([]), json!([block("In", json!({"RemoteAddresses": "10.1.0.3,fd10::3"}))])),
        &[
            ("b", "udp 10.1.0.3:1 > 10.1.0.2:2 @a", false),
            ("c", "udp 10.1.0.4:1 > 10.1.0.2:2 @a", true),
            ("b", "udp [fd10::3]:1 > [fd10::2]:2 @a", false),
            ("c", "udp [fd10::4]:1 > [fd10::2]:2 @a", true),
        ],
    );
}

#[test]
fn local_addresses() {
    judge(
        &mut node(
            json!([]),
            json!([block("Out", json!({"LocalAddresses": "10.1.0.2"})), block("In", json!({"LocalAddresses": "fd10::2"}))]),
        ),
        &[
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", false),
            ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b", true),
            ("b", "udp 10.1.0.3:7 > 10.1.0.2:8 @a", true),
            ("b", "udp [fd10::3]:7 > [fd10::2]:8 @a", false),
        ],
    );
    // Those of somebody else match nothing.
    judge(
        &mut node(json!([]), json!([block("Out", json!({"LocalAddresses": "10.1.0.3,fd10::3"}))])),
        &[("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", true), ("a", "udp [fd10::2]:1 > [fd10::3]:2 @b", true)],
    );
}

#[test]
fn ports() {
    let ports = "80,8080-8090";
    judge(
        &mut node(json!([]), json!([block("Out", json!({"RemotePorts": ports})), block("In", json!({"LocalPorts": ports}))])),
        &[
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", false),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:8080 @b", false),
            ("a", "sctp [fd10::2]:1 > [fd10::3]:8090 @b", false),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:79 @b", true),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:81 @b", true),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:8079 @b", true),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:8091 @b", true),
            ("a", "tcp 10.1.0.2:80 > 10.1.0.3:99 @b", true),
            ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", false),
            ("b", "udp [fd10::3]:1 > [fd10::2]:8085 @a", false),
            ("b", "udp [fd10::3]:8085 > [fd10::2]:1 @a", true),
        ],
    );
    judge(
        &mut node(json!([]), json!([block("Out", json!({"LocalPorts": ports})), block("In", json!({"RemotePorts": ports}))])),
        &[
            ("a", "tcp 10.1.0.2:80 > 10.1.0.3:1 @b", false),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", true),
            ("b", "udp [fd10::3]:8085 > [fd10::2]:1 @a", false),
            ("b", "udp [fd10::3]:1 > [fd10::2]:8085 @a", true),
        ],
    );
}

#[test]
fn a_rule_about_ports_is_not_about_what_has_none() {
    // 77 is the identifier of echo requests here, and stands where ports do.
    let rules = json!([block("Out", json!({"RemotePorts": "77"})), block("Out", json!({"Protocols": "1,6", "LocalPorts": "0-65535"}))]);
    judge(
        &mut node(json!([]), rules),
        &[
            ("a", "echo 10.1.0.2 > 10.1.0.3 @b", true),
            ("a", "raw252 10.1.0.2 > 10.1.0.3 @b", true),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:77 @b", false),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:78 @b", false),
        ],
    );
}

#[test]
fn all_fields_together() {
    let fields =
        json!({"Protocols": "6", "LocalAddresses": "10.1.0.2", "RemoteAddresses": "10.1.0.3", "LocalPorts": "1000", "RemotePorts": "80"});
    judge(
        &mut node(json!([]), json!([block("Out", fields)])),
        &[
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", false),
            ("a", "udp 10.1.0.2:1000 > 10.1.0.3:80 @b", true),
            ("a", "tcp 10.1.0.2:1001 > 10.1.0.3:80 @b", true),
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:81 @b", true),
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.4:80 @c", true),
        ],
    );
}

#[test]
fn a_lower_priority_is_looked_at_first_and_none_comes_last() {
    let rules = json!([
        block("In", json!({})),
        block("In", json!({"Priority": 300, "Protocols": "6"})),
        allow("In", json!({"Priority": 200, "Protocols": "6", "LocalPorts": "80"})),
        block("In", json!({"Priority": 100, "RemoteAddresses": "10.1.0.4"})),
        allow("In", json!({"Priority": 65535, "Protocols": "17"})),
    ]);
    judge(
        &mut node(json!([]), rules),
        &[
            ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", true),
            ("b", "tcp 10.1.0.3:1 > 10.1.0.2:81 @a", false),
            ("c", "tcp 10.1.0.4:1 > 10.1.0.2:80 @a", false),
            ("b", "udp 10.1.0.3:1 > 10.1.0.2:81 @a", false),
            ("b", "echo 10.1.0.3 > 10.1.0.2 @a", false),
        ],
    );
    let rules = json!([block("In", json!({})), allow("In", json!({"Priority": 65534, "Protocols": "17"}))]);
    judge(&mut node(json!([]), rules), &[("b", "udp 10.1.0.3:1 > 10.1.0.2:81 @a", true), ("b", "echo 10.1.0.3 > 10.1.0.2 @a", false)]);
}

#[test]
fn where_rules_of_one_priority_contradict_each_other_block_wins() {
    let (yes, no) = (json!({"Priority": 100, "Protocols": "6"}), json!({"Priority": 100, "RemotePorts": "80"}));
    for rules in [json!([allow("Out", yes.clone()), block("Out", no.clone())]), json!([block("Out", no), allow("Out", yes)])] {
        judge(
            &mut node(json!([]), rules),
            &[("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", false), ("a", "tcp 10.1.0.2:1 > 10.1.0.3:81 @b", true)],
        );
    }
}

#[test]
fn answers_to_what_was_allowed_pass() {
    let rules = json!([block("In", json!({}))]);
    judge(
        &mut node(json!([]), rules),
        &[
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", true),
            ("b", "ack 10.1.0.3:80 > 10.1.0.2:1000 @a", true),
            ("a", "udp [fd10::2]:1000 > [fd10::3]:53 @b", true),
            ("b", "udp [fd10::3]:53 > [fd10::2]:1000 @a", true),
            ("a", "echo 10.1.0.2 > 10.1.0.3 @b", true),
            ("b", "pong 10.1.0.3 > 10.1.0.2 @a", true),
            ("a", "udp 10.1.0.2:1000 > 192.0.2.20:53 @peer", true),
            ("uplink", "udp 192.0.2.20:53 > 10.1.0.2:1000 as peer @host", true),
            // Of those that nobody asked for, none do.
            ("b", "ack 10.1.0.3:80 > 10.1.0.2:1001 @a", false),
            ("b", "udp [fd10::3]:53 > [fd10::2]:1001 @a", false),
            ("b", "tcp 10.1.0.3:80 > 10.1.0.2:22 @a", false),
        ],
    );
    judge(
        &mut node(json!([]), json!([block("Out", json!({}))])),
        &[
            ("b", "tcp 10.1.0.3:1000 > 10.1.0.2:80 @a", true),
            ("a", "ack 10.1.0.2:80 > 10.1.0.3:1000 @b", true),
            ("a", "ack 10.1.0.2:81 > 10.1.0.3:1000 @b", false),
        ],
    );
}

#[test]
fn host_rules_and_switch_rules_must_both_allow() {
    let rules = json!([
        allow("In", json!({"RuleType": "Host", "LocalPorts": "80", "Priority": 100})),
        block("In", json!({"RuleType": "Host", "Priority": 200})),
        allow("In", json!({"RuleType": "Switch", "RemoteAddresses": "10.1.0.3", "Priority": 100})),
        block("In", json!({"RuleType": "Switch", "Priority": 200})),
    ]);
    node(json!([]), rules).check(&[
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", "a: b > a | 10.1.0.3:1 > 10.1.0.2:80"),
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:81 @a", "drop acl-block by firewall/ACL/2"),
        ("c", "tcp 10.1.0.4:1 > 10.1.0.2:80 @a", "drop acl-block by acl/ACL/2"),
    ]);
}

#[test]
fn pass_leaves_a_packet_to_what_holds_without_rules() {
    let pass = acl(json!({"Action": "Pass", "Direction": "In", "Protocols": "132", "Priority": 100}));
    let rules = json!([pass, block("In", json!({"Priority": 200}))]);
    judge(
        &mut node(json!([]), rules.clone()),
        &[("b", "sctp 10.1.0.3:1 > 10.1.0.2:2 @a", true), ("b", "udp 10.1.0.3:1 > 10.1.0.2:2 @a", false)],
    );
    let mut windows = Node::limited(&[Limit::InwardProtocols]);
    windows.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
    windows.endpoint("net", &a(rules));
    windows.check(&[("host", "sctp 192.0.2.10:1 > 10.1.0.2:2 @a", "drop acl-block by acl/default/other protocols")]);
}

#[test]
fn without_rules_everything_passes_and_under_a_windows_build_only_the_usual_protocols_do() {
    let mut windows = Node::limited(&[Limit::InwardProtocols]);
    windows.network(&network("L2Bridge", "net", &SUBNETS, json!([])));
    windows.endpoint("net", &a(json!([])));
    windows.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([allow("In", json!({"Protocols": "132"}))])));
    for (mut node, others) in [(node(json!([]), json!([])), true), (windows, false)] {
        judge(
            &mut node,
            &[
                ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", true),
                ("b", "udp [fd10::3]:1 > [fd10::2]:80 @a", true),
                ("b", "echo 10.1.0.3 > 10.1.0.2 @a", true),
                ("b", "echo fd10::3 > fd10::2 @a", true),
                ("b", "raw2 10.1.0.3 > 10.1.0.2 @a", true),
                ("b", "raw47 10.1.0.3 > 10.1.0.2 @a", others),
                ("b", "sctp [fd10::3]:1 > [fd10::2]:2 @a", others),
                // Outwards nothing is blocked, answers pass, and an ACL allows more.
                ("a", "raw50 10.1.0.2 > 192.0.2.20 @peer", true),
                ("uplink", "raw50 192.0.2.20 > 10.1.0.2 as peer @host", true),
                ("a", "sctp 10.1.0.2:1 > 10.1.0.3:2 @b", true),
            ],
        );
    }
}

#[test]
fn neighbours_are_found_whatever_is_blocked() {
    let everything = json!([block("In", json!({})), block("Out", json!({})), block("Out", json!({"RuleType": "Host"}))]);
    node(json!([]), everything).check(&[
        ("a", "who 10.1.0.3 tell 10.1.0.2", "is at b"),
        ("a", "who fd10::3 tell fd10::2", "is at b"),
        ("b", "who 10.1.0.2 tell 10.1.0.3", "is at a"),
        ("uplink", "who 10.1.0.2 tell 192.0.2.20 as peer", "is at host"),
    ]);
}

#[test]
fn frames_that_are_not_ip_are_no_business_of_access_lists() {
    let mut node = Node::new();
    node.network(&network("Transparent", "net", &SUBNETS, json!([])));
    node.endpoint("net", &a(json!([block("In", json!({})), block("Out", json!({}))])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3"], json!([])));
    node.check(&[
        ("a", "other @b", "b: a > b | other"),
        ("b", "other @a", "a: b > a | other"),
        ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 @b", "drop acl-block by acl/ACL/1"),
        ("b", "udp 10.1.0.3:1 > 10.1.0.2:2 @a", "drop acl-block by acl/ACL/1"),
    ]);
}

#[test]
fn on_networks_of_every_type() {
    for network_type in ["L2Bridge", "L2Tunnel", "Overlay", "Transparent", "NAT", "Internal", "Private"] {
        let mut node = Node::new();
        node.network(&match network_type {
            "Overlay" => overlay("net", 5000, &SUBNETS, json!([])),
            other => network(other, "net", &SUBNETS, json!([])),
        });
        node.endpoint("net", &a(json!([block("Out", json!({"RemotePorts": "80"})), block("In", json!({"LocalPorts": "80"}))])));
        node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
        for (four, six) in [("10.1.0.2:1", "10.1.0.3"), ("[fd10::2]:1", "[fd10::3]")] {
            assert!(node.send("a", &format!("tcp {four} > {six}:80 @b")).starts_with("drop acl-block by acl/ACL/1"), "{network_type}");
            assert!(!node.send("a", &format!("tcp {four} > {six}:81 @b")).starts_with("drop"), "{network_type}");
        }
        let (from, own) = match network_type {
            "L2Tunnel" => ("uplink", "as peer @host"),
            _ => ("b", "@a"),
        };
        assert!(node.send(from, &format!("tcp 10.1.0.3:1 > 10.1.0.2:80 {own}")).starts_with("drop acl-block"), "{network_type}");
        assert!(!node.send(from, &format!("tcp 10.1.0.3:1 > 10.1.0.2:81 {own}")).starts_with("drop"), "{network_type}");
    }
}

#[test]
fn a_change_of_one_rule_leaves_connections_alone_that_are_still_allowed() {
    let rules =
        |blocked: &str| json!([block("Out", json!({"RemotePorts": blocked, "Priority": 100})), block("In", json!({"Priority": 200}))]);
    let mut node = node(json!([]), rules("1"));
    let open = [("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", true), ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:81 @b", true)];
    judge(&mut node, &open);
    node.change_endpoint("net", &a(rules("81")));
    judge(
        &mut node,
        &[
            ("b", "ack 10.1.0.3:80 > 10.1.0.2:1000 @a", true),
            ("a", "ack 10.1.0.2:1000 > 10.1.0.3:80 @b", true),
            ("a", "ack 10.1.0.2:1000 > 10.1.0.3:81 @b", false),
            ("b", "ack 10.1.0.3:81 > 10.1.0.2:1000 @a", false),
        ],
    );
    let counters = node.switch.counters();
    assert_eq!((counters.connections_made, counters.connections_revoked), (2, 1));
}

#[test]
fn answers_that_come_back_past_the_node_are_answers() {
    // The node routes what leaves; what comes back is led from the wire to the endpoint at once.
    for (own, theirs) in [("10.1.0.2", "198.51.100.7"), ("[fd10::2]", "[2001:db8::7]")] {
        let mut node = node(json!([]), json!([block("In", json!({ "Priority": 200 })), allow("Out", json!({}))]));
        let answer = |port: u16| format!("ack {theirs}:443 > {own}:{port} as gw @host");
        judge(
            &mut node,
            &[
                ("uplink", &answer(1000), false),
                ("a", &format!("tcp {own}:1000 > {theirs}:443 @host"), true),
                ("uplink", &answer(1000), false),
                ("host", &format!("tcp {own}:1000 > {theirs}:443 @gw"), true),
                ("uplink", &answer(1000), true),
                ("uplink", &answer(1000), true),
                ("uplink", &answer(1001), false),
            ],
        );
        node.change_endpoint("net", &a(json!([block("In", json!({})), block("Out", json!({ "RemotePorts": "443" }))])));
        judge(&mut node, &[("uplink", &answer(1000), false)]);
    }
}
