//! A service in memory and the documents that tests begin with.
#![allow(dead_code, unreachable_pub)]

use std::sync::Arc;

use hcn::{Guid, Hcn, Kind};
use hns::machine::FakeMachine;
use hns::switch::Recorder;
use hns::{Build, Options, Service};
use serde_json::{Value, json};

pub const V2: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

pub fn service() -> Service {
    service_as("transom")
}

pub fn service_as(profile: &str) -> Service {
    start(FakeMachine::with_ethernet(), Build::named(profile, &[], &[]).unwrap())
}

pub fn start(machine: FakeMachine, build: Build) -> Service {
    start_with(machine, build, Arc::new(Recorder::default()))
}

pub fn start_with(machine: FakeMachine, build: Build, switch: Arc<Recorder>) -> Service {
    Service::start(Options { state_dir: None, build, machine: Arc::new(machine), switch }).unwrap()
}

/// The network of Microsoft's tests, in a type and with a name of the caller's choice.
pub fn network(network_type: &str, name: &str) -> Value {
    json!({
        "Name": name, "Type": network_type, "MacPool": {"Ranges": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}]},
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "192.168.100.0/24",
            "Routes": [{"NextHop": "192.168.100.1", "DestinationPrefix": "0.0.0.0/0"}],
        }]}],
        "Dns": {}, "Flags": 8, "Health": {"Extra": {}}, "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

pub fn make_network(hcn: &dyn Hcn, network_type: &str, name: &str) -> Guid {
    make(hcn, Kind::Network, &network(network_type, name))
}

pub fn make(hcn: &dyn Hcn, kind: Kind, document: &Value) -> Guid {
    hcn.create(kind, None, None, &document.to_string()).unwrap_or_else(|error| panic!("{document}: {error}"))
}

pub fn endpoint(network: Guid) -> Value {
    json!({"Name": "pod", "HostComputeNetwork": network.to_string(), "Dns": {}, "Health": {"Extra": {}}, "SchemaVersion": {"Major": 2, "Minor": 0}})
}

pub fn make_endpoint(hcn: &dyn Hcn, network: Guid) -> Guid {
    make(hcn, Kind::Endpoint, &endpoint(network))
}

pub fn endpoint_at(network: Guid, address: &str) -> Value {
    let mut document = endpoint(network);
    document["IpConfigurations"] = json!([{"IpAddress": address}]);
    document
}

pub fn endpoint_with(network: Guid, policy_type: &str, settings: Value) -> Value {
    let mut document = endpoint(network);
    document["Policies"] = json!([{"Type": policy_type, "Settings": settings}]);
    document
}

pub fn namespace(namespace_type: &str) -> Value {
    json!({"Type": namespace_type, "NamespaceId": 5, "SchemaVersion": {"Major": 2, "Minor": 0}})
}

pub fn load_balancer(endpoints: &[Guid], vips: &[&str], port: u16) -> Value {
    json!({
        "HostComputeEndpoints": endpoints.iter().map(Guid::to_string).collect::<Vec<_>>(),
        "SourceVIP": "10.0.0.1", "FrontendVIPs": vips,
        "PortMappings": [{"Protocol": 6, "InternalPort": 8080, "ExternalPort": port}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
}

pub fn show(hcn: &dyn Hcn, kind: Kind, id: Guid) -> Value {
    hcn.query(kind, id, V2).unwrap()
}

/// The HRESULT with which making an object fails.
pub fn refusal(hcn: &dyn Hcn, kind: Kind, document: &Value) -> u32 {
    match hcn.create(kind, None, None, &document.to_string()) {
        Ok(id) => panic!("{document} was accepted as {id}"),
        Err(error) => {
            assert!(!error.detail().cause.is_empty(), "no cause: {error:?}");
            error.hresult()
        }
    }
}

pub fn request(resource: &str, request: &str, settings: Value) -> String {
    json!({"ResourceType": resource, "RequestType": request, "Settings": settings}).to_string()
}

pub fn attach(hcn: &dyn Hcn, namespace: Guid, endpoint: Guid) -> hcn::Result<()> {
    hcn.modify(Kind::Namespace, namespace, &request("Endpoint", "Add", json!({"EndpointId": endpoint.to_string()})))
}

pub fn detach(hcn: &dyn Hcn, namespace: Guid, endpoint: Guid) -> hcn::Result<()> {
    hcn.modify(Kind::Namespace, namespace, &request("Endpoint", "Remove", json!({"EndpointId": endpoint.to_string()})))
}

pub fn policies(document: &Value, policy_type: &str) -> Vec<Value> {
    let all = document["Policies"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|policy| policy["Type"] == policy_type).collect()
}
