//! Runtimes from before HCN namespaces: a sandbox, and containers that share its endpoint.

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::machine::{Machine, settings_of};

fn containers(machine: &Machine) -> Value {
    let id = machine.endpoint("c1_net")["ID"].as_str().unwrap().to_owned();
    machine.service().call("GET", &format!("/endpoints/{id}"), "").unwrap()["SharedContainers"].clone()
}

#[test]
fn a_sandbox_and_its_containers() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
    let mut config = json!({
        "cniVersion": "1.1.0", "type": "win-bridge", "name": "net", "ipam": ipam, "ipMasqNetwork": "10.244.0.0/16",
        "policies": [{"name": "EndpointPolicy", "value": {"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}}],
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
    });
    let result = machine.add(&config, "c1", "none").result();
    assert_eq!(
        result,
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "c1_net", "mac": "00-15-5D-52-C0-00"}],
            "ips": [{"address": "10.244.1.10/24", "gateway": "10.244.1.2"}],
            "dns": {"nameservers": [""], "search": [""]},
        })
    );
    assert_eq!(
        settings_of(machine.endpoint("c1_net")),
        json!({
            "Owner": "transom-cni", "Name": "c1_net", "MacAddress": "00-15-5D-52-C0-00",
            "IpConfigurations": [{"IpAddress": "10.244.1.10", "PrefixLength": 24}],
            "Routes": [{"NextHop": "10.244.1.2", "DestinationPrefix": "0.0.0.0/0"}],
            "Policies": [
                {"Type": "SDNRoute", "Settings": {"DestinationPrefix": "10.96.0.0/12", "NeedEncap": true}},
                {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}},
                {"Type": "PortMapping", "Settings": {"Protocol": 6, "InternalPort": 80, "ExternalPort": 8080}},
            ],
        })
    );
    // Containers of the pod find the endpoint by the sandbox's id, and take no address.
    assert_eq!(machine.add(&config, "work", "container:c1").result(), result);
    assert_eq!(machine.add(&config, "work", "container:c1").result(), result, "again");
    assert_eq!(containers(&machine), json!(["c1", "work"]));
    assert_eq!(machine.leases("net").len(), 1);

    config["prevResult"] = result;
    for (container, netns) in [("c1", "none"), ("work", "container:c1")] {
        let checked = machine.call("CHECK", &config, container, netns);
        assert!(checked.succeeded, "{}", checked.text);
    }
    let (_, message, _) = machine.call("CHECK", &config, "stranger", "container:c1").failure();
    assert!(message.contains("it is not attached to the container stranger"), "{message}");

    assert!(machine.del(&config, "work", "container:c1").succeeded);
    assert_eq!(containers(&machine), json!(["c1"]));
    assert_eq!(machine.leases("net").len(), 1, "the sandbox keeps its address");
    assert!(machine.del(&config, "c1", "none").succeeded);
    machine.assert_empty("net", "the sandbox is gone");
}

#[test]
fn a_namespace_that_is_gone_takes_the_endpoint_along() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let config = json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net"});
    machine.add(&config, "c1", "none").result();
    assert!(machine.del(&config, "c1", "").succeeded);
    machine.assert_empty("net", "DEL without a namespace");
}

#[test]
fn there_must_be_something_to_share() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let config = json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net"});
    let namespace = machine.namespace();
    for netns in ["container:c1", namespace.as_str()] {
        let (code, message, details) = machine.add(&config, "c2", netns).failure();
        assert!(code == 4 && message.contains("there is no endpoint") && details.contains("apiVersion"), "{message}");
    }
    assert_eq!(machine.all(Kind::Endpoint).len(), 0);
}
