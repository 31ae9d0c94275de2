//! `TierAcl`: rules in tiers, each of which may leave a packet to the next.

use serde_json::{Value, json};

use crate::access::{acl, judge, node};
use crate::documents::policy;

fn tier(order: u16, direction: &str, rules: Value) -> Value {
    policy("TierAcl", json!({"Name": format!("tier-{order}"), "Direction": direction, "Order": order, "TierAclRules": rules}))
}

fn rule(action: &str, mut fields: Value) -> Value {
    fields["TierAclRuleAction"] = json!(action);
    fields
}

#[test]
fn tiers_decide_by_order_and_pass_ends_one_only() {
    // The order in the document is not the one that counts.
    let policies = json!([
        acl(json!({"Action": "Block", "Direction": "In", "Priority": 100, "LocalPorts": "80-89"})),
        tier(2000, "In", json!([rule("Block", json!({"LocalPorts": "81", "Priority": 1})), rule("Pass", json!({"Priority": 2}))])),
        tier(
            1000,
            "In",
            json!([
                rule("Allow", json!({"LocalPorts": "80", "RemoteAddresses": "10.1.0.3,fd10::3", "Priority": 10, "Id": "web"})),
                rule("Pass", json!({"LocalPorts": "80-89", "Priority": 20})),
                rule("Block", json!({"Priority": 30, "Id": "rest"})),
            ])
        ),
    ]);
    node(json!([]), policies).check(&[
        // Allowed by the first tier, whatever the ACL says.
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:80 @a", "a: b > a | 10.1.0.3:1 > 10.1.0.2:80"),
        ("b", "tcp [fd10::3]:1 > [fd10::2]:80 @a", "a: b > a | [fd10::3]:1 > [fd10::2]:80"),
        // Passed by both tiers, blocked by the ACL.
        ("c", "tcp 10.1.0.4:1 > 10.1.0.2:80 @a", "drop acl-block by acl/ACL/1"),
        // Passed by the first, blocked by the second.
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:81 @a", "drop acl-block by acl/TierAcl 2000 tier-2000/1"),
        // Blocked by the first.
        ("b", "tcp 10.1.0.3:1 > 10.1.0.2:90 @a", "drop acl-block by acl/TierAcl 1000 tier-1000/3 rest"),
        // Outwards there are no tiers.
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:90 @b", "b: a > b | 10.1.0.2:1 > 10.1.0.3:90"),
    ]);
}

#[test]
fn what_no_rule_of_a_tier_matches_goes_on() {
    let policies = json!([
        tier(1, "Out", json!([rule("Block", json!({"Protocols": "17", "RemotePorts": "53"}))])),
        tier(2, "Out", json!([])),
        tier(3, "Out", json!([rule("Allow", json!({"Protocols": "17"}))])),
        acl(json!({"Action": "Block", "Direction": "Out"})),
    ]);
    judge(
        &mut node(json!([]), policies),
        &[
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:53 @b", false),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:54 @b", true),
            ("a", "udp [fd10::2]:1 > [fd10::3]:54 @b", true),
            ("a", "tcp 10.1.0.2:1 > 10.1.0.3:54 @b", false),
            ("b", "udp 10.1.0.3:54 > 10.1.0.2:1 @a", true),
            ("b", "udp 10.1.0.3:9 > 10.1.0.2:9 @a", true),
        ],
    );
}

#[test]
fn every_field_of_a_rule() {
    let fields = json!({"Protocols": "6", "LocalAddresses": "10.1.0.2", "RemoteAddresses": "10.1.0.0/24", "LocalPorts": "1000-1001", "RemotePorts": "80"});
    judge(
        &mut node(json!([]), json!([tier(7, "Out", json!([rule("Block", fields)]))])),
        &[
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:80 @b", false),
            ("a", "tcp 10.1.0.2:1001 > 10.1.0.4:80 @c", false),
            ("a", "udp 10.1.0.2:1000 > 10.1.0.3:80 @b", true),
            ("a", "tcp 10.1.0.2:1002 > 10.1.0.3:80 @b", true),
            ("a", "tcp 10.1.0.2:1000 > 10.1.0.3:81 @b", true),
            ("a", "tcp 10.1.0.2:1000 > 192.0.2.20:80 @peer", true),
            ("a", "tcp [fd10::2]:1000 > [fd10::3]:80 @b", true),
        ],
    );
}

#[test]
fn of_one_priority_the_stricter_wins() {
    let rules = json!([
        rule("Allow", json!({"Protocols": "6", "Priority": 5})),
        rule("Pass", json!({"RemotePorts": "80-81", "Priority": 5})),
        rule("Block", json!({"RemotePorts": "81", "Priority": 5})),
    ]);
    let policies = json!([tier(1, "Out", rules), acl(json!({"Action": "Block", "Direction": "Out", "RemotePorts": "80"}))]);
    node(json!([]), policies).check(&[
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:80 @b", "drop acl-block by acl/ACL/1"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:81 @b", "drop acl-block by acl/TierAcl 1 tier-1/3"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.3:82 @b", "b: a > b | 10.1.0.2:1 > 10.1.0.3:82"),
    ]);
}
