//! The two views of an object: each comes back from the other.

use hcn::endpoint::Endpoint;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::policy::Policy;
use hcn::policy::acl::AclSettings;
use hcn::policy::endpoint::{EndpointPolicyType, OutBoundNatSettings, PortMappingSettings, QosSettings, SdnRouteSettings};
use hcn::policy::network::{L4ProxySettings, ProviderAddressSettings};
use hcn::policy::subnet::IsolationSettings;
use hcn::route::SdnRoute;
use hcn::v1::endpoint::{EndpointFacts, HnsEndpoint};
use hcn::v1::namespace::HnsNamespace;
use hcn::v1::network::{HnsNetwork, NetworkFacts};
use hcn::v1::policy::{FlatPolicy, Holder};
use hcn::v1::policy_list::{PolicyList, PolicyListObject};
use hcn::{Field, Path};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const A: &str = "AAAAAAAA-0000-4000-8000-000000000001";
const A_V2: &str = "aaaaaaaa-0000-4000-8000-000000000001";

fn read<T: Field>(value: &Value) -> T {
    T::read(value.clone(), &Path::Root).unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn v1_policies() -> Vec<Value> {
    vec![
        json!({"Type": "NAT", "Protocol": "TCP", "InternalPort": 80, "ExternalPort": 8080, "ExternalPortReserved": true}),
        json!({"Type": "NAT", "Protocol": "UDP", "InternalPort": 53, "ExternalPort": 53, "VIP": "10.0.0.9", "Flags": 1}),
        json!({"Type": "ACL", "Protocol": 6, "Action": "Block", "Direction": "In", "LocalPort": 80, "RemoteAddresses": "10.0.0.0/8", "Priority": 200}),
        json!({"Type": "ACL", "Protocols": "6,17", "Action": "Allow", "Direction": "Out", "RemotePorts": "80,443", "RuleType": "Switch", "Id": "r"}),
        json!({"Type": "ACL", "Protocol": 256, "Action": "Allow", "Direction": "Out", "ServiceName": "s", "InternalPort": 9}),
        json!({"Type": "PA", "PA": "192.0.2.10"}),
        json!({"Type": "VLAN", "VLAN": 7}),
        json!({"Type": "VSID", "VSID": 5000}),
        json!({"Type": "Isolation", "VLAN": 7, "VSID": 5000, "InDefaultIsolation": true}),
        json!({"Type": "L2Driver"}),
        json!({"Type": "QOS", "MaximumOutgoingBandwidthInBytes": 1000}),
        json!({"Type": "OutBoundNAT", "VIP": "10.0.0.4", "ExceptionList": ["10.0.0.0/8"], "Destinations": ["10.1.0.1"], "MaxPortPoolUsage": 9}),
        json!({"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NextHop": "10.0.0.1", "NeedEncap": true}),
        json!({"Type": "PROXY", "IP": "10.0.0.1", "Port": "15001", "ExceptionList": ["10.0.0.3"], "Destination": "10.9.0.0/16", "OutboundNat": true}),
        json!({"Type": "Brandnew", "Whatever": [1, {"a": null}]}),
    ]
}

fn v2_policy_names() -> Vec<Value> {
    let names = ["PortMapping", "ACL", "QOS", "OutBoundNAT", "SDNRoute", "L4Proxy", "ProviderAddress", "VLAN", "VSID", "PortName"];
    let odd = ["sdnroute", "NAT", "PA", "VNET", "ROUTE", "PROXY", "ELB", "Brandnew", ""];
    let numbers = [json!(0), json!(1), json!(4), json!(99), Value::Null, json!(true), json!({"a": 1})];
    names.into_iter().chain(odd).map(Value::from).chain(numbers).collect()
}

/// Names of settings in either view, so that collisions between them happen.
fn setting_names() -> Vec<&'static str> {
    vec![
        "Type",
        "type",
        "Settings",
        "settings",
        "Data",
        "Protocol",
        "Protocols",
        "InternalPort",
        "ExternalPort",
        "ExternalPortReserved",
        "VIP",
        "VirtualIP",
        "Flags",
        "LocalPort",
        "LocalPorts",
        "ServiceName",
        "Exceptions",
        "ExceptionList",
        "Destinations",
        "PA",
        "ProviderAddress",
        "VLAN",
        "VSID",
        "IsolationId",
        "isolationid",
        "OutboundNat",
        "NextHop",
        "Unknown",
    ]
}

fn any_setting() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0u32..300).prop_map(Value::from),
        (0u32..300).prop_map(|number| Value::from(number.to_string())),
        Just(json!("TCP")),
        Just(json!(["10.0.0.0/8"])),
        Just(json!([])),
        any::<bool>().prop_map(Value::from),
        Just(json!({"a": 1})),
    ]
}

fn any_fields(most: usize) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop::sample::select(setting_names()).prop_map(str::to_owned);
    prop::collection::vec((name, any_setting()), 0..=most).prop_map(|fields| fields.into_iter().collect())
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let settings = prop_oneof![8 => any_fields(5).prop_map(Value::Object), 1 => any_setting()];
    let beside = prop_oneof![6 => Just(Map::new()), 1 => any_fields(2)];
    (prop::sample::select(v2_policy_names()), settings, beside).prop_map(|(policy_type, settings, mut policy)| {
        policy.retain(|key, _| !["type", "settings", "data"].contains(&key.to_ascii_lowercase().as_str()));
        policy.insert("Type".into(), policy_type);
        policy.insert("Settings".into(), settings);
        read(&Value::Object(policy))
    })
}

/// Settings in their one spelling: what the type of the policy makes of them, else as they are.
fn normal(policy: &Policy) -> Value {
    use EndpointPolicyType as Kind;
    let of_kind = match policy.kind().unwrap_or(Kind::Other(String::new())) {
        Kind::PortMapping => policy.settings::<PortMappingSettings>().map(|settings| settings.write()),
        Kind::Acl => policy.settings::<AclSettings>().map(|settings| settings.write()),
        Kind::Qos => policy.settings::<QosSettings>().map(|settings| settings.write()),
        Kind::OutBoundNat => policy.settings::<OutBoundNatSettings>().map(|settings| settings.write()),
        Kind::SdnRoute => policy.settings::<SdnRouteSettings>().map(|settings| settings.write()),
        Kind::L4Proxy => policy.settings::<L4ProxySettings>().map(|settings| settings.write()),
        Kind::ProviderAddress => policy.settings::<ProviderAddressSettings>().map(|settings| settings.write()),
        Kind::Vlan => policy.settings::<IsolationSettings>().map(|settings| settings.write()),
        Kind::Other(name) if name == "VSID" => policy.settings::<IsolationSettings>().map(|settings| settings.write()),
        _ => Ok(policy.settings.clone()),
    };
    match of_kind.unwrap_or_else(|_| policy.settings.clone()) {
        Value::Null => json!({}),
        settings => settings,
    }
}

fn whole_v1_network() -> Value {
    json!({"ID": A, "Name": "cbr0", "Owner": "me", "Type": "l2bridge", "NetworkAdapterName": "Ethernet", "SourceMac": "00-15-5D-52-C0-00",
        "Policies": v1_policies().into_iter().filter(|policy| policy["Type"] != "PA").collect::<Vec<_>>(),
        "MacPools": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}],
        "Subnets": [{"ID": A, "AddressPrefix": "10.244.3.0/24", "GatewayAddress": "10.244.3.1", "ObjectType": 5, "Flags": 1,
            "Policies": [{"Type": "VSID", "VSID": 4096}], "IpSubnets": [{"IpAddressPrefix": "10.244.3.0/25", "Flags": 3, "ObjectType": 6}]},
            {"AddressPrefix": "fd00::/64", "GatewayAddress": "fd00::1", "ObjectType": 5}],
        "DNSSuffix": "a.local,b.local", "DNSServerList": "10.0.0.2,10.0.0.3", "DNSServerCompartment": 3, "ManagementIP": "192.0.2.1",
        "AutomaticDNS": true, "Flags": 41, "IPv6": true, "IsolateSwitch": true, "MaxConcurrentEndpoints": 9, "AdditionalParams": {"ICSFlags": 0},
        "InterfaceConstraint": {"InterfaceIndex": 7}, "DrMacAddress": "00-15-5D-52-C0-01", "GatewayMac": "00-15-5D-52-C0-02", "LayeredOn": A,
        "SchemaVersion": {"Major": 1, "Minor": 0}, "Telemetry": {"Data": 1}, "Unknown1": {"a": [1]}, "Unknown2": null})
}

fn whole_v2_network() -> Value {
    json!({"ID": A_V2, "Owner": "me", "Name": "vxlan0", "Type": "Overlay",
        "Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet"}},
            {"Type": "SourceMacAddress", "Settings": {"SourceMacAddress": "00-15-5D-52-C0-00"}},
            {"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.1"}},
            {"Type": "DrMacAddress", "Settings": {"Address": "00-15-5D-52-C0-01"}}, {"Type": "AutomaticDNS", "Settings": {"Enable": true}},
            {"Type": "InterfaceConstraint", "Settings": {"InterfaceIndex": 7}}, {"Type": "HostRoute", "Settings": {}},
            {"Type": "RemoteSubnetRoute", "Settings": {"DestinationPrefix": "10.1.0.0/24", "IsolationId": 4096, "ProviderAddress": "192.0.2.2"}},
            {"Type": "VxlanPort", "Settings": {"Port": 4789}}, {"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Second"}}],
        "MacPool": {"Ranges": [{"StartMacAddress": "a", "EndMacAddress": "b"}], "Unknown": 1},
        "Dns": {"Domain": "d", "Search": ["a.local"], "ServerList": ["10.0.0.2"], "Options": ["o"]},
        "Ipams": [{"Type": "Static", "Subnets": [{"ID": A_V2, "IpAddressPrefix": "10.244.3.0/24", "Unknown": 1,
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096}}], "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}],
            "IpSubnets": [{"IpAddressPrefix": "10.244.3.0/25", "Flags": 3}], "Flags": 1}]}],
        "Flags": 40, "AdditionalParams": {"a": 1}, "Health": {"Extra": {"LayeredOn": A_V2}}, "Telemetry": {"Data": 1},
        "SchemaVersion": {"Major": 1, "Minor": 0}, "MaxConcurrentEndpoints": 5, "Unknown1": {"a": [1]}})
}

fn whole_v1_endpoint() -> Value {
    json!({"ID": A, "Name": "ep", "Owner": "me", "VirtualNetwork": A, "Policies": v1_policies(), "MacAddress": "0E-2A-0A-F4-03-07",
        "IPAddress": "10.244.3.7", "PrefixLength": 24, "IPv6Address": "fd00::7", "IPv6PrefixLength": 64, "DNSSuffix": "a.local",
        "DNSServerList": "10.0.0.2", "DNSDomain": "d", "GatewayAddress": "10.244.3.1", "GatewayAddressV6": "fd00::1", "EnableInternalDNS": true,
        "DisableICC": true, "IsRemoteEndpoint": true, "EnableLowMetric": true, "EncapOverhead": 50, "Flags": 43, "PortFriendlyName": "p",
        "InterfaceConstraint": {"InterfaceAlias": "e"}, "AdditionalParams": {"SwitchId": A}, "Unknown1": {"a": [1]}})
}

fn whole_v2_endpoint() -> Value {
    json!({"ID": A_V2, "Owner": "me", "Name": "ep", "HostComputeNetwork": A_V2,
        "Policies": [{"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "Flags": 5}},
            {"Type": "EncapOverhead", "Settings": {"Overhead": 50}}, {"Type": "PortName", "Settings": {"Name": ""}}],
        "IpConfigurations": [{"IpAddress": "10.244.3.7", "PrefixLength": 24}, {"IpAddress": "fd00::7", "IpSubnetId": A_V2}],
        "Dns": {"Domain": "d", "Search": ["a.local", "b.local"], "ServerList": ["10.0.0.2"], "Options": ["o"]},
        "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}, {"NextHop": "10.244.3.9", "DestinationPrefix": "10.9.0.0/16", "Metric": 5}],
        "MacAddress": "0E-2A-0A-F4-03-07", "Flags": 63, "AdditionalParams": {"a": 1}, "Telemetry": {"Data": 1}, "Unknown1": {"a": [1]}})
}

/// Some of a document's fields.
fn part_of(whole: Value) -> impl Strategy<Value = Value> {
    let Value::Object(fields) = whole else { panic!("no object") };
    let all: Vec<(String, Value)> = fields.into_iter().collect();
    prop::sample::subsequence(all.clone(), 0..=all.len()).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// Whether all that is given is found: fields of objects by name, elements of lists in any order.
fn contains(found: &Value, given: &Value) -> bool {
    match (found, given) {
        (Value::Object(found), Value::Object(given)) => {
            given.iter().all(|(key, given)| contains(found.get(key).unwrap_or(&Value::Null), given))
        }
        (Value::Array(found), Value::Array(given)) => given.iter().all(|given| found.iter().any(|found| contains(found, given))),
        _ => found == given,
    }
}

fn sorted(mut policies: Vec<Policy>) -> Vec<String> {
    policies.sort_by_key(hcn::print);
    policies.iter().map(hcn::print).collect()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn v2_policies_come_back_from_v1(policy in any_policy()) {
        let flat = FlatPolicy::from_v2(&policy, Holder::Endpoint);
        let back = read::<FlatPolicy>(&flat.write()).to_v2(&Path::Root).unwrap();
        match (policy.kind::<EndpointPolicyType>(), back.kind::<EndpointPolicyType>()) {
            (Ok(before), Ok(after)) => prop_assert!(before.to_string().eq_ignore_ascii_case(&after.to_string()), "{flat:?}"),
            _ => prop_assert_eq!(&policy.policy_type, &back.policy_type),
        }
        prop_assert_eq!(normal(&back), normal(&policy), "{:?}", flat);
        prop_assert_eq!(back.extra, policy.extra);
    }

    #[test]
    fn v1_policies_come_back_from_v2(policy in prop::sample::select(v1_policies()), unknown in "U[a-z]{3,5}", value in any_setting()) {
        let mut policy = policy;
        policy[&unknown] = value;
        for holder in [Holder::Endpoint, Holder::Network, Holder::Subnet] {
            let v2 = read::<FlatPolicy>(&policy).to_v2(&Path::Root).unwrap();
            let back = FlatPolicy::from_v2(&v2, holder).write();
            prop_assert!(contains(&back, &policy), "{back} lacks some of {policy}");
        }
    }

    #[test]
    fn any_v1_policy_errs_or_converts(fields in any_fields(6), policy_type in prop::sample::select(v2_policy_names())) {
        let mut fields = fields;
        fields.insert("Type".into(), policy_type);
        if let Ok(v2) = read::<FlatPolicy>(&Value::Object(fields)).to_v2(&Path::Root) {
            let back = FlatPolicy::from_v2(&v2, Holder::Endpoint).to_v2(&Path::Root).unwrap();
            prop_assert_eq!(normal(&back), normal(&v2));
        }
    }

    #[test]
    fn v1_networks_come_back_from_v2(given in part_of(whole_v1_network())) {
        let network = read::<HnsNetwork>(&given);
        let facts = NetworkFacts { type_spelling: network.type_spelling().unwrap_or("NAT").into(), ..NetworkFacts::default() };
        let back = HnsNetwork::from_v2(&network.to_v2().unwrap(), &facts).write();
        prop_assert!(contains(&back, &given), "{back} lacks some of {given}");
    }

    #[test]
    fn v2_networks_come_back_from_v1(given in part_of(whole_v2_network())) {
        let mut network: Network = read(&given);
        let view = HnsNetwork::from_v2(&network, &NetworkFacts::default()).write();
        let mut back = read::<HnsNetwork>(&view).to_v2().unwrap();
        prop_assert_eq!(sorted(std::mem::take(&mut back.policies)), sorted(std::mem::take(&mut network.policies)));
        prop_assert_eq!(back, network, "{}", view);
    }

    #[test]
    fn v1_endpoints_come_back_from_v2(given in part_of(whole_v1_endpoint())) {
        let mut given = given;
        // A prefix length without its address says nothing.
        for (length, address) in [("PrefixLength", "IPAddress"), ("IPv6PrefixLength", "IPv6Address")] {
            if given.get(address).is_none() {
                given.as_object_mut().unwrap().remove(length);
            }
        }
        // `Flags` says all that the single flags say, and so can grow by them.
        let mut back = HnsEndpoint::from_v2(&read::<HnsEndpoint>(&given).to_v2().unwrap(), &EndpointFacts::default()).write();
        back["Flags"] = given.get("Flags").cloned().unwrap_or_default();
        prop_assert!(contains(&back, &given), "{back} lacks some of {given}");
    }

    #[test]
    fn v2_endpoints_come_back_from_v1(given in part_of(whole_v2_endpoint())) {
        let mut endpoint: Endpoint = read(&given);
        let view = HnsEndpoint::from_v2(&endpoint, &EndpointFacts::default()).write();
        let mut back = read::<HnsEndpoint>(&view).to_v2().unwrap();
        prop_assert_eq!(sorted(std::mem::take(&mut back.policies)), sorted(std::mem::take(&mut endpoint.policies)));
        prop_assert_eq!(back, endpoint, "{}", view);
    }

    #[test]
    fn v2_namespaces_come_back_from_v1(given in part_of(json!({"ID": A_V2, "Owner": "me", "Name": "n", "NamespaceId": 6, "NamespaceGuid": A_V2,
        "Type": "GuestDefault", "Resources": [{"Type": "Endpoint", "Data": {"Id": A_V2}}, {"Type": "Container", "Data": {"Id": "c1"}}],
        "CreateWithCompartment": true, "AdditionalParams": 1, "Telemetry": 2, "SchemaVersion": {"Major": 2, "Minor": 0}, "Unknown1": [1]})))
    {
        let namespace: Namespace = read(&given);
        let view = HnsNamespace::from_v2(&namespace).write();
        prop_assert_eq!(read::<HnsNamespace>(&view).to_v2().unwrap(), namespace, "{}", view);
    }

    #[test]
    fn load_balancers_come_back_from_policy_lists(given in part_of(json!({"ID": A_V2, "Owner": "me", "Name": "n", "HostComputeNetwork": A_V2,
        "HostComputeEndpoints": [A_V2], "SourceVIP": "10.0.0.2", "FrontendVIPs": ["10.0.0.9", "10.0.0.10"], "Flags": 7,
        "AdditionalParams": 1, "Telemetry": 2, "Unknown1": [1]})), ports in prop::collection::vec((0u32..64, 0u64..4, any::<u16>()), 1..4))
    {
        let mut load_balancer: LoadBalancer = read(&given);
        let port = |(flags, distribution, port): &(u32, u64, u16)| {
            read(&json!({"Protocol": 6, "ExternalPort": port, "DistributionType": distribution, "Flags": flags, "Unknown": port}))
        };
        load_balancer.port_mappings = ports.iter().map(port).collect();
        let view = PolicyList::from_load_balancer(&load_balancer).write();
        prop_assert_eq!(read::<PolicyList>(&view).to_v2().unwrap(), PolicyListObject::LoadBalancer(load_balancer), "{}", view);
    }

    #[test]
    fn routes_come_back_from_policy_lists(given in part_of(json!({"ID": A_V2, "Owner": "me", "Name": "n", "HostComputeNetwork": A_V2,
        "HostComputeEndpoints": [A_V2], "Unknown1": [1]})), next_hop in "[0-9.]{1,8}", need_encap in any::<bool>())
    {
        let mut route: SdnRoute = read(&given);
        route.routes = vec![read(&json!({"NextHop": next_hop, "NeedEncap": need_encap, "AutomaticEndpointMonitor": true, "Unknown": 1}))];
        route.unify();
        let view = PolicyList::from_route(&route).write();
        prop_assert_eq!(read::<PolicyList>(&view).to_v2().unwrap(), PolicyListObject::Route(route), "{}", view);
    }
}
