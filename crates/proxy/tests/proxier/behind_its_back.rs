//! What others do to HNS is undone where it concerns Services, and left alone where it does not.

use hcn::{Hcn, Kind};
use serde_json::json;

use crate::world::{World, outward, plain};

fn with_service(profile: &str) -> World {
    let mut world = World::new(profile, "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    world
}

#[test]
fn a_load_balancer_that_was_deleted_comes_back() {
    let mut world = with_service("transom");
    let id = world.balancer("10.96.0.10:80").id;
    world.behind_its_back(|hns| hns.delete(Kind::LoadBalancer, id).unwrap());
    assert_eq!(world.sync().created, 1);
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
    world.nothing_to_do();
}

#[test]
fn without_an_event_a_look_at_the_ids_finds_it() {
    let mut world = with_service("transom");
    let balancer = world.balancer("10.96.0.10:80");
    world.hns.delete(Kind::LoadBalancer, balancer.id).unwrap();
    world.hns.delete(Kind::Endpoint, balancer.endpoints[0]).unwrap();
    world.nothing_to_do();
    assert!(world.proxier.compare(&world.hns).unwrap());
    let report = world.sync();
    assert_eq!((report.created, report.endpoints.0), (1, 1));
    assert!(!world.proxier.compare(&world.hns).unwrap());
}

#[test]
fn an_endpoint_that_was_deleted_comes_back_with_its_load_balancer() {
    let mut world = with_service("transom");
    let endpoint = world.balancer("10.96.0.10:80").endpoints[0];
    world.behind_its_back(|hns| hns.delete(Kind::Endpoint, endpoint).unwrap());
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
    world.nothing_to_do();
}

#[test]
fn what_was_changed_is_changed_back() {
    let mut world = with_service("transom");
    let mut balancer = world.balancer("10.96.0.10:80");
    balancer.port_mappings[0].internal_port = 1;
    let settings = hcn::print(&balancer);
    world.behind_its_back(|hns| hns.modify(Kind::LoadBalancer, balancer.id, &settings).unwrap());
    assert_eq!(world.sync().modified, 1);
    assert_eq!(world.balancer("10.96.0.10:80").port_mappings[0].internal_port, 8080);
}

#[test]
fn a_restart_changes_nothing_that_is_right() {
    let mut world = World::new("transom", "L2Bridge");
    world.pod("10.1.1.5");
    world.service("web", outward("10.96.0.10", "198.51.100.7", "Local"));
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    world.sync();
    world.restart();
    world.nothing_to_do();
}

#[test]
fn a_restart_takes_away_what_went_meanwhile() {
    let mut world = with_service("transom");
    world.remove_service("web");
    world.restart();
    let report = world.sync();
    assert_eq!((report.deleted, report.endpoints.1), (1, 1));
    assert!(world.balancers().is_empty() && world.endpoints_at("10.1.2.6").is_empty());
}

#[test]
fn objects_of_others_are_left_alone() {
    let mut world = with_service("transom");
    let pod = world.pod("10.1.1.9");
    let other = json!({
        "HostComputeEndpoints": [pod.to_string()], "FrontendVIPs": ["10.9.9.9"],
        "PortMappings": [{"Protocol": 6, "InternalPort": 1, "ExternalPort": 2}], "SchemaVersion": {"Major": 2, "Minor": 0}});
    world.behind_its_back(|hns| _ = hns.create(Kind::LoadBalancer, None, None, &other.to_string()).unwrap());
    let remote = json!({
        "HostComputeNetwork": world.network.to_string(), "Flags": 1, "MacAddress": "02-11-0a-01-02-63",
        "IpConfigurations": [{"IpAddress": "10.1.2.99"}], "SchemaVersion": {"Major": 2, "Minor": 0}});
    world.behind_its_back(|hns| _ = hns.create(Kind::Endpoint, None, None, &remote.to_string()).unwrap());
    world.remove_service("web");
    world.restart();
    world.sync();
    assert_eq!(world.leads_to("10.9.9.9:2"), ["10.1.1.9"]);
    assert_eq!(world.endpoints_at("10.1.2.99").len(), 1);
}

#[test]
fn a_frontend_of_a_service_is_taken_over_from_whoever_had_it() {
    let mut world = World::new("transom", "L2Bridge");
    let pod = world.pod("10.1.1.9");
    let other = json!({
        "HostComputeEndpoints": [pod.to_string()], "FrontendVIPs": ["10.96.0.10"],
        "PortMappings": [{"Protocol": 6, "InternalPort": 1, "ExternalPort": 80}], "SchemaVersion": {"Major": 2, "Minor": 0}});
    world.hns.create(Kind::LoadBalancer, None, None, &other.to_string()).unwrap();
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    assert_eq!(world.balancers().len(), 1);
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
}

#[test]
fn a_pod_that_moved_here_is_reached_here() {
    let mut world = with_service("transom");
    let stale = world.endpoints_at("10.1.2.6")[0].id;
    // It came with its address before the cluster said so, and HNS has it twice.
    let pod = world.pod("10.1.1.6");
    world.backends("web", "", 8080, &["!10.1.1.6"]);
    world.behind_its_back(|_| {});
    world.proxier.forget();
    world.sync();
    assert_eq!(world.balancer("10.96.0.10:80").endpoints, [pod]);
    assert!(world.endpoints_at("10.1.2.6").iter().all(|endpoint| endpoint.id != stale));
}

#[test]
fn a_pod_counts_once_it_is_attached() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["!10.1.1.5"]);
    world.sync();
    assert!(world.balancer("10.96.0.10:80").endpoints.is_empty());
    let mut pod = None;
    let network = world.network;
    world.behind_its_back(|hns| {
        let document = json!({
            "HostComputeNetwork": network.to_string(), "IpConfigurations": [{"IpAddress": "10.1.1.5"}], "SchemaVersion": {"Major": 2, "Minor": 0}});
        pod = Some(hns.create(Kind::Endpoint, None, None, &document.to_string()).unwrap());
    });
    world.nothing_to_do();
    let pod = pod.unwrap();
    world.behind_its_back(|hns| {
        let namespace = json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}});
        let namespace = hns.create(Kind::Namespace, None, None, &namespace.to_string()).unwrap();
        let request = json!({"ResourceType": "Endpoint", "RequestType": "Add", "Settings": {"EndpointId": pod.to_string()}});
        hns.modify(Kind::Namespace, namespace, &request.to_string()).unwrap();
    });
    world.sync();
    assert_eq!(world.balancer("10.96.0.10:80").endpoints, [pod]);
}

#[test]
fn a_network_that_was_made_anew_is_filled_at_once() {
    let mut world = with_service("transom");
    let (old, balancer) = (world.network, world.balancer("10.96.0.10:80").id);
    world.behind_its_back(|hns| {
        _ = hns.delete(Kind::LoadBalancer, balancer);
        hns.delete(Kind::Network, old).unwrap();
    });
    assert!(world.try_sync().unwrap_err().to_string().contains("no network \"pods\""));
    world.make_network("L2Bridge");
    world.proxier.forget();
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
    assert_eq!(world.balancer("10.96.0.10:80").network, world.network);
}
