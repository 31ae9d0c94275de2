//! `flannel`, with the plugins that it has do the work.

use serde_json::{Value, json};

use super::{Case, Verb, l2bridge, outbound_nat, runtime, vxlan, with};

/// What flanneld writes.
const SUBNET: &str = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";

fn flannel(name: &'static str, delegate: Value, more: Value) -> Case {
    let config = json!({"cniVersion": "0.4.0", "name": "pods", "type": "flannel", "delegate": delegate});
    Case { subnet: Some(SUBNET), ..Case::new(name, with(config, more)).networks(vec![l2bridge("pods")]) }
}

/// win-bridge gives pods a gateway that is also the first address host-local gives out, which HNS refuses; the next one it takes.
fn on_bridge(name: &'static str, more: Value) -> Case {
    let steps = [Verb::Add, Verb::Add, Verb::Check, Verb::Del, Verb::Del];
    flannel(name, json!({"apiVersion": 2}), more).steps(&steps).differs("1-ADD/delegates", "a failure leaves nothing behind")
}

/// flannel with win-overlay.
pub(super) fn on_overlay(name: &'static str, more: Value) -> Case {
    let delegate = with(json!({"type": "win-overlay", "apiVersion": 2}), more);
    flannel(name, delegate, json!({})).networks(vec![vxlan("pods")])
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    vec![
        on_bridge("flannel", json!({})),
        on_bridge("flannel with ports of the runtime", json!({"runtimeConfig": runtime()})),
        on_overlay("flannel on an Overlay", json!({})),
        on_overlay("flannel on an Overlay with policies", json!({"policies": [outbound_nat(&["10.96.0.0/12"])]}))
            .differs("*/endpoints/0/Policies", super::ONE_NAT),
        on_overlay("flannel with loopback DSR", json!({"loopbackDSR": true})),
        on_overlay("flannel, ADD twice and DEL twice", json!({})).steps(&[Verb::Add, Verb::Add, Verb::Del, Verb::Del]),
        in_an_old_version(),
    ]
}

fn in_an_old_version() -> Case {
    let mut case = on_overlay("flannel in 0.3.1", json!({})).steps(&[Verb::Add, Verb::Del]);
    case.config["cniVersion"] = json!("0.3.1");
    case
}
