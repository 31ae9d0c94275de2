//! Names that others know: another server of ours is the outside.

use std::net::{SocketAddr, UdpSocket};

use dns::{Name, RData, RecordType, ResponseCode, message};

use crate::world::{World, zone};

fn outside() -> World {
    World::start(zone("outside.example.", 200), Vec::new())
}

/// An address where nobody answers. The socket keeps it so.
fn silent() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

#[test]
fn names_of_others_are_asked_for_outside() {
    let outside = outside();
    let world = World::start(zone("cluster.local.", 3), vec![outside.address]);
    let answer = world.ask("web.shop.svc.outside.example.", RecordType::A);
    assert_eq!(answer.answers.len(), 1);
    assert!(!answer.metadata.authoritative);
    assert!(answer.metadata.recursion_available);
    let unknown = world.ask("nobody.shop.svc.outside.example.", RecordType::A);
    assert_eq!(unknown.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(unknown.authorities.len(), 1);
    assert_eq!(world.responder.counters().forwards(), 2);
    assert_eq!(world.responder.counters().unanswered_forwards(), 0);
}

#[test]
fn a_long_answer_from_outside_comes_whole() {
    let outside = outside();
    let world = World::start(zone("cluster.local.", 3), vec![outside.address]);
    assert_eq!(world.ask("many.shop.svc.outside.example.", RecordType::A).answers.len(), 200);
}

#[test]
fn an_external_name_is_followed_outside() {
    let outside = outside();
    let world = World::start(zone("cluster.local.", 3), vec![outside.address]);
    let answer = world.ask("away.shop.svc.cluster.local.", RecordType::A);
    let kinds: Vec<RecordType> = answer.answers.iter().map(|record| record.record_type()).collect();
    assert_eq!(kinds, [RecordType::CNAME, RecordType::A]);
    assert_eq!(answer.answers[1].data, RData::A("10.96.0.7".parse().expect("an address")));
}

#[test]
fn the_next_server_is_asked_if_one_is_silent_or_declines() {
    let outside = outside();
    let refusing = World::start(zone("cluster.local.", 3), Vec::new());
    let (_socket, nobody) = silent();
    let world = World::start(zone("cluster.local.", 3), vec![refusing.address, nobody, outside.address]);
    // Asked with more patience than clients have: one that asks again while the silent server is waited for asks everybody again.
    let query = message::query(&Name::from_ascii("web.shop.svc.outside.example.").expect("a name"), RecordType::A);
    for _ in 0..2 {
        let answer = world.datagram(&message::encode(&query).expect("bytes"));
        assert_eq!(message::decode(&answer).expect("a message").answers.len(), 1);
    }
    // The one that answered is asked first from then on.
    assert_eq!(refusing.responder.counters().forwards(), 1);
}
