//! Networks, endpoints, namespaces, load balancers and routes: what the service makes of documents.

mod common;

use common::*;
use hcn::{Guid, Hcn, HcnExt, Kind};
use serde_json::{Value, json};

#[test]
fn a_network_is_completed() {
    let hcn = service();
    let id = make_network(&hcn, "Overlay", "vxlan0");
    let shown = show(&hcn, Kind::Network, id);
    assert_eq!(shown["ID"], id.to_string());
    assert_eq!(shown["Type"], "Overlay");
    assert_eq!(shown["Flags"], 8);
    assert_eq!(shown["Version"], 16u64 << 32);
    assert_eq!(shown["State"], 1);
    assert_eq!(policies(&shown, "ProviderAddress")[0]["Settings"]["ProviderAddress"], "192.0.2.10");
    let router = policies(&shown, "DrMacAddress")[0]["Settings"]["Address"].as_str().unwrap().to_owned();
    assert!(router.parse::<wire::MacAddress>().is_ok(), "{router}");
    assert!(shown["Health"]["Extra"]["LayeredOn"].is_string() && shown["Health"]["Extra"]["SwitchGuid"].is_string());
}

#[test]
fn the_router_has_a_mac_that_no_endpoint_gets() {
    let hcn = service();
    let mut document = network("Overlay", "net");
    document["ID"] = json!("aaaaaaaa-0000-4000-8000-000000000001");
    for (start, end, first) in [("00-15-5D-AA-00-00", "00-15-5D-AA-FF-FF", "02"), ("02-15-5D-00-00-00", "02-15-5D-FF-FF-FF", "06")] {
        document["MacPool"] = json!({"Ranges": [{"StartMacAddress": start, "EndMacAddress": end}]});
        let id = make(&hcn, Kind::Network, &document);
        let router = policies(&show(&hcn, Kind::Network, id), "DrMacAddress")[0]["Settings"]["Address"].as_str().unwrap().to_owned();
        assert_eq!(&router[..2], first, "{router}");
        hcn.delete(Kind::Network, id).unwrap();
    }
}

#[test]
fn networks_of_every_type() {
    let hcn = service();
    for (index, network_type) in
        ["NAT", "ICS", "Transparent", "L2Bridge", "L2Tunnel", "Overlay", "Private", "Internal", "Mirrored", "ConstrainedICS"]
            .iter()
            .enumerate()
    {
        let mut document = network(network_type, &format!("net{index}"));
        document["Ipams"][0]["Subnets"][0]["IpAddressPrefix"] = json!(format!("10.{index}.0.0/24"));
        document["Ipams"][0]["Subnets"][0]["Routes"][0]["NextHop"] = json!(format!("10.{index}.0.1"));
        let id = make(&hcn, Kind::Network, &document);
        assert_eq!(show(&hcn, Kind::Network, id)["Type"], *network_type);
        let pod = make_endpoint(&hcn, id);
        assert_eq!(show(&hcn, Kind::Endpoint, pod)["IpConfigurations"][0]["IpAddress"], format!("10.{index}.0.2"));
    }
    assert_eq!(refusal(&hcn, Kind::Network, &network("Warp", "x")), 0x803B_000B);
}

#[test]
fn nat_without_a_subnet_gets_one() {
    let hcn = service();
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let document = json!({"Name": name, "Type": "NAT", "MacPool": {}, "Dns": {}, "SchemaVersion": {"Major": 2, "Minor": 0}});
        ids.push(make(&hcn, Kind::Network, &document));
    }
    let mut prefixes: Vec<String> = Vec::new();
    let mut macs: Vec<String> = Vec::new();
    for id in ids {
        let shown = show(&hcn, Kind::Network, id);
        let subnet = &shown["Ipams"][0]["Subnets"][0];
        let prefix: ipnet::Ipv4Net = subnet["IpAddressPrefix"].as_str().unwrap().parse().unwrap();
        assert_eq!(prefix.prefix_len(), 20);
        assert!("172.16.0.0/12".parse::<ipnet::Ipv4Net>().unwrap().contains(&prefix));
        assert_eq!(subnet["Routes"][0]["NextHop"], prefix.hosts().next().unwrap().to_string());
        prefixes.push(prefix.to_string());
        let range = &shown["MacPool"]["Ranges"][0];
        assert!(range["StartMacAddress"].as_str().unwrap().ends_with("0-00") && range["EndMacAddress"].as_str().unwrap().ends_with("F-FF"));
        macs.push(range["StartMacAddress"].to_string());
    }
    for list in [&mut prefixes, &mut macs] {
        list.sort();
        list.dedup();
        assert_eq!(list.len(), 3);
    }
}

#[test]
fn an_endpoint_is_completed() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let mut document = endpoint(net);
    // What the reference plugins send when no IPAM is configured.
    document["IpConfigurations"] = json!([{}]);
    document["Routes"] = json!([{"DestinationPrefix": "::/0"}]);
    let id = make(&hcn, Kind::Endpoint, &document);
    let shown = show(&hcn, Kind::Endpoint, id);
    assert_eq!(shown["IpConfigurations"], json!([{"IpAddress": "192.168.100.2", "PrefixLength": 24}]));
    assert_eq!(shown["Routes"], json!([{"NextHop": "192.168.100.1", "DestinationPrefix": "0.0.0.0/0"}]));
    assert_eq!(shown["MacAddress"], "00-15-5D-52-C0-00");
    assert_eq!(shown["HostComputeNetwork"], net.to_string());
    assert_eq!(shown["State"], 1);
    assert!(shown.get("HostComputeNamespace").is_none());
}

#[test]
fn addresses_given_are_kept_and_unnamed_endpoints_get_a_name() {
    let hcn = service();
    let mut dual = network("NAT", "dual");
    dual["Ipams"][0]["Subnets"].as_array_mut().unwrap().push(json!({
        "IpAddressPrefix": "fd00::100/120", "Routes": [{"NextHop": "fd00::101", "DestinationPrefix": "::/0"}]}));
    let net = make(&hcn, Kind::Network, &dual);
    let wanted = json!([{"IpAddress": "192.168.100.9", "PrefixLength": 20}, {"IpAddress": "fd00::109", "PrefixLength": 120}]);
    let mut document = endpoint(net);
    document["Name"] = json!("");
    document["IpConfigurations"] = wanted.clone();
    document["MacAddress"] = json!("aa:bb:cc:dd:ee:0f");
    let shown = show(&hcn, Kind::Endpoint, make(&hcn, Kind::Endpoint, &document));
    assert_eq!(shown["IpConfigurations"], wanted);
    assert_eq!(shown["MacAddress"], "AA-BB-CC-DD-EE-0F");
    assert_eq!(shown["Name"], "Ethernet");
    assert_eq!(shown["Routes"].as_array().unwrap().len(), 2);
    let both = show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net));
    assert_eq!(both["IpConfigurations"].as_array().unwrap().len(), 2, "one address of each IP version");
}

#[test]
fn remote_endpoints_take_any_address_and_block_none() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    for address in ["10.96.0.10", "192.168.100.2", "192.168.100.1"] {
        let mut remote = endpoint_at(net, address);
        remote["Flags"] = json!(1);
        remote["MacAddress"] = json!("00-15-5d-00-00-01");
        let shown = show(&hcn, Kind::Endpoint, make(&hcn, Kind::Endpoint, &remote));
        assert_eq!(shown["IpConfigurations"][0]["IpAddress"], address);
    }
    let local = show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net));
    assert_eq!(local["IpConfigurations"][0]["IpAddress"], "192.168.100.2");
}

#[test]
fn ids_are_honoured_and_reusable() {
    let hcn = service();
    let id: Guid = "0d7ac2d4-0000-4000-8000-000000000003".parse().unwrap();
    // By the parameter, as WSL does.
    let made = hcn.create(Kind::Network, None, Some(id), &network("NAT", "nat").to_string()).unwrap();
    assert_eq!(made, id);
    hcn.delete(Kind::Network, id).unwrap();
    // By the document, as hcsshim does, with an all-zero parameter.
    let mut document = network("NAT", "nat");
    document["ID"] = json!(id.to_string());
    assert_eq!(hcn.create(Kind::Network, None, Some(Guid::nil()), &document.to_string()).unwrap(), id);
}

#[test]
fn namespaces_of_every_type() {
    let hcn = service();
    for namespace_type in ["Host", "HostDefault", "Guest", "GuestDefault"] {
        let id = make(&hcn, Kind::Namespace, &namespace(namespace_type));
        let shown = show(&hcn, Kind::Namespace, id);
        assert_eq!(shown["Type"], namespace_type);
        let compartment = if namespace_type == "HostDefault" { json!(1) } else { Value::Null };
        assert_eq!(shown["NamespaceId"], compartment, "the compartment is the service's choice");
        hcn.delete(Kind::Namespace, id).unwrap();
    }
    make(&hcn, Kind::Namespace, &namespace("HostDefault"));
    assert_eq!(refusal(&hcn, Kind::Namespace, &namespace("HostDefault")), 0x803B_0029);
    // containerd creates pod namespaces without a type, in schema 0.0, and they are shown so.
    let pod = make(&hcn, Kind::Namespace, &json!({"SchemaVersion": {"Major": 0, "Minor": 0}}));
    assert_eq!(show(&hcn, Kind::Namespace, pod)["SchemaVersion"], json!({"Major": 0, "Minor": 0}));
}

#[test]
fn an_endpoint_goes_in_and_out_of_a_namespace() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let space = make(&hcn, Kind::Namespace, &namespace("Host"));
    attach(&hcn, space, pod).unwrap();
    attach(&hcn, space, pod).unwrap();
    let shown = show(&hcn, Kind::Namespace, space);
    assert_eq!(shown["Resources"], json!([{"Type": "Endpoint", "Data": {"Id": pod.to_string()}}]));
    assert_eq!(shown["NamespaceId"], 2);
    let endpoint = show(&hcn, Kind::Endpoint, pod);
    assert_eq!((endpoint["HostComputeNamespace"].as_str(), &endpoint["State"]), (Some(space.to_string().as_str()), &json!(2)));
    let other = make(&hcn, Kind::Namespace, &namespace("Host"));
    assert_eq!(attach(&hcn, other, pod).unwrap_err().hresult(), 0x803B_002B);
    detach(&hcn, space, pod).unwrap();
    assert_eq!(detach(&hcn, space, pod).unwrap_err().hresult(), 0x8007_0490);
    attach(&hcn, other, pod).unwrap();
    // Whichever goes first, the other one notices.
    hcn.delete(Kind::Namespace, other).unwrap();
    assert!(show(&hcn, Kind::Endpoint, pod).get("HostComputeNamespace").is_none());
    attach(&hcn, space, pod).unwrap();
    hcn.delete(Kind::Endpoint, pod).unwrap();
    assert!(show(&hcn, Kind::Namespace, space).get("Resources").is_none());
}

#[test]
fn a_load_balancer_is_kept_as_it_was_sent() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let (one, two) = (make_endpoint(&hcn, net), make_endpoint(&hcn, net));
    let mut document = load_balancer(&[one], &["1.1.1.2", "1.1.1.3"], 80);
    document["Flags"] = json!(1);
    document["PortMappings"][0]["Flags"] = json!(8);
    document["PortMappings"][0]["DistributionType"] = json!(2);
    let id = make(&hcn, Kind::LoadBalancer, &document);
    let shown = show(&hcn, Kind::LoadBalancer, id);
    assert_eq!(shown["Flags"], 1);
    assert_eq!(
        shown["PortMappings"],
        json!([{"Protocol": 6, "InternalPort": 8080, "ExternalPort": 80, "DistributionType": 2, "Flags": 8}])
    );
    assert_eq!(shown["HostComputeEndpoints"], json!([one.to_string()]));
    assert_eq!(shown["FrontendVIPs"], json!(["1.1.1.2", "1.1.1.3"]));
    // kube-proxy sends the whole document without an id.
    hcn.modify(Kind::LoadBalancer, id, &load_balancer(&[one, two], &["1.1.1.2"], 80).to_string()).unwrap();
    assert_eq!(show(&hcn, Kind::LoadBalancer, id)["HostComputeEndpoints"], json!([one.to_string(), two.to_string()]));
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[one], &["1.1.1.3"], 80));
    let member = request("Endpoint", "Remove", json!({"EndpointId": two.to_string()}));
    hcn.modify(Kind::LoadBalancer, id, &member).unwrap();
    assert_eq!(show(&hcn, Kind::LoadBalancer, id)["HostComputeEndpoints"], json!([one.to_string()]));
    // A pod goes while Services still point at it.
    hcn.delete(Kind::Endpoint, one).unwrap();
    assert!(show(&hcn, Kind::LoadBalancer, id).get("HostComputeEndpoints").is_none());
}

#[test]
fn node_ports_of_two_ip_versions_do_not_clash() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let pod = make_endpoint(&hcn, net);
    make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &[], 31416));
    let mut v6 = load_balancer(&[pod], &[], 31416);
    v6["Flags"] = json!(2);
    make(&hcn, Kind::LoadBalancer, &v6);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &[], 31416)), 0x803B_0013);
    let mut empty = load_balancer(&[pod], &["1.1.1.1"], 80);
    empty["PortMappings"] = json!([]);
    assert_eq!(refusal(&hcn, Kind::LoadBalancer, &empty), 0x803B_000D);
}

#[test]
fn routes_answer_to_both_names() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let pod = make_endpoint(&hcn, net);
    let setting = json!([{"DestinationPrefix": "169.254.169.254/24", "NextHop": "127.10.0.34"}]);
    let document = json!({"HostComputeEndpoints": [pod.to_string()], "Setting": setting, "SchemaVersion": {"Major": 2, "Minor": 0}});
    let id = make(&hcn, Kind::Route, &document);
    let shown = show(&hcn, Kind::Route, id);
    assert_eq!((&shown["Setting"], &shown["Routes"]), (&setting, &setting));
    let nat = make_network(&hcn, "NAT", "nat");
    let local = make_endpoint(&hcn, nat);
    let document = json!({"HostComputeEndpoints": [local.to_string()], "Routes": setting});
    assert_eq!(refusal(&hcn, Kind::Route, &document), 0x803B_000E);
}

#[test]
fn unknown_fields_survive() {
    let hcn = service();
    let mut document = network("NAT", "nat");
    document["Tomorrow"] = json!({"a": [1, 2]});
    document["Ipams"][0]["Subnets"][0]["Next"] = json!("year");
    let shown = show(&hcn, Kind::Network, make(&hcn, Kind::Network, &document));
    assert_eq!(shown["Tomorrow"], json!({"a": [1, 2]}));
    assert_eq!(shown["Ipams"][0]["Subnets"][0]["Next"], "year");
}

#[test]
fn subnets_are_added_and_removed() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let subnet = json!({"ID": "11111111-0000-4000-8000-000000000001", "IpAddressPrefix": "192.168.101.0/24",
        "Routes": [{"NextHop": "192.168.101.1", "DestinationPrefix": "0.0.0.0/0"}]});
    hcn.modify(Kind::Network, net, &request("Subnet", "Add", json!({"Subnets": [subnet]}))).unwrap();
    let pod = make(&hcn, Kind::Endpoint, &endpoint_at(net, "192.168.101.5"));
    let remove = request("Subnet", "Remove", json!({"Subnets": [{"ID": subnet["ID"]}]}));
    assert_eq!(hcn.modify(Kind::Network, net, &remove).unwrap_err().hresult(), 0x803B_002C);
    hcn.delete(Kind::Endpoint, pod).unwrap();
    hcn.modify(Kind::Network, net, &remove).unwrap();
    assert_eq!(hcn.modify(Kind::Network, net, &remove).unwrap_err().hresult(), 0x803B_0005);
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint_at(net, "192.168.101.5")), 0x803B_001E);
}

#[test]
fn ip_subnets_are_where_addresses_come_from() {
    let hcn = service();
    let mut document = network("L2Bridge", "net");
    document["Ipams"][0]["Subnets"][0]["IpSubnets"] = json!([
        {"ID": "22222222-0000-4000-8000-000000000001", "IpAddressPrefix": "192.168.100.64/30"},
    ]);
    let net = make(&hcn, Kind::Network, &document);
    let taken: Vec<Value> =
        (0..4).map(|_| show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net))["IpConfigurations"][0]["IpAddress"].clone()).collect();
    assert_eq!(json!(taken), json!(["192.168.100.64", "192.168.100.65", "192.168.100.66", "192.168.100.67"]));
    assert_eq!(refusal(&hcn, Kind::Endpoint, &endpoint(net)), 0x803B_002F);
    let subnet = show(&hcn, Kind::Network, net)["Ipams"][0]["Subnets"][0]["ID"].clone();
    let more = json!({"SubnetId": subnet, "IpSubnets": [{"IpAddressPrefix": "192.168.100.128/28"}]});
    hcn.modify(Kind::Network, net, &request("IPSubnet", "Add", more)).unwrap();
    assert_eq!(show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net))["IpConfigurations"][0]["IpAddress"], "192.168.100.128");
    let outside = json!({"SubnetId": subnet, "IpSubnets": [{"IpAddressPrefix": "10.0.0.0/28"}]});
    assert_eq!(hcn.modify(Kind::Network, net, &request("IPSubnet", "Add", outside)).unwrap_err().hresult(), 0x803B_0033);
}

#[test]
fn typed_calls_and_references() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "nat");
    let read: hcn::network::Network = hcn.object(net).unwrap();
    assert_eq!(read.name, "nat");
    let id = net.to_string();
    assert_eq!(hcn.resolve(Kind::Network, "nat").unwrap(), net);
    assert_eq!(hcn.resolve(Kind::Network, &id[..6]).unwrap(), net);
    assert_eq!(hcn.resolve(Kind::Network, &id.to_uppercase()).unwrap(), net);
    assert_eq!(hcn.resolve(Kind::Network, "nothing").unwrap_err().hresult(), 0x803B_0001);
    make_endpoint(&hcn, net);
    make_endpoint(&hcn, net);
    assert!(hcn.resolve(Kind::Endpoint, "pod").unwrap_err().to_string().contains("2 endpoints match"));
}

#[test]
fn a_guest_network_service_has_states() {
    let hcn = service();
    let document = json!({"VirtualMachineId": "33333333-0000-4000-8000-000000000001", "MirrorHostNetworking": true, "SchemaVersion": {"Major": 2, "Minor": 16}});
    let id = make(&hcn, Kind::GuestNetworkService, &document);
    hcn.modify(Kind::GuestNetworkService, id, &request("State", "Update", json!({"State": "Synchronized"}))).unwrap();
    assert_eq!(show(&hcn, Kind::GuestNetworkService, id)["State"], "Synchronized");
    let bad = request("State", "Update", json!({"State": "Confused"}));
    assert_eq!(hcn.modify(Kind::GuestNetworkService, id, &bad).unwrap_err().hresult(), 0x8007_0057);
    hcn.delete(Kind::GuestNetworkService, id).unwrap();
}
