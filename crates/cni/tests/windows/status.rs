//! STATUS: whether ADD would work now, and why not.

use serde_json::{Value, json};

use crate::machine::{Fault, Machine};

fn status(machine: &Machine, config: &Value) -> crate::machine::Answer {
    machine.call_with("STATUS", config, &[])
}

fn bridge(machine: &Machine) -> Value {
    let ipam = machine.host_local(&["10.244.1.0/24"]);
    json!({"cniVersion": "1.1.0", "type": "win-bridge", "name": "net", "apiVersion": 2, "ipam": ipam})
}

#[test]
fn each_obstacle_is_named() {
    let machine = Machine::new();
    let config = bridge(&machine);
    let expect = |config: &Value, message: &str| {
        let (code, text, details) = status(&machine, config).failure();
        assert!(code == 50 && text.contains(message) && !details.is_empty(), "{message}: {code} {text}: {details}");
    };
    expect(&config, "HNS has no network \"net\"");
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    let answer = status(&machine, &config);
    assert!(answer.succeeded && answer.text.is_empty(), "{}", answer.text);

    let mut overlay = config.clone();
    overlay["type"] = "win-overlay".into();
    expect(&overlay, "is of type L2Bridge, not Overlay");
    let mut without_ipam = config.clone();
    without_ipam["ipam"] = json!({"type": "absent"});
    expect(&without_ipam, "failed to find plugin \"absent\"");
    let mut wrong = config.clone();
    wrong["ipMasqNetwork"] = "x".into();
    expect(&wrong, "ipMasqNetwork");

    machine.fail(Fault::Dead(0));
    expect(&config, "the test has cut the line");
}

#[test]
fn a_network_that_would_be_made_need_not_be_there() {
    let machine = Machine::new();
    let mut config = json!({"cniVersion": "1.1.0", "type": "nat", "name": "net", "ipam": {"subnet": "10.244.1.0/24"}});
    assert!(status(&machine, &config).succeeded);
    config["optionalFlags"] = json!({"enableDualStack": true});
    let (code, message, _) = status(&machine, &config).failure();
    assert!(code == 50 && message.contains("HNS has no network"), "{message}");
    config["type"] = "sdnbridge".into();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    assert!(status(&machine, &config).succeeded);
}

#[test]
fn a_switch_that_is_away_is_told() {
    let machine = Machine::new();
    machine.network("L2Bridge", "net", &[("10.244.1.0/24", "10.244.1.1")]);
    for kind in ["win-bridge", "nat", "azure-vnet"] {
        let mut config = bridge(&machine);
        config["type"] = kind.into();
        *machine.switch_failure.lock().unwrap() = Some("vswitchd does not answer".to_owned());
        let (code, message, details) = status(&machine, &config).failure();
        assert!(code == 50 && message.contains("vswitchd does not answer") && !details.is_empty(), "{kind}: {code} {message}");
        *machine.switch_failure.lock().unwrap() = None;
        assert!(status(&machine, &config).succeeded, "{kind}");
    }
}
