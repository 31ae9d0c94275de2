//! Spoof protection: an endpoint may send only as itself.

use hns::compile::guard;
use serde_json::json;

use crate::bench::Node;
use crate::documents::{endpoint, network, overlay};
use crate::frames::mac;

const SPOOFED: &str = "drop spoofed-source by guard/source/spoofed";
const SPOOFED_MAC: &str = "drop spoofed-source by guard/hardware/spoofed";

fn strict(network_type: &str) -> Node {
    let mut node = Node::new();
    let subnets = [("10.1.0.0/24", "10.1.0.1"), ("fd10::/64", "fd10::1")];
    node.network(&match network_type {
        "Overlay" => overlay("net", 5000, &subnets, json!([])),
        other => network(other, "net", &subnets, json!([])),
    });
    node.endpoint("net", &endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([])));
    node.endpoint("net", &endpoint("b", 3, &["10.1.0.3", "fd10::3"], json!([])));
    node
}

#[test]
fn where_hns_gives_out_addresses_they_are_held_to() {
    for network_type in ["L2Bridge", "L2Tunnel", "Overlay", "Transparent", "NAT", "Internal", "Private"] {
        let mut node = strict(network_type);
        node.check(&[
            ("a", "udp 10.1.0.9:1 > 10.1.0.3:2 @b", SPOOFED),
            ("a", "udp 10.1.0.3:1 > 10.1.0.3:2 @b", SPOOFED),
            ("a", "udp [fd10::9]:1 > [fd10::3]:2 @b", SPOOFED),
            ("a", "udp 10.1.0.2:1 > 10.1.0.3:2 as b @b", SPOOFED_MAC),
            ("a", "udp 192.0.2.10:1 > 198.51.100.7:2 @host", SPOOFED),
            ("a", "udp [fe80::2]:1 > [fd10::3]:2 @b", SPOOFED),
            ("a", "who 10.1.0.3 tell 10.1.0.9", "drop spoofed-source"),
            ("a", "who fd10::3 tell fe80::3", "drop spoofed-source"),
        ]);
        let link_local = mac(2).link_local();
        let own = ["udp 10.1.0.2:1 > 10.1.0.3:2 @b".to_owned(), "udp [fd10::2]:1 > [fd10::3]:2 @b".to_owned()];
        for sound in own.iter().chain([&format!("udp [{link_local}]:1 > [fd10::3]:2 @b")]) {
            assert!(!node.send("a", sound).starts_with("drop"), "{sound} on {network_type}");
        }
    }
}

#[test]
fn where_a_dhcp_server_gives_out_addresses_only_the_hardware_address_is_held_to() {
    let mut node = strict("Transparent");
    let mut c = endpoint("c", 4, &["10.1.0.4"], json!([]));
    c["Flags"] = json!(32);
    node.endpoint("net", &c);
    node.check(&[
        ("c", "udp 10.1.0.9:1 > 10.1.0.3:2 @b", "b: c > b | 10.1.0.9:1 > 10.1.0.3:2"),
        ("c", "udp 10.1.0.4:1 > 10.1.0.3:2 as b @b", SPOOFED_MAC),
    ]);
}

#[test]
fn an_endpoint_gives_out_no_addresses_itself() {
    for network_type in ["L2Bridge", "Overlay", "Transparent", "NAT"] {
        let mut node = strict(network_type);
        node.check(&[
            ("a", "udp 10.1.0.2:67 > 10.1.0.3:68 @b", "drop dhcp-guard by guard/role/dhcp server"),
            ("a", "udp [fd10::2]:547 > [fd10::3]:546 @b", "drop dhcp-guard by guard/role/dhcp server"),
            ("a", "udp 10.1.0.2:67 > 255.255.255.255:68 @all", "drop dhcp-guard by guard/role/dhcp server"),
        ]);
        assert!(!node.send("a", "udp 10.1.0.2:68 > 10.1.0.3:67 @b").starts_with("drop"), "who asks is no server");
    }
}

/// The same, with `a` allowed to use any address.
fn lax(network_type: &str) -> Node {
    let mut node = strict(network_type);
    let mut a = endpoint("a", 2, &["10.1.0.2", "fd10::2"], json!([]));
    a["AdditionalParams"] = json!({ "MacAddressSpoofing": true });
    node.change_endpoint("net", &a);
    node
}

#[test]
fn mac_spoofing_lets_an_endpoint_send_from_any_address() {
    lax("L2Bridge").check(&[
        ("a", "udp 10.1.0.77:1 > 10.1.0.3:2 as 02-00-00-00-00-77 @b", "b: 02-00-00-00-00-77 > b | 10.1.0.77:1 > 10.1.0.3:2"),
        ("a", "udp [fd10::77]:1 > [fd10::3]:2 as 02-00-00-00-00-77 @b", "b: 02-00-00-00-00-77 > b | [fd10::77]:1 > [fd10::3]:2"),
        ("b", "udp 10.1.0.77:1 > 10.1.0.2:2 @a", SPOOFED),
        ("a", "udp 10.1.0.2:67 > 10.1.0.3:68 @b", "drop dhcp-guard by guard/role/dhcp server"),
    ]);
    let nested = "02-00-00-00-00-77";
    lax("Transparent").check(&[
        ("a", &format!("who 10.1.0.3 tell 10.1.0.77 as {nested}"), "flood b, host, uplink"),
        (
            "a",
            &format!("udp 10.1.0.77:1 > 192.0.2.20:2 as {nested} @peer"),
            &format!("uplink: {nested} > peer | 10.1.0.77:1 > 192.0.2.20:2"),
        ),
        (
            "uplink",
            &format!("udp 192.0.2.20:2 > 10.1.0.77:1 as peer @{nested}"),
            &format!("a: peer > {nested} | 192.0.2.20:2 > 10.1.0.77:1"),
        ),
        ("uplink", "udp 192.0.2.20:2 > 10.1.0.3:1 as peer @b", "b: peer > b | 192.0.2.20:2 > 10.1.0.3:1"),
    ]);
}

#[test]
fn mac_spoofing_is_true_or_false() {
    let mut a = endpoint("a", 2, &["10.1.0.2"], json!([]));
    a["AdditionalParams"] = json!({ "MacAddressSpoofing": "On" });
    let refused = guard::may_spoof(&crate::documents::read(&a)).expect_err("it is neither");
    assert_eq!(refused.to_string(), "AdditionalParams.MacAddressSpoofing: \"On\" is neither true nor false");
}
