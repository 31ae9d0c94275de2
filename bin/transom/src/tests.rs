//! Tables and descriptions, compared as the text that people see.

mod fake;

use hcn::HcnExt;
use hcn::endpoint::Endpoint;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::route::SdnRoute;
use serde_json::json;

use self::fake::FakeHcn;
use crate::command::object::{Noun, complete, table};
use crate::exit::Exit;
use crate::world::{World, resolve};

const NETWORK: &str = "3d5a2f0e-0000-4000-8000-000000000001";
const POD: &str = "b0b7a3c1-0000-4000-8000-000000000002";
const REMOTE: &str = "b0b7a3c1-1111-4000-8000-000000000003";
const NAMESPACE: &str = "77e1c2d4-0000-4000-8000-000000000004";

fn world() -> FakeHcn {
    let network = json!({
        "ID": NETWORK, "Name": "vxlan0", "Type": "Overlay", "Flags": 8, "Version": (13u64 << 32) + 3,
        "Ipams": [{"Type": "Static", "Subnets": [{
            "ID": "5b5b5b5b-0000-4000-8000-000000000009", "IpAddressPrefix": "10.244.3.0/24",
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096}}],
            "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "Policies": [{"Type": "ProviderAddress", "Settings": {"ProviderAddress": "192.0.2.10"}}],
        "MacPool": {"Ranges": [{"StartMacAddress": "00-15-5D-00-00-00", "EndMacAddress": "00-15-5D-00-0F-FF"}]},
        "Colour": {"Hue": "green"},
    });
    let pod = json!({
        "ID": POD, "Name": "pod1", "HostComputeNetwork": NETWORK, "HostComputeNamespace": NAMESPACE, "State": 2,
        "IpConfigurations": [{"IpAddress": "10.244.3.7", "PrefixLength": 24}], "MacAddress": "0E-2A-0A-F4-03-07",
        "Dns": {"ServerList": ["10.96.0.10"], "Search": ["svc.cluster.local"]},
        "Routes": [{"NextHop": "10.244.3.1", "DestinationPrefix": "0.0.0.0/0"}],
        "Policies": [{"Type": "ACL", "Settings": {"Action": "Allow", "Direction": "In"}}],
    });
    let remote = json!({"ID": REMOTE, "Name": "", "HostComputeNetwork": NETWORK, "Flags": 1, "State": 1,
        "IpConfigurations": [{"IpAddress": "10.244.4.9", "PrefixLength": 24}], "MacAddress": "0E-2A-0A-F4-04-09"});
    let namespace = json!({"ID": NAMESPACE, "NamespaceId": 6, "Resources": [
        {"Type": "Endpoint", "Data": {"Id": POD}}, {"Type": "Container", "Data": {"Id": "0123456789abcdef0123456789abcdef"}}]});
    let balancer = json!({
        "ID": "9c0e1f52-0000-4000-8000-000000000005", "HostComputeEndpoints": [POD, REMOTE], "FrontendVIPs": ["10.96.0.20"],
        "SourceVIP": "10.244.3.2", "Flags": 1,
        "PortMappings": [{"Protocol": 6, "ExternalPort": 80, "InternalPort": 8080, "DistributionType": 2, "Flags": 2}],
    });
    let route = json!({"ID": "aa0e1f52-0000-4000-8000-000000000006", "HostComputeEndpoints": [POD],
        "Setting": [{"DestinationPrefix": "10.1.0.0/16", "NextHop": "10.244.3.1", "NeedEncap": true}]});
    FakeHcn::default()
        .with::<Network>(network)
        .with::<Endpoint>(pod)
        .with::<Endpoint>(remote)
        .with::<Namespace>(namespace)
        .with::<LoadBalancer>(balancer)
        .with::<SdnRoute>(route)
}

fn listed<T: Noun>(wide: bool) -> String {
    let hcn = world();
    table(&World::new(&hcn), &hcn.objects::<T>(&[]).unwrap(), wide).unwrap().render(false)
}

fn described<T: Noun>() -> String {
    let hcn = world();
    hcn.objects::<T>(&[]).unwrap()[0].describe(&World::new(&hcn)).unwrap().render()
}

#[test]
fn networks() {
    let expected = "\
ID        NAME    TYPE     SUBNETS        GATEWAY     ENDPOINTS  FLAGS
3d5a2f0e  vxlan0  Overlay  10.244.3.0/24  10.244.3.1  2          EnableNonPersistent
";
    assert_eq!(listed::<Network>(false), expected);
    let expected = "\
ID:          3d5a2f0e-0000-4000-8000-000000000001
Name:        vxlan0
Type:        Overlay
Flags:       EnableNonPersistent
Management:  192.0.2.10
Endpoints:   2
Subnets:
  10.244.3.0/24:
    ID:         5b5b5b5b-0000-4000-8000-000000000009
    Addresses:  Static
    Gateway:    10.244.3.1
    Policies:
      VSID  IsolationId=4096
MAC addresses:
  00-15-5D-00-00-00 to 00-15-5D-00-0F-FF
Policies:
  ProviderAddress  ProviderAddress=192.0.2.10
Made by:     HNS 13.3
Other:
  Colour:  {\"Hue\":\"green\"}
";
    assert_eq!(described::<Network>(), expected);
}

#[test]
fn endpoints() {
    let expected = "\
ID             NAME  NETWORK  ADDRESS     MAC                STATE             NAMESPACE
b0b7a3c1-0000  pod1  vxlan0   10.244.3.7  0E-2A-0A-F4-03-07  Attached          77e1c2d4
b0b7a3c1-1111  -     vxlan0   10.244.4.9  0E-2A-0A-F4-04-09  Created (remote)  -
";
    assert_eq!(listed::<Endpoint>(false), expected);
    let expected = "\
ID:         b0b7a3c1-0000-4000-8000-000000000002
Name:       pod1
Network:    vxlan0 (3d5a2f0e-0000-4000-8000-000000000001)
Namespace:  77e1c2d4-0000-4000-8000-000000000004
State:      Attached
Addresses:  10.244.3.7/24
MAC:        0E-2A-0A-F4-03-07
Flags:      <none>
Routes:
  0.0.0.0/0 via 10.244.3.1
DNS:
  Servers:  10.96.0.10
  Search:   svc.cluster.local
Policies:
  ACL  Action=Allow Direction=In
";
    assert_eq!(described::<Endpoint>(), expected);
}

#[test]
fn namespaces() {
    let expected = "\
ID        TYPE  COMPARTMENT  ENDPOINTS      CONTAINERS
77e1c2d4  Host  6            b0b7a3c1-0000  0123456789ab
";
    assert_eq!(listed::<Namespace>(false), expected);
    let expected = "\
ID:           77e1c2d4-0000-4000-8000-000000000004
Type:         Host
Compartment:  6
Endpoints:
  b0b7a3c1-0000-4000-8000-000000000002  pod1  10.244.3.7
Containers:
  0123456789abcdef0123456789abcdef
";
    assert_eq!(described::<Namespace>(), expected);
}

#[test]
fn load_balancers() {
    let expected = "\
ID        VIPS        PORTS         BACKENDS  FLAGS
9c0e1f52  10.96.0.20  TCP 80->8080  2         EnableDirectServerReturn,LocalRoutedVIP
";
    assert_eq!(listed::<LoadBalancer>(false), expected);
    assert!(listed::<LoadBalancer>(true).contains("10.244.3.7,10.244.4.9"));
    let expected = "\
ID:          9c0e1f52-0000-4000-8000-000000000005
VIPs:        10.96.0.20
Source VIP:  10.244.3.2
Flags:       EnableDirectServerReturn
Ports:
  TCP 80->8080  distribution SourceIP  LocalRoutedVIP
Backends:
  b0b7a3c1-0000-4000-8000-000000000002  pod1  10.244.3.7
  b0b7a3c1-1111-4000-8000-000000000003    10.244.4.9
";
    assert_eq!(described::<LoadBalancer>(), expected);
}

#[test]
fn routes() {
    let expected = "\
ID        DESTINATION  NEXTHOP     ENDPOINTS
aa0e1f52  10.1.0.0/16  10.244.3.1  b0b7a3c1-0000
";
    assert_eq!(listed::<SdnRoute>(false), expected);
    assert!(described::<SdnRoute>().contains("Routes:\n  10.1.0.0/16 via 10.244.3.1 encapsulated\n"));
}

#[test]
fn documents_are_completed_before_they_are_sent() {
    let hcn = world();
    let sent = complete(&hcn, json!({"HostComputeNetwork": "vxlan0", "HostComputeEndpoints": ["pod1", REMOTE]})).unwrap();
    let v2 = json!({"Major": 2, "Minor": 0});
    assert_eq!(sent, json!({"HostComputeNetwork": NETWORK, "HostComputeEndpoints": [POD, REMOTE], "SchemaVersion": v2}));
    for untouched in [json!({"Name": "a", "Subnets": []}), json!({"schemaversion": {"Major": 1}}), json!({"VirtualNetworkName": "a"})] {
        assert_eq!(complete(&hcn, untouched.clone()).unwrap(), untouched);
    }
    assert_eq!(complete(&hcn, json!({"HostComputeNetwork": "nat"})).unwrap_err().exit, Exit::NotFound);
}

#[test]
fn references_are_names_ids_or_beginnings() {
    let hcn = world();
    let find = |reference: &str| resolve(&hcn, hcn::Kind::Endpoint, reference).map(|id| id.to_string());
    for reference in ["pod1", POD, &POD.to_uppercase(), "b0b7a3c1-0"] {
        assert_eq!(find(reference), Ok(POD.to_owned()), "{reference}");
    }
    assert_eq!(find("b0b7").unwrap_err().exit, Exit::Usage);
    assert_eq!(find("pod9").unwrap_err().exit, Exit::NotFound);
}
