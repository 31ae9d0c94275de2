//! What Services become.

use hcn::load_balancer::{DistributionType, LoadBalancerFlags, PortMappingFlags};
use serde_json::json;

use crate::world::{World, address, outward, plain};

#[test]
fn a_service_becomes_a_load_balancer_and_stays_as_it_is() {
    let mut world = World::new("transom", "L2Bridge");
    world.pod("10.1.1.5");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    let report = world.sync();
    assert_eq!((report.created, report.endpoints), (1, (1, 0)));
    let balancer = world.balancer("10.96.0.10:80");
    assert_eq!(balancer.port_mappings[0].internal_port, 8080);
    assert_eq!(balancer.flags, LoadBalancerFlags::default());
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.1.5", "10.1.2.6"]);
    assert_eq!(world.nothing_to_do(), 0, "what has not changed costs no call");
}

#[test]
fn a_backend_more_or_less_changes_the_load_balancer_in_place() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    let id = world.balancer("10.96.0.10:80").id;
    world.backends("web", "", 8080, &["10.1.2.7"]);
    let before = world.changes();
    let report = world.sync();
    assert_eq!((report.created, report.modified, report.deleted, report.endpoints), (0, 1, 0, (1, 1)));
    assert_eq!(world.changes() - before, 3, "one endpoint comes, one load balancer changes, one endpoint goes");
    assert_eq!((world.balancer("10.96.0.10:80").id, world.leads_to("10.96.0.10:80")), (id, vec!["10.1.2.7".to_owned()]));
    assert!(world.endpoints_at("10.1.2.6").is_empty());
}

#[test]
fn a_build_that_cannot_change_load_balancers_gets_new_ones() {
    let mut world = World::new("ws2019", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    world.backends("web", "", 8080, &["10.1.2.6", "10.1.2.7"]);
    let report = world.sync();
    assert_eq!((report.created, report.modified), (1, 0));
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6", "10.1.2.7"]);
}

#[test]
fn all_frontends_of_a_service_are_there_and_go_with_it() {
    let mut world = World::new("transom", "L2Bridge");
    let mut spec = outward("10.96.0.10", "198.51.100.7", "Cluster");
    spec["externalIPs"] = json!(["203.0.113.9"]);
    world.service("web", spec);
    world.backends("web", "", 8080, &["10.1.2.6"]);
    assert_eq!(world.sync().created, 4);
    let flags = |frontend: &str| world.balancer(frontend).port_mappings[0].flags;
    assert_eq!(flags("10.96.0.10:80"), PortMappingFlags::default());
    assert_eq!(flags(":30080"), PortMappingFlags::LOCAL_ROUTED_VIP.with(PortMappingFlags::VIP_EXTERNAL_IP));
    assert_eq!(flags("203.0.113.9:80"), PortMappingFlags::VIP_EXTERNAL_IP);
    assert_eq!(flags("198.51.100.7:80"), PortMappingFlags::VIP_EXTERNAL_IP);
    world.remove_service("web");
    let report = world.sync();
    assert_eq!((report.deleted, report.endpoints.1), (4, 1));
    assert!(world.balancers().is_empty());
}

#[test]
fn without_backends_clients_are_refused_where_hns_can() {
    for (profile, count) in [("transom", 1), ("ws2022", 0)] {
        let mut world = World::new(profile, "L2Bridge");
        world.service("web", plain("10.96.0.10"));
        world.sync();
        assert_eq!(world.balancers().len(), count, "{profile}");
        assert!(world.balancers().iter().all(|balancer| balancer.endpoints.is_empty()));
    }
}

#[test]
fn with_the_local_policy_others_get_local_backends_and_pods_get_all() {
    let mut world = World::new("transom", "L2Bridge");
    world.pod("10.1.1.5");
    world.service("web", outward("10.96.0.10", "198.51.100.7", "Local"));
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    world.sync();
    for frontend in [":30080", "198.51.100.7:80"] {
        let balancer = world.balancer(frontend);
        assert!(balancer.flags.has(LoadBalancerFlags::DSR), "{frontend}");
        let params = balancer.additional_params.unwrap();
        let ids = |name: &str| {
            params[name].as_array().unwrap().iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect::<Vec<hcn::Guid>>()
        };
        let (inside, outside) = (ids("InsideEndpoints"), ids("OutsideEndpoints"));
        assert_eq!(world.addresses(&inside), ["10.1.1.5", "10.1.2.6"], "{frontend}");
        assert_eq!(world.addresses(&outside), ["10.1.1.5"], "{frontend}");
    }
    assert!(!world.balancer("10.96.0.10:80").flags.has(LoadBalancerFlags::DSR));
}

#[test]
fn with_the_local_policy_windows_gets_local_backends_only() {
    let mut world = World::new("ws2022", "L2Bridge");
    world.pod("10.1.1.5");
    world.service("web", outward("10.96.0.10", "198.51.100.7", "Local"));
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    world.sync();
    assert_eq!(world.leads_to(":30080"), ["10.1.1.5"]);
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.1.5", "10.1.2.6"]);
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    assert!(world.find(":30080").is_none() && world.find("198.51.100.7:80").is_none());
}

#[test]
fn the_internal_local_policy_keeps_clients_on_their_node() {
    let mut world = World::new("transom", "L2Bridge");
    world.pod("10.1.1.5");
    let mut spec = plain("10.96.0.10");
    spec["internalTrafficPolicy"] = json!("Local");
    world.service("web", spec);
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.1.5"]);
}

#[test]
fn backends_may_have_ports_of_their_own() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6", "10.1.2.7"]);
    world.backends("web", "", 9090, &["10.1.2.8"]);
    world.sync();
    let balancer = world.balancer("10.96.0.10:80");
    let other = world.endpoints_at("10.1.2.8")[0].id;
    assert_eq!(balancer.port_mappings[0].internal_port, 8080);
    assert_eq!(balancer.additional_params.unwrap()["BackendPorts"], json!({other.to_string(): 9090}));
}

#[test]
fn where_hns_knows_one_port_the_others_get_nothing_and_it_is_said() {
    let mut world = World::new("ws2022", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6", "10.1.2.7"]);
    world.backends("web", "", 9090, &["10.1.2.8"]);
    let report = world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6", "10.1.2.7"]);
    assert!(report.complaints.iter().any(|(service, cause)| service.name == "web" && cause.contains("1 backends have another port")));
}

#[test]
fn affinity_comes_with_its_timeout() {
    let mut world = World::new("transom", "L2Bridge");
    let mut spec = plain("10.96.0.10");
    spec["sessionAffinity"] = json!("ClientIP");
    spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 77}});
    world.service("web", spec);
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    let balancer = world.balancer("10.96.0.10:80");
    assert_eq!(balancer.port_mappings[0].distribution_type, DistributionType::SourceIp);
    assert_eq!(balancer.additional_params.unwrap()["AffinityTimeoutSeconds"], 77);
}

#[test]
fn source_ranges_restrict_the_load_balancers_address_alone() {
    let mut world = World::new("transom", "L2Bridge");
    let mut spec = outward("10.96.0.10", "198.51.100.7", "Cluster");
    spec["loadBalancerSourceRanges"] = json!([" 192.0.2.0/25 ", "nonsense"]);
    world.service("web", spec);
    world.backends("web", "", 8080, &["10.1.2.6"]);
    let report = world.sync();
    assert_eq!(world.balancer("198.51.100.7:80").additional_params.unwrap()["SourceRanges"], json!(["192.0.2.0/25"]));
    assert!(world.balancer(":30080").additional_params.is_none());
    assert!(report.complaints.iter().any(|(_, cause)| cause.contains("nonsense")), "{:?}", report.complaints);
}

#[test]
fn the_destination_is_preserved_where_the_service_asks_for_it() {
    let mut world = World::new("transom", "L2Bridge");
    world.pod("10.1.1.5");
    let mut spec = outward("10.96.0.10", "198.51.100.7", "Cluster");
    spec["annotations"] = json!({"preserve-destination": "true"});
    world.service("web", spec);
    world.backends("web", "", 8080, &["!10.1.1.5", "10.1.2.6"]);
    world.sync();
    let balancer = world.balancer("198.51.100.7:80");
    assert!(balancer.flags.has(LoadBalancerFlags::DSR));
    let wanted = PortMappingFlags::VIP_EXTERNAL_IP.with(PortMappingFlags::USE_MUX).with(PortMappingFlags::PRESERVE_DIP);
    assert_eq!(balancer.port_mappings[0].flags, wanted);
}

#[test]
fn backends_that_end_serve_until_others_do() {
    let mut world = World::new("transom", "L2Bridge");
    world.service("web", plain("10.96.0.10"));
    let ending = |address: &str| json!({"addresses": [address], "conditions": {"ready": false, "serving": true, "terminating": true}});
    world.slice(
        "web",
        "",
        8080,
        json!([ending("10.1.2.6"), {"addresses": ["10.1.2.7"], "conditions": {"ready": false, "serving": false}}]),
    );
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.6"]);
    world.slice("web", "", 8080, json!([ending("10.1.2.6"), {"addresses": ["10.1.2.7"], "conditions": {"ready": true}}]));
    world.sync();
    assert_eq!(world.leads_to("10.96.0.10:80"), ["10.1.2.7"]);
}

#[test]
fn two_services_with_one_frontend_are_told_apart_and_it_is_said() {
    let mut world = World::new("transom", "L2Bridge");
    for (name, cluster_ip) in [("first", "10.96.0.10"), ("second", "10.96.0.11")] {
        let mut spec = plain(cluster_ip);
        spec["externalIPs"] = json!(["203.0.113.9"]);
        world.service(name, spec);
        world.backends(name, "", 8080, &[&format!("10.1.2.{}", name.len())]);
    }
    let report = world.sync();
    assert_eq!(world.leads_to("203.0.113.9:80"), ["10.1.2.5"]);
    let (service, cause) = &report.complaints[0];
    assert_eq!(service.name, "second");
    assert!(cause.contains("203.0.113.9:80/TCP belongs to default/first"), "{cause}");
}

#[test]
fn ports_of_one_service_share_its_endpoint_on_an_overlay() {
    let mut world = World::new("transom", "Overlay");
    world.service(
        "web",
        json!({"clusterIP": "10.96.0.10", "ports": [
        {"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81, "targetPort": 8081}]}),
    );
    world.backends("web", "a", 8080, &["10.1.2.6"]);
    world.backends("web", "b", 8081, &["10.1.2.6"]);
    world.sync();
    let vip = world.endpoints_at("10.96.0.10");
    assert_eq!((vip.len(), vip[0].is_remote()), (1, true));
    assert_eq!(world.endpoints_at("10.1.1.2").len(), 1, "the source address");
    assert_eq!(world.balancer("10.96.0.10:80").source_vip, "10.1.1.2");
    // One port loses its backend, then the Service that port: the other keeps the address and everything else.
    world.drop_slice("web", "a", 8080);
    world.sync();
    world.service("web", json!({"clusterIP": "10.96.0.10", "ports": [{"name": "b", "port": 81, "targetPort": 8081}]}));
    let report = world.sync();
    assert_eq!((report.deleted, report.endpoints), (1, (0, 0)));
    assert_eq!(world.endpoints_at("10.96.0.10")[0].id, vip[0].id);
    assert_eq!(world.leads_to("10.96.0.10:81"), ["10.1.2.6"]);
}

#[test]
fn an_overlay_may_have_several_source_addresses() {
    let mut world = World::new("transom", "Overlay");
    let second = "10.1.1.3";
    world.setting.source_vips.push(address(second));
    world.proxier.set(world.setting.clone());
    world.service("web", plain("10.96.0.10"));
    world.sync();
    assert_eq!(["10.1.1.2", second].map(|vip| world.endpoints_at(vip).len()), [1, 1]);
    world.nothing_to_do();
}

#[test]
fn backends_behind_a_node_that_moved_follow_it() {
    let mut world = World::new("transom", "Overlay");
    world.service("web", plain("10.96.0.10"));
    world.backends("web", "", 8080, &["10.1.2.6"]);
    world.sync();
    let provider = |world: &World| {
        let backends = world.endpoints_at("10.1.2.6");
        assert_eq!(backends.len(), 1);
        backends[0].policies[0].settings["ProviderAddress"].as_str().unwrap().to_owned()
    };
    assert_eq!(provider(&world), "192.0.2.11");
    let network = world.network;
    let route = |provider: &str| {
        json!({"Type": "RemoteSubnetRoute", "Settings": {"DestinationPrefix": "10.1.2.0/24", "IsolationId": 4096,
            "ProviderAddress": provider, "DistributedRouterMacAddress": "00-15-5D-00-00-02"}})
    };
    world.behind_its_back(|hns| {
        for (request, provider) in [("Remove", "192.0.2.11"), ("Add", "192.0.2.12")] {
            let request = json!({"ResourceType": "Policy", "RequestType": request, "Settings": {"Policies": [route(provider)]}});
            hcn::Hcn::modify(hns, hcn::Kind::Network, network, &request.to_string()).unwrap();
        }
    });
    world.sync();
    assert_eq!(provider(&world), "192.0.2.12");
}

#[test]
fn health_checks_of_many_ports_are_one() {
    let mut world = World::new("transom", "L2Bridge");
    world.setting.health_check_endpoint = Some("pod-10.1.1.5".into());
    world.restart();
    world.pod("10.1.1.5");
    world.service(
        "web",
        json!({
        "type": "LoadBalancer", "clusterIP": "10.96.0.10", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000,
        "ingress": [{"ip": "198.51.100.7"}],
        "ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30081}]}),
    );
    world.backends("web", "a", 8080, &["!10.1.1.5"]);
    world.backends("web", "b", 8081, &["!10.1.1.5"]);
    let report = world.sync();
    let check = world.balancer("198.51.100.7:32000");
    assert_eq!(check.port_mappings[0].protocol, hcn::load_balancer::ProtocolType::Tcp);
    assert_eq!(report.health_checks[&32000].local_backends, 1);
    // One port goes; the health check of the other stays.
    world.service(
        "web",
        json!({
        "type": "LoadBalancer", "clusterIP": "10.96.0.10", "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000,
        "ingress": [{"ip": "198.51.100.7"}], "ports": [{"name": "b", "port": 81, "nodePort": 30081}]}),
    );
    world.sync();
    assert_eq!(world.balancer("198.51.100.7:32000").id, check.id);
}

#[test]
fn an_overlay_without_a_source_address_is_said_and_nothing_is_touched() {
    let mut world = World::new("transom", "Overlay");
    world.setting.source_vips.clear();
    world.restart();
    world.service("web", plain("10.96.0.10"));
    let obstacle = world.try_sync().unwrap_err().to_string();
    assert!(obstacle.contains("--source-vip"), "{obstacle}");
    assert_eq!(world.changes(), 0);
    world.setting.source_vips = vec![address("10.1.1.2")];
    world.proxier.set(world.setting.clone());
    world.sync();
}
