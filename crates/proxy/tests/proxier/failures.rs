//! What cannot be done is said, and done later.

use hcn::Kind;
use proxy::desired::Role;
use serde_json::json;

use crate::world::{World, outward, plain};

#[test]
fn every_load_balancer_that_was_refused_is_tried_again() {
    let mut world = World::new("transom", "L2Bridge");
    let mut spec = outward("10.96.0.10", "198.51.100.7", "Cluster");
    spec["externalIPs"] = json!(["203.0.113.9"]);
    world.service("web", spec);
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.refuse(Kind::LoadBalancer, 4);
    let report = world.try_sync().unwrap();
    let mut roles: Vec<Role> = report.failures.iter().filter_map(|failure| failure.role).collect();
    roles.sort();
    assert_eq!(roles, [Role::ClusterIp, Role::NodePort, Role::ExternalIp, Role::Ingress]);
    assert!(report.failures.iter().all(|failure| failure.cause.as_ref().is_some_and(|cause| cause.service.name == "web")));
    assert_eq!(world.sync().created, 4);
}

#[test]
fn a_deletion_that_was_refused_is_tried_again() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    world.remove_service("web");
    world.refuse(Kind::LoadBalancer, 1);
    let report = world.try_sync().unwrap();
    assert_eq!((report.failures.len(), report.endpoints.1), (1, 0), "its endpoint stays as long as it does");
    let report = world.sync();
    assert_eq!((report.deleted, report.endpoints.1), (1, 1));
}

#[test]
fn a_backend_that_was_refused_keeps_the_others_in_place() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    world.backends("web", "", 8080, &["10.1.2.6", "10.1.2.7"]);
    world.refuse(Kind::Endpoint, 1);
    assert_eq!(world.try_sync().unwrap().failures.len(), 1);
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6", "10.1.2.7"]);
}

#[test]
fn while_hns_is_away_nothing_is_torn_down() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    world.go_down(true);
    world.proxier.forget();
    assert!(world.try_sync().unwrap_err().to_string().contains("cut the line"));
    world.go_down(false);
    world.nothing_to_do();
}

#[test]
fn ranges_of_services_and_pods_that_overlap_are_said_and_spoil_nothing() {
    for network_type in ["L2Bridge", "Overlay"] {
        let mut world = World::new("transom", network_type);
        world.pod("10.1.1.6");
        world.service("web", plain("10.1.1.77"));
        world.backends("web", "", 8080, &["10.1.1.6"]);
        // This one has a pod's very address.
        world.service("other", plain("10.1.1.6"));
        world.backends("other", "", 8080, &["10.1.2.6"]);
        world.service("good", plain("10.96.0.10"));
        world.backends("good", "", 8080, &["10.1.1.6"]);
        let report = world.sync();
        let mut said: Vec<(&str, &str)> = report.complaints.iter().map(|(service, cause)| (&*service.name, &**cause)).collect();
        said.sort_unstable();
        let text = |vip: &str| {
            format!("clusterIPs: {vip} lies within the pods' subnet 10.1.1.0/24; give Services and pods ranges that do not overlap")
        };
        assert_eq!(said, [("other", &*text("10.1.1.6")), ("web", &*text("10.1.1.77"))], "{network_type}");
        for (front, backend) in [("10.1.1.77:80", "10.1.1.6"), ("10.1.1.6:80", "10.1.2.6"), ("10.96.0.10:80", "10.1.1.6")] {
            assert_eq!(world.leads_to(front), [backend], "{network_type}");
        }
        // The pod is still there when the Services go.
        ["web", "other", "good"].iter().for_each(|name| world.remove_service(name));
        world.sync();
        assert_eq!(world.endpoints_at("10.1.1.6").len(), 1, "{network_type}");
    }
}

#[test]
fn documents_that_make_no_sense_are_left_out_and_named() {
    let mut world = World::new("transom", "L2Bridge");
    world.service(
        "odd",
        json!({"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "10.96.0.11", "x"], "externalIPs": ["y"],
        "ports": [{"port": 0}, {"port": 80, "protocol": "QUIC"}, {"port": 81}]}),
    );
    world.slice("odd", "", 8080, json!([{"addresses": []}, {"addresses": ["fe80::1"]}, {"addresses": ["10.1.2.6"]}]));
    let report = world.sync();
    assert_eq!(world.leads_to("10.96.0.10:81"), ["10.1.2.6"]);
    for part in [
        "10.96.0.11 is a second",
        "\"x\" is no address",
        "\"y\" is no address",
        "0 is no port",
        "\"QUIC\"",
        "\"\", which is none",
        "fe80::1",
    ] {
        assert!(report.complaints.iter().any(|(_, cause)| cause.contains(part)), "{part}: {:#?}", report.complaints);
    }
}
