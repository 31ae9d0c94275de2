//! `SetPolicy`: addresses under a name, wherever an access list can have an address.

use hns::compile::sets::Sets;
use serde_json::{Value, json};

use crate::access::{SUBNETS, a, acl, judge, node};
use crate::documents::{network, policy, read};

fn set(id: &str, values: &str) -> Value {
    policy("SetPolicy", json!({"Id": id, "Name": id, "PolicyType": "IPSET", "Values": values}))
}

fn nested(id: &str, values: &str) -> Value {
    policy("SetPolicy", json!({"Id": id, "Name": id, "PolicyType": "NESTEDIPSET", "Values": values}))
}

/// Blocks towards these addresses.
fn block(remote: &str) -> Value {
    acl(json!({"Action": "Block", "Direction": "Out", "RemoteAddresses": remote}))
}

const TO_B: &str = "udp 10.1.0.2:1 > 10.1.0.3:2 @b";
const TO_C: &str = "udp 10.1.0.2:1 > 10.1.0.4:2 @c";
const TO_B_V6: &str = "udp [fd10::2]:1 > [fd10::3]:2 @b";
const TO_C_V6: &str = "udp [fd10::2]:1 > [fd10::4]:2 @c";

#[test]
fn a_set_stands_for_its_addresses() {
    let sets = json!([set("friends", "10.1.0.3,fd10::3/128"), set("nobody", "")]);
    judge(
        &mut node(sets.clone(), json!([block("friends")])),
        &[("a", TO_B, false), ("a", TO_C, true), ("a", TO_B_V6, false), ("a", TO_C_V6, true)],
    );
    judge(&mut node(sets.clone(), json!([block("friends,10.1.0.4")])), &[("a", TO_B, false), ("a", TO_C, false), ("a", TO_C_V6, true)]);
    // An empty set holds nobody, which is not the same as no set.
    judge(&mut node(sets.clone(), json!([block("nobody")])), &[("a", TO_B, true), ("a", TO_C_V6, true)]);
    let local = acl(json!({"Action": "Block", "Direction": "In", "LocalAddresses": "me"}));
    let mine = json!([set("me", "10.1.0.2")]);
    judge(
        &mut node(mine, json!([local])),
        &[("b", "udp 10.1.0.3:1 > 10.1.0.2:2 @a", false), ("b", "udp [fd10::3]:1 > [fd10::2]:2 @a", true)],
    );
}

#[test]
fn tiers_and_networks_may_name_sets_too() {
    let tier = policy(
        "TierAcl",
        json!({"Direction": "Out", "Order": 1, "TierAclRules": [{"TierAclRuleAction": "Block", "RemoteAddresses": "s"}]}),
    );
    judge(&mut node(json!([set("s", "10.1.0.3")]), json!([tier])), &[("a", TO_B, false), ("a", TO_C, true)]);
    let of_network = policy("NetworkACL", json!({"Action": "Block", "Direction": "Out", "RemoteAddresses": "s"}));
    judge(&mut node(json!([of_network, set("s", "10.1.0.3")]), json!([])), &[("a", TO_B, false), ("a", TO_C, true)]);
}

#[test]
fn a_set_of_sets_holds_the_addresses_of_all() {
    let sets = json!([
        nested("all", "some,others"),
        nested("some", "one"),
        set("one", "10.1.0.3"),
        nested("others", "one,six"),
        set("six", "fd10::/64")
    ]);
    judge(&mut node(sets, json!([block("all")])), &[("a", TO_B, false), ("a", TO_C, true), ("a", TO_B_V6, false), ("a", TO_C_V6, false)]);
}

#[test]
fn a_change_of_a_set_changes_the_rules_that_name_it() {
    let sets = |values: &str| json!([nested("all", "s"), set("s", values)]);
    let mut node = node(sets("10.1.0.3"), json!([block("all")]));
    judge(&mut node, &[("a", TO_B, false), ("a", TO_C, true)]);
    node.network(&network("L2Bridge", "net", &SUBNETS, sets("10.1.0.4")));
    node.change_endpoint("net", &a(json!([block("all")])));
    judge(&mut node, &[("a", TO_B, true), ("a", TO_C, false), ("c", "udp 10.1.0.4:2 > 10.1.0.2:1 @a", true)]);
}

#[test]
fn a_chain_of_sets_may_be_long_and_a_circle_has_an_end() {
    let sets = |last: &str| -> Vec<hcn::policy::Policy> {
        let chain = (0..20_000).map(|number| nested(&format!("s{number}"), &format!("s{}", number + 1)));
        chain.chain([nested("s20000", last), set("end", "10.1.0.3")]).map(|document| read(&document)).collect()
    };
    let found = Sets::of(&sets("end")).unwrap();
    assert_eq!(found.get("s0").map(|prefixes| prefixes.len()), Some(1));
    let error = Sets::of(&sets("s19998")).unwrap_err();
    assert_eq!(error.field, "Values");
    assert!(error.cause.ends_with(": s19998 > s19999 > s20000 > s19998"), "{error}");
    assert!(Sets::of(&sets("nowhere")).unwrap_err().cause.contains("nowhere"));
}
