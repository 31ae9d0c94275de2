//! ADD at every point where HNS can fail: nothing is left behind, and whatever cannot be removed is taken up or removed later.

use serde_json::{Value, json};

use crate::machine::{Fault, Machine};

/// More calls of HNS than any ADD makes.
const MOST: usize = 40;

struct Scene {
    machine: Machine,
    config: Value,
    netns: String,
    endpoint: &'static str,
}

fn scenes() -> Vec<fn() -> Scene> {
    let bridge = || {
        let machine = Machine::new();
        machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
        let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
        let netns = machine.namespace();
        Scene {
            config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "apiVersion": 2, "ipam": ipam}),
            machine,
            netns,
            endpoint: "c1_net",
        }
    };
    let linux = || {
        let machine = Machine::new();
        machine.network("Overlay", "net", &[("10.244.1.0/24", "10.244.1.1")]);
        let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
        let file = machine.state.path().join("netns");
        std::fs::write(&file, "").unwrap();
        let netns = file.to_str().unwrap().to_owned();
        Scene {
            config: json!({"cniVersion": "1.0.0", "type": "win-overlay", "name": "net", "apiVersion": 2, "loopbackDSR": true, "ipam": ipam}),
            machine,
            netns,
            endpoint: "c1_net",
        }
    };
    let older = || {
        let machine = Machine::new();
        machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
        let ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
        Scene {
            config: json!({"cniVersion": "1.0.0", "type": "win-bridge", "name": "net", "ipam": ipam}),
            machine,
            netns: "none".to_owned(),
            endpoint: "c1_net",
        }
    };
    let nat = || {
        let machine = Machine::new();
        let mut ipam = machine.host_local(&["10.244.1.0/24..10.244.1.10"]);
        ipam["subnet"] = ipam["ranges"][0][0]["subnet"].take();
        ipam["rangeStart"] = ipam["ranges"][0][0]["rangeStart"].take();
        ipam["ranges"] = Value::Null;
        let netns = machine.namespace();
        Scene { config: json!({"cniVersion": "1.0.0", "type": "nat", "name": "net", "ipam": ipam}), machine, netns, endpoint: "c1_net" }
    };
    // The network is made with the address, and with another one if the first ADD failed in between.
    let azure = || {
        let machine = Machine::new();
        let ipam = machine.host_local(&["10.240.0.0/16..10.240.0.10"]);
        let netns = machine.namespace();
        Scene {
            config: json!({"cniVersion": "1.0.0", "type": "azure-vnet", "name": "net", "ipam": ipam}),
            machine,
            netns,
            endpoint: "c1-eth0",
        }
    };
    vec![bridge, linux, older, nat, azure]
}

impl Scene {
    fn add(&self) -> crate::machine::Answer {
        self.machine.add(&self.config, "c1", &self.netns)
    }

    fn del(&self) -> crate::machine::Answer {
        self.machine.del(&self.config, "c1", &self.netns)
    }

    /// The container has one endpoint and one address, and they agree.
    fn assert_whole(&self, what: &str) {
        let leases = self.machine.leases("net");
        let endpoint = self.machine.endpoint(self.endpoint);
        assert_eq!(self.machine.all(hcn::Kind::Endpoint).len(), 1, "{what}");
        assert_eq!(leases.len(), 1, "{what}");
        assert_eq!(endpoint["IpConfigurations"][0]["IpAddress"], leases[0].0.to_string(), "{what}");
    }
}

/// Fails at each call in turn, until a call is past the last.
fn at_every_call(fault: fn(usize) -> Fault, then: impl Fn(&Scene, &str)) {
    for (number, make) in scenes().into_iter().enumerate() {
        let mut failures = 0;
        for at in 0..MOST {
            let scene = make();
            let what = format!("scene {number}, {:?}", fault(at));
            scene.machine.fail(fault(at));
            let answer = scene.add();
            scene.machine.fail(Fault::Never);
            if answer.succeeded {
                scene.assert_whole(&what);
                continue;
            }
            failures += 1;
            let (code, _, details) = answer.failure();
            assert!(code == 11 && !details.is_empty(), "{what}: {}", answer.text);
            then(&scene, &what);
        }
        assert!(failures > 3, "scene {number} failed only {failures} times");
        assert!(failures < MOST, "scene {number} never succeeded");
    }
}

#[test]
fn a_call_that_is_refused_leaves_nothing() {
    at_every_call(Fault::Refused, |scene, what| {
        scene.machine.assert_empty("net", what);
        scene.add().result();
        scene.assert_whole(what);
        scene.del();
        scene.machine.assert_empty("net", what);
    });
}

#[test]
fn an_answer_that_is_lost_leaves_nothing() {
    at_every_call(Fault::Unanswered, |scene, what| scene.machine.assert_empty("net", what));
}

#[test]
fn a_service_that_dies_leaves_what_the_next_add_takes_up() {
    at_every_call(Fault::Dead, |scene, what| {
        scene.add().result();
        scene.assert_whole(what);
    });
}

#[test]
fn a_service_that_dies_leaves_what_del_removes() {
    at_every_call(Fault::Dead, |scene, what| {
        assert!(scene.del().succeeded, "{what}");
        scene.machine.assert_empty("net", what);
    });
}

#[test]
fn a_del_that_fails_can_be_repeated_and_frees_no_address_too_early() {
    for fault in [Fault::Refused, Fault::Unanswered, Fault::Dead] {
        for (number, make) in scenes().into_iter().enumerate() {
            for at in 0..MOST {
                let scene = make();
                let what = format!("scene {number}, {:?}", fault(at));
                scene.add().result();
                scene.machine.fail(fault(at));
                let deleted = scene.del();
                scene.machine.fail(Fault::Never);
                let endpoints = scene.machine.all(hcn::Kind::Endpoint).len();
                assert!(endpoints <= scene.machine.leases("net").len(), "{what}: an endpoint has no lease");
                if !deleted.succeeded {
                    assert_eq!(deleted.failure().0, 11, "{what}");
                    assert!(scene.del().succeeded, "{what}");
                }
                scene.machine.assert_empty("net", &what);
            }
        }
    }
}

#[test]
fn an_address_that_a_dead_add_took_is_not_lost() {
    let scene = scenes()[0]();
    // As if the plugin had been killed right after IPAM: the address is taken, and nothing else is there.
    let mut ipam_only = scene.config.clone();
    ipam_only["type"] = "host-local".into();
    scene.machine.add(&ipam_only, "c1", &scene.netns).result();
    assert_eq!(scene.machine.leases("net").len(), 1);
    scene.add().result();
    scene.assert_whole("after a dead ADD");
}

#[test]
fn an_endpoint_in_another_namespace_keeps_its_address() {
    let scene = scenes()[0]();
    scene.add().result();
    let other = scene.machine.namespace();
    let (code, message, _) = scene.machine.add(&scene.config, "c1", &other).failure();
    assert!(code == 999 && message.contains("is in the namespace"), "{message}");
    scene.assert_whole("after an ADD into another namespace");
}
