//! The older interface: what hcsshim, PowerShell and WSL call, and both views of one store.

mod common;

use common::*;
use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

fn post(hcn: &dyn Hcn, path: &str, body: Value) -> Value {
    hcn.call("POST", path, &body.to_string()).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
}

fn nat() -> Value {
    json!({"Type": "nat", "Name": "GoTestNat", "Subnets": [{"AddressPrefix": "192.168.100.0/24", "GatewayAddress": "192.168.100.1"}]})
}

fn id(document: &Value) -> Guid {
    document["ID"].as_str().unwrap().parse().unwrap()
}

#[test]
fn microsofts_endpoint_test() {
    let hcn = service();
    let network = post(&hcn, "/networks/", nat());
    assert_eq!(network["Type"], "nat", "the caller's spelling");
    assert_eq!(network["ID"].as_str().unwrap(), network["ID"].as_str().unwrap().to_uppercase());
    let endpoint = post(&hcn, "/endpoints/", json!({"Name": "GoTestNatEndpoint", "VirtualNetwork": network["ID"]}));
    assert_eq!((endpoint["IPAddress"].as_str(), endpoint["GatewayAddress"].as_str()), (Some("192.168.100.2"), Some("192.168.100.1")));
    assert_eq!((&endpoint["PrefixLength"], &endpoint["SharedContainers"]), (&json!(24), &json!([])));
    let path = format!("/endpoints/{}", endpoint["ID"].as_str().unwrap());
    let attached = post(&hcn, &format!("{path}/attach"), json!({"SystemType": "Host", "CompartmentId": 1}));
    assert_eq!(attached["State"], 2);
    post(&hcn, &format!("{path}/detach"), json!({"SystemType": "Host"}));
    post(&hcn, &format!("{path}/detach"), json!({"SystemType": "Host"}));
    assert_eq!(hcn.call("GET", &path, "").unwrap()["State"], 4);
    hcn.call("DELETE", &path, "").unwrap();
    hcn.call("DELETE", &format!("/networks/{}", id(&network)), "").unwrap();
    assert_eq!(hcn.call("GET", "/networks", "").unwrap(), json!([]));
}

#[test]
fn version_one_documents_through_version_two_calls() {
    let hcn = service();
    let network = hcn.create(Kind::Network, None, None, &nat().to_string()).unwrap();
    let shown = show(&hcn, Kind::Network, network);
    assert_eq!(shown["Ipams"][0]["Subnets"][0]["IpAddressPrefix"], "192.168.100.0/24");
    assert_eq!(shown["Type"], "NAT");
    let endpoint = json!({"Name": "e", "VirtualNetwork": network.to_string()});
    let endpoint = hcn.create(Kind::Endpoint, Some(network), None, &endpoint.to_string()).unwrap();
    assert_eq!(show(&hcn, Kind::Endpoint, endpoint)["IpConfigurations"][0]["IpAddress"], "192.168.100.2");
}

#[test]
fn a_network_may_be_named_by_name() {
    let hcn = service();
    post(&hcn, "/networks", nat());
    let endpoint = post(&hcn, "/endpoints", json!({"Name": "e", "VirtualNetworkName": "GoTestNat"}));
    assert_eq!(endpoint["VirtualNetworkName"], "GoTestNat");
}

#[test]
fn flannels_host_gateway_sequence() {
    let hcn = service();
    let document =
        json!({"Type": "L2Bridge", "Name": "cbr0", "Subnets": [{"AddressPrefix": "10.244.3.0/24", "GatewayAddress": "10.244.3.1"}]});
    let network = post(&hcn, "/networks/", document);
    assert_eq!(network["ManagementIP"], "192.0.2.10");
    let endpoint = post(&hcn, "/endpoints/", json!({"Name": "cbr0_ep", "VirtualNetwork": network["ID"], "IPAddress": "10.244.3.2"}));
    assert_eq!(endpoint["IPAddress"], "10.244.3.2");
}

#[test]
fn policy_lists_are_load_balancers() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let pod = make_endpoint(&hcn, net);
    let body = json!({"References": [format!("/endpoints/{}", pod.to_string().to_uppercase())],
        "Policies": [{"Type": "ELB", "Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIPs": ["1.1.1.1"], "ILB": true, "IsDSR": true, "SourceVIP": "10.0.0.1"}]});
    let list = post(&hcn, "/policylists/", body);
    let shown = show(&hcn, Kind::LoadBalancer, id(&list));
    assert_eq!((&shown["Flags"], &shown["PortMappings"][0]["Flags"]), (&json!(1), &json!(1)));
    assert_eq!(shown["HostComputeEndpoints"], json!([pod.to_string()]));
    let second = make(&hcn, Kind::LoadBalancer, &load_balancer(&[pod], &["1.1.1.2"], 80));
    let lists = hcn.call("GET", "/policylists/", "").unwrap();
    assert_eq!(lists.as_array().unwrap().len(), 2);
    assert_eq!(lists[1]["Policies"][0]["VIPs"], json!(["1.1.1.2"]));
    let route = json!({"References": [format!("/endpoints/{pod}")], "Policies": [{"Type": "ROUTE", "DestinationPrefix": "10.0.0.0/8", "NeedEncap": true}]});
    let route = post(&hcn, "/policylists", route);
    assert_eq!(hcn.enumerate(Kind::LoadBalancer, "").unwrap().len(), 2, "a route is no load balancer: kube-proxy reads its port mappings");
    for gone in [id(&list), second, id(&route)] {
        hcn.call("DELETE", &format!("/policylists/{gone}"), "").unwrap();
    }
    assert_eq!(hcn.call("GET", "/policylists/", "").unwrap(), json!([]));
}

#[test]
fn namespaces_by_the_older_calls() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let space = post(&hcn, "/namespaces/", json!({}));
    let path = format!("/namespaces/{}", space["ID"].as_str().unwrap());
    let resource = json!({"Type": "Endpoint", "Data": {"Id": pod.to_string()}});
    let filled = post(&hcn, &format!("{path}/addresource"), resource.clone());
    assert_eq!(filled["ResourceList"][0]["Type"], "Endpoint");
    let endpoint = hcn.call("GET", &format!("/endpoints/{pod}"), "").unwrap();
    assert_eq!(endpoint["Namespace"]["ID"], space["ID"]);
    assert_eq!(endpoint["Namespace"]["CompartmentId"], 2);
    post(&hcn, &format!("{path}/removeresource"), resource.clone());
    assert!(hcn.call("GET", &format!("/endpoints/{pod}"), "").unwrap().get("Namespace").is_none());
    let error = hcn.call("POST", &format!("{path}/removeresource"), &resource.to_string()).unwrap_err();
    assert_eq!(error.sentence(), "Element not found.");
    hcn.call("DELETE", &path, "").unwrap();
    let default = post(&hcn, "/namespaces/", json!({"IsDefault": true}));
    assert_eq!((&default["IsDefault"], &default["CompartmentId"]), (&json!(true), &json!(1)));
}

#[test]
fn containers_share_an_endpoint() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let attach =
        |container: &str| post(&hcn, &format!("/endpoints/{pod}/attach"), json!({"SystemType": "Container", "ContainerId": container}));
    assert_eq!(attach("sandbox")["State"], 2);
    let shared = attach("workload");
    assert_eq!((&shared["State"], &shared["SharedContainers"]), (&json!(3), &json!(["sandbox", "workload"])));
    assert!(hcn.has_container("workload"));
    let detach =
        |container: &str| post(&hcn, &format!("/endpoints/{pod}/detach"), json!({"SystemType": "Container", "ContainerId": container}));
    assert_eq!(detach("workload")["State"], 2);
    assert_eq!(detach("sandbox")["State"], 4);
    assert!(!hcn.has_container("sandbox"));
}

#[test]
fn endpoint_updates_replace_policies() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let pod = make_endpoint(&hcn, net);
    let mut document = hcn.call("GET", &format!("/endpoints/{pod}"), "").unwrap();
    document["Policies"] =
        json!([{"Type": "ACL", "Action": "Allow", "Direction": "In", "Protocol": 6, "Priority": 100, "RuleType": "Switch"}]);
    let updated = post(&hcn, &format!("/endpoints/{pod}"), document);
    assert_eq!(updated["Policies"][0]["Type"], "ACL");
    assert_eq!(policies(&show(&hcn, Kind::Endpoint, pod), "ACL")[0]["Settings"]["Protocols"], "6");
}

#[test]
fn management_macs_and_the_rest() {
    let hcn = service();
    let macs = json!({"MacAddressList": [{"MacAddress": "00-15-5D-0A-B7-C6"}, {"MacAddress": "00-15-5D-38-01-00"}]});
    let count = |answer: Value| answer["MacAddressList"].as_array().unwrap().len();
    assert_eq!(count(post(&hcn, "/accelnet/", macs)), 2);
    assert_eq!(count(hcn.call("GET", "/accelnet/", "").unwrap()), 2);
    assert_eq!(count(hcn.call("DELETE", "/accelnet/", "").unwrap()), 0);
    assert_eq!(count(hcn.call("GET", "/accelnet/", "").unwrap()), 0);
    assert_eq!(hcn.call("GET", "/globals/version", "").unwrap(), json!({"Major": 16, "Minor": 0}));
    assert_eq!(hcn.call("GET", "/globals/weather", "").unwrap_err().hresult(), 0x8007_0490);
    assert_eq!(hcn.call("PATCH", "/networks", "").unwrap_err().hresult(), 0x803B_0015);
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    assert_eq!(hcn.call("GET", &format!("/endpointstats/{pod}"), "").unwrap()["BytesSent"], 0);
    let extensions = json!({"Extensions": [{"Id": "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A", "IsEnabled": true}]});
    post(&hcn, &format!("/networks/{net}"), extensions);
}

#[test]
fn a_networks_own_policies_survive_an_update() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let before = show(&hcn, Kind::Network, net);
    let after = post(&hcn, &format!("/networks/{net}"), json!({"Policies": []}));
    assert_eq!(after["ManagementIP"], "192.0.2.10");
    for kind in ["ProviderAddress", "DrMacAddress"] {
        assert_eq!(policies(&show(&hcn, Kind::Network, net), kind), policies(&before, kind));
    }
}

#[test]
fn endpoints_behind_nat_ask_the_hosts_servers() {
    let dns = hcn::base::Dns { server_list: vec!["192.0.2.53".into()], search: vec!["corp.test".into()], ..Default::default() };
    let hcn = start(hns::machine::FakeMachine { dns, ..hns::machine::FakeMachine::with_ethernet() }, hns::Build::default());
    let network = post(&hcn, "/networks/", nat());
    let endpoint = post(&hcn, "/endpoints/", json!({"Name": "e", "VirtualNetwork": network["ID"]}));
    assert_eq!((endpoint["DNSServerList"].as_str(), endpoint["DNSSuffix"].as_str()), (Some("192.0.2.53"), Some("corp.test")));
    let own = post(&hcn, "/endpoints/", json!({"Name": "o", "VirtualNetwork": network["ID"], "DNSServerList": "10.96.0.10"}));
    assert_eq!(own["DNSServerList"], "10.96.0.10");
    let bridge = make_network(&hcn, "L2Bridge", "bridge");
    assert!(show(&hcn, Kind::Endpoint, make_endpoint(&hcn, bridge)).get("Dns").is_none());
}

#[test]
fn wsls_network() {
    let hcn = service();
    let document = json!({"Name": "WSL", "Type": "ICS", "IsolateSwitch": true, "Flags": 9,
        "Subnets": [{"ObjectType": 5, "AddressPrefix": "172.20.0.0/20", "GatewayAddress": "172.20.0.1",
            "IpSubnets": [{"IpAddressPrefix": "172.20.0.0/20", "Flags": 3, "ObjectType": 6}]}]});
    let wanted: Guid = "b95d0c5e-57d4-412b-b571-18a81a16e005".parse().unwrap();
    let made = hcn.create(Kind::Network, None, Some(wanted), &document.to_string()).unwrap();
    assert_eq!(made, wanted);
    let v1 = hcn.query(Kind::Network, made, "").unwrap();
    assert_eq!(v1["Subnets"].as_array().unwrap().len(), 1);
    let endpoint = json!({"HostComputeNetwork": made.to_string(), "SchemaVersion": {"Major": 2, "Minor": 16},
        "Policies": [{"Type": 9, "Settings": {"Name": ""}}]});
    let id = hcn.create(Kind::Endpoint, Some(made), None, &endpoint.to_string()).unwrap();
    hcn.modify(Kind::Endpoint, id, &request("Port", "Add", json!({"PortId": "55555555-0000-4000-8000-000000000001"}))).unwrap();
    assert_eq!(show(&hcn, Kind::Endpoint, id)["State"], 2);
    let refresh = json!({"ResourceType": 0, "RequestType": 3}).to_string();
    hcn.modify(Kind::Endpoint, id, &refresh).unwrap();
    hcn.modify(Kind::Endpoint, id, &request("Port", "Remove", json!({}))).unwrap();
}
