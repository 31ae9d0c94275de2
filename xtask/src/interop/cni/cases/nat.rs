//! `nat`, `sdnbridge` and `sdnoverlay`.

use serde_json::{Value, json};

use super::{Case, Netns, Verb, network, outbound_nat, runtime, sdn_route, vxlan, with};

const READABLE: &str = "nobody can read the six bytes as they are";
const EMPTY: &str = "what is empty is left out, as newer releases of the reference's library do";

/// nat, which makes its network.
fn nat(name: &'static str, more: Value) -> Case {
    let ipam = json!({"subnet": "10.244.1.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.1.1"}]});
    plugin(name, "nat", more, ipam)
}

/// sdnbridge on an L2Bridge.
fn bridge(name: &'static str, more: Value) -> Case {
    plugin(name, "sdnbridge", more, host_local("10.244.1.0/24")).networks(vec![network("pods", "L2Bridge", "10.244.1.1", json!([]))])
}

/// sdnoverlay on an Overlay.
fn overlay(name: &'static str, more: Value) -> Case {
    plugin(name, "sdnoverlay", more, host_local("10.244.1.0/24")).networks(vec![vxlan("pods")])
}

fn plugin(name: &'static str, plugin: &'static str, more: Value, ipam: Value) -> Case {
    let config = json!({"cniVersion": "1.0.0", "name": "pods", "type": plugin, "ipam": ipam});
    let case = Case::new(name, with(config, more)).differs("1-ADD/result/interfaces/0/mac", READABLE);
    match case.config["cniVersion"] == "1.0.0" {
        true => case.differs("1-ADD/result/dns", EMPTY),
        false => case,
    }
}

/// Addresses by host-local. The reference hands `subnet` on, and no ranges.
fn host_local(subnet: &str) -> Value {
    json!({"type": "host-local", "subnet": subnet, "routes": [{"dst": "0.0.0.0/0", "gw": "10.244.1.1"}]})
}

fn flags(more: Value) -> Value {
    with(json!({"runtimeConfig": runtime()}), json!({"optionalFlags": more}))
}

/// A namespace that nobody has made.
fn in_nobodys() -> Case {
    let mut case = nat("nat, no such namespace", json!({})).netns(Netns::Nobodys).steps(&[Verb::Add, Verb::Del]);
    case.intended.clear();
    case.differs("1-ADD/endpoints", "a failure leaves nothing behind").fails_with(8)
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    use Verb::{Add, Del};
    let dns = json!({"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local", "cluster.local"], "domain": "cluster.local"});
    vec![
        nat("nat", json!({})),
        nat("nat in 0.3.0", json!({"cniVersion": "0.3.0"})).steps(&[Add, Del]),
        nat("nat in 0.4.0", json!({"cniVersion": "0.4.0"})),
        nat("nat with dns", json!({"dns": dns})),
        nat("nat with ports and dns of the runtime", json!({"runtimeConfig": runtime()})),
        nat("nat with ports over local routes", flags(json!({"localRoutedPortMapping": true}))),
        nat("nat with ports and their ACLs", flags(json!({"allowAclPortMapping": true}))),
        nat("nat, ADD twice and DEL twice", json!({}))
            .steps(&[Add, Add, Del, Del])
            .differs("2-ADD/result/interfaces/0/mac", READABLE)
            .differs("2-ADD/result/dns", EMPTY),
        in_nobodys(),
        bridge("sdnbridge", json!({})),
        bridge("sdnbridge with policies", json!({"AdditionalArgs": [outbound_nat(&["10.244.0.0/16"])]})),
        bridge(
            "sdnbridge with its gateway forced",
            json!({"optionalFlags": {"forceBridgeGateway": true}, "ipam": host_local("10.244.1.8/29")}),
        ),
        bridge("sdnbridge with loopback DSR", json!({"optionalFlags": {"loopbackDSR": true}})),
        overlay("sdnoverlay", json!({})),
        overlay("sdnoverlay with dns", json!({"dns": dns})),
        overlay("sdnoverlay with a route policy", json!({"AdditionalArgs": [sdn_route("10.96.0.0/12")]})),
    ]
}
