//! Access lists and sets as documents: what is refused, by which name, and that nothing is stored of it.

mod common;
mod moving;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::*;
use hcn::{Guid, Hcn, Kind};
use moving::Moving;
use serde_json::{Value, json};

fn change(hcn: &dyn Hcn, kind: Kind, id: Guid, how: &str, policies: &Value) -> hcn::Result<()> {
    hcn.modify(kind, id, &request("Policy", how, json!({"Policies": policies})))
}

fn policy(policy_type: &str, settings: Value) -> Value {
    json!({"Type": policy_type, "Settings": settings})
}

fn acl(mut fields: Value) -> Value {
    fields["Action"] = json!("Allow");
    fields["Direction"] = json!("In");
    policy("ACL", fields)
}

fn set(id: &str, values: &str) -> Value {
    policy("SetPolicy", json!({"Id": id, "Name": id, "PolicyType": "IPSET", "Values": values}))
}

fn nested(id: &str, values: &str) -> Value {
    policy("SetPolicy", json!({"Id": id, "Name": id, "PolicyType": "NESTEDIPSET", "Values": values}))
}

fn tier(name: &str, direction: &str, order: u16, rules: Value) -> Value {
    policy("TierAcl", json!({"Name": name, "Direction": direction, "Order": order, "TierAclRules": rules}))
}

/// Tries something that must be refused with an error about a field. The cause must have this text in it, and nothing may change.
#[track_caller]
fn refused(hcn: &dyn Hcn, field: &str, cause: &str, attempt: impl FnOnce() -> hcn::Result<()>) {
    let everything = || -> Vec<Value> {
        let ids = |kind: Kind| hcn.enumerate(kind, "").unwrap().into_iter().map(move |id| (kind, id));
        [Kind::Network, Kind::Endpoint].into_iter().flat_map(ids).map(|(kind, id)| show(hcn, kind, id)).collect()
    };
    let before = everything();
    let error = attempt().expect_err(field);
    let detail = error.detail();
    assert!(detail.field.as_deref().is_some_and(|found| found.ends_with(field)), "{field}: {error:?}");
    assert!(detail.cause.contains(cause), "{cause:?}: {error:?}");
    assert!(detail.remedy.as_deref().is_some_and(|remedy| !remedy.is_empty()), "{field}: {error:?}");
    assert_eq!(everything(), before, "{field} changed something");
}

#[test]
fn fields_that_cannot_be_read_or_can_match_nothing() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let table = [
        (json!({"Protocols": "6,seventeen"}), "Protocols", "seventeen"),
        (json!({"Protocols": "256"}), "Protocols", "256"),
        (json!({"LocalAddresses": "10.0.0.0/33"}), "LocalAddresses", "10.0.0.0/33"),
        (json!({"RemoteAddresses": "10.0.0.1,Any"}), "RemoteAddresses", "Any"),
        (json!({"RemoteAddresses": "no-such-set"}), "RemoteAddresses", "no-such-set"),
        (json!({"LocalPorts": "80,http"}), "LocalPorts", "http"),
        (json!({"LocalPorts": "8090-8080"}), "LocalPorts", "8090-8080"),
        (json!({"RemotePorts": "65536"}), "RemotePorts", "65536"),
        (json!({"RemotePorts": "1-2-3"}), "RemotePorts", "1-2-3"),
        (json!({"RemotePorts": "-80"}), "RemotePorts", "-80"),
        (json!({"Protocols": "1,252", "LocalPorts": "80"}), "LocalPorts", "none has ports"),
        (json!({"LocalAddresses": "10.0.0.0/8", "RemoteAddresses": "fd00::1,fd00::2"}), "RemoteAddresses", "families"),
        (json!({"RuleType": "Router"}), "RuleType", ""),
        (json!({"Priority": 70_000}), "Priority", ""),
        (json!({"Priority": "high"}), "Priority", ""),
    ];
    for (fields, field, cause) in table {
        for how in ["Add", "Update"] {
            refused(&hcn, field, cause, || change(&hcn, Kind::Endpoint, pod, how, &json!([acl(json!({})), acl(fields.clone())])));
        }
        let mut rule = fields.clone();
        if rule.get("RuleType").is_none() {
            rule["TierAclRuleAction"] = json!("Pass");
            let document = tier("t", "In", 1, json!([{"TierAclRuleAction": "Allow"}, rule]));
            refused(&hcn, field, cause, || change(&hcn, Kind::Endpoint, pod, "Add", &json!([document])));
        }
        let mut of_network = acl(fields);
        of_network["Type"] = json!("NetworkACL");
        refused(&hcn, field, cause, || change(&hcn, Kind::Network, net, "Add", &json!([of_network])));
    }
    refused(&hcn, "Action", "missing", || change(&hcn, Kind::Endpoint, pod, "Add", &json!([policy("ACL", json!({"Direction": "In"}))])));
    refused(&hcn, "Direction", "missing", || change(&hcn, Kind::Endpoint, pod, "Add", &json!([policy("ACL", json!({"Action": "Pass"}))])));
    let document = tier("t", "In", 1, json!([{"TierAclRuleAction": "Defer"}]));
    refused(&hcn, "TierAclRules[0].TierAclRuleAction", "", || change(&hcn, Kind::Endpoint, pod, "Add", &json!([document])));
}

#[test]
fn both_families_may_stand_in_one_list() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let fields = json!({"LocalAddresses": "10.0.0.0/8,fd00::/8", "RemoteAddresses": "fd00::1", "Protocols": "tcp,UDP", "LocalPorts": " 80 , 90-91 "});
    change(&hcn, Kind::Endpoint, pod, "Add", &json!([acl(fields)])).unwrap();
    let shown = &policies(&show(&hcn, Kind::Endpoint, pod), "ACL")[0]["Settings"];
    assert_eq!((&shown["Protocols"], &shown["LocalPorts"]), (&json!("6,17"), &json!("80,90-91")));
}

#[test]
fn tiers_of_one_direction_have_orders_of_their_own() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let both = json!([tier("one", "In", 7, json!([])), tier("two", "In", 7, json!([]))]);
    refused(&hcn, "Order", "\"one\" and \"two\"", || change(&hcn, Kind::Endpoint, pod, "Update", &both));
    change(&hcn, Kind::Endpoint, pod, "Add", &json!([tier("one", "In", 7, json!([])), tier("three", "Out", 7, json!([]))])).unwrap();
    refused(&hcn, "Order", "the order 7", || change(&hcn, Kind::Endpoint, pod, "Add", &json!([tier("two", "In", 7, json!([]))])));
    let mut document = endpoint(net);
    document["Policies"] = both;
    refused(&hcn, "Order", "7", || hcn.create(Kind::Endpoint, None, None, &document.to_string()).map(drop));
}

#[test]
fn sets_in_a_circle_and_sets_of_nothing() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let add = |policies: Value| change(&hcn, Kind::Network, net, "Add", &policies);
    refused(&hcn, "Values", "a > b > c > a", || add(json!([nested("a", "b"), nested("b", "c"), nested("c", "a")])));
    refused(&hcn, "Values", "a > a", || add(json!([nested("a", "a")])));
    refused(&hcn, "Values", "\"b\" is the id of no set", || add(json!([nested("a", "b")])));
    refused(&hcn, "Values", "10.0.0.0/99", || add(json!([set("a", "10.0.0.0/99")])));
    refused(&hcn, "Id", "10.0.0.1", || add(json!([set("10.0.0.1", "")])));
    refused(&hcn, "Id", "a,b", || add(json!([set("a,b", "")])));
    refused(&hcn, "Id", "missing", || add(json!([set("", "")])));
    refused(&hcn, "Policies", "two sets have the id \"a\"", || add(json!([set("a", ""), set("a", "10.0.0.1")])));
    add(json!([nested("a", "b"), nested("b", "c"), set("c", "10.0.0.1")])).unwrap();
    refused(&hcn, "Values", "a > b > a", || change(&hcn, Kind::Network, net, "Update", &json!([nested("b", "a")])));
    let mut document = network("NAT", "other");
    document["Policies"] = json!([nested("x", "y"), nested("y", "x")]);
    refused(&hcn, "Values", "x > y > x", || hcn.create(Kind::Network, None, None, &document.to_string()).map(drop));
}

#[test]
fn a_set_that_something_names_stays() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let of_network = policy("NetworkACL", json!({"Action": "Allow", "Direction": "In", "LocalAddresses": "n"}));
    let sets = json!([set("e", "10.0.0.1"), set("t", ""), set("n", ""), set("inner", ""), nested("outer", "inner"), of_network.clone()]);
    change(&hcn, Kind::Network, net, "Add", &sets).unwrap();
    let tiers = tier("t", "Out", 1, json!([{"TierAclRuleAction": "Pass", "RemoteAddresses": "t"}]));
    change(&hcn, Kind::Endpoint, pod, "Add", &json!([acl(json!({"RemoteAddresses": "10.9.0.0/16,e"})), tiers])).unwrap();
    for (document, by) in
        [(set("e", "10.0.0.1"), "endpoint"), (set("t", ""), "endpoint"), (set("n", ""), "NetworkACL"), (set("inner", ""), "outer")]
    {
        refused(&hcn, "Policies", by, || change(&hcn, Kind::Network, net, "Remove", &json!([document])));
    }
    change(&hcn, Kind::Network, net, "Remove", &json!([nested("outer", "inner"), set("inner", ""), of_network, set("n", "")])).unwrap();
    change(&hcn, Kind::Endpoint, pod, "Update", &json!([{}])).unwrap();
    change(&hcn, Kind::Network, net, "Remove", &json!([set("e", "10.0.0.1"), set("t", "")])).unwrap();
}

#[test]
fn an_endpoint_is_on_the_adapter_of_its_network() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let constraint = |settings: Value| json!([policy("InterfaceConstraint", settings)]);
    for (settings, field) in [(json!({"InterfaceAlias": "Wi-Fi"}), "InterfaceAlias"), (json!({"InterfaceIndex": 4711}), "InterfaceIndex")] {
        refused(&hcn, field, "\"Ethernet\"", || change(&hcn, Kind::Endpoint, pod, "Add", &constraint(settings)));
    }
    for settings in [json!({"InterfaceAlias": "vEthernet (Ethernet)"}), json!({"InterfaceGuid": "44444444-0000-4000-8000-000000000001"})] {
        change(&hcn, Kind::Endpoint, pod, "Add", &constraint(settings)).unwrap();
    }
}

#[test]
fn packets_can_be_led_to_the_node_only() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let own = show(&hcn, Kind::Network, net)["Policies"][0]["Settings"]["ProviderAddress"].clone();
    let route = |next_hop: &Value| {
        json!([policy("SDNRoute", json!({"DestinationPrefix": "10.96.0.0/12", "NextHop": next_hop, "NeedEncap": true}))])
    };
    for next_hop in ["", "0.0.0.0", own.as_str().unwrap()] {
        change(&hcn, Kind::Endpoint, pod, "Update", &route(&json!(next_hop))).unwrap();
    }
    refused(&hcn, "NextHop", "198.51.100.7", || change(&hcn, Kind::Endpoint, pod, "Update", &route(&json!("198.51.100.7"))));
    let tunnel = make_network(&hcn, "L2Tunnel", "tunnel");
    let pod = make_endpoint(&hcn, tunnel);
    change(&hcn, Kind::Endpoint, pod, "Add", &route(&json!(""))).unwrap();
    refused(&hcn, "NextHop", "cannot lead", || change(&hcn, Kind::Endpoint, pod, "Add", &route(&own)));
}

#[test]
fn what_older_clients_write_arrives_in_the_lists() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let older = json!({"VirtualNetwork": net.to_string(), "Policies": [{"Type": "ACL", "Action": "Block", "Direction": "Out", "Protocol": 6,
        "LocalPort": 80, "RemotePort": 443, "RemoteAddresses": "10.0.0.0/8", "RuleType": "Switch", "Priority": 200}]});
    hcn.call("POST", "/endpoints/", &older.to_string()).unwrap();
    let pod = hcn.enumerate(Kind::Endpoint, "").unwrap()[0];
    let expected = json!({"Protocols": "6", "Action": "Block", "Direction": "Out", "LocalPorts": "80", "RemotePorts": "443",
        "RemoteAddresses": "10.0.0.0/8", "RuleType": "Switch", "Priority": 200});
    assert_eq!(policies(&show(&hcn, Kind::Endpoint, pod), "ACL")[0]["Settings"], expected);
}

#[test]
fn five_hundred_rules_are_checked_and_stored_in_a_moment() {
    let hcn = Arc::new(Moving::default()).serve();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let rules: Vec<Value> = (0..500).map(|number| acl(json!({"Protocols": "6,17", "LocalPorts": format!("{}-{}", number, number + 9), "Priority": 100 + number, "Id": format!("rule-{number}")}))).collect();
    let start = Instant::now();
    change(&hcn, Kind::Endpoint, pod, "Add", &json!(rules)).unwrap();
    let elapsed = start.elapsed();
    println!("500 rules took {elapsed:?}");
    // Builds without optimisation, on a machine that other tests keep busy, are no measure.
    let most = if cfg!(debug_assertions) { Duration::from_secs(1) } else { Duration::from_millis(50) };
    assert!(elapsed < most, "{elapsed:?}");
}
