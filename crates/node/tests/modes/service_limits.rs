//! What Windows builds do not do for Services, or do wrong: it holds under their profiles and can be lifted.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use hcn::{Guid, Hcn, Kind};
use serde_json::json;

use crate::harness::balancer::{Balancer, DSR, VIPS, everybody, everybody_new, fronts, names};
use crate::harness::probe::meet;
use crate::harness::world::OUTSIDE;
use crate::harness::{MOMENT, Place, World, answers, pings, refused, run, tcp};
use crate::l2bridge::{routed, routed_pod};
use crate::overlay::Overlay;
use crate::profiles::{restart_as, world_as};
use crate::services::bridge;

const NODE_PORT: u16 = 30_080;

/// Whether nobody answers at an address.
fn is_silent(from: &Place, to: SocketAddr) -> bool {
    from.run(|| TcpStream::connect_timeout(&to, MOMENT).is_err())
}

/// A port of the node in front of backends.
fn node_port(backends: &[Guid], flags: u32) -> Balancer<'static> {
    Balancer { vips: &[], backends: backends.to_vec(), flags, mapping_flags: 2 | 16, port: NODE_PORT, ..Balancer::default() }
}

#[test]
fn the_node_reaches_neither_services_nor_its_own_node_ports() {
    run("service_limits::the_node_reaches_neither_services_nor_its_own_node_ports", || {
        let mut world = world_as(1, &["--profile", "ws2022"]);
        let (_, [client, one, two]) = bridge(&world);
        let (vips, backends) = (&VIPS[..1], vec![one.endpoint, two.endpoint]);
        node_port(&backends, 0).on(world.one());
        Balancer { vips, backends, ..Balancer::default() }.on(world.one());
        let (vip, port) = (fronts()[0], SocketAddr::new(world.one().v4(), NODE_PORT));
        assert_eq!(everybody(&client, vip).0, names(&[&one, &two]));
        assert_eq!(everybody(&world.outside, port).0, names(&[&one, &two]));
        assert!(is_silent(world.one(), vip) && is_silent(world.one(), port));

        restart_as(&mut world, &["--profile", "ws2022", "--without", "node-cannot-reach-services"]);
        assert_eq!(everybody(world.one(), vip).0, names(&[&one, &two]));
        assert!(is_silent(world.one(), port), "the other limit holds on");
        restart_as(&mut world, &["--profile", "ws2022", "--without", "node-port-not-from-node"]);
        assert_eq!(everybody(world.one(), port).0, names(&[&one, &two]));
        assert!(is_silent(world.one(), vip), "the other limit holds on");
        restart_as(&mut world, &[]);
        assert_eq!(everybody(world.one(), vip).0, names(&[&one, &two]));
        assert_eq!(everybody(world.one(), port).0, names(&[&one, &two]));
    });
}

#[test]
fn node_ports_of_overlays_answer_only_with_the_local_policy() {
    run("service_limits::node_ports_of_overlays_answer_only_with_the_local_policy", || {
        let mut world = world_as(2, &["--profile", "ws2022"]);
        let overlay = Overlay { v6: false, ..Overlay::default() };
        let [first, _] = overlay.on_both(&world);
        let backend = overlay.pod(world.one(), first, 11, &[]);
        let port = SocketAddr::new(world.one().v4(), NODE_PORT);
        let balancer = node_port(&[backend.endpoint], 0).on(world.one());
        assert!(is_silent(&world.outside, port), "the defect of ws2022");
        world.one().client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
        let balancer = node_port(&[backend.endpoint], DSR).on(world.one());
        assert_eq!(meet(&world.outside, port).expect("the pod answers").0, backend.name, "the documented way around it");
        world.one().client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
        node_port(&[backend.endpoint], 0).on(world.one());
        assert!(is_silent(&world.outside, port));
        restart_as(&mut world, &["--profile", "ws2022", "--without", "overlay-node-port"]);
        assert_eq!(meet(&world.outside, port).expect("the pod answers").0, backend.name);
    });
}

#[test]
fn pods_of_a_bridge_are_parted_while_dsr_is_on() {
    run("service_limits::pods_of_a_bridge_are_parted_while_dsr_is_on", || {
        let mut world = world_as(1, &["--profile", "ws2022"]);
        let (_, [client, one, two]) = bridge(&world);
        let (vips, backends) = (&VIPS[..1], vec![one.endpoint]);
        tcp(&client, two.v4());
        let balancer = Balancer { vips, backends: backends.clone(), flags: DSR, ..Balancer::default() }.on(world.one());
        assert!(refused(&client, two.v4()) && !answers(&one, two.v4()), "the defect of KB5005619");
        assert!(refused(&client, two.v6()));
        assert_eq!(everybody(&client, fronts()[0]).0, names(&[&one]), "services still work");
        pings(&client, OUTSIDE[0]);
        world.one().client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
        tcp(&client, two.v4());
        Balancer { vips, backends: backends.clone(), ..Balancer::default() }.on(world.one());
        tcp(&client, two.v4());
        Balancer { vips: &VIPS[1..], backends, flags: DSR, ..Balancer::default() }.on(world.one());
        assert!(refused(&client, two.v4()));
        restart_as(&mut world, &["--profile", "ws2022", "--without", "l2bridge-pod-to-pod-with-dsr"]);
        tcp(&client, two.v4());
        tcp(&client, two.v6());
    });
}

/// Whom a backend sees when somebody outside asks.
fn seen_from_outside(world: &World) -> IpAddr {
    meet(&world.outside, fronts()[0]).expect("the pod answers").1.ip()
}

#[test]
fn the_address_of_somebody_outside_is_kept_only_with_dsr() {
    run("service_limits::the_address_of_somebody_outside_is_kept_only_with_dsr", || {
        let mut world = world_as(1, &["--profile", "ws2022"]);
        let network = routed(&world, world.one());
        let backend = routed_pod(world.one(), network, 11, &[]);
        world.route_to(world.one(), &["10.96.0.0/16"]);
        let (vips, backends) = (&VIPS[..1], vec![backend.endpoint]);
        let balancer = Balancer { vips, backends: backends.clone(), flags: DSR, ..Balancer::default() }.on(world.one());
        assert_eq!(seen_from_outside(&world), OUTSIDE[0]);
        world.one().client.delete(Kind::LoadBalancer, balancer).expect("the load balancer goes");
        Balancer { vips, backends, ..Balancer::default() }.on(world.one());
        assert_eq!(seen_from_outside(&world), world.one().v4(), "Local needs DSR");
        restart_as(&mut world, &["--profile", "ws2022", "--without", "local-policy-needs-dsr"]);
        assert_eq!(seen_from_outside(&world), OUTSIDE[0]);
    });
}

#[test]
fn the_timeout_of_affinity_is_ignored() {
    run("service_limits::the_timeout_of_affinity_is_ignored", || {
        let mut world = world_as(1, &["--profile", "ws2025", "--without", "load-balancer-modify-ineffective"]);
        let (_, [client, one, two]) = bridge(&world);
        let extras = json!({ "AffinityTimeoutSeconds": 2 });
        let balancer =
            |backends: Vec<Guid>| Balancer { vips: &VIPS[..1], backends, distribution: 2, extras: extras.clone(), ..Balancer::default() };
        let all = vec![one.endpoint, two.endpoint];
        let id = balancer(all.clone()).on(world.one());
        let favourite = everybody_new(&client, fronts()[0]);
        assert_eq!(favourite.len(), 1, "one client has one backend: {favourite:?}");
        let without: Vec<Guid> = [&one, &two].into_iter().filter(|pod| !favourite.contains(&pod.name)).map(|pod| pod.endpoint).collect();
        balancer(without.clone()).change(world.one(), id);
        let second = everybody_new(&client, fronts()[0]);
        balancer(all.clone()).change(world.one(), id);
        assert_eq!(everybody_new(&client, fronts()[0]), favourite, "the hash alone decides, at once");

        restart_as(&mut world, &[]);
        balancer(without).change(world.one(), id);
        assert_eq!(everybody_new(&client, fronts()[0]), second);
        balancer(all).change(world.one(), id);
        assert_eq!(everybody_new(&client, fronts()[0]), second, "without the limit the client keeps its backend");
        std::thread::sleep(Duration::from_millis(2600));
        assert_eq!(everybody_new(&client, fronts()[0]), favourite, "for as long as it says");
    });
}
