//! `L4WFPPROXY`: connections of a container led to a proxy inside it. It becomes a translation in its namespace, and no rule.

use hcn::endpoint::Endpoint;
use hns::compile::l4_wfp_proxy::{Interception, interceptions};
use serde_json::{Value, json};

use crate::documents::{endpoint, policy, read};

fn print(of: &Interception) -> String {
    let list =
        |name: &str, elements: Vec<String>| if elements.is_empty() { String::new() } else { format!(" {name} {}", elements.join(",")) };
    let prefixes = |list: &[ipnet::IpNet]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let ports = |list: &[std::ops::RangeInclusive<u16>]| list.iter().map(|range| format!("{range:?}")).collect::<Vec<_>>();
    let protocols: Vec<String> = of.protocols.iter().map(u8::to_string).collect();
    let mut text = format!("{:?} {} to {}", of.direction, protocols.join(","), of.proxy);
    text += &list("local", [prefixes(&of.local), ports(&of.local_ports)].concat());
    text += &list("remote", [prefixes(&of.remote), ports(&of.remote_ports)].concat());
    text += &list("not", [prefixes(&of.exempt_addresses), ports(&of.exempt_ports)].concat());
    text + &of.exempt_user.map_or_else(String::new, |user| format!(" user {user}"))
}

fn compiled(policies: &[Value]) -> Result<Vec<String>, String> {
    let policies: Vec<Value> = policies.iter().map(|settings| policy("L4WFPPROXY", settings.clone())).collect();
    let document: Endpoint = read(&endpoint("a", 2, &["10.1.0.2"], json!(policies)));
    interceptions(&document).map(|all| all.iter().map(print).collect()).map_err(|error| error.to_string())
}

#[test]
fn every_field() {
    let table: [(Value, &[&str]); 5] = [
        (json!({"OutboundProxyPort": "15001"}), &["Out 6 to 15001"]),
        (json!({"InboundProxyPort": "15003", "FilterTuple": {"Protocols": "17"}}), &["In 17 to 15003"]),
        (
            json!({"InboundProxyPort": "15003", "OutboundProxyPort": "15001", "UserSID": "S-1-5-21-1-2-3-1337", "FilterTuple": {"Protocols": "6,17"}}),
            &["In 6,17 to 15003 user 1337", "Out 6,17 to 15001 user 1337"],
        ),
        (
            json!({"OutboundProxyPort": "15001", "FilterTuple": {
                "LocalAddresses": "10.1.0.2", "RemoteAddresses": "10.0.0.0/8, fd00::/8", "LocalPorts": "1-1023", "RemotePorts": "80,8080-8090",
            }}),
            &["Out 6 to 15001 local 10.1.0.2/32,1..=1023 remote 10.0.0.0/8,fd00::/8,80..=80,8080..=8090"],
        ),
        (
            json!({
                "InboundProxyPort": "15003", "OutboundProxyPort": "15001",
                "InboundExceptions": {"PortExceptions": ["22"]},
                "OutboundExceptions": {"IpAddressExceptions": ["10.0.0.0/8", "fd00::1"], "PortExceptions": ["53", "9000-9100"]},
            }),
            &["In 6 to 15003 not 22..=22", "Out 6 to 15001 not 10.0.0.0/8,fd00::1/128,53..=53,9000..=9100"],
        ),
    ];
    for (settings, expected) in table {
        assert_eq!(compiled(std::slice::from_ref(&settings)).unwrap(), expected, "{settings}");
    }
    assert!(compiled(&[]).unwrap().is_empty());
}

#[test]
fn the_lower_priority_is_asked_first_and_none_comes_last() {
    let of = |port: &str, priority: u16| json!({"OutboundProxyPort": port, "FilterTuple": {"Priority": priority}});
    let expected = ["Out 6 to 3", "Out 6 to 1", "Out 6 to 2", "Out 6 to 4"];
    assert_eq!(compiled(&[of("1", 7), of("2", 7), of("3", 1), of("4", 0)]).unwrap(), expected);
}

#[test]
fn what_cannot_be_read_is_named() {
    let many = |bit: &str| (0..100).map(|number| format!("{bit}{number}")).collect::<Vec<_>>().join(",");
    let table = [
        (json!({"OutboundProxyPort": "0"}), "OutboundProxyPort: "),
        (json!({"InboundProxyPort": "65536"}), "InboundProxyPort: "),
        (json!({"FilterTuple": {"Protocols": "6,1"}}), "FilterTuple.Protocols: "),
        (json!({"FilterTuple": {"LocalAddresses": "friends"}}), "FilterTuple.LocalAddresses: "),
        (json!({"FilterTuple": {"RemoteAddresses": "10.0.0.0/33"}}), "FilterTuple.RemoteAddresses: "),
        (json!({"FilterTuple": {"LocalPorts": "0"}}), "FilterTuple.LocalPorts: "),
        (json!({"FilterTuple": {"RemotePorts": "90-80"}}), "FilterTuple.RemotePorts: "),
        (json!({"FilterTuple": {"RemoteAddresses": many("10.0.0."), "RemotePorts": many("80")}}), "FilterTuple: 10000 combinations"),
        (json!({"UserSID": "root"}), "UserSID: "),
        (json!({"UserSID": "S-1-5"}), "UserSID: "),
        (json!({"UserSID": "S-1-5-21-x"}), "UserSID: "),
        (json!({"UserSID": "S-1-5-4294967296"}), "UserSID: "),
        (json!({"OutboundExceptions": {"IpAddressExceptions": ["here"]}}), "OutboundExceptions.IpAddressExceptions: "),
        (json!({"OutboundExceptions": {"PortExceptions": ["http"]}}), "OutboundExceptions.PortExceptions: "),
    ];
    for (fields, start) in table {
        let mut settings = json!({"OutboundProxyPort": "15001"});
        settings.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let error = compiled(std::slice::from_ref(&settings)).unwrap_err();
        assert!(error.starts_with(start), "{settings}: {error}");
    }
}
