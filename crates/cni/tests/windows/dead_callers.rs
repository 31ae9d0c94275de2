//! Calls that were killed while HNS was doing what they had asked for. Those who come next find it done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hcn::{Guid, Kind};
use hns::switch::{Order, Switch, SwitchError};
use serde_json::{Value, json};

use crate::machine::Machine;

/// A switch that takes its time, as one does that makes and removes NICs.
struct Slow;

impl Switch for Slow {
    fn inventory(&self) -> Result<BTreeMap<(Kind, Guid), u64>, SwitchError> {
        Ok(BTreeMap::new())
    }

    fn apply(&self, _order: &Order) -> Result<(), SwitchError> {
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }
}

/// A machine with a network, the configuration for it, and a namespace.
fn scene() -> (Machine, Value, String) {
    let machine = Machine::with_switch(Arc::new(Slow));
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
    let netns = machine.namespace();
    let config = json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "apiVersion": 2, "ipam": ipam});
    (machine, config, netns)
}

/// An ADD that dies while its endpoint is being made.
fn add_and_die(machine: &Machine) {
    let network = machine.all(Kind::Network)[0]["ID"].clone();
    let document = json!({
        "Name": "pod_net", "Owner": "transom-cni", "HostComputeNetwork": network,
        "IpConfigurations": [{"IpAddress": "10.244.1.10"}], "SchemaVersion": {"Major": 2, "Minor": 0},
    });
    drop(machine.service().begin_create(Kind::Endpoint, None, None, &document.to_string()).expect("a sound document"));
}

#[test]
fn del_removes_what_was_about_to_be_made() {
    let (machine, config, netns) = scene();
    add_and_die(&machine);
    assert!(machine.del(&config, "pod", &netns).succeeded);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(machine.all(Kind::Endpoint), Vec::<Value>::new());
}

#[test]
fn add_takes_up_what_was_about_to_be_made() {
    let (machine, config, netns) = scene();
    add_and_die(&machine);
    let result = machine.add(&config, "pod", &netns).result();
    assert_eq!(result["ips"][0]["address"], "10.244.1.10/24");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(machine.all(Kind::Endpoint).len(), 1);
}

#[test]
fn add_after_a_del_that_died_makes_an_endpoint_that_stays() {
    let (machine, config, netns) = scene();
    machine.add(&config, "pod", &netns).result();
    let id = machine.all(Kind::Endpoint)[0]["ID"].as_str().and_then(hcn::parse_guid).expect("an id");
    drop(machine.service().begin_delete(Kind::Endpoint, id));
    machine.add(&config, "pod", &netns).result();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(machine.all(Kind::Endpoint).len(), 1);
}
