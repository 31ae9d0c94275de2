//! `NetworkACL`: what holds for every endpoint of a network.

use serde_json::{Value, json};

use crate::access::{acl, judge, node};
use crate::documents::policy;

fn network_acl(action: &str, direction: &str, mut fields: Value) -> Value {
    fields["Action"] = json!(action);
    fields["Direction"] = json!(direction);
    policy("NetworkACL", fields)
}

#[test]
fn it_holds_for_all_endpoints() {
    let of_network = json!([
        network_acl("Allow", "In", json!({"LocalPorts": "80", "Priority": 100})),
        network_acl("Block", "In", json!({"Protocols": "6", "Priority": 200})),
        network_acl("Block", "Out", json!({"RemoteAddresses": "10.1.0.4,fd10::4", "Protocols": "17"})),
    ]);
    judge(
        &mut node(of_network, json!([])),
        &[
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", true),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:81 @b", false),
            ("b", "tcp [fd10::3]:1 > [fd10::2]:80 @a", true),
            ("b", "tcp [fd10::3]:1 > [fd10::2]:81 @a", false),
            ("b", "udp 10.1.0.3:1 > 10.1.0.4:9 @c", false),
            ("a", "udp [fd10::2]:1 > [fd10::4]:9 @c", false),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:9 @b", true),
            ("b", "udp 10.1.0.3:9 > 10.1.0.2:1 @a", true),
        ],
    );
}

#[test]
fn the_network_and_the_endpoint_must_both_allow() {
    let of_network = json!([
        network_acl("Allow", "In", json!({"LocalPorts": "80-81", "Priority": 100})),
        network_acl("Block", "In", json!({"Priority": 200})),
    ]);
    let tier =
        policy("TierAcl", json!({"Direction": "In", "Order": 1, "TierAclRules": [{"TierAclRuleAction": "Allow", "LocalPorts": "90"}]}));
    let of_a = json!([
        tier,
        acl(json!({"Action": "Allow", "Direction": "In", "LocalPorts": "80,91", "Priority": 100})),
        acl(json!({"Action": "Block", "Direction": "In", "Priority": 200})),
    ]);
    node(of_network, of_a).check(&[
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", "a: b > a | 10.1.0.3:1 > 10.1.0.2:80"),
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:81 @a", "drop acl-block by acl/ACL/2"),
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:90 @a", "drop acl-block by acl/NetworkACL/2"),
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:91 @a", "drop acl-block by acl/NetworkACL/2"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:81 @b", "b: a > b | 10.1.0.2:1 > 10.1.0.3:81"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:90 @b", "drop acl-block by acl/NetworkACL/2"),
    ]);
}

#[test]
fn host_rules_are_in_the_firewall() {
    let of_network = json!([network_acl("Block", "Out", json!({"RuleType": "Host", "Protocols": "252"}))]);
    node(of_network, json!([])).check(&[
        ("a", "raw252 10.1.0.2 > 10.1.0.3 @b", "drop acl-block by firewall/NetworkACL/1"),
        ("a", "raw251 10.1.0.2 > 10.1.0.3 @b", "b: a > b | 10.1.0.2:0 > 10.1.0.3:0"),
    ]);
}
