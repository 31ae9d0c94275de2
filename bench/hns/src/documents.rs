//! The documents that the benchmark sends.

use hcn::query::Query;
use hcn::{Guid, Hcn, Kind};
use serde_json::json;

/// The one network of a service.
pub(crate) const NETWORK: Guid = Guid::from_u128(0xBE4C_0000_0000_4000_8000_0000_0000_0001);

/// An overlay network with room for all endpoints, in addresses as well as in MAC addresses.
pub(crate) fn network() -> String {
    json!({
        "ID": NETWORK.to_string(),
        "Name": "bench",
        "Type": "Overlay",
        "MacPool": {"Ranges": [{"StartMacAddress": "00-15-5D-10-00-00", "EndMacAddress": "00-15-5D-1F-FF-FF"}]},
        "Ipams": [{"Type": "Static", "Subnets": [{
            "IpAddressPrefix": "10.0.0.0/16",
            "Routes": [{"NextHop": "10.0.0.1", "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [{"Type": "VSID", "Settings": {"IsolationId": 4096}}],
        }]}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
    .to_string()
}

/// An endpoint that leaves its addresses to the service.
pub(crate) fn endpoint(number: usize) -> String {
    json!({
        "Name": format!("pod-{number}"),
        "HostComputeNetwork": NETWORK.to_string(),
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
    .to_string()
}

/// A load balancer with a frontend of its own and two backends, like one that kube-proxy makes for a Service.
pub(crate) fn load_balancer(number: usize, backends: [Guid; 2]) -> String {
    json!({
        "HostComputeEndpoints": [backends[0].to_string(), backends[1].to_string()],
        "SourceVIP": "192.0.2.10",
        "FrontendVIPs": [format!("11.{}.{}.{}", number >> 16, (number >> 8) & 0xFF, number & 0xFF)],
        "PortMappings": [{"Protocol": 6, "InternalPort": 8080, "ExternalPort": 80}],
        "SchemaVersion": {"Major": 2, "Minor": 0},
    })
    .to_string()
}

/// The query for everything, in schema 2.
pub(crate) fn everything() -> String {
    hcn::print(&Query::v2(&[]))
}

/// Makes an object, and says which could not be made.
pub(crate) fn create(hcn: &dyn Hcn, kind: Kind, settings: &str) -> Result<Guid, String> {
    hcn.create(kind, None, None, settings).map_err(|error| format!("{settings} cannot be made: {error}"))
}
