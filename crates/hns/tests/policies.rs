//! Policies added, updated and removed, each checked against its own settings.

mod common;

use common::*;
use hcn::{Hcn, Kind};
use serde_json::{Value, json};

fn change(hcn: &dyn Hcn, kind: Kind, id: hcn::Guid, how: &str, policy_type: &str, settings: Value) -> hcn::Result<()> {
    let settings = json!({"Policies": [{"Type": policy_type, "Settings": settings}]});
    hcn.modify(kind, id, &request("Policy", how, settings))
}

#[test]
fn network_policies_come_and_go() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let route = json!({"DestinationPrefix": "192.168.2.0/24", "IsolationId": 5000, "ProviderAddress": "1.1.1.1",
        "DistributedRouterMacAddress": "00-12-34-56-78-9a"});
    let acl = json!({"Protocols": "6", "Action": "Allow", "Direction": "In", "LocalAddresses": "192.168.100.0/24,10.0.0.21",
        "RemoteAddresses": "192.168.100.0/24,10.0.0.21", "LocalPorts": "80,8080", "RemotePorts": "80,8080", "RuleType": "Switch", "Priority": 200});
    for (policy_type, settings) in [("RemoteSubnetRoute", route), ("HostRoute", json!({})), ("NetworkACL", acl)] {
        change(&hcn, Kind::Network, net, "Add", policy_type, settings.clone()).unwrap();
        let shown = show(&hcn, Kind::Network, net);
        assert_eq!(policies(&shown, policy_type).len(), 1);
        assert!(policies(&shown, policy_type)[0]["Settings"].is_object());
        assert_eq!(change(&hcn, Kind::Network, net, "Add", policy_type, settings.clone()).unwrap_err().hresult(), 0x803B_0012);
        change(&hcn, Kind::Network, net, "Remove", policy_type, settings.clone()).unwrap();
        assert!(policies(&show(&hcn, Kind::Network, net), policy_type).is_empty());
        assert_eq!(change(&hcn, Kind::Network, net, "Remove", policy_type, settings).unwrap_err().hresult(), 0x803B_0008);
    }
}

#[test]
fn one_remote_subnet_among_many_is_removed_whatever_its_spelling() {
    let hcn = service();
    let net = make_network(&hcn, "Overlay", "net");
    let route = |number: u8, mac: &str| {
        json!({"DestinationPrefix": format!("10.244.{number}.0/24"), "IsolationId": 4096, "ProviderAddress": format!("192.0.2.{number}"),
            "DistributedRouterMacAddress": mac})
    };
    for number in 1..20 {
        change(&hcn, Kind::Network, net, "Add", "RemoteSubnetRoute", route(number, "0e-2a-0a-00-00-01")).unwrap();
    }
    change(&hcn, Kind::Network, net, "Remove", "remotesubnetroute", route(7, "0E:2A:0A:00:00:01")).unwrap();
    let left = policies(&show(&hcn, Kind::Network, net), "RemoteSubnetRoute");
    assert_eq!(left.len(), 18);
    assert!(left.iter().all(|policy| policy["Settings"]["ProviderAddress"] != "192.0.2.7"));
    assert_eq!(left[0]["Settings"]["DistributedRouterMacAddress"], "0E-2A-0A-00-00-01");
}

#[test]
fn sets_are_known_by_their_id() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let set = |values: &str| json!({"Id": "azure-npm-1", "Name": "ns-a", "PolicyType": 0, "Values": values});
    change(&hcn, Kind::Network, net, "Add", "SetPolicy", set("10.0.0.1,10.0.0.2")).unwrap();
    assert_eq!(change(&hcn, Kind::Network, net, "Add", "SetPolicy", set("")).unwrap_err().hresult(), 0x803B_0012);
    change(&hcn, Kind::Network, net, "Update", "SetPolicy", set("10.0.0.3")).unwrap();
    let shown = show(&hcn, Kind::Network, net);
    assert_eq!(
        policies(&shown, "SetPolicy")[0]["Settings"],
        json!({"Id": "azure-npm-1", "Name": "ns-a", "PolicyType": "IPSET", "Values": "10.0.0.3"})
    );
    assert_eq!(policies(&shown, "ProviderAddress").len(), 1, "an update leaves other policies alone");
    let pod = make_endpoint(&hcn, net);
    let acl = |set: &str| json!({"Action": "Block", "Direction": "In", "RemoteAddresses": set, "RuleType": "Switch", "Priority": 100});
    change(&hcn, Kind::Endpoint, pod, "Add", "ACL", acl("azure-npm-1")).unwrap();
    assert_eq!(change(&hcn, Kind::Endpoint, pod, "Add", "ACL", acl("azure-npm-2")).unwrap_err().hresult(), 0x803B_000D);
    let nested = json!({"Id": "all", "Name": "all", "PolicyType": "NESTEDIPSET", "Values": "azure-npm-1"});
    change(&hcn, Kind::Network, net, "Add", "SetPolicy", nested).unwrap();
}

#[test]
fn endpoint_policies_are_replaced_by_an_update() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make_endpoint(&hcn, net);
    let acl = |direction: &str| json!({"Action": "Allow", "Direction": direction, "Protocols": "6", "RuleType": "Switch", "Priority": 200});
    change(&hcn, Kind::Endpoint, pod, "Add", "QOS", json!({"MaximumOutgoingBandwidthInBytes": 1000})).unwrap();
    let both = json!({"Policies": [{"Type": "ACL", "Settings": acl("In")}, {"Type": "ACL", "Settings": acl("Out")}]});
    hcn.modify(Kind::Endpoint, pod, &request("Policy", "Update", both)).unwrap();
    let shown = show(&hcn, Kind::Endpoint, pod);
    assert_eq!((policies(&shown, "ACL").len(), policies(&shown, "QOS").len()), (2, 0));
    // PowerShell clears what is there by an update with one empty object.
    hcn.modify(Kind::Endpoint, pod, &request("Policy", "Update", json!({"Policies": [{}]}))).unwrap();
    assert!(show(&hcn, Kind::Endpoint, pod).get("Policies").is_none());
}

#[test]
fn every_endpoint_policy_in_a_form_that_clients_send() {
    let hcn = service();
    let net = make_network(&hcn, "L2Bridge", "net");
    let table = [
        ("PortMapping", json!({"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIP": ""})),
        ("ACL", json!({"Protocols": "6,17", "Action": "Allow", "Direction": "Out", "RemotePorts": "80,1000-2000"})),
        ("QOS", json!({"MaximumOutgoingBandwidthInBytes": 1_000_000})),
        ("L2Driver", json!({})),
        ("OutBoundNAT", json!({"Exceptions": ["10.0.0.0/8", "192.168.0.0/16"], "VirtualIP": "192.0.2.10"})),
        ("OutBoundNAT", json!({"Destinations": ["192.168.100.9"]})),
        ("SDNROUTE", json!({"DestinationPrefix": "10.96.0.0/12", "NeedEncap": true})),
        ("L4Proxy", json!({"IP": "10.0.0.1", "Port": "8080", "Protocol": 6, "ExceptionList": ["10.0.0.0/8"], "Destination": "0.0.0.0/0"})),
        (
            "L4WFPPROXY",
            json!({"InboundProxyPort": "80", "OutboundProxyPort": "81", "FilterTuple": {"Protocols": "6", "RemoteAddresses": "10.0.0.4", "Priority": 8}}),
        ),
        ("ProviderAddress", json!({"ProviderAddress": "192.0.2.11"})),
        ("PortName", json!({"Name": ""})),
        ("EncapOverhead", json!({"Overhead": 50})),
        ("INTERFACECONSTRAINT", json!({"InterfaceAlias": "Ethernet"})),
        ("Encryption", json!({"EncryptionMethodType": "Ipsec", "Name": "tunnel"})),
        ("VLAN", json!({"IsolationId": 7})),
        ("InterfaceParameters", json!({"Mtu": 1400})),
        ("Iov", json!({"IovOffloadWeight": 100})),
        (
            "TierAcl",
            json!({"Name": "t", "Direction": "In", "Order": 1001, "TierAclRules": [{"Id": "r", "TierAclRuleAction": "Pass", "Priority": 2001}]}),
        ),
        ("Firewall", json!({"VmCreatorId": "44444444-0000-4000-8000-000000000001", "PolicyFlags": 1})),
    ];
    for (policy_type, settings) in table {
        let id = make(&hcn, Kind::Endpoint, &endpoint_with(net, policy_type, settings));
        let shown = show(&hcn, Kind::Endpoint, id);
        assert_eq!(shown["Policies"].as_array().map(Vec::len), Some(1), "{policy_type}");
        hcn.delete(Kind::Endpoint, id).unwrap();
    }
}

#[test]
fn interface_parameters_only_once() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let pod = make(&hcn, Kind::Endpoint, &endpoint_with(net, "InterfaceParameters", json!({"Mtu": 1400})));
    assert_eq!(change(&hcn, Kind::Endpoint, pod, "Add", "InterfaceParameters", json!({"Mtu": 1300})).unwrap_err().hresult(), 0x803B_0036);
}

#[test]
fn a_mapping_without_an_external_port_gets_one() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let mapping = json!({"Protocol": 6, "InternalPort": 80});
    let ports: Vec<Value> = (0..3)
        .map(|_| make(&hcn, Kind::Endpoint, &endpoint_with(net, "PortMapping", mapping.clone())))
        .map(|id| show(&hcn, Kind::Endpoint, id)["Policies"][0]["Settings"]["ExternalPort"].clone())
        .collect();
    assert_eq!(ports, [json!(49152), json!(49153), json!(49154)]);
}

#[test]
fn requests_nobody_knows() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    assert_eq!(hcn.modify(Kind::Network, net, &request("Policy", "Refresh", json!({"Policies": []}))).unwrap_err().hresult(), 0x803B_0015);
    assert_eq!(hcn.modify(Kind::Network, net, &request("Weather", "Add", json!({}))).unwrap_err().hresult(), 0x803B_0015);
    assert_eq!(hcn.modify(Kind::Network, net, "{}").unwrap_err().detail().field.as_deref(), Some("ResourceType"));
    // Enums may be numbers: 2 is Policy, 0 is Add.
    let numbers = json!({"ResourceType": 2, "RequestType": 0, "Settings": {"Policies": [{"Type": 9, "Settings": {}}]}});
    hcn.modify(Kind::Network, net, &numbers.to_string()).unwrap();
    assert_eq!(policies(&show(&hcn, Kind::Network, net), "HostRoute").len(), 1);
}

#[test]
fn extensions_and_dns() {
    let hcn = service();
    let net = make_network(&hcn, "NAT", "net");
    let vfp = json!({"Id": "F74F241B-440F-4433-BB28-00F89EAD20D8", "IsEnabled": true});
    hcn.modify(Kind::Network, net, &request("Extension", "Update", vfp)).unwrap();
    let unknown = json!({"Id": "00000000-0000-4000-8000-000000000009", "IsEnabled": true});
    assert_eq!(hcn.modify(Kind::Network, net, &request("Extension", "Update", unknown)).unwrap_err().hresult(), 0x803B_001F);
    hcn.modify(Kind::Network, net, &request("DNS", "Update", json!({"ServerList": ["10.96.0.10"], "Search": ["svc.cluster.local"]})))
        .unwrap();
    let pod = show(&hcn, Kind::Endpoint, make_endpoint(&hcn, net));
    assert_eq!(pod["Dns"], json!({"Search": ["svc.cluster.local"], "ServerList": ["10.96.0.10"]}));
}

#[test]
fn a_layer_must_exist() {
    let hcn = service();
    let below = make_network(&hcn, "Transparent", "below");
    let layer = show(&hcn, Kind::Network, below)["Health"]["Extra"]["LayeredOn"].clone();
    let mut above = network("L2Bridge", "above");
    above["Policies"] = json!([{"Type": "LayerConstraint", "Settings": {"LayerId": layer}}]);
    make(&hcn, Kind::Network, &above);
    above["Name"] = json!("nowhere");
    above["Policies"][0]["Settings"]["LayerId"] = json!("00000000-0000-4000-8000-000000000009");
    above["Ipams"] = json!([]);
    assert_eq!(refusal(&hcn, Kind::Network, &above), 0x803B_0003);
}
