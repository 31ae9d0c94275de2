//! Configurations, the result of each, and the endpoint that HNS has then.

use hcn::Kind;
use serde_json::{Value, json};

use crate::machine::{Machine, settings_of};

struct Case {
    what: &'static str,
    network: (&'static str, &'static [(&'static str, &'static str)]),
    config: Value,
    result: Value,
    endpoint: Value,
}

const SUBNET: &[(&str, &str)] = &[("10.244.1.0/24", "10.244.1.1")];
const BOTH: &[(&str, &str)] = &[("10.244.1.0/24", "10.244.1.1"), ("fd00:1::/64", "fd00:1::1")];

fn run(make: impl Fn(&Machine) -> Case) {
    let machine = Machine::new();
    let mut case = make(&machine);
    let network = machine.network(case.network.0, "net", case.network.1);
    let namespace = machine.namespace();
    case.config["name"] = "net".into();
    let what = case.what;
    assert_eq!(machine.add(&case.config, "c1", &namespace).result(), case.result, "{what}");
    let endpoint = machine.endpoint("c1_net");
    assert_eq!(endpoint["HostComputeNetwork"], network.to_string(), "{what}");
    assert_eq!(endpoint["HostComputeNamespace"], namespace, "{what}");
    assert_eq!(settings_of(endpoint), case.endpoint, "{what}");

    // The same ADD once more changes nothing: no second address, no second endpoint.
    let leases = machine.leases("net");
    assert_eq!(machine.add(&case.config, "c1", &namespace).result(), case.result, "{what}, again");
    assert_eq!((machine.all(Kind::Endpoint).len(), machine.leases("net")), (1, leases), "{what}, again");

    case.config["cniVersion"] = "1.1.0".into();
    case.config["prevResult"] = case.result;
    let checked = machine.call("CHECK", &case.config, "c1", &namespace);
    assert!(checked.succeeded && checked.text.is_empty(), "{what}: {}", checked.text);

    for _ in 0..2 {
        let deleted = machine.del(&case.config, "c1", &namespace);
        assert!(deleted.succeeded && deleted.text.is_empty(), "{what}: {}", deleted.text);
        machine.assert_empty("net", what);
    }
    assert_eq!(machine.all(Kind::Namespace).len(), 1, "{what}: the runtime's namespace stays");
}

#[test]
fn a_bridge_with_nothing_but_addresses() {
    run(|machine| Case {
        what: "win-bridge",
        network: ("L2Bridge", SUBNET),
        config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "apiVersion": 2, "ipam": machine.host_local(&["10.244.1.0/24..10.244.1.10"])}),
        result: json!({
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
            "ips": [{"address": "10.244.1.10/24", "gateway": "10.244.1.2"}],
        }),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
            "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.2", "DestinationPrefix": "0.0.0.0/0"}],
        }),
    });
}

#[test]
fn a_bridge_with_everything() {
    run(|machine| Case {
        what: "win-bridge with all keys",
        network: ("L2Bridge", SUBNET),
        config: json!({
            "cniVersion": "0.4.0", "type": "win-bridge", "apiVersion": 2, "loopbackDSR": true, "ipMasqNetwork": "10.244.0.0/16",
            "ipam": machine.host_local(&["10.244.1.0/24..10.244.1.10"]),
            "dns": {"Nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"], "domain": "cluster.local"},
            "policies": [
                {"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.96.0.0/12"]}}},
                {"name": "endpointpolicy", "value": {"Type": "SDNROUTE", "Settings": {"DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}}},
                {"name": "NetworkPolicy", "value": {"Type": "ignored"}},
            ],
            "runtimeConfig": {
                "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "TCP"}, {"hostPort": 53, "containerPort": 5353, "protocol": "udp", "hostIP": "192.0.2.10"}],
                "dns": {"servers": ["10.96.0.11"], "searches": []},
                "bandwidth": {"egressRate": 8_000_000, "egressBurst": 1, "ingressRate": 1},
            },
        }),
        result: json!({
            "cniVersion": "0.4.0",
            "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
            "ips": [{"version": "4", "address": "10.244.1.10/24", "gateway": "10.244.1.2"}],
            "dns": {"nameservers": ["10.96.0.11"], "domain": "cluster.local", "search": ["svc.cluster.local"]},
        }),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
            "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.2", "DestinationPrefix": "0.0.0.0/0"}],
            "Dns": {"Domain": "cluster.local", "Search": ["svc.cluster.local"], "ServerList": ["10.96.0.11"]},
            "Policies": [
                {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.96.0.0/12", "10.244.0.0/16"]}},
                {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}},
                {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}},
                {"Type": "PortMapping", "Settings": {"Protocol": 17, "InternalPort": 5353, "ExternalPort": 53, "VIP": "192.0.2.10"}},
                {"Type": "OutBoundNAT", "Settings": {"Destinations": ["10.244.1.10"]}},
                {"Type": "QOS", "Settings": {"MaximumOutgoingBandwidthInBytes": 1_000_000}},
            ],
        }),
    });
}

#[test]
fn a_bridge_with_both_families_and_routes() {
    run(|machine| {
        let mut ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10", "fd00:1::/64..fd00:1::10"]);
        ipam["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "172.16.0.0/12", "gw": "10.244.1.9"}, {"dst": "192.168.0.0/16"}]);
        Case {
            what: "win-bridge, both families",
            network: ("L2Tunnel", BOTH),
            config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "apiVersion": 2, "ipam": ipam}),
            result: json!({
                "cniVersion": "1.0.0",
                "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
                "ips": [{"address": "10.244.1.10/24", "gateway": "10.244.1.2"}, {"address": "fd00:1::10/64", "gateway": "fd00:1::2"}],
                "routes": [{"dst": "172.16.0.0/12", "gw": "10.244.1.9"}, {"dst": "192.168.0.0/16", "gw": "10.244.1.2"}],
            }),
            endpoint: json!({
                "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
                "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}, {"IpAddress": "fd00:1::10", "PrefixLength": 64}],
                "Routes": [
                    {"NextHop": "10.244.1.2", "DestinationPrefix": "0.0.0.0/0"}, {"NextHop": "fd00:1::2", "DestinationPrefix": "::/0"},
                    {"NextHop": "10.244.1.9", "DestinationPrefix": "172.16.0.0/12"}, {"NextHop": "10.244.1.2", "DestinationPrefix": "192.168.0.0/16"},
                ],
            }),
        }
    });
}

#[test]
fn a_second_family_that_the_network_lacks_is_left_out() {
    run(|machine| Case {
        what: "win-bridge, both families, network of one",
        network: ("L2Bridge", SUBNET),
        config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "apiVersion": 2, "ipam": machine.host_local(&["10.244.1.0/24..10.244.1.10", "fd00:1::/64"])}),
        result: json!({
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
            "ips": [{"address": "10.244.1.10/24", "gateway": "10.244.1.2"}],
        }),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
            "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.2", "DestinationPrefix": "0.0.0.0/0"}],
        }),
    });
}

#[test]
fn a_bridge_whose_addresses_hns_gives_out() {
    run(|_| Case {
        what: "win-bridge without IPAM",
        network: ("L2Bridge", SUBNET),
        config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "apiVersion": 2, "loopbackDSR": true}),
        result: json!({
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
            "ips": [{"address": "10.244.1.2/24", "gateway": "10.244.1.1"}],
        }),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
            "IpConfigurations": [{"IpAddress": "10.244.1.2", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
        }),
    });
}

#[test]
fn an_overlay_with_everything() {
    run(|machine| Case {
        what: "win-overlay with all keys",
        network: ("Overlay", SUBNET),
        config: json!({
            "cniVersion": "0.2.0", "type": "win-overlay", "apiVersion": 2, "loopbackDSR": true, "ipMasq": true, "endpointMacPrefix": "0E-2B",
            "ipam": machine.host_local(&["10.244.1.0/24..10.244.1.10"]),
            "policies": [{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "ExceptionList": ["10.96.0.0/12"]}}],
            "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
        }),
        result: json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.244.1.10/24", "gateway": "10.244.1.1"}, "dns": {}}),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "0E-2B-0A-F4-01-0A",
            "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [
                {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.96.0.0/12", "10.244.1.0/24"]}},
                {"Type": "OutBoundNAT", "Settings": {"Destinations": ["10.244.1.10"]}},
                {"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.10"}},
                {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}},
            ],
        }),
    });
}

#[test]
fn an_overlay_with_both_families() {
    run(|machine| Case {
        what: "win-overlay, both families, IPv6 first",
        network: ("Overlay", BOTH),
        config: json!({"cniVersion": "1.1.0", "type": "win-overlay", "apiVersion": 2, "ipam": machine.host_local(&["fd00:1::/64..fd00:1::10", "10.244.1.0/24..10.244.1.10"])}),
        result: json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "c1_net", "mac": "0E-2A-0A-F4-01-0A"}],
            "ips": [{"address": "fd00:1::10/64", "gateway": "fd00:1::1"}, {"address": "10.244.1.10/24", "gateway": "10.244.1.1"}],
        }),
        endpoint: json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "0E-2A-0A-F4-01-0A",
            "IpConfigurations": [{"IpAddress": "fd00:1::10", "PrefixLength": 64}, {"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "fd00:1::1", "DestinationPrefix": "::/0"}, {"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [{"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.10"}}],
        }),
    });
}

#[test]
fn a_linux_namespace_has_an_object_that_goes_with_its_last_endpoint() {
    let machine = Machine::new();
    for name in ["one", "two"] {
        let third = if name == "one" { 1 } else { 2 };
        machine.network("L2Bridge", name, &[(&format!("10.244.{third}.0/24"), &format!("10.244.{third}.1"))]);
    }
    let file = machine.state.path().join("netns");
    std::fs::write(&file, "").unwrap();
    let netns = file.to_str().unwrap();
    let config = |name: &str| json!({"cniVersion": "1.1.0", "type": "win-bridge", "name": name});
    let result = machine.add(&config("one"), "c1", netns).result();
    assert_eq!(result["interfaces"], json!([{"name": "eth0", "mac": "00:15:5d:52:c0:00", "sandbox": netns}]));
    assert_eq!(result["ips"], json!([{"interface": 0, "address": "10.244.1.2/24", "gateway": "10.244.1.1"}]));
    machine.add(&config("two"), "c1", netns).result();
    let namespaces = machine.all(Kind::Namespace);
    assert_eq!(namespaces.len(), 1);
    assert_eq!(namespaces[0]["AdditionalParams"], json!({"NetworkNamespace": netns}));
    assert_eq!((namespaces[0]["Owner"].as_str(), namespaces[0]["Name"].as_str()), (Some("transom-cni"), Some(netns)));
    assert_eq!(namespaces[0]["Resources"].as_array().map(Vec::len), Some(2));
    assert_eq!(machine.endpoint("c1_one")["AdditionalParams"], json!({"InterfaceName": "eth0"}));

    assert!(machine.del(&config("one"), "c1", netns).succeeded);
    assert_eq!(machine.all(Kind::Namespace).len(), 1);
    // The runtime may have forgotten the namespace.
    assert!(machine.del(&config("two"), "c1", "").succeeded);
    machine.assert_empty("two", "after the last DEL");
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_is_made() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", SUBNET);
    machine.network("Overlay", "tunnel", &[("10.245.1.0/24", "10.245.1.1")]);
    let namespace = machine.namespace();
    let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
    let with = |key: &str, value: Value| {
        let mut config = json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "apiVersion": 2, "ipam": ipam});
        config[key] = value;
        config
    };
    let overlay = |key: &str, value: Value| {
        let mut config = with(key, value);
        config["type"] = "win-overlay".into();
        config["name"] = "tunnel".into();
        config
    };
    let absent = "11111111-2222-3333-4444-555555555555";
    for (config, netns, code, message) in [
        (with("apiVersion", json!("2")), namespace.as_str(), 6, "apiVersion: a whole number"),
        (with("policies", json!([{"name": "EndpointPolicy", "value": []}])), &namespace, 6, "policies[0].value: "),
        (with("ipMasqNetwork", json!("10.0.0.0")), &namespace, 7, "ipMasqNetwork: \"10.0.0.0\" is no prefix"),
        (with("runtimeConfig", json!({"portMappings": [{"protocol": "sctp"}]})), &namespace, 2, "runtimeConfig.portMappings[0].protocol: "),
        (with("name", json!("other")), &namespace, 7, "name: HNS has no network \"other\""),
        (with("name", json!("tunnel")), &namespace, 7, "name: the network \"tunnel\" is of type Overlay, not L2Bridge or L2Tunnel"),
        (overlay("endpointMacPrefix", json!("0E:2A")), &namespace, 7, "endpointMacPrefix: \"0E:2A\" is no beginning"),
        (overlay("endpointMacPrefix", json!("zz-zz")), &namespace, 7, "endpointMacPrefix: \"zz-zz\" is no beginning"),
        (overlay("ipam", machine.host_local(&["fd00:1::/64"])), &namespace, 7, "ipam: there is no IPv4 address"),
        (with("cniVersion", json!("1.0.0")), absent, 8, "CNI_NETNS: HNS has no namespace"),
        (with("cniVersion", json!("1.0.0")), "none", 8, "CNI_NETNS is \"none\""),
        (with("cniVersion", json!("1.0.0")), "/nowhere/netns", 8, "CNI_NETNS: there is no file /nowhere/netns"),
        (with("ipam", json!({"type": "absent"})), &namespace, 7, "failed to find plugin"),
        (with("ipam", machine.host_local(&["10.9.0.0/24"])), &namespace, 999, "IpConfigurations[0].IpAddress: 10.9.0.2 is in no subnet"),
    ] {
        let (found, text, details) = machine.add(&config, "c1", netns).failure();
        assert!(found == code && text.contains(message), "{code} {message}: {found} {text}");
        assert!(!details.is_empty(), "no remedy: {text}");
        machine.assert_empty("net", message);
        machine.assert_empty("tunnel", message);
    }
}

#[test]
fn an_endpoint_of_a_network_of_before_is_replaced() {
    let machine = Machine::new();
    let old = machine.network("L2Bridge", "old", &[("10.9.0.0/24", "10.9.0.1")]);
    machine
        .make(Kind::Endpoint, &json!({"Name": "c1_net", "HostComputeNetwork": old.to_string(), "SchemaVersion": {"Major": 2, "Minor": 0}}));
    let new = machine.network("L2Bridge", "net", SUBNET);
    let namespace = machine.namespace();
    machine.add(&json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "apiVersion": 2}), "c1", &namespace).result();
    assert_eq!(machine.all(Kind::Endpoint).len(), 1);
    assert_eq!(machine.endpoint("c1_net")["HostComputeNetwork"], new.to_string());
}

#[test]
fn a_pod_of_the_reference_is_taken_over() {
    let machine = Machine::new();
    let network = machine.network("L2Bridge", "net", SUBNET);
    let namespace = machine.namespace();
    let reference = json!({
        "Name": "c1_net", "HostComputeNetwork": network.to_string(), "HostComputeNamespace": namespace,
        "IpConfigurations": [{"IpAddress": "10.244.1.77"}], "SchemaVersion": {"Major": 2, "Minor": 0},
    });
    machine.make(Kind::Endpoint, &reference);
    let config = json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "apiVersion": 2});
    assert_eq!(machine.add(&config, "c1", &namespace).result()["ips"][0]["address"], "10.244.1.77/24");
    assert_eq!(machine.all(Kind::Endpoint).len(), 1);
    assert!(machine.del(&config, "c1", &namespace).succeeded);
    machine.assert_empty("net", "the pod of the reference");
}
