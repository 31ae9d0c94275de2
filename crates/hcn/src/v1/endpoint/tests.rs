use serde_json::json;

use super::*;
use crate::parse;

const ID: &str = "00000000-0000-0000-0000-00000000000A";
const ID_V2: &str = "00000000-0000-0000-0000-00000000000a";

fn raised(v1: Value) -> Value {
    parse::<HnsEndpoint>(&v1.to_string()).unwrap().to_v2().unwrap().write()
}

fn lowered(v2: Value) -> Value {
    HnsEndpoint::from_v2(&parse(&v2.to_string()).unwrap(), &EndpointFacts::default()).write()
}

#[test]
fn each_field_has_its_place() {
    let table = [
        (json!({"ID": ID, "VirtualNetwork": ID_V2}), json!({"ID": ID_V2, "HostComputeNetwork": ID_V2})),
        (
            json!({"IPAddress": "10.0.0.7", "PrefixLength": 24, "IPv6Address": "fd00::7", "IPv6PrefixLength": 64}),
            json!({"IpConfigurations": [{"IpAddress": "10.0.0.7", "PrefixLength": 24}, {"IpAddress": "fd00::7", "PrefixLength": 64}]}),
        ),
        (json!({"IPAddress": "", "PrefixLength": 24}), json!({})),
        (
            json!({"GatewayAddress": "10.0.0.1", "GatewayAddressV6": "fd00::1"}),
            json!({"Routes": [{"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0/0"}, {"NextHop": "fd00::1", "DestinationPrefix": "::/0"}]}),
        ),
        (
            json!({"DNSServerList": "10.0.0.2,10.0.0.3", "DNSSuffix": "svc.local,local", "DNSDomain": "d"}),
            json!({"Dns": {"Domain": "d", "Search": ["svc.local", "local"], "ServerList": ["10.0.0.2", "10.0.0.3"]}}),
        ),
        (json!({"DisableICC": true, "EnableLowMetric": true, "IsRemoteEndpoint": true}), json!({"Flags": 11})),
        (json!({"Flags": 16}), json!({"Flags": 16})),
        (json!({"EncapOverhead": 50}), json!({"Policies": [{"Type": "EncapOverhead", "Settings": {"Overhead": 50}}]})),
        (
            json!({"InterfaceConstraint": {"InterfaceAlias": "e"}}),
            json!({"Policies": [{"Type": "InterfaceConstraint", "Settings": {"InterfaceAlias": "e"}}]}),
        ),
        (
            json!({"EnableInternalDNS": true, "PortFriendlyName": "p", "Brandnew": {"a": 1}}),
            json!({"EnableInternalDNS": true, "PortFriendlyName": "p", "Brandnew": {"a": 1}}),
        ),
        (
            json!({"Policies": [{"Type": "NAT", "Protocol": "TCP", "InternalPort": 80, "ExternalPort": 8080}]}),
            json!({"Policies": [{"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}}]}),
        ),
        (
            json!({"ActivityId": ID, "State": 2, "Type": "nat", "Version": 1, "Resources": {}, "Health": {}, "SharedContainers": ["c"],
                "VirtualNetworkName": "n"}),
            json!({}),
        ),
    ];
    for (v1, v2) in table {
        assert_eq!(raised(v1.clone()), v2, "{v1}");
        assert_eq!(raised(lowered(v2.clone())), v2, "{v1}");
    }
}

#[test]
fn what_v1_cannot_say_survives() {
    let table = [
        json!({"IpConfigurations": [{}]}),
        json!({"IpConfigurations": [{"IpAddress": "fd00::7"}, {"IpAddress": "10.0.0.7"}, {"IpAddress": "10.0.0.8", "New": 1}]}),
        json!({"IpConfigurations": [{"IpAddress": "10.0.0.7", "IpSubnetId": ID_V2}]}),
        json!({"Routes": [{"DestinationPrefix": "::/0"}]}),
        json!({"Routes": [{"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0/0", "Metric": 9}, {"NextHop": "10.0.0.2", "DestinationPrefix": "10.1.0.0/16"}]}),
        json!({"Dns": {"Options": ["o"], "New": 1}}),
        json!({"Policies": [{"Type": "EncapOverhead", "Settings": {"Overhead": 50, "New": 1}}, {"Type": "PortName", "Settings": {"Name": ""}}]}),
        json!({"Telemetry": {"Data": 1}, "AdditionalParams": {"SwitchId": "x"}, "Owner": "me", "Name": "n", "MacAddress": "m"}),
    ];
    for v2 in table {
        assert_eq!(raised(lowered(v2.clone())), v2);
    }
}

#[test]
fn the_view_of_an_attached_endpoint() {
    let endpoint = parse(r#"{"ID":"00000000-0000-0000-0000-00000000000a","State":2,"Version":7}"#).unwrap();
    let namespace =
        NamespaceFacts { id: Guid::from_u128(0xB), is_default: true, compartment_id: 1, compartment_guid: Guid::from_u128(0xC) };
    let mut facts = EndpointFacts {
        network_name: "nat".into(),
        network_type: "nat".into(),
        containers: vec!["c1".into()],
        namespace: Some(namespace),
        health: json!({"LastErrorCode": 0}),
    };
    let expected = json!({"ID": ID, "State": 2, "Version": 7, "VirtualNetworkName": "nat", "Type": "nat", "SharedContainers": ["c1"],
        "Namespace": {"ID": "00000000-0000-0000-0000-00000000000B", "IsDefault": true, "CompartmentId": 1,
            "CompartmentGuid": "00000000-0000-0000-0000-00000000000C"},
        "Health": {"LastErrorCode": 0}});
    assert_eq!(HnsEndpoint::from_v2(&endpoint, &facts).write(), expected);
    facts.namespace = None;
    facts.containers.clear();
    let view = HnsEndpoint::from_v2(&endpoint, &facts).write();
    assert_eq!(view["SharedContainers"], json!([]));
    assert!(view.get("Namespace").is_none());
}

#[test]
fn a_network_by_name() {
    let endpoint: HnsEndpoint = parse(r#"{"virtualNetworkName":"cbr0"}"#).unwrap();
    assert_eq!(endpoint.network_name(), "cbr0");
    assert!(endpoint.to_v2().unwrap().network.is_nil());
}

#[test]
fn bad_content_is_named() {
    let table = [
        (json!({"ID": "x"}), 0x803B_0019, "ID"),
        (json!({"VirtualNetwork": "x"}), 0x803B_0019, "VirtualNetwork"),
        (json!({"Namespace": {"ID": "x"}}), 0x803B_0019, "Namespace.ID"),
        (json!({"IPAddress": "x"}), 0x803B_001E, "IPAddress"),
        (json!({"GatewayAddressV6": "x"}), 0x803B_001E, "GatewayAddressV6"),
        (
            json!({"Policies": [{"Type": "QOS", "MaximumOutgoingBandwidthInBytes": -1}]}),
            0x803B_001B,
            "Policies[0].MaximumOutgoingBandwidthInBytes",
        ),
    ];
    for (v1, code, field) in table {
        let error = parse::<HnsEndpoint>(&v1.to_string()).unwrap().to_v2().unwrap_err();
        assert_eq!((error.hresult(), error.detail().field.as_deref()), (code, Some(field)), "{v1}");
        assert!(error.detail().remedy.is_some(), "{v1}");
    }
    let error = parse::<HnsEndpoint>(r#"{"PrefixLength":"24"}"#).unwrap_err();
    assert_eq!(error.detail().field.as_deref(), Some("PrefixLength"));
}
