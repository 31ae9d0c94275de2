//! Limits of Windows builds that become rules, each with and without.

use hns::Build;
use hns::profile::{self, Limit};
use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network, policy};

/// The limits of a build.
fn limits(profile: &str, without: &[&str]) -> Vec<Limit> {
    let without: Vec<String> = without.iter().map(|&item| item.to_owned()).collect();
    let build = Build::named(profile, &[], &without).unwrap();
    Limit::ALL.iter().copied().filter(|limit| build.limited(*limit)).collect()
}

fn translating(limits: &[Limit]) -> Node {
    let mut node = Node::limited(limits);
    node.network(&network("L2Bridge", "net", &[("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")], json!([])));
    let both = json!([policy("OutBoundNAT", json!({"Exceptions": ["198.51.100.0/24"]})), policy("OutBoundNAT", json!({"Flags": 2}))]);
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], both));
    node
}

#[test]
fn icmp_leaves_untranslated_under_a_windows_build() {
    let (four, six) = ("echo 10.1.0.2 > 203.0.113.7 @host", "echo fd10::2 > 2001:db8::7 @host");
    let translated = ["uplink: host > gw | 192.0.2.10#nat > 203.0.113.7", "uplink: host > gw | fd01::10#nat > 2001:db8::7"];
    let plain = ["host: a > host | 10.1.0.2 > 203.0.113.7", "host: a > host | fd10::2 > 2001:db8::7"];
    for profile in profile::ALL {
        let expected = if profile.name == "transom" { translated } else { plain };
        let mut node = translating(&limits(profile.name, &[]));
        node.check(&[
            ("a", four, expected[0]),
            ("a", six, expected[1]),
            ("a", "tcp 10.1.0.2:1 > 203.0.113.7:80 @host", "uplink: host > gw | 192.0.2.10:nat > 203.0.113.7:80"),
        ]);
    }
    translating(&limits("ws2022", &["icmp-not-translated"])).check(&[("a", four, translated[0]), ("a", six, translated[1])]);
    translating(&[Limit::IcmpNotTranslated]).check(&[("a", four, plain[0]), ("a", six, plain[1])]);
}

#[test]
fn icmp_of_one_policy_is_not_translated_by_the_next() {
    let mut node = Node::limited(&[Limit::IcmpNotTranslated]);
    node.network(&network("L2Bridge", "net", &[("10.1.0.0/24", "10.1.0.1")], json!([])));
    let policies = [json!({"Exceptions": ["198.51.100.0/24"]}), json!({"VirtualIP": "192.0.2.99"})];
    let policies = policies.map(|settings| policy("OutBoundNAT", settings));
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2"], json!(policies)));
    node.check(&[
        ("a", "echo 10.1.0.2 > 203.0.113.7 @host", "host: a > host | 10.1.0.2 > 203.0.113.7"),
        ("a", "echo 10.1.0.2 > 198.51.100.7 @host", "host: a > host | 10.1.0.2 > 198.51.100.7"),
        ("a", "udp 10.1.0.2:1 > 198.51.100.7:2 @host", "uplink: host > gw | 192.0.2.99:nat > 198.51.100.7:2"),
    ]);
}

#[test]
fn only_windows_builds_keep_the_node_from_pods_of_others() {
    for profile in profile::ALL {
        let expected = profile.name != "transom";
        assert_eq!(limits(profile.name, &[]).contains(&Limit::OverlayNodeLocalPodsOnly), expected, "{}", profile.name);
    }
    assert!(!limits("ws2019", &["overlay-node-local-pods-only"]).contains(&Limit::OverlayNodeLocalPodsOnly));
}
