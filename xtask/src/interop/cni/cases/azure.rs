//! `azure-vnet` and `azure-vnet-ipam`.

use serde_json::{Value, json};

use super::super::sandbox::{ADAPTER, ADAPTER_MAC};
use super::{Case, Verb, endpoint_policy, runtime, with};

/// What the cloud says about the machine: an adapter with its own address and one more, for a pod.
fn interfaces() -> Value {
    let address = |address: &str, is_primary: bool| json!({"Address": address, "IsPrimary": is_primary});
    let subnet = json!({"Prefix": "192.0.2.0/24", "IPAddresses": [address("192.0.2.10", true), address("192.0.2.11", false)]});
    json!({"Interfaces": [{"MacAddress": ADAPTER_MAC.replace(':', ""), "IsPrimary": true, "IPSubnets": [subnet]}]})
}

fn azure(name: &'static str, more: Value) -> Case {
    let ipam = json!({"type": "azure-vnet-ipam", "environment": "mas"});
    let config = json!({"cniVersion": "0.3.0", "name": "pods", "type": "azure-vnet", "mode": "bridge", "master": ADAPTER, "ipam": ipam});
    let arguments = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web";
    let case = Case { arguments, interfaces: Some(interfaces()), ..Case::new(name, with(config, more)) };
    case.steps(&[Verb::Add, Verb::Del]).differs("*/pools/IPAM/Version", "it is the version of who wrote it").differs(
        "1-ADD/pools/IPAM/AddressSpaces/local/Pools/192.0.2.0/24/Addresses/192.0.2.11/Network",
        "GC gives back the addresses of one network",
    )
}

/// azure-vnet, with what differs in all its cases.
fn vnet(name: &'static str, more: Value) -> Case {
    azure(name, more)
        .differs("*/networks/0/Flags", "the network does not outlive a reboot, as in newer releases")
        .differs("1-ADD/result/interfaces/0/mac", "it is known")
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let dns = json!({"nameservers": ["10.0.0.10", "168.63.129.16"], "search": ["svc.cluster.local"]});
    let nat = json!({"Type": "OutBoundNAT", "ExceptionList": ["10.240.0.0/16", "10.0.0.0/8"]});
    let route = json!({"Type": "ROUTE", "DestinationPrefix": "10.0.0.0/8", "NeedEncap": true});
    let policies = json!([endpoint_policy(nat), endpoint_policy(route)]);
    vec![
        nameless(vnet("azure on an L2Bridge", json!({}))),
        nameless(vnet("azure on an L2Tunnel", json!({"mode": "tunnel"}))),
        nameless(vnet("azure with policies", json!({"AdditionalArgs": policies}))),
        vnet("azure with dns", json!({"dns": dns})).differs("1-ADD/result/dns", RESOLVED),
        vnet("azure with ports and dns of the runtime", json!({"runtimeConfig": runtime()}))
            .differs("1-ADD/result/dns", RESOLVED)
            .differs("*/networks/0/Dns", "what the runtime says of one pod is not for all")
            .differs("1-ADD/endpoints/0/Policies/*/Settings/Flags", "ports are mapped on local routes, as in newer releases"),
        addresses("azure addresses"),
    ]
}

const RESOLVED: &str = "the result has what the endpoint has";

/// Where nobody says what domain to search.
fn nameless(case: Case) -> Case {
    case.differs("1-ADD/endpoints/0/Dns/Search", "a domain without a name is none")
}

/// azure-vnet-ipam alone.
fn addresses(name: &'static str) -> Case {
    let mut case = azure(name, json!({"type": "azure-vnet-ipam"}));
    case.config["ipam"]["subnet"] = json!("192.0.2.0/24");
    case
}
