//! azure-vnet: the network that it makes, endpoints with addresses of the cloud, and what it refuses.

use std::collections::BTreeSet;

use hcn::Kind;
use serde_json::{Value, json};

use crate::machine::{Answer, Fault, Machine, settings_of};

const POOL: (u8, &str, &[&str]) = (1, "10.240.0.0/16", &["10.240.0.5", "10.240.0.6", "10.240.0.7"]);

/// The one network that there is.
fn network(machine: &Machine) -> Value {
    let mut networks = machine.all(Kind::Network);
    assert_eq!(networks.len(), 1, "{networks:?}");
    networks.pop().unwrap()
}

/// A configuration with these keys; `ipam` is the cloud's unless it is among them.
fn config(machine: &Machine, changes: Value) -> Value {
    let ipam = changes.get("ipam").cloned().unwrap_or_else(|| machine.azure(&[POOL]));
    let mut config = json!({"cniVersion": "1.1.0", "type": "azure-vnet", "name": "azure", "mode": "bridge"});
    config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    config["ipam"] = ipam;
    config
}

fn call(machine: &Machine, command: &str, config: &Value, container: &str, netns: &str) -> Answer {
    let variables = [
        ("CNI_CONTAINERID", container),
        ("CNI_NETNS", netns),
        ("CNI_IFNAME", "eth0"),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web"),
    ];
    machine.call_with(command, config, &variables)
}

fn names(machine: &Machine) -> BTreeSet<String> {
    machine.all(Kind::Endpoint).iter().map(|endpoint| endpoint["Name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_pod_makes_the_network_and_all_get_addresses_of_the_cloud() {
    let machine = Machine::new();
    let changes = json!({
        "windowsSettings": {"enableLoopbackDSR": true},
        "dns": {"nameservers": ["10.0.0.10", "168.63.129.16"], "search": ["svc.cluster.local", "cluster.local"]},
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
        "AdditionalArgs": [
            {"Name": "EndpointPolicy", "Value": {"Type": "OutBoundNAT", "ExceptionList": ["10.240.0.0/16", "10.0.0.0/16"]}},
            {"Name": "EndpointPolicy", "Value": {"Type": "ROUTE", "DestinationPrefix": "10.0.0.0/16", "NeedEncap": true}},
        ],
    });
    let mut config = config(&machine, changes);
    let netns = machine.namespace();
    let id = "0123456789abcdef";
    let result = call(&machine, "ADD", &config, id, &netns).result();
    let endpoint = machine.endpoint("0123456789abcdef-eth0");
    assert_eq!(
        result,
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "eth0", "mac": endpoint["MacAddress"]}],
            "ips": [{"address": "10.240.0.5/16", "gateway": "10.240.0.1"}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.240.0.1"}],
            "dns": {
                "nameservers": ["10.0.0.10", "168.63.129.16"], "domain": "shop.svc.cluster.local",
                "search": ["shop.svc.cluster.local", "cluster.local"],
            },
        })
    );
    let mut settings = settings_of(endpoint);
    settings.as_object_mut().unwrap().remove("MacAddress");
    assert_eq!(
        settings,
        json!({
            "Owner": "transom-cni", "Name": "0123456789abcdef-eth0",
            "IpConfigurations": [{"IpAddress": "10.240.0.5", "PrefixLength": 16}],
            "Routes": [{"NextHop": "10.240.0.1", "DestinationPrefix": "0.0.0.0/0"}],
            "Dns": {"Search": ["shop.svc.cluster.local", "cluster.local"], "ServerList": ["10.0.0.10", "168.63.129.16"]},
            "Policies": [
                {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.240.0.0/16", "10.0.0.0/16"]}},
                {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.0.0.0/16", "NeedEncap": true}},
                {"Type": "OutBoundNAT", "Settings": {"Destinations": ["10.240.0.5"]}},
                {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 1}},
            ],
        })
    );
    let made = network(&machine);
    assert_eq!((&made["Name"], &made["Type"], &made["Flags"]), (&json!("azure"), &json!("L2Bridge"), &json!(8)));
    assert_eq!(made["Dns"], json!({"ServerList": ["10.0.0.10", "168.63.129.16"]}));
    let subnet = &made["Ipams"][0]["Subnets"][0];
    assert_eq!(subnet["IpAddressPrefix"], "10.240.0.0/16");
    assert_eq!(subnet["Routes"], json!([{"NextHop": "10.240.0.1", "DestinationPrefix": "0.0.0.0/0"}]));
    assert_eq!(made["Policies"][0], json!({"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet"}}));

    assert_eq!(call(&machine, "ADD", &config, id, &netns).result(), result, "again");
    let mut check = config.clone();
    check["prevResult"] = result.clone();
    let checked = call(&machine, "CHECK", &check, id, &netns);
    assert!(checked.succeeded && checked.text.is_empty(), "{}", checked.text);
    check["prevResult"]["ips"][0]["address"] = "10.240.0.9/16".into();
    assert!(call(&machine, "CHECK", &check, id, &netns).failure().1.contains("it has no address 10.240.0.9/16"));

    config["runtimeConfig"] = Value::Null;
    let second = call(&machine, "ADD", &config, "second", &machine.namespace()).result();
    assert_eq!(second["ips"][0]["address"], "10.240.0.6/16");
    for container in [id, "second", "second"] {
        assert!(call(&machine, "DEL", &config, container, &netns).succeeded);
    }
    machine.assert_empty("azure", "after DEL");
    assert_eq!(machine.azure_leases(), []);
    network(&machine);
}

#[test]
fn every_version_has_its_shape() {
    for (version, expected) in [
        ("0.2.0", json!({"ip4": {"ip": "10.240.0.5/16", "gateway": "10.240.0.1", "routes": [{"dst": "0.0.0.0/0", "gw": "10.240.0.1"}]}})),
        ("0.4.0", json!({"ips": [{"version": "4", "address": "10.240.0.5/16", "gateway": "10.240.0.1"}]})),
        ("1.0.0", json!({"ips": [{"address": "10.240.0.5/16", "gateway": "10.240.0.1"}]})),
    ] {
        let machine = Machine::new();
        let config = config(&machine, json!({"cniVersion": version}));
        let result = machine.add(&config, "c1", &machine.namespace()).result();
        assert_eq!(result["cniVersion"], version);
        assert_eq!(result["dns"], json!({"nameservers": ["168.63.129.16"]}), "what IPAM says");
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(result[key], *value, "{version}");
        }
    }
}

#[test]
fn the_mode_is_the_type_of_a_network_that_is_made() {
    for (mode, kind) in
        [(json!(null), "L2Tunnel"), (json!("tunnel"), "L2Tunnel"), (json!("l2-tunnel"), "L2Tunnel"), (json!("bridge"), "L2Bridge")]
    {
        let machine = Machine::new();
        let mut config = config(&machine, json!({"mode": mode}));
        machine.add(&config, "c1", &machine.namespace()).result();
        assert_eq!(network(&machine)["Type"], kind, "{mode}");
        // One that is there is taken as it is.
        config["mode"] = "bridge".into();
        machine.add(&config, "c2", &machine.namespace()).result();
        assert_eq!(network(&machine)["Type"], kind, "{mode}");
    }
    let machine = Machine::new();
    machine.network("Overlay", "azure", &[("10.240.0.0/16", "10.240.0.1")]);
    let config = config(&machine, json!({}));
    for (command, expected) in [("ADD", 7), ("STATUS", 50)] {
        let (code, message, _) = machine.call(command, &config, "c1", &machine.namespace()).failure();
        assert!(code == expected && message.contains("is of type Overlay, not L2Bridge or L2Tunnel"), "{code} {message}");
    }
    assert_eq!(machine.azure_leases(), []);
}

#[test]
fn the_adapter_is_the_one_named_or_the_one_in_the_subnet() {
    // HNS has an adapter Ethernet alone, so that another name is refused with it in the message.
    for (changes, expected) in [
        (json!({}), Ok(Some("Ethernet"))),
        (json!({"adapterName": "Ethernet 9"}), Err("Ethernet 9")),
        (json!({"master": "Ethernet 8", "ipam": {"type": "host-local", "subnet": "10.240.0.0/16"}}), Err("Ethernet 8")),
        (json!({"master": "vEthernet (Ethernet)", "ipam": {"type": "host-local", "subnet": "10.240.0.0/16"}}), Ok(None)),
        (json!({"ipam": {"type": "host-local", "subnet": "10.241.0.0/16"}}), Err("Ethernet 2")),
        (json!({"ipam": {"type": "host-local", "subnet": "10.9.0.0/16"}}), Err("no interface is in the subnet 10.9.0.0/16")),
    ] {
        let machine = Machine::new();
        let mut config = config(&machine, changes);
        config["ipam"]["dataDir"] = machine.state.path().to_str().unwrap().into();
        let answer = machine.add(&config, "c1", &machine.namespace());
        match expected {
            Ok(adapter) => {
                answer.result();
                let made = network(&machine);
                let policies = made["Policies"].as_array().unwrap();
                let named = policies.iter().find(|policy| policy["Type"] == "NetAdapterName");
                assert_eq!(named.and_then(|policy| policy["Settings"]["NetworkAdapterName"].as_str()), adapter, "{config}");
            }
            Err(expected) => {
                let (_, message, _) = answer.failure();
                assert!(message.contains(expected), "{expected}: {message}");
                machine.assert_empty("azure", expected);
            }
        }
    }
}

#[test]
fn addresses_come_from_the_subnet_of_the_network() {
    let machine = Machine::new();
    let mut config = config(&machine, json!({"master": "Ethernet"}));
    machine.add(&config, "c1", &machine.namespace()).result();
    // A pool that nobody uses, on an interface that is not the primary one, would come first.
    config["ipam"] = machine.azure(&[POOL, (2, "10.241.0.0/16", &["10.241.0.5"])]);
    config["master"] = Value::Null;
    let result = machine.add(&config, "c2", &machine.namespace()).result();
    assert_eq!(result["ips"][0]["address"], "10.240.0.6/16");
    machine.add(&config, "c3", &machine.namespace()).result();
    let (code, message, _) = machine.add(&config, "c4", &machine.namespace()).failure();
    assert!(code == 11 && message.contains("all 3 are taken"), "{message}");
    let (code, message, _) = machine.call_with("STATUS", &config, &[]).failure();
    assert!(code == 50 && message.contains("all 3 are taken"), "{message}");
    assert!(machine.del(&config, "c2", "").succeeded);
    assert!(machine.call_with("STATUS", &config, &[]).succeeded);
}

#[test]
fn both_families_by_host_local_and_ipv6_by_its_own_plugin() {
    let machine = Machine::new();
    let ipam = machine.host_local(&["10.240.0.0/16..10.240.0.10", "fd00:240::/64..fd00:240::10"]);
    let runtime = json!({"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "fd00:240::4"},
    ]});
    let both = config(&machine, json!({"ipam": ipam, "runtimeConfig": runtime}));
    let result = machine.add(&both, "c1", &machine.namespace()).result();
    assert_eq!(
        result["ips"],
        json!([{"address": "10.240.0.10/16", "gateway": "10.240.0.1"}, {"address": "fd00:240::10/64", "gateway": "fd00:240::1"}])
    );
    assert_eq!(network(&machine)["Ipams"][0]["Subnets"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        machine.endpoint("c1-eth0")["Policies"],
        json!([
            {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 1}},
            {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 2}},
            {"Type": "PortMapping", "Settings": {"Protocol": 17, "InternalPort": 53, "ExternalPort": 53, "VIP": "fd00:240::4", "Flags": 2}},
        ])
    );
    let mut ipam = machine.azure(&[POOL, (1, "fd00:240::/64", &["fd00:240::5"])]);
    ipam["type"] = "azure-vnet-ipamv6".into();
    let ipv6 = config(&machine, json!({"ipam": ipam}));
    let result = machine.add(&ipv6, "c2", &machine.namespace()).result();
    assert_eq!(result["ips"], json!([{"address": "fd00:240::5/64", "gateway": "fd00:240::1"}]));
    assert_eq!(result["routes"], json!([{"dst": "::/0", "gw": "fd00:240::1"}]));
}

#[test]
fn containers_whose_ids_begin_alike_are_not_one() {
    let machine = Machine::new();
    let config = config(&machine, json!({}));
    let [one, two] = [machine.namespace(), machine.namespace()];
    machine.add(&config, "container-one", &one).result();
    machine.add(&config, "container-two", &two).result();
    assert_eq!(names(&machine), ["container-one-eth0", "container-two-eth0"].map(str::to_owned).into());
    assert!(machine.del(&config, "container-one", "").succeeded);
    assert_eq!(names(&machine), ["container-two-eth0".to_owned()].into());
    assert_eq!(machine.azure_leases(), [("10.240.0.6".to_owned(), "container-two".to_owned())]);
}

#[test]
fn what_the_reference_made_is_taken_up_and_deleted_but_not_collected() {
    let machine = Machine::new();
    let id = machine.network("L2Bridge", "azure", &[("10.240.0.0/16", "10.240.0.1")]);
    let mut config = config(&machine, json!({}));
    let netns = machine.namespace();
    let endpoint = json!({
        "Name": "0123abcd-eth0", "HostComputeNetwork": id.to_string(), "IpConfigurations": [{"IpAddress": "10.240.0.5"}],
        "Routes": [{"NextHop": "10.240.0.1", "DestinationPrefix": "0.0.0.0/0"}], "SchemaVersion": {"Major": 2, "Minor": 0},
    });
    machine.make(Kind::Endpoint, &endpoint);
    let result = machine.add(&config, "0123abcd4567", &netns).result();
    assert_eq!(result["ips"], json!([{"address": "10.240.0.5/16", "gateway": "10.240.0.1"}]));
    assert_eq!(names(&machine), ["0123abcd-eth0".to_owned()].into());
    config["cni.dev/valid-attachments"] = json!([]);
    assert!(machine.call_with("GC", &config, &[]).succeeded);
    assert_eq!(names(&machine), ["0123abcd-eth0".to_owned()].into());
    assert!(machine.del(&config, "0123abcd4567", &netns).succeeded);
    machine.assert_empty("azure", "after DEL");
}

#[test]
fn garbage_of_this_plugin_goes_and_nothing_else() {
    let machine = Machine::new();
    let mut config = config(&machine, json!({}));
    for container in ["one", "two", "three"] {
        machine.add(&config, container, &machine.namespace()).result();
    }
    let ipam = machine.host_local(&["10.240.0.0/16..10.240.0.100"]);
    let other = json!({"cniVersion": "1.1.0", "type": "win-bridge", "name": "azure", "apiVersion": 2, "ipam": ipam});
    machine.add(&other, "four-4", &machine.namespace()).result();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "two", "ifname": "eth0"}, {"containerID": "three", "ifname": "net1"}]);
    for _ in 0..2 {
        let answer = machine.call_with("GC", &config, &[]);
        assert!(answer.succeeded, "{}", answer.text);
        assert_eq!(names(&machine), ["four-4_azure", "two-eth0"].map(str::to_owned).into());
    }
}

#[test]
fn runtimes_from_before_namespaces() {
    let machine = Machine::new();
    let config = config(&machine, json!({}));
    // Nothing is there that could be shared, and nothing is made for it.
    assert_eq!(machine.add(&config, "work", "container:c1").failure().0, 4);
    assert_eq!(machine.azure_leases(), []);
    let result = machine.add(&config, "c1", "none").result();
    assert_eq!(result["interfaces"][0]["name"], "eth0");
    assert_eq!(machine.add(&config, "work", "container:c1").result(), result);
    assert_eq!(machine.azure_leases().len(), 1);
    for (container, netns) in [("work", "container:c1"), ("c1", "none")] {
        assert!(machine.del(&config, container, netns).succeeded);
    }
    machine.assert_empty("azure", "after DEL");
    assert_eq!(machine.azure_leases(), []);
}

#[test]
fn many_at_once_make_one_network() {
    const PODS: usize = 8;
    let machine = Machine::new();
    let addresses: Vec<String> = (10..10 + PODS).map(|last| format!("10.240.0.{last}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    // The second interface's pool is nobody's at first, so that some are given an address of it and have to change it.
    let ipam = machine.azure(&[(1, "10.240.0.0/16", &addresses), (2, "10.241.0.0/16", &["10.241.0.5"])]);
    let config = config(&machine, json!({"adapterName": "Ethernet", "ipam": ipam}));
    let namespaces: Vec<String> = (0..PODS).map(|_| machine.namespace()).collect();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let (machine, config, namespaces) = (&machine, &config, &namespaces);
        let calls: Vec<_> =
            (0..PODS).map(|number| scope.spawn(move || machine.add(config, &format!("c{number}"), &namespaces[number]))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let subnet: ipnet::IpNet = network(&machine)["Ipams"][0]["Subnets"][0]["IpAddressPrefix"].as_str().unwrap().parse().unwrap();
    for answer in answers {
        match answer.succeeded {
            true => {
                let address: ipnet::IpNet = answer.document()["ips"][0]["address"].as_str().unwrap().parse().unwrap();
                assert!(subnet.contains(&address.addr()), "{address} is not in {subnet}");
            }
            // Where the small subnet won, the rest finds no address.
            false => assert_eq!(answer.failure().0, 11, "{}", answer.text),
        }
    }
    assert_eq!(machine.azure_leases().len(), machine.all(Kind::Endpoint).len());
}

#[test]
fn what_needs_an_agent_of_the_cloud_is_refused_by_name() {
    let machine = Machine::new();
    for (changes, code, key) in [
        (json!({"multiTenancy": true}), 2, "multiTenancy"),
        (json!({"mode": "transparent"}), 2, "mode"),
        (json!({"mode": "transparent-vlan"}), 2, "mode"),
        (json!({"mode": "router"}), 7, "mode"),
        (json!({"ipv6Mode": "ipv6nat"}), 2, "ipv6Mode"),
        (json!({"executionMode": "v4swift"}), 2, "executionMode"),
        (json!({"ipam": {}}), 7, "ipam.type"),
        (json!({"ipam": {"type": "azure-cns"}}), 2, "ipam.type"),
        (json!({"ipam": {"type": "azure-vnet-ipam", "mode": "overlay"}}), 2, "ipam.mode"),
        (json!({"dns": {"nameservers": ["10.0.0.10"]}}), 7, "dns.search"),
        (json!({"dns": {"search": ["cluster.local"]}}), 7, "dns.nameservers"),
        (json!({"AdditionalArgs": [{"Name": "EndpointPolicy", "Value": 7}]}), 6, "AdditionalArgs[0].value"),
        (json!({"runtimeConfig": {"portMappings": [{"hostPort": 1, "containerPort": 2, "protocol": "sctp"}]}}), 2, "runtimeConfig"),
    ] {
        let config = config(&machine, changes);
        for command in ["ADD", "STATUS"] {
            let (found, message, details) = machine.call(command, &config, "c1", &machine.namespace()).failure();
            let expected = if command == "STATUS" { 50 } else { code };
            assert!(found == expected && message.starts_with(key) && !details.is_empty(), "{key}: {found} {message}: {details}");
        }
    }
    assert_eq!(machine.all(Kind::Network), Vec::<Value>::new());
    assert_eq!(machine.azure_leases(), []);
}

#[test]
fn status_says_whether_the_first_add_would_work() {
    let machine = Machine::new();
    let mut config = config(&machine, json!({}));
    assert!(machine.call_with("STATUS", &config, &[]).succeeded);
    assert_eq!(machine.all(Kind::Network), Vec::<Value>::new());
    config["ipam"]["file"] = "/nowhere".into();
    assert!(machine.call_with("STATUS", &config, &[]).succeeded, "the state has addresses");
    machine.fail(Fault::Dead(0));
    assert_eq!(machine.call_with("STATUS", &config, &[]).failure().0, 50);
}
