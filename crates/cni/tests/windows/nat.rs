//! nat, sdnbridge and sdnoverlay: networks that are made, and endpoints on them.

use std::collections::BTreeSet;

use hcn::Kind;
use serde_json::{Value, json};

use crate::machine::{Machine, settings_of};

#[test]
fn a_network_is_made_once_with_what_the_configuration_says() {
    let machine = Machine::new();
    let config = json!({
        "cniVersion": "1.0.0", "type": "nat", "name": "net", "ipam": {"subnet": "10.244.1.0/24", "routes": [{"dst": "0.0.0.0/0"}]},
        "dns": {"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"]},
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
        "optionalFlags": {"localRoutedPortMapping": true, "allowAclPortMapping": true},
        "AdditionalArgs": [{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8"]}}}],
    });
    let netns = machine.namespace();
    let variables = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", netns.as_str()),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop"),
    ];
    let result = machine.call_with("ADD", &config, &variables).result();
    let endpoint = machine.endpoint("c1_net");
    assert_eq!(
        result,
        json!({
            "cniVersion": "1.0.0",
            "interfaces": [{"name": "eth0", "mac": endpoint["MacAddress"]}],
            "ips": [{"interface": 0, "address": "10.244.1.2/24", "gateway": "10.244.1.1"}],
        })
    );
    let mut settings = settings_of(endpoint);
    settings.as_object_mut().unwrap().remove("MacAddress");
    assert_eq!(
        settings,
        json!({
            "Owner": "transom-cni", "Name": "c1_net",
            "IpConfigurations": [{"IpAddress": "10.244.1.2", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}],
            "Dns": {"Search": ["shop.svc.cluster.local"], "ServerList": ["10.96.0.10"]},
            "Policies": [
                {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 1}},
                {"Type": "ACL", "Settings": {"Protocols": "6", "Action": "Allow", "Direction": "In", "LocalPorts": "80", "Priority": 1000}},
                {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.0.0.0/8"]}},
            ],
        })
    );
    let networks = machine.all(Kind::Network);
    assert_eq!(networks.len(), 1);
    assert_eq!((networks[0]["Name"].as_str(), networks[0]["Type"].as_str()), (Some("net"), Some("NAT")));
    let subnet = &networks[0]["Ipams"][0]["Subnets"][0];
    assert_eq!(subnet["IpAddressPrefix"], "10.244.1.0/24");
    assert_eq!(subnet["Routes"], json!([{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}]));

    assert_eq!(machine.call_with("ADD", &config, &variables).result(), result, "again");
    let mut other = config.clone();
    other["runtimeConfig"] = Value::Null;
    machine.add(&other, "c2", &machine.namespace()).result();
    assert_eq!(machine.all(Kind::Network).len(), 1);
    let mut check = config.clone();
    check["prevResult"] = result;
    let checked = machine.call_with("CHECK", &check, &variables);
    assert!(checked.succeeded, "{}", checked.text);
    for container in ["c1", "c2"] {
        assert!(machine.del(&config, container, &netns).succeeded);
    }
    machine.assert_empty("net", "after DEL");
    assert_eq!(machine.all(Kind::Network).len(), 1, "the network stays");
}

#[test]
fn addresses_of_ipam_with_the_gateway_of_each_flag() {
    for (flags, routes, gateway) in [
        (json!({}), json!([]), "10.244.1.1"),
        (json!({"forceBridgeGateway": true}), json!([]), "10.244.1.2"),
        (json!({"gatewayFromAdditionalRoutes": true}), json!([{"dst": "0.0.0.0/0", "gw": "10.244.1.9"}]), "10.244.1.1"),
    ] {
        let machine = Machine::new();
        machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.254")]);
        let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
        let config = json!({
            "cniVersion": "0.4.0", "type": "sdnbridge", "name": "net", "ipam": ipam, "optionalFlags": flags, "additionalRoutes": routes,
        });
        let netns = machine.namespace();
        let result = machine.add(&config, "c1", &netns).result();
        assert_eq!(result["ips"], json!([{"version": "4", "interface": 0, "address": "10.244.1.10/24", "gateway": gateway}]), "{flags}");
        assert!(machine.del(&config, "c1", &netns).succeeded);
        machine.assert_empty("net", "after DEL");
    }
}

#[test]
fn both_families_need_a_bridge_that_is_there() {
    let machine = Machine::new();
    let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10", "fd00:1::/64..fd00:1::10"]);
    let config = json!({
        "cniVersion": "1.0.0", "type": "sdnbridge", "name": "net", "ipam": ipam,
        "optionalFlags": {"enableDualStack": true, "loopbackDSR": true},
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.0.2.10"}]},
    });
    let netns = machine.namespace();
    assert_eq!(machine.add(&config, "c1", &netns).failure().0, 7);
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1"), ("fd00:1::/64", "fd00:1::1")]);
    let result = machine.add(&config, "c1", &netns).result();
    assert_eq!(
        result["ips"],
        json!([
            {"interface": 0, "address": "10.244.1.10/24", "gateway": "10.244.1.1"},
            {"interface": 0, "address": "fd00:1::10/64", "gateway": "fd00:1::1"},
        ])
    );
    assert_eq!(
        machine.endpoint("c1_net")["Policies"],
        json!([
            {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIP": "192.0.2.10"}},
            {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 2}},
            {"Type": "OutBoundNAT", "Settings": {"Destinations": ["10.244.1.10"]}},
        ])
    );
}

#[test]
fn what_is_no_type_of_network_is_refused() {
    let machine = Machine::new();
    let mut config = json!({"cniVersion": "1.0.0", "type": "nat", "name": "net", "ipam": {"subnet": "10.244.1.0/33"}});
    let netns = machine.namespace();
    assert_eq!(machine.add(&config, "c1", &netns).failure().0, 6);
    config["ipam"] = json!({});
    let (code, message, _) = machine.add(&config, "c1", "none").failure();
    assert!(code == 8 && message.contains("CNI_NETNS"), "{message}");
    assert_eq!(machine.all(Kind::Network), Vec::<Value>::new());
}

#[test]
fn many_at_once_make_one_network() {
    const PODS: usize = 16;
    let machine = Machine::new();
    let config = json!({"cniVersion": "1.0.0", "type": "nat", "name": "net", "ipam": {"subnet": "10.244.1.0/24"}});
    let namespaces: Vec<String> = (0..PODS).map(|_| machine.namespace()).collect();
    let addresses: BTreeSet<String> = std::thread::scope(|scope| {
        let add = |number: usize| machine.add(&config, &format!("c{number}"), &namespaces[number]).result();
        let calls: Vec<_> = (0..PODS).map(|number| scope.spawn(move || add(number))).collect();
        calls.into_iter().map(|call| call.join().unwrap()["ips"][0]["address"].to_string()).collect()
    });
    assert_eq!(addresses.len(), PODS, "every address once");
    assert_eq!((machine.all(Kind::Network).len(), machine.all(Kind::Endpoint).len()), (1, PODS));
}

#[test]
fn a_plugin_is_not_its_own_ipam() {
    for kind in ["nat", "azure-vnet"] {
        let machine = Machine::new();
        let config = json!({"cniVersion": "1.1.0", "type": kind, "name": "net", "ipam": {"type": kind, "subnet": "10.244.1.0/24"}});
        let netns = machine.namespace();
        for command in ["ADD", "STATUS", "DEL"] {
            let (_, message, details) = machine.call(command, &config, "c1", &netns).failure();
            assert!(message.contains("is called by plugins that it has called itself") && !details.is_empty(), "{command}: {message}");
        }
        machine.assert_empty("net", kind);
    }
}
