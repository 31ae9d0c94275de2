use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(document: &Value, version: Version) -> Result<AddResult> {
    AddResult::read(&Object::read(document, "result".to_owned())?, version)
}

fn example() -> AddResult {
    let interface = Interface { name: "eth0".to_owned(), mac: "00:15:5d:00:00:01".to_owned(), mtu: 1450, ..Interface::default() };
    let ip = |address: &str, gateway: &str| IpConfig {
        interface: Some(0),
        address: address.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
    };
    AddResult {
        interfaces: vec![interface],
        ips: vec![ip("10.1.0.5/16", "10.1.0.1"), ip("10.2.0.5/16", "10.2.0.1"), ip("fd00::5/64", "fd00::1")],
        routes: vec![
            Route { mtu: 1400, ..Route::new("0.0.0.0/0".parse().unwrap(), Some("10.1.0.1".parse().unwrap())) },
            Route::new("::/0".parse().unwrap(), None),
        ],
        dns: Dns { nameservers: vec!["10.96.0.10".to_owned()], domain: "local".to_owned(), ..Dns::default() },
    }
}

#[test]
fn the_oldest_versions_have_one_address_of_each_family() {
    let expected = json!({
        "cniVersion": "0.2.0",
        "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1", "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}]},
        "ip6": {"ip": "fd00::5/64", "gateway": "fd00::1", "routes": [{"dst": "::/0"}]},
        "dns": {"nameservers": ["10.96.0.10"], "domain": "local"},
    });
    assert_eq!(example().write(Version::V0_2_0).unwrap().to_string(), expected.to_string());
}

#[test]
fn from_0_3_0_on_there_are_lists_with_families() {
    let expected = json!({
        "cniVersion": "0.4.0",
        "interfaces": [{"name": "eth0", "mac": "00:15:5d:00:00:01"}],
        "ips": [
            {"version": "4", "interface": 0, "address": "10.1.0.5/16", "gateway": "10.1.0.1"},
            {"version": "4", "interface": 0, "address": "10.2.0.5/16", "gateway": "10.2.0.1"},
            {"version": "6", "interface": 0, "address": "fd00::5/64", "gateway": "fd00::1"},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1", "mtu": 1400}, {"dst": "::/0"}],
        "dns": {"nameservers": ["10.96.0.10"], "domain": "local"},
    });
    assert_eq!(example().write(Version::V0_4_0).unwrap().to_string(), expected.to_string());
}

#[test]
fn from_1_0_0_on_names_are_sorted() {
    let expected = json!({
        "cniVersion": "1.1.0",
        "dns": {"domain": "local", "nameservers": ["10.96.0.10"]},
        "interfaces": [{"mac": "00:15:5d:00:00:01", "mtu": 1450, "name": "eth0"}],
        "ips": [
            {"address": "10.1.0.5/16", "gateway": "10.1.0.1", "interface": 0},
            {"address": "10.2.0.5/16", "gateway": "10.2.0.1", "interface": 0},
            {"address": "fd00::5/64", "gateway": "fd00::1", "interface": 0},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1", "mtu": 1400}, {"dst": "::/0"}],
    });
    assert_eq!(example().write(Version::V1_1_0).unwrap().to_string(), expected.to_string());
}

#[test]
fn empty_dns_is_printed_before_1_0_0_only() {
    let result = AddResult { dns: Dns::default(), ..example() };
    assert!(result.print(Version::V0_4_0).unwrap().contains("\"dns\": {}"));
    assert!(result.print(Version::V0_1_0).unwrap().contains("\"dns\": {}"));
    assert!(!result.print(Version::V1_0_0).unwrap().contains("dns"));
}

#[test]
fn before_0_3_0_an_address_is_needed() {
    let error = AddResult::default().write(Version::V0_2_0).unwrap_err();
    assert!(error.msg.contains("no valid IP addresses"), "{}", error.msg);
    assert!(AddResult::default().write(Version::V0_3_0).is_ok());
}

#[test]
fn a_result_without_version_is_of_the_configurations() {
    let old = json!({"ip4": {"ip": "10.0.0.2/24"}});
    assert_eq!(read(&old, Version::V0_2_0).unwrap().ips.len(), 1);
    assert_eq!(read(&old, Version::V1_0_0).unwrap().ips.len(), 0);
    let new = json!({"CNIVersion": "1.0.0", "IPs": [{"Address": "10.0.0.2/24"}]});
    assert_eq!(read(&new, Version::V0_2_0).unwrap().ips.len(), 1);
}

#[test]
fn what_is_wrong_in_a_result_is_named() {
    let table = [
        (json!({"cniVersion": "9.9.9"}), 1, "result.cniVersion"),
        (json!({"ips": [{"gateway": "10.0.0.1"}]}), 6, "result.ips[0].address is missing"),
        (json!({"ips": [{"address": "10.0.0.1"}]}), 6, "result.ips[0].address"),
        (json!({"routes": [{}]}), 6, "result.routes[0].dst is missing"),
        (json!({"ips": {}}), 6, "result.ips: a list"),
        (json!([]), 6, "result: an object"),
    ];
    for (document, code, message) in table {
        let error = read(&document, Version::V1_0_0).unwrap_err();
        assert_eq!(error.code, code, "{document}");
        assert!(error.msg.contains(message), "{}", error.msg);
    }
}

/// What is left of a result in a version.
fn kept_by(result: &AddResult, version: Version) -> AddResult {
    let mut kept = result.clone();
    if version < Version::V1_0_0 {
        for interface in &mut kept.interfaces {
            *interface = Interface {
                name: interface.name.clone(),
                mac: interface.mac.clone(),
                sandbox: interface.sandbox.clone(),
                ..Interface::default()
            };
        }
    }
    if version < Version::V0_3_0 {
        kept.interfaces.clear();
        kept.ips.clear();
        kept.routes.clear();
        for ipv4 in [true, false] {
            let Some(ip) = result.ips.iter().find(|ip| is_ipv4(&ip.address) == ipv4) else { continue };
            kept.ips.push(IpConfig { interface: None, ..ip.clone() });
            let routes = result.routes.iter().filter(|route| is_ipv4(&route.dst) == ipv4);
            kept.routes.extend(routes.map(|route| Route::new(route.dst, route.gw)));
        }
    }
    kept
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<u128>().prop_map(|bits| IpAddr::from(bits.to_be_bytes()).to_canonical())]
}

fn any_prefix() -> impl Strategy<Value = IpNet> {
    (any_address(), 0..=128u8).prop_map(|(address, length)| {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        IpNet::new(address, length.min(longest)).unwrap()
    })
}

prop_compose! {
    fn any_interface()(name in ".{0,4}", mac in ".{0,4}", mtu in any::<i64>(), sandbox in ".{0,4}", socket_path in ".{0,4}", pci_id in ".{0,4}") -> Interface {
        Interface { name, mac, mtu, sandbox, socket_path, pci_id }
    }
}

prop_compose! {
    fn any_ip()(interface in option::of(any::<i64>()), address in any_prefix(), gateway in option::of(any_address())) -> IpConfig {
        IpConfig { interface, address, gateway }
    }
}

prop_compose! {
    fn any_route()(
        dst in any_prefix(), gw in option::of(any_address()), mtu in any::<i64>(), advmss in any::<i64>(), priority in any::<i64>(),
        table in option::of(any::<i64>()), scope in option::of(any::<i64>()),
    ) -> Route {
        Route { dst, gw, mtu, advmss, priority, table, scope }
    }
}

prop_compose! {
    fn any_dns()(nameservers in vec(".{0,4}", 0..3), domain in ".{0,4}", search in vec(".{0,4}", 0..3), options in vec(".{0,4}", 0..3)) -> Dns {
        Dns { nameservers, domain, search, options }
    }
}

prop_compose! {
    fn any_result()(
        interfaces in vec(any_interface(), 0..3), ips in vec(any_ip(), 0..4), routes in vec(any_route(), 0..4), dns in any_dns(),
    ) -> AddResult {
        AddResult { interfaces, ips, routes, dns }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from)
    ];
    let keys = prop_oneof!["ip4", "ip6", "ips", "routes", "dns", "interfaces", "address", "ip", "dst", "cniVersion"];
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((keys.clone(), inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Converting to a version and back keeps what that version can hold.
    #[test]
    fn a_version_keeps_what_it_can_hold(result in any_result(), version in 0..Version::ALL.len()) {
        let version = Version::ALL[version];
        match result.print(version) {
            Ok(text) => {
                let document: Value = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(read(&document, Version::LATEST).unwrap(), kept_by(&result, version));
            }
            Err(_) => prop_assert!(version < Version::V0_3_0 && result.ips.is_empty()),
        }
    }

    /// Whatever a plugin prints is read or refused.
    #[test]
    fn any_json_is_read_or_refused(document in any_json(), version in 0..Version::ALL.len()) {
        if let Err(error) = read(&document, Version::ALL[version]) {
            prop_assert!(error.code == 6 || error.code == 1);
        }
    }
}
