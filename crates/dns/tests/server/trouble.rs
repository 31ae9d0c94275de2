//! When there is nobody to ask, or nothing to say yet.

use dns::zone::Zone;
use dns::{RecordType, ResponseCode};

use crate::world::{World, settings, zone};

#[test]
fn without_servers_outside_other_names_are_refused() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    assert_eq!(world.ask("www.example.com.", RecordType::A).metadata.response_code, ResponseCode::Refused);
    let external = world.ask("away.shop.svc.cluster.local.", RecordType::A);
    assert_eq!(external.metadata.response_code, ResponseCode::Refused);
    assert_eq!(external.answers.len(), 1);
}

#[test]
fn a_server_that_answers_nothing_is_a_failure() {
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("an address");
    let world = World::start(zone("cluster.local.", 3), vec![closed]);
    assert_eq!(world.ask("www.example.com.", RecordType::A).metadata.response_code, ResponseCode::ServFail);
    assert_eq!(world.responder.counters().unanswered_forwards(), 1);
}

#[test]
fn before_the_cluster_is_read_nothing_is_said_not_to_exist() {
    let outside = World::start(zone("outside.example.", 3), Vec::new());
    let world = World::start(Zone::unread(settings("cluster.local.")), vec![outside.address]);
    assert_eq!(world.ask("web.shop.svc.cluster.local.", RecordType::A).metadata.response_code, ResponseCode::ServFail);
    assert_eq!(world.ask("web.shop.svc.outside.example.", RecordType::A).answers.len(), 1);
}

#[test]
fn what_was_answered_is_counted() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    world.ask("web.shop.svc.cluster.local.", RecordType::A);
    world.ask("nobody.shop.svc.cluster.local.", RecordType::A);
    assert_eq!(world.responder.counters().answers(), [(ResponseCode::NoError, 1), (ResponseCode::NXDomain, 1)]);
}
