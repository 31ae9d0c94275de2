//! CHECK after every kind of tampering that HNS allows: the difference is named.

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::machine::Machine;

struct Pod {
    machine: Machine,
    config: Value,
    netns: String,
}

fn pod() -> Pod {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let netns = machine.namespace();
    let mut ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
    ipam["routes"] = json!([{"dst": "172.16.0.0/12"}]);
    let mut config = json!({
        "cniVersion": "1.1.0", "type": "win-bridge", "name": "net", "apiVersion": 2, "ipam": ipam,
        "dns": {"nameservers": ["10.96.0.10"]},
        "policies": [{"name": "EndpointPolicy", "value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}}}],
        "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]},
    });
    config["prevResult"] = machine.add(&config, "c1", &netns).result();
    Pod { machine, config, netns }
}

impl Pod {
    fn check(&self) -> crate::machine::Answer {
        self.machine.call("CHECK", &self.config, "c1", &self.netns)
    }

    fn assert_named(&self, what: &str, expected: &[&str]) {
        let (code, message, details) = self.check().failure();
        assert_eq!(code, 999, "{what}: {message}");
        for expected in expected {
            assert!(message.contains(expected), "{what}: {expected}: {message}");
        }
        assert!(!details.is_empty(), "{what}");
    }

    fn id(&self) -> Guid {
        self.machine.endpoint("c1_net")["ID"].as_str().unwrap().parse().unwrap()
    }

    /// Puts another endpoint in the place of the one that is there.
    fn replace(&self, change: impl Fn(&mut Value)) {
        let mut document = self.machine.endpoint("c1_net");
        self.machine.service().delete(Kind::Endpoint, self.id()).unwrap();
        for field in ["ID", "Version", "State", "Health"] {
            document.as_object_mut().unwrap().remove(field);
        }
        change(&mut document);
        self.machine.make(Kind::Endpoint, &document);
    }

    fn modify(&self, how: &str, policies: Value) {
        let request = json!({"ResourceType": "Policy", "RequestType": how, "Settings": {"Policies": policies}});
        self.machine.service().modify(Kind::Endpoint, self.id(), &request.to_string()).unwrap();
    }
}

#[test]
fn what_is_as_promised_passes() {
    let pod = pod();
    let answer = pod.check();
    assert!(answer.succeeded && answer.text.is_empty(), "{}", answer.text);
    // An access list that a network policy has added is nobody's concern here.
    pod.modify("Add", json!([{"Type": "ACL", "Settings": {"Action": "Block", "Direction": "In", "Priority": 200}}]));
    assert!(pod.check().succeeded);
    // Somebody later in the chain has made another interface.
    let mut pod = pod;
    pod.config["prevResult"]["interfaces"].as_array_mut().unwrap().push(json!({"name": "other"}));
    pod.config["prevResult"]["ips"].as_array_mut().unwrap().push(json!({"interface": 1, "address": "192.0.2.1/24"}));
    assert!(pod.check().succeeded, "{}", pod.check().text);
}

#[test]
fn an_endpoint_that_is_gone() {
    let pod = pod();
    pod.machine.service().delete(Kind::Endpoint, pod.id()).unwrap();
    pod.assert_named("gone", &["the endpoint \"c1_net\" is not as ADD promised: it is gone"]);
}

#[test]
fn another_network() {
    let pod = pod();
    let other = pod.machine.network("L2Bridge", "other", &[("10.9.0.0/24", "10.9.0.1")]);
    pod.replace(|document| {
        *document = json!({"Name": "c1_net", "HostComputeNetwork": other.to_string(), "SchemaVersion": {"Major": 2, "Minor": 0}});
    });
    pod.assert_named(
        "network",
        &[&format!("it is on the network {other}, not on \"net\""), "it has no address 10.244.1.10/24", "it is in no namespace"],
    );
}

#[test]
fn another_namespace() {
    let pod = pod();
    let other = pod.machine.namespace();
    pod.replace(|document| document["HostComputeNamespace"] = other.clone().into());
    pod.assert_named("namespace", &[&format!("it is in the namespace {other}, not in {}", pod.netns)]);
    pod.replace(|document| document["HostComputeNamespace"] = Value::Null);
    pod.assert_named("namespace", &["it is in no namespace"]);
    pod.machine.service().delete(Kind::Namespace, pod.netns.parse().unwrap()).unwrap();
    pod.assert_named("namespace", &[&format!("its namespace {} is gone", pod.netns)]);
}

#[test]
fn addresses_routes_and_names() {
    type Change = fn(&mut Value);
    let table: [(&str, Change, &[&str]); 6] = [
        (
            "address",
            |document| document["IpConfigurations"] = json!([{"IpAddress": "10.244.1.99"}]),
            &["it has no address 10.244.1.10/24", "it has the address 10.244.1.99/24, which was not promised"],
        ),
        (
            "MAC",
            |document| document["MacAddress"] = "00-15-5D-00-00-99".into(),
            &["its MAC address is 00-15-5D-00-00-99, not 00-15-5D-52-C0-00"],
        ),
        (
            "gateway",
            |document| document["Routes"][0]["NextHop"] = "10.244.1.9".into(),
            &["the gateway of 10.244.1.10/24 is 10.244.1.9, not 10.244.1.2"],
        ),
        ("route", |document| _ = document["Routes"].as_array_mut().unwrap().pop(), &["the route to 172.16.0.0/12 is missing"]),
        ("DNS", |document| document["Dns"] = json!({"ServerList": ["8.8.8.8"]}), &["its DNS settings are ", "8.8.8.8"]),
        (
            "policies",
            |document| document["Policies"] = json!([]),
            &["its policy OutBoundNAT {\"Exceptions\":[\"10.244.0.0/16\"]} is missing", "its policy PortMapping "],
        ),
    ];
    for (what, change, expected) in table {
        let pod = pod();
        pod.replace(change);
        pod.assert_named(what, expected);
    }
}

#[test]
fn a_policy_that_was_changed() {
    let pod = pod();
    pod.modify("Remove", json!([{"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.244.0.0/16"]}}]));
    pod.modify("Add", json!([{"Type": "OutBoundNAT", "Settings": {"Exceptions": ["10.245.0.0/16"]}}]));
    pod.assert_named("changed", &["its policy OutBoundNAT {\"Exceptions\":[\"10.244.0.0/16\"]} is missing"]);
    assert!(!pod.check().text.contains("PortMapping"));
}

#[test]
fn an_address_that_ipam_has_lost() {
    let pod = pod();
    std::fs::remove_file(pod.machine.state.path().join("net/10.244.1.10")).unwrap();
    let (_, message, _) = pod.check().failure();
    assert!(!message.contains("c1_net"), "IPAM is asked after HNS: {message}");
}

#[test]
fn a_call_without_what_was_promised() {
    let mut pod = pod();
    pod.config.as_object_mut().unwrap().remove("prevResult");
    let (code, message, _) = pod.check().failure();
    assert!(code == 7 && message.starts_with("prevResult is missing"), "{message}");
}
