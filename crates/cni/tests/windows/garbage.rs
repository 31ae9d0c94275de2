//! GC with live sets of any kind removes exactly the rest.

use std::collections::BTreeSet;

use hcn::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::machine::Machine;

const CONTAINERS: usize = 6;

fn config(machine: &Machine, name: &str, third: u8) -> Value {
    let ipam = machine.host_local(&[&format!("10.244.{third}.0/24..10.244.{third}.10")]);
    json!({"cniVersion": "1.1.0", "type": "win-bridge", "name": name, "apiVersion": 2, "ipam": ipam})
}

fn names(machine: &Machine) -> BTreeSet<String> {
    machine.all(Kind::Endpoint).iter().map(|endpoint| endpoint["Name"].as_str().unwrap().to_owned()).collect()
}

fn holders(machine: &Machine, network: &str) -> BTreeSet<String> {
    machine.leases(network).into_iter().map(|(_, container)| container).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_rest_goes(
        present in proptest::collection::btree_set(0..CONTAINERS, 0..=CONTAINERS),
        valid in proptest::collection::btree_set(0..CONTAINERS, 0..=CONTAINERS),
        linux in any::<bool>(),
    ) {
        let machine = Machine::new();
        let network = machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
        machine.network("L2Bridge", "other_net", &[("10.244.2.0/24", "10.244.2.1")]);
        let (ours, others) = (config(&machine, "net", 1), config(&machine, "other_net", 2));
        for number in &present {
            let file = machine.state.path().join(format!("netns{number}"));
            std::fs::write(&file, "").unwrap();
            let netns = if linux { file.to_str().unwrap().to_owned() } else { machine.namespace() };
            machine.add(&ours, &format!("c{number}"), &netns).result();
        }
        // What is not ours to remove: another network's, another program's, and one of ours that has no container's name.
        let netns = machine.namespace();
        machine.add(&others, "c0", &netns).result();
        let endpoint = |name: &str, owner: &str| json!({
            "Name": name, "Owner": owner, "HostComputeNetwork": network.to_string(), "SchemaVersion": {"Major": 2, "Minor": 0},
        });
        machine.make(Kind::Endpoint, &endpoint("c1_net", "somebody"));
        machine.make(Kind::Endpoint, &endpoint("unnamed", "transom-cni"));
        let foreign: BTreeSet<String> = ["c0_other_net", "c1_net", "unnamed"].map(str::to_owned).into();

        let mut gc = ours.clone();
        let attachments: Vec<Value> = valid.iter().map(|number| json!({"containerID": format!("c{number}"), "ifname": "eth0"})).collect();
        gc["cni.dev/valid-attachments"] = attachments.into();
        for _ in 0..2 {
            let answer = machine.call_with("GC", &gc, &[]);
            prop_assert!(answer.succeeded && answer.text.is_empty(), "{}", answer.text);
            let kept: BTreeSet<usize> = present.intersection(&valid).copied().collect();
            let endpoints: BTreeSet<String> = kept.iter().map(|number| format!("c{number}_net")).chain(foreign.clone()).collect();
            prop_assert_eq!(names(&machine), endpoints);
            prop_assert_eq!(holders(&machine, "net"), kept.iter().map(|number| format!("c{number}")).collect());
            prop_assert_eq!(holders(&machine, "other_net"), ["c0".to_owned()].into());
            let namespaces = machine.all(Kind::Namespace).iter().filter(|namespace| namespace["Owner"] == "transom-cni").count();
            prop_assert_eq!(namespaces, if linux { kept.len() } else { 0 });
        }
    }
}

#[test]
fn a_failure_stops_neither_the_rest_nor_ipam() {
    use crate::machine::Fault;
    for at in 0..30 {
        let machine = Machine::new();
        machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
        let mut gc = config(&machine, "net", 1);
        for number in 0..3 {
            let netns = machine.namespace();
            machine.add(&gc, &format!("c{number}"), &netns).result();
        }
        gc["cni.dev/valid-attachments"] = json!([]);
        machine.fail(Fault::Refused(at));
        let answer = machine.call_with("GC", &gc, &[]);
        machine.fail(Fault::Never);
        assert_eq!(holders(&machine, "net"), BTreeSet::new(), "IPAM was told");
        if !answer.succeeded {
            assert_eq!(answer.failure().0, 11);
            assert!(machine.call_with("GC", &gc, &[]).succeeded);
        }
        machine.assert_empty("net", &format!("call {at}"));
    }
}

#[test]
fn nobody_knows_what_is_valid() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let config = config(&machine, "net", 1);
    let netns = machine.namespace();
    machine.add(&config, "c1", &netns).result();
    assert_eq!(machine.call_with("GC", &config, &[]).failure().0, 7);
    assert_eq!(names(&machine), ["c1_net".to_owned()].into());
}
