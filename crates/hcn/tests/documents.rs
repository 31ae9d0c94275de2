//! Properties of all documents: whatever a client sends, parsing answers or errs, and what was understood survives.

use std::sync::LazyLock;

use hcn::{Field, Path, parse, print};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A document type: its name, its fields, and the circle through parser and printer.
struct Document {
    name: &'static str,
    fields: &'static [&'static str],
    circle: fn(&Value) -> Option<Value>,
}

/// Reads a value as a document, prints it, and checks that the text means the same. `None` if it is no such document.
fn circle<T: Field + PartialEq + std::fmt::Debug>(value: &Value) -> Option<Value> {
    let document = T::read(value.clone(), &Path::Root).ok()?;
    let text = print(&document);
    let again: T = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again, document, "{text}");
    assert_eq!(print(&again), text);
    Some(document.write())
}

macro_rules! documents {
    ($($module:ident $(:: $rest:ident)*),* $(,)?) => {
        vec![$(Document {
            name: stringify!($module $(::$rest)*),
            fields: hcn::$module$(::$rest)*::FIELDS,
            circle: circle::<hcn::$module$(::$rest)*>,
        }),*]
    };
}

static DOCUMENTS: LazyLock<Vec<Document>> = LazyLock::new(|| {
    documents![
        base::SchemaVersion,
        base::Health,
        base::Dns,
        base::Route,
        network::Network,
        network::Subnet,
        network::IpSubnet,
        network::Ipam,
        network::MacPool,
        endpoint::Endpoint,
        endpoint::IpConfiguration,
        namespace::Namespace,
        namespace::Resource,
        load_balancer::LoadBalancer,
        load_balancer::LoadBalancerPortMapping,
        route::SdnRoute,
        guest_network_service::GuestNetworkService,
        query::Query,
        modify::ModifyRequest,
        modify::PolicySettings,
        modify::SubnetSettings,
        modify::IpSubnetSettings,
        modify::PortSettings,
        modify::MemberSettings,
        policy::Policy,
        policy::acl::AclSettings,
        policy::acl::TierAclSettings,
        policy::subnet::IsolationSettings,
        policy::network::SourceMacAddressSettings,
        policy::network::NetAdapterNameSettings,
        policy::network::InterfaceConstraintSettings,
        policy::network::VSwitchExtensionSettings,
        policy::network::ProviderAddressSettings,
        policy::network::DrMacAddressSettings,
        policy::network::AutomaticDnsSettings,
        policy::network::RemoteSubnetRouteSettings,
        policy::network::VxlanPortSettings,
        policy::network::NoSettings,
        policy::network::SetPolicySettings,
        policy::network::L4ProxySettings,
        policy::network::LayerConstraintSettings,
        policy::network::NeighborDiscoverySettings,
        policy::network::ExtensionSettings,
        policy::endpoint::PortMappingSettings,
        policy::endpoint::QosSettings,
        policy::endpoint::OutBoundNatSettings,
        policy::endpoint::SdnRouteSettings,
        policy::endpoint::L4WfpProxySettings,
        policy::endpoint::PortNameSettings,
        policy::endpoint::EncapOverheadSettings,
        policy::endpoint::EncryptionSettings,
        policy::endpoint::InterfaceParametersSettings,
        policy::endpoint::IovSettings,
        policy::endpoint::FirewallSettings,
        v1::network::HnsNetwork,
        v1::network::Subnet,
        v1::network::IpSubnet,
        v1::network::MacPool,
        v1::network::Extension,
        v1::endpoint::HnsEndpoint,
        v1::endpoint::EndpointNamespace,
        v1::attach::AttachRequest,
        v1::stats::EndpointStats,
        v1::namespace::HnsNamespace,
        v1::policy_list::PolicyList,
        v1::policy::FlatPolicy,
        v1::policy::acl::AclPolicy,
        v1::policy::elb::ElbPolicy,
        v1::policy::isolation::VlanPolicy,
        v1::policy::isolation::VsidPolicy,
        v1::policy::isolation::IsolationPolicy,
        v1::policy::qos::QosPolicy,
        v1::policy::qos::L2DriverPolicy,
        v1::policy::route::RoutePolicy,
        v1::policy::route::ProviderAddressPolicy,
        v1::policy::translation::NatPolicy,
        v1::policy::translation::OutBoundNatPolicy,
        v1::policy::translation::ProxyPolicy,
        v1::accelnet::MacList,
    ]
});

fn document(name: &str) -> &'static Document {
    DOCUMENTS.iter().find(|document| document.name.replace(' ', "") == name).unwrap_or_else(|| panic!("no document {name}"))
}

/// Documents as clients send them and HNS answers them.
fn examples() -> Vec<(&'static str, Value)> {
    let network = "3d5a2f0e-0000-4000-8000-000000000001";
    let endpoint = "b0b7a3c1-0000-4000-8000-000000000002";
    vec![
        (
            "network::Network",
            json!({"Name": "vxlan0", "Type": "Overlay",
                "Policies": [{"Type": "NetAdapterName", "Settings": {"NetworkAdapterName": "Ethernet"}}],
                "MacPool": {"Ranges": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}]},
                "Dns": {"Search": ["svc.cluster.local"]},
                "Ipams": [{"Type": "Static", "Subnets": [{"IpAddressPrefix": "10.244.3.0/24",
                    "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096}}],
                    "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}],
                    "IpSubnets": [{"IpAddressPrefix": "10.244.3.0/25", "Flags": 3}]}]}],
                "Flags": 8, "Health": {"Extra": {"LayeredOn": network}}, "SchemaVersion": {"Major": 2, "Minor": 0}}),
        ),
        (
            "endpoint::Endpoint",
            json!({"ID": endpoint, "Name": "abc_vxlan0", "HostComputeNetwork": network,
                "HostComputeNamespace": "77e1c2d4-0000-4000-8000-000000000003",
                "Policies": [{"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.10"}}],
                "IpConfigurations": [{"IpAddress": "10.244.3.7", "PrefixLength": 24}],
                "Dns": {"ServerList": ["10.96.0.10"], "Search": ["svc.cluster.local"]},
                "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}],
                "MacAddress": "0E-2A-0A-F4-03-07", "SchemaVersion": {"Major": 2, "Minor": 0}}),
        ),
        (
            "namespace::Namespace",
            json!({"ID": "77e1c2d4-0000-4000-8000-000000000003", "NamespaceId": 6, "Type": "Guest",
                "NamespaceGuid": "9c0e1f52-0000-4000-8000-000000000004",
                "Resources": [{"Type": "Endpoint", "Data": {"Id": endpoint}}], "SchemaVersion": {"Major": 2, "Minor": 0}}),
        ),
        (
            "load_balancer::LoadBalancer",
            json!({"HostComputeEndpoints": [endpoint], "SourceVIP": "10.244.3.2",
                "PortMappings": [{"Protocol": 6, "InternalPort": 80, "ExternalPort": 31416, "DistributionType": 2, "Flags": 18}],
                "SchemaVersion": {"Major": 2, "Minor": 0}}),
        ),
        (
            "route::SdnRoute",
            json!({"HostComputeEndpoints": [endpoint], "Setting": [{"DestinationPrefix": "169.254.169.254/24", "NextHop": "127.10.0.34"}]}),
        ),
        ("query::Query", json!({"SchemaVersion": {"Major": 2, "Minor": 0}, "Filter": "{\"Name\":\"cbr0\"}"})),
        ("modify::ModifyRequest", json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": endpoint}})),
        (
            "v1::network::HnsNetwork",
            json!({"Name": "cbr0", "Type": "l2bridge", "NetworkAdapterName": "Ethernet", "DNSServerList": "10.96.0.10",
                "Policies": [{"Type": "OutBoundNAT", "ExceptionList": ["10.0.0.0/8"]}],
                "MacPools": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}],
                "Extensions": [{"Id": "E7C3B2F0-F3C5-48DF-AF2B-10FED6D72E7A", "IsEnabled": false, "Name": "WFP"}],
                "Subnets": [{"AddressPrefix": "10.244.3.0/24", "GatewayAddress": "10.244.3.2", "ObjectType": 5,
                    "Policies": [{"Type": "VSID", "VSID": 4096}], "IpSubnets": [{"IpAddressPrefix": "10.244.3.0/25", "ObjectType": 6}]}]}),
        ),
        (
            "v1::endpoint::HnsEndpoint",
            json!({"Name": "cbr0_ep", "VirtualNetwork": network, "IPAddress": "10.244.3.7", "PrefixLength": 24, "SharedContainers": ["c1"],
                "GatewayAddress": "10.244.3.2", "Namespace": {"ID": "77E1C2D4-0000-4000-8000-000000000003", "CompartmentId": 6},
                "Policies": [{"Type": "NAT", "Protocol": "TCP", "InternalPort": 80, "ExternalPort": 8080}]}),
        ),
        (
            "v1::policy_list::PolicyList",
            json!({"References": [format!("/endpoints/{endpoint}")],
                "Policies": [{"Type": "ELB", "Protocol": 6, "InternalPort": 80, "ExternalPort": 8080, "VIPs": ["10.96.0.1"]}]}),
        ),
        (
            "v1::namespace::HnsNamespace",
            json!({"ID": "77E1C2D4-0000-4000-8000-000000000003", "IsDefault": true, "CompartmentId": 1, "Containers": ["c1"],
                "ResourceList": [{"Type": "Endpoint", "Data": {"Id": endpoint}}]}),
        ),
        ("v1::attach::AttachRequest", json!({"ContainerId": "c1", "SystemType": "Container", "CompartmentId": 6})),
        ("v1::accelnet::MacList", json!({"MacAddressList": [{"MacAddress": "00-15-5D-0A-B7-C6"}]})),
    ]
}

/// Names that mean something to some document, so that random objects get past the first field.
fn known_names() -> Vec<String> {
    let mut names: Vec<String> = DOCUMENTS.iter().flat_map(|document| document.fields).map(|name| (*name).to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

fn any_key() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(known_names()),
        1 => prop::sample::select(known_names()).prop_map(|name| name.to_ascii_lowercase()),
        1 => "\\PC{0,6}",
    ]
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0u32..300).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Quarters have one spelling; other fractions may change their last digit in serde_json, which is not ours.
        (-1000i32..1000).prop_map(|number| Value::from(f64::from(number) / 4.0)),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["", "L2Bridge", "ACL", "ELB", "10.0.0.1", "10.0.0.0/24", "6,17", "{}", "/endpoints/x"])
            .prop_map(Value::from),
        any::<u128>().prop_map(|number| Value::from(hcn::Guid::from_u128(number).to_string())),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((any_key(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// One change to an example.
#[derive(Clone, Debug)]
enum Mutation {
    /// A field nobody knows, in some object.
    Unknown(prop::sample::Index, u16, Value),
    /// A name or number nobody knows, in some field with an enum.
    Enum(prop::sample::Index, Value),
    /// Another case for the keys of some object.
    Case(prop::sample::Index, u64),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let unknown_enum = prop_oneof![Just(json!("Brandnew")), Just(json!(4711))];
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u16>(), any_json()).prop_map(|(at, name, value)| Mutation::Unknown(at, name, value)),
        (any::<prop::sample::Index>(), unknown_enum).prop_map(|(at, value)| Mutation::Enum(at, value)),
        (any::<prop::sample::Index>(), any::<u64>()).prop_map(|(at, mask)| Mutation::Case(at, mask)),
    ]
}

/// All objects of a value, as paths of keys and indices.
fn objects(value: &Value, here: Vec<String>, found: &mut Vec<Vec<String>>) {
    let below = |step: &str| here.iter().cloned().chain([step.to_owned()]).collect::<Vec<_>>();
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| objects(value, below(key), found));
            found.push(here);
        }
        Value::Array(elements) => elements.iter().enumerate().for_each(|(index, value)| objects(value, below(&index.to_string()), found)),
        _ => {}
    }
}

/// The value at a path; the case of keys does not matter.
fn lookup<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(step)).map(|(_, value)| value),
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn object_at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Map<String, Value> {
    let value = path.iter().fold(value, |value, step| match value {
        Value::Array(elements) => &mut elements[step.parse::<usize>().unwrap()],
        value => &mut value[step.as_str()],
    });
    value.as_object_mut().unwrap()
}

fn flip_case(key: &str, mask: u64) -> String {
    let flip = |(index, letter): (usize, char)| match mask >> (index % 64) & 1 {
        1 if letter.is_ascii_lowercase() => letter.to_ascii_uppercase(),
        1 => letter.to_ascii_lowercase(),
        _ => letter,
    };
    key.chars().enumerate().map(flip).collect()
}

/// Changes a document and answers which values must be found in it afterwards.
fn mutate(document: &mut Value, mutation: &Mutation) -> Vec<(Vec<String>, Value)> {
    let mut paths = Vec::new();
    objects(document, Vec::new(), &mut paths);
    let choose = |index: &prop::sample::Index| paths[index.index(paths.len())].clone();
    let below = |path: &[String], key: &str| path.iter().cloned().chain([key.to_owned()]).collect::<Vec<_>>();
    match mutation {
        Mutation::Unknown(at, name, value) => {
            let path = choose(at);
            let key = format!("Unknown{name}");
            object_at(document, &path).insert(key.clone(), value.clone());
            vec![(below(&path, &key), value.clone())]
        }
        Mutation::Enum(at, value) => {
            let path = choose(at);
            let is_enum = |key: &str| ["Type", "RequestType", "SystemType", "DistributionType", "Protocol"].contains(&key);
            let fields = object_at(document, &path);
            let keys: Vec<String> = fields.keys().filter(|key| is_enum(key)).cloned().collect();
            keys.iter().for_each(|key| fields[key] = value.clone());
            keys.iter().map(|key| (below(&path, key), value.clone())).collect()
        }
        Mutation::Case(at, mask) => {
            let fields = object_at(document, &choose(at));
            *fields = std::mem::take(fields).into_iter().map(|(key, value)| (flip_case(&key, *mask), value)).collect();
            Vec::new()
        }
    }
}

/// Converts whatever can be read as a v1 document to v2 and back; both must be documents that survive.
fn convert(value: &Value) {
    use hcn::v1::policy_list::{PolicyList, PolicyListObject};
    use hcn::v1::{endpoint, namespace, network};
    let survives = |is_document: bool, view: &Value| assert!(is_document, "{view}");
    if let Ok(v2) = network::HnsNetwork::read(value.clone(), &Path::Root).and_then(network::HnsNetwork::to_v2) {
        survives(circle::<hcn::network::Network>(&v2.write()).as_ref() == Some(&v2.write()), value);
        let view = network::HnsNetwork::from_v2(&v2, &Default::default()).write();
        survives(circle::<network::HnsNetwork>(&view).is_some(), &view);
    }
    if let Ok(v2) = endpoint::HnsEndpoint::read(value.clone(), &Path::Root).and_then(endpoint::HnsEndpoint::to_v2) {
        survives(circle::<hcn::endpoint::Endpoint>(&v2.write()).as_ref() == Some(&v2.write()), value);
        let view = endpoint::HnsEndpoint::from_v2(&v2, &Default::default()).write();
        survives(circle::<endpoint::HnsEndpoint>(&view).is_some(), &view);
    }
    if let Ok(v2) = namespace::HnsNamespace::read(value.clone(), &Path::Root).and_then(namespace::HnsNamespace::to_v2) {
        let view = namespace::HnsNamespace::from_v2(&v2).write();
        survives(circle::<namespace::HnsNamespace>(&view).is_some(), &view);
    }
    let view = match PolicyList::read(value.clone(), &Path::Root).and_then(PolicyList::to_v2) {
        Ok(PolicyListObject::LoadBalancer(load_balancer)) => PolicyList::from_load_balancer(&load_balancer).write(),
        Ok(PolicyListObject::Route(route)) => PolicyList::from_route(&route).write(),
        Err(_) => return,
    };
    survives(circle::<PolicyList>(&view).is_some(), &view);
}

/// Shows whatever can be read as a v2 document in v1; that must be a document that survives.
fn show(value: &Value) {
    use hcn::v1::{endpoint, namespace, network, policy_list::PolicyList};
    let read = || value.clone();
    let views = [
        Field::read(read(), &Path::Root)
            .ok()
            .map(|v2| circle::<network::HnsNetwork>(&network::HnsNetwork::from_v2(&v2, &Default::default()).write())),
        Field::read(read(), &Path::Root)
            .ok()
            .map(|v2| circle::<endpoint::HnsEndpoint>(&endpoint::HnsEndpoint::from_v2(&v2, &Default::default()).write())),
        Field::read(read(), &Path::Root).ok().map(|v2| circle::<namespace::HnsNamespace>(&namespace::HnsNamespace::from_v2(&v2).write())),
        Field::read(read(), &Path::Root).ok().map(|v2| circle::<PolicyList>(&PolicyList::from_load_balancer(&v2).write())),
        Field::read(read(), &Path::Root).ok().map(|v2| circle::<PolicyList>(&PolicyList::from_route(&v2).write())),
    ];
    assert!(views.iter().flatten().all(Option::is_some), "{value}");
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn any_json_errs_or_survives(value in any_json()) {
        for document in DOCUMENTS.iter() {
            (document.circle)(&value);
        }
        convert(&value);
        show(&value);
    }

    #[test]
    fn any_text_errs_or_parses(text in "\\PC{0,40}") {
        let _ = parse::<hcn::network::Network>(&text);
        let _ = parse::<hcn::v1::network::HnsNetwork>(&text);
        let _ = hcn::query::Query::parse(&text);
    }

}

proptest! {
    // Each case goes through all examples.
    #![proptest_config(config(60))]

    #[test]
    fn what_nobody_knows_is_kept(mutations in prop::collection::vec(mutation(), 1..8)) {
        for (name, example) in examples() {
            let mut changed = example;
            let mut expected = Vec::new();
            for mutation in &mutations {
                // A later change may fall on an earlier one's value, so what is expected is read at the end.
                expected.extend(mutate(&mut changed, mutation).into_iter().map(|(path, _)| path));
            }
            let printed = (document(name).circle)(&changed);
            prop_assert!(printed.is_some(), "{name}: {changed}");
            convert(&changed);
            show(&changed);
            for path in expected {
                prop_assert_eq!(lookup(printed.as_ref().unwrap(), &path), lookup(&changed, &path), "{}: {:?}", name, path);
            }
        }
    }
}

#[test]
fn every_example_is_a_document() {
    for (name, example) in examples() {
        let printed = (document(name).circle)(&example);
        assert!(printed.is_some(), "{name}");
    }
}
