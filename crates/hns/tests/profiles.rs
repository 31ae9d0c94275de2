//! What each Windows build reports, refuses and gets wrong.

mod common;

use common::*;
use hcn::{Hcn, Kind};
use hns::machine::FakeMachine;
use hns::{Build, profile};
use serde_json::{Value, json};

#[test]
fn every_build_reports_its_version() {
    for profile in profile::ALL {
        let hcn = service_as(profile.name);
        let (major, minor) = profile.version;
        assert_eq!(hcn.call("GET", "/globals/version", "").unwrap(), json!({"Major": major, "Minor": minor}), "{}", profile.name);
        let net = make_network(&hcn, "L2Bridge", "net");
        assert_eq!(show(&hcn, Kind::Network, net)["Version"], u64::from(major) << 32 | u64::from(minor));
    }
}

/// Makes something that needs a feature and answers with the HRESULT, 0 for success.
fn attempt(hcn: &dyn Hcn, what: &str) -> u32 {
    let overlay = make_network(hcn, "Overlay", "overlay");
    let pod = make_endpoint(hcn, overlay);
    let on_network = |policy_type: &str, settings: Value| {
        let body = json!({"Policies": [{"Type": policy_type, "Settings": settings}]});
        hcn.modify(Kind::Network, overlay, &request("Policy", "Add", body))
    };
    let on_endpoint = |policy_type: &str, settings: Value| {
        let body = json!({"Policies": [{"Type": policy_type, "Settings": settings}]});
        hcn.modify(Kind::Endpoint, pod, &request("Policy", "Add", body))
    };
    let made = |kind: Kind, document: Value| hcn.create(kind, None, None, &document.to_string()).map(drop);
    let mut balancer = load_balancer(&[pod], &["1.1.1.1"], 80);
    let outcome = match what {
        "set" => on_network("SetPolicy", json!({"Id": "s", "PolicyType": "IPSET", "Values": ""})),
        "nested set" => on_network("SetPolicy", json!({"Id": "s", "PolicyType": "NESTEDIPSET", "Values": ""})),
        "vxlan port" => on_network("VxlanPort", json!({"Port": 8472})),
        "network acl" => on_network("NetworkACL", json!({"Action": "Allow", "Direction": "In"})),
        "l4 proxy" => on_endpoint("L4Proxy", json!({"IP": "10.0.0.1", "Port": "80"})),
        "l4 wfp proxy" => on_endpoint("L4WFPPROXY", json!({"OutboundProxyPort": "80"})),
        "tier acl" => on_endpoint("TierAcl", json!({"Direction": "In", "Order": 1, "TierAclRules": []})),
        "protocol 252" => on_endpoint("ACL", json!({"Action": "Allow", "Direction": "In", "Protocols": "252"})),
        "nat exceptions" => on_endpoint("OutBoundNAT", json!({"Exceptions": ["10.0.0.0/8"]})),
        "affinity" => {
            balancer["PortMappings"][0]["DistributionType"] = json!(2);
            made(Kind::LoadBalancer, balancer)
        }
        "preserve dip" => {
            balancer["PortMappings"][0]["Flags"] = json!(8);
            made(Kind::LoadBalancer, balancer)
        }
        "dsr" => {
            balancer["Flags"] = json!(1);
            made(Kind::LoadBalancer, balancer)
        }
        "modify" => {
            let id = make(hcn, Kind::LoadBalancer, &balancer);
            balancer["PortMappings"][0]["InternalPort"] = json!(9999);
            hcn.modify(Kind::LoadBalancer, id, &balancer.to_string())
        }
        "accelnet" => hcn.call("GET", "/accelnet/", "").map(drop),
        "no host port" => {
            let mut document = network("NAT", "n");
            document["Flags"] = json!(1024);
            made(Kind::Network, document)
        }
        "ipv6 overlay" => {
            let subnet = json!({"IpAddressPrefix": "fd00::/64"});
            hcn.modify(Kind::Network, overlay, &request("Subnet", "Add", json!({"Subnets": [subnet]})))
        }
        "mirrored" => made(Kind::Network, network("Mirrored", "m")),
        other => panic!("nobody knows how to attempt {other}"),
    };
    outcome.map_or_else(|error| error.hresult(), |()| 0)
}

#[test]
fn what_builds_refuse() {
    const NO_TYPE: u32 = 0x803B_000E;
    const UNSUPPORTED: u32 = 0x803B_0015;
    const INVALID: u32 = 0x803B_000D;
    const NOT_IMPLEMENTED: u32 = 0x8000_4001;
    //                    ws2019           1903             20h2             ws2022           ws2025      transom
    let table = [
        ("dsr", [0, 0, 0, 0, 0, 0]),
        ("preserve dip", [UNSUPPORTED, 0, 0, 0, 0, 0]),
        ("l4 proxy", [0, 0, 0, 0, 0, 0]),
        ("vxlan port", [NO_TYPE, 0, 0, 0, 0, 0]),
        ("protocol 252", [INVALID, INVALID, 0, 0, 0, 0]),
        ("affinity", [UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0, 0, 0]),
        ("set", [NO_TYPE, NO_TYPE, NO_TYPE, 0, 0, 0]),
        ("l4 wfp proxy", [NO_TYPE, NO_TYPE, NO_TYPE, 0, 0, 0]),
        ("nested set", [NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, 0, 0]),
        ("tier acl", [NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, 0, 0]),
        ("network acl", [NO_TYPE, NO_TYPE, NO_TYPE, NO_TYPE, 0, 0]),
        ("no host port", [UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0, 0]),
        ("modify", [NOT_IMPLEMENTED, NOT_IMPLEMENTED, NOT_IMPLEMENTED, NOT_IMPLEMENTED, 0, 0]),
        ("accelnet", [UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0, 0]),
        ("nat exceptions", [0, 0, 0, INVALID, 0, 0]),
        ("ipv6 overlay", [UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, UNSUPPORTED, 0]),
        ("mirrored", [0x803B_000B, 0x803B_000B, 0, 0, 0, 0]),
    ];
    for (what, codes) in table {
        for (profile, code) in profile::ALL.iter().zip(codes) {
            assert_eq!(attempt(&service_as(profile.name), what), code, "{what} on {}", profile.name);
        }
    }
}

#[test]
fn items_can_be_added_and_taken_away() {
    let build = Build::named("ws2019", &["set-policy".into(), "modify-load-balancer".into()], &["overlay-no-ipv6".into()]).unwrap();
    for what in ["set", "modify", "ipv6 overlay"] {
        assert_eq!(attempt(&start(FakeMachine::with_ethernet(), build.clone()), what), 0, "{what}");
    }
    let build = Build::named("transom", &["backends-64".into()], &["dsr".into()]).unwrap();
    assert_eq!(attempt(&start(FakeMachine::with_ethernet(), build), "dsr"), 0x803B_0015);
}

#[test]
fn features_that_every_profile_has_can_be_taken_away() {
    let refused = |item: &str, document: fn(hcn::Guid) -> Value| {
        let hcn = start(FakeMachine::with_ethernet(), Build::named("transom", &[], &[item.into()]).unwrap());
        let net = make_network(&hcn, "L2Bridge", "net");
        let whole = service();
        let other = make_network(&whole, "L2Bridge", "net");
        make(&whole, Kind::Endpoint, &document(other));
        refusal(&hcn, Kind::Endpoint, &document(net))
    };
    assert_eq!(refused("acl-address-lists", |net| rule(net, "RemoteAddresses", json!("10.0.0.1,10.0.0.2"))), 0x803B_000D);
    assert_eq!(refused("acl-port-ranges", |net| rule(net, "LocalPorts", json!("80-90"))), 0x803B_000D);
    assert_eq!(refused("acl-rule-id", |net| rule(net, "Id", json!("r1"))), 0x803B_000D);
    assert_eq!(refused("acl-no-host-rule-priority", |net| rule(net, "Priority", json!(0))), 0x803B_000D);
    let alone = |net| {
        let mut document = endpoint_at(net, "192.168.100.9");
        document["IpConfigurations"][0]["PrefixLength"] = json!(32);
        document
    };
    assert_eq!(refused("slash32-endpoint-prefixes", alone), 0x803B_0030);
    let old = start(FakeMachine::with_ethernet(), Build::named("ws2019", &[], &["api-v2".into()]).unwrap());
    assert_eq!(old.enumerate(Kind::Network, "").unwrap_err().hresult(), 0x8000_4001);
    assert_eq!(old.call("GET", "/networks", "").unwrap(), json!([]));
}

fn rule(net: hcn::Guid, field: &str, value: Value) -> Value {
    let mut settings = json!({"Action": "Allow", "Direction": "In", "RuleType": "Host", "Priority": 100});
    settings[field] = value;
    endpoint_with(net, "ACL", settings)
}

#[test]
fn backends_are_counted() {
    let table = [("ws2019", Some(64)), ("ws2025", Some(1024)), ("transom", None)];
    for (profile, most) in table {
        let hcn = service_as(profile);
        let mut wide = network("Overlay", "net");
        wide["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!("192.168.0.0/16");
        let net = make(&hcn, Kind::Network, &wide);
        let count = most.map_or(2000, |most: usize| most + 1);
        let pods: Vec<_> = (0..count).map(|_| make_endpoint(&hcn, net)).collect();
        if most.is_some() {
            assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&pods, &["1.1.1.1"], 80)), 0x8007_0057, "{profile}");
        }
        let allowed = &pods[..most.unwrap_or(count)];
        make(&hcn, Kind::LoadBalancer, &load_balancer(allowed, &["1.1.1.1"], 80));
    }
}

#[test]
fn server_2025_accepts_a_change_and_does_nothing() {
    let hcn = service_as("ws2025");
    let net = make_network(&hcn, "Overlay", "net");
    let pod = make_endpoint(&hcn, net);
    let id = make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.1"], 80));
    hcn.modify(Kind::LoadBalancer, id, &load_balancer(&[], &["1.1.1.1"], 80).to_string()).unwrap();
    assert_eq!(show(&hcn, Kind::LoadBalancer, id)["HostComputeEndpoints"], json!([pod.to_string()]));
}

/// An overlay with these subnets, each of this virtual network.
fn overlay(prefixes: &[&str], vni: u32) -> Value {
    let subnet = |prefix: &&str| json!({"IpAddressPrefix": prefix, "Policies": [{"Type": "VSID", "Settings": {"IsolationId": vni}}]});
    let mut document = network("Overlay", "net");
    document["Ipams"] = json!([{"Type": "Static", "Subnets": prefixes.iter().map(subnet).collect::<Vec<_>>()}]);
    document
}

/// A document that one limit of Windows builds refuses.
fn beyond(limit: &str) -> Vec<Value> {
    let mut remote = overlay(&["10.1.0.0/24"], 5000);
    let route = json!({"DestinationPrefix": "10.2.0.0/24", "IsolationId": 100, "ProviderAddress": "192.0.2.11",
        "DistributedRouterMacAddress": "02-00-00-00-0B-02"});
    remote["Policies"] = json!([{"Type": "RemoteSubnetRoute", "Settings": route}]);
    let mut ipv6 = network("L2Bridge", "net");
    ipv6["Ipams"][0]["Subnets"] = json!([{"IpAddressPrefix": "fd00::/64"}]);
    match limit {
        "overlay-no-ipv6" => vec![overlay(&["10.1.0.0/24", "fd00::/64"], 5000)],
        "no-ipv6-only" => vec![ipv6],
        "vsid-from-4096" => vec![overlay(&["10.1.0.0/24"], 4095), overlay(&["10.1.0.0/24"], 1), remote],
        other => panic!("nobody knows what is beyond {other}"),
    }
}

#[test]
fn limits_of_the_modes_can_be_lifted_and_imposed() {
    for (limit, code) in [("overlay-no-ipv6", 0x803B_0015), ("no-ipv6-only", 0x803B_0015), ("vsid-from-4096", 0x803B_000D)] {
        for document in beyond(limit) {
            make(&service(), Kind::Network, &document);
            for profile in profile::ALL.iter().filter(|profile| profile.name != "transom") {
                assert_eq!(refusal(&service_as(profile.name), Kind::Network, &document), code, "{limit} on {}", profile.name);
                let lifted = Build::named(profile.name, &[], &[limit.into()]).unwrap();
                make(&start(FakeMachine::with_ethernet(), lifted), Kind::Network, &document);
            }
            let imposed = Build::named("transom", &[limit.into()], &[]).unwrap();
            assert_eq!(refusal(&start(FakeMachine::with_ethernet(), imposed), Kind::Network, &document), code, "{limit}");
        }
    }
}

#[test]
fn an_overlay_of_ipv6_alone_meets_both_limits() {
    let document = overlay(&["fd00::/64"], 5000);
    make(&service(), Kind::Network, &document);
    for left in ["overlay-no-ipv6", "no-ipv6-only"] {
        let build = Build::named("ws2025", &[], &[left.into()]).unwrap();
        assert_eq!(refusal(&start(FakeMachine::with_ethernet(), build), Kind::Network, &document), 0x803B_0015, "without {left}");
    }
}

#[test]
fn the_lowest_virtual_network_of_a_windows_build_is_4096() {
    for profile in profile::ALL {
        make(&service_as(profile.name), Kind::Network, &overlay(&["10.1.0.0/24"], 4096));
    }
}

#[test]
fn another_port_for_vxlan_is_a_feature() {
    let mut document = overlay(&["10.1.0.0/24"], 5000);
    document["Policies"] = json!([{"Type": "VxlanPort", "Settings": {"Port": 8472}}]);
    assert_eq!(refusal(&service_as("ws2019"), Kind::Network, &document), 0x803B_000E);
    make(&start(FakeMachine::with_ethernet(), Build::named("ws2019", &["vxlan-port".into()], &[]).unwrap()), Kind::Network, &document);
    let without = Build::named("transom", &[], &["vxlan-port".into()]).unwrap();
    assert_eq!(refusal(&start(FakeMachine::with_ethernet(), without), Kind::Network, &document), 0x803B_000E);
}
