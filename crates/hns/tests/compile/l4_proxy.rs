//! `L4Proxy`: connections of an endpoint led to a proxy, which is `b` here.

use serde_json::{Value, json};

use crate::access::node;
use crate::documents::policy;

const BOTH: [&str; 2] = ["10.1.0.3", "fd10::3"];

/// Policies that lead to `b`, one of each family, with further fields.
fn to_b(fields: &Value) -> Value {
    let of = |address: &str| {
        let mut settings = json!({"IP": address, "Port": "15001", "Destination": ""});
        settings.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        policy("L4Proxy", settings)
    };
    json!(BOTH.map(of))
}

#[test]
fn tcp_is_led_there_and_answers_come_from_where_it_was_meant_to_go() {
    for policies in [(json!([]), to_b(&json!({}))), (to_b(&json!({"Protocol": 6})), json!([]))] {
        node(policies.0, policies.1).check(&[
            ("a", "tcp 10.1.0.2:1000 > 198.51.100.7:443 @host", "b: a > b | 10.1.0.2:1000 > 10.1.0.3:15001"),
            ("b", "ack 10.1.0.3:15001 > 10.1.0.2:1000 @a", "a: b > a | 198.51.100.7:443 > 10.1.0.2:1000"),
            ("a", "tcp [fd10::2]:1000 > [fd10::4]:80 @c", "b: a > b | [fd10::2]:1000 > [fd10::3]:15001"),
            ("b", "ack [fd10::3]:15001 > [fd10::2]:1000 @a", "a: b > a | [fd10::4]:80 > [fd10::2]:1000"),
            ("a", "udp 10.1.0.2:1000 > 10.1.0.4:443 @c", "c: a > c | 10.1.0.2:1000 > 10.1.0.4:443"),
            ("a", "udp [fd10::2]:1000 > [fd10::4]:443 @c", "c: a > c | [fd10::2]:1000 > [fd10::4]:443"),
            ("a", "echo 10.1.0.2 > 10.1.0.4 @c", "c: a > c | 10.1.0.2 > 10.1.0.4"),
            ("a", "tcp 10.1.0.2:1000 > 192.0.2.10:22 @host", "host: a > host | 10.1.0.2:1000 > 192.0.2.10:22"),
            ("a", "tcp 10.1.0.2:1001 > 10.1.0.3:80 @b", "b: a > b | 10.1.0.2:1001 > 10.1.0.3:80"),
            ("b", "tcp 10.1.0.3:1000 > 10.1.0.4:80 @c", "c: b > c | 10.1.0.3:1000 > 10.1.0.4:80"),
            ("b", "tcp [fd10::3]:1000 > [fd10::4]:80 @c", "c: b > c | [fd10::3]:1000 > [fd10::4]:80"),
        ]);
    }
}

#[test]
fn exceptions_and_destinations() {
    node(json!([]), to_b(&json!({"Exceptions": ["10.1.0.4", "fd10::4/128"]}))).check(&[
        ("a", "tcp 10.1.0.2:1 > 10.1.0.4:80 @c", "c: a > c | 10.1.0.2:1 > 10.1.0.4:80"),
        ("a", "tcp [fd10::2]:1 > [fd10::4]:80 @c", "c: a > c | [fd10::2]:1 > [fd10::4]:80"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.5:80 @c", "b: a > b | 10.1.0.2:1 > 10.1.0.3:15001"),
    ]);
    let mut policies = to_b(&json!({}));
    policies[0]["Settings"]["Destination"] = json!("198.51.100.0/24");
    policies[1]["Settings"]["Destination"] = json!("fd77::/16");
    node(json!([]), policies).check(&[
        ("a", "tcp 10.1.0.2:1 > 198.51.100.7:80 @host", "b: a > b | 10.1.0.2:1 > 10.1.0.3:15001"),
        ("a", "tcp [fd10::2]:1 > [fd77::7]:80 @host", "b: a > b | [fd10::2]:1 > [fd10::3]:15001"),
        ("a", "tcp 10.1.0.2:1 > 10.1.0.4:80 @c", "c: a > c | 10.1.0.2:1 > 10.1.0.4:80"),
        ("a", "tcp [fd10::2]:1 > [fd10::4]:80 @c", "c: a > c | [fd10::2]:1 > [fd10::4]:80"),
    ]);
}

#[test]
fn the_proxy_sees_the_endpoint_or_the_node() {
    node(json!([]), to_b(&json!({"OutboundNAT": true, "Protocol": 17}))).check(&[
        ("a", "udp 10.1.0.2:1000 > 198.51.100.7:53 @host", "b: a > b | 192.0.2.10:nat > 10.1.0.3:15001"),
        ("b", "udp 10.1.0.3:15001 > 192.0.2.10:nat @host", "a: b > a | 198.51.100.7:53 > 10.1.0.2:1000"),
        ("a", "udp [fd10::2]:1000 > [fd77::7]:53 @host", "b: a > b | [fd01::10]:nat > [fd10::3]:15001"),
        ("b", "udp [fd10::3]:15001 > [fd01::10]:nat @host", "a: b > a | [fd77::7]:53 > [fd10::2]:1000"),
        ("a", "tcp 10.1.0.2:1000 > 10.1.0.4:80 @c", "c: a > c | 10.1.0.2:1000 > 10.1.0.4:80"),
    ]);
}
