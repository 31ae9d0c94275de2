use super::*;
use crate::{parse, print};

const ID: &str = "00000000-0000-0000-0000-00000000000A";

fn raised(v1: Value) -> Value {
    parse::<HnsNetwork>(&v1.to_string()).unwrap().to_v2().unwrap().write()
}

fn lowered(v2: Value) -> Value {
    HnsNetwork::from_v2(&parse(&v2.to_string()).unwrap(), &NetworkFacts::default()).write()
}

#[test]
fn each_field_has_its_place() {
    let table = [
        (json!({"Type": "l2bridge"}), json!({"Type": "L2Bridge"})),
        (json!({"Type": 5}), json!({"Type": "Overlay"})),
        (json!({"ID": format!("{{{ID}}}")}), json!({"ID": ID.to_ascii_lowercase()})),
        (
            json!({"Subnets": [{"AddressPrefix": "10.0.0.0/24", "GatewayAddress": "10.0.0.1", "ObjectType": 5, "State": 1,
                "Policies": [{"Type": "VSID", "VSID": 5000}], "IpSubnets": [{"IpAddressPrefix": "10.0.0.0/28", "Flags": 3, "ObjectType": 6}]}]}),
            json!({"Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.0.0.0/24",
                "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 5000}}],
                "Routes": [{"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0/0"}],
                "IpSubnets": [{"IpAddressPrefix": "10.0.0.0/28", "Flags": 3}]}]}]}),
        ),
        (
            json!({"Subnets": [{"AddressPrefix": "fd00::/64", "GatewayAddress": "fd00::1"}]}),
            json!({"Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "fd00::/64",
                "Routes": [{"NextHop": "fd00::1", "DestinationPrefix": "::/0"}]}]}]}),
        ),
        (
            json!({"MacPools": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}]}),
            json!({"MacPool": {"Ranges": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}]}}),
        ),
        (
            json!({"NetworkAdapterName": "Ethernet"}),
            json!({"Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet"}}]}),
        ),
        (
            json!({"SourceMac": "00-15-5D-52-C0-00"}),
            json!({"Policies": [{"Type": "SourceMacAddress", "Settings": {"SourceMacAddress": "00-15-5D-52-C0-00"}}]}),
        ),
        (
            json!({"ManagementIP": "192.0.2.1"}),
            json!({"Policies": [{"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.1"}}]}),
        ),
        (
            json!({"DrMacAddress": "00-15-5D-52-C0-01"}),
            json!({"Policies": [{"Type": "DrMacAddress", "Settings": {"Address": "00-15-5D-52-C0-01"}}]}),
        ),
        (json!({"AutomaticDNS": true}), json!({"Policies": [{"Type": "AutomaticDNS", "Settings": {"Enable": true}}]})),
        (
            json!({"InterfaceConstraint": {"InterfaceIndex": 7}}),
            json!({"Policies": [{"Type": "InterfaceConstraint", "Settings": {"InterfaceIndex": 7}}]}),
        ),
        (json!({"LayeredOn": ID}), json!({"Health": {"Extra": {"LayeredOn": ID.to_ascii_lowercase()}}})),
        (json!({"IsolateSwitch": true, "Flags": 9}), json!({"Flags": 41})),
        (
            json!({"DNSSuffix": "a.local, b.local", "DNSServerList": "10.0.0.2,10.0.0.3"}),
            json!({"Dns": {"Search": ["a.local", "b.local"], "ServerList": ["10.0.0.2", "10.0.0.3"]}}),
        ),
        (
            json!({"DNSServerCompartment": 3, "IPv6": true, "MaxConcurrentEndpoints": 9, "GatewayMac": "x", "Brandnew": [1]}),
            json!({"DNSServerCompartment": 3, "IPv6": true, "MaxConcurrentEndpoints": 9, "GatewayMac": "x", "Brandnew": [1]}),
        ),
        (json!({"SchemaVersion": {"Major": 1, "Minor": 0}}), json!({"SchemaVersion": {"Major": 1, "Minor": 0}})),
        (
            json!({"ActivityId": ID, "CurrentEndpointCount": 1, "TotalEndpoints": 2, "NatName": "x", "Resources": {}, "State": 1, "Version": 5,
                "Health": {"LastErrorCode": 0}}),
            json!({}),
        ),
        (json!({"Policies": [{"Type": "VLAN", "VLAN": 1}]}), json!({})),
        (
            json!({"Type": "L2Bridge", "Policies": [{"Type": "VLAN", "VLAN": 1}]}),
            json!({"Type": "L2Bridge", "Policies": [{"Type": "VLAN", "Settings": {"IsolationId": 1}}]}),
        ),
    ];
    for (v1, mut v2) in table {
        v2.as_object_mut().unwrap().entry("Type").or_insert("NAT".into());
        assert_eq!(raised(v1.clone()), v2, "{v1}");
        let back = raised(lowered(v2.clone()));
        assert_eq!(back, v2, "{v1}");
    }
}

#[test]
fn what_v1_cannot_say_survives() {
    let table = [
        json!({"Dns": {"Domain": "d", "Options": ["o"], "Search": ["a,b"], "New": 1}}),
        json!({"Ipams": [{"Type": "DHCP"}]}),
        json!({"Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.0.0.0/24"}]},
            {"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.0.1.0/24", "New": 1}]}]}),
        json!({"Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.0.0.0/24", "Routes": [
            {"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0", "Metric": 5}, {"NextHop": "10.0.0.9", "DestinationPrefix": "10.9.0.0/16"}]}]}]}),
        json!({"MacPool": {"Ranges": [{"StartMacAddress": "a", "EndMacAddress": "b", "New": 1}], "New": 2}}),
        json!({"Policies": [{"Type": "AutomaticDNS", "Settings": {"Enable": false}}, {"Type": "HostRoute", "Settings": {}},
            {"Type": "VSwitchExtension", "Settings": {"ExtensionID": "f74f241b-440f-4433-bb28-00f89ead20d8", "Enable": true}},
            {"Type": "RemoteSubnetRoute", "Settings": {"DestinationPrefix": "10.1.0.0/24", "IsolationId": 4096}}]}),
        json!({"Telemetry": {"Data": 1}, "AdditionalParams": {"ICSFlags": 0}, "Owner": "me", "Name": "n"}),
    ];
    for mut v2 in table {
        v2.as_object_mut().unwrap().insert("Type".into(), "NAT".into());
        assert_eq!(raised(lowered(v2.clone())), v2);
    }
}

#[test]
fn the_view_of_a_nat_network() {
    let network = parse(
        r#"{"ID":"00000000-0000-0000-0000-00000000000a","Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.0.2.1"}}]}"#,
    );
    let facts = NetworkFacts {
        type_spelling: "nat".into(),
        current_endpoints: 1,
        total_endpoints: 2,
        max_endpoints: 3,
        health: json!({"LastErrorCode": 0}),
    };
    let v1 = HnsNetwork::from_v2(&network.unwrap(), &facts);
    assert_eq!(v1.id, ID);
    assert_eq!(v1.type_spelling(), Some("nat"));
    assert_eq!(v1.nat_name, format!("NAT{ID}"));
    assert_eq!(v1.management_ip, "192.0.2.1");
    assert_eq!(v1.policies.write(), json!([{"Type": "VLAN", "VLAN": 1}]));
    assert_eq!((v1.current_endpoint_count, v1.total_endpoints, v1.max_concurrent_endpoints), (1, 2, 3));
    assert_eq!(v1.health, json!({"LastErrorCode": 0}));
    assert_eq!(v1.extensions.iter().map(|extension| extension.is_enabled).collect::<Vec<_>>(), [false, false, true]);
}

#[test]
fn extensions() {
    let vfp_off = json!({"Type": "Overlay", "Extensions": [{"Id": "E9B59CFA-2BE1-4B21-828F-B6FBDBDDC017", "IsEnabled": false}]});
    let vfp_on = json!({"Type": "Overlay", "Extensions": [{"Id": "f74f241b-440f-4433-bb28-00f89ead20d8", "IsEnabled": true}]});
    for (v1, policies, enabled) in [(vfp_off, 1, false), (vfp_on, 0, true)] {
        let network = parse::<HnsNetwork>(&v1.to_string()).unwrap().to_v2().unwrap();
        assert_eq!(network.policies.len(), policies);
        let view = HnsNetwork::from_v2(&network, &NetworkFacts::default());
        assert_eq!(view.extensions[1].is_enabled, enabled);
        assert_eq!(parse::<HnsNetwork>(&print(&view)).unwrap().to_v2().unwrap().policies, network.policies);
    }
}

#[test]
fn bad_content_is_named() {
    let table = [
        (json!({"ID": "x"}), 0x803B_0019, "ID"),
        (json!({"LayeredOn": "x"}), 0x803B_0019, "LayeredOn"),
        (json!({"Type": []}), 0x803B_001B, "Type"),
        (json!({"ManagementIP": "x"}), 0x803B_001E, "ManagementIP"),
        (json!({"Subnets": [{}, {"AddressPrefix": "10.0.0.0"}]}), 0x803B_0030, "Subnets[1].AddressPrefix"),
        (json!({"Subnets": [{"GatewayAddress": "x"}]}), 0x803B_001E, "Subnets[0].GatewayAddress"),
        (json!({"Subnets": [{"Policies": [{"Type": "VSID", "VSID": "x"}]}]}), 0x803B_001B, "Subnets[0].Policies[0].VSID"),
        (json!({"Subnets": [{"IpSubnets": [{"ID": "x"}]}]}), 0x803B_0019, "Subnets[0].IpSubnets[0].ID"),
        (json!({"Extensions": [{"Id": "x"}]}), 0x803B_0019, "Extensions[0].Id"),
    ];
    for (v1, code, field) in table {
        let error = parse::<HnsNetwork>(&v1.to_string()).unwrap().to_v2().unwrap_err();
        assert_eq!((error.hresult(), error.detail().field.as_deref()), (code, Some(field)), "{v1}");
        assert!(error.detail().remedy.is_some(), "{v1}");
    }
}
