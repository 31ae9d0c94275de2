//! What fits into a datagram, and what does not.

use dns::message;
use dns::{Name, RecordType, ResponseCode};
use hickory_proto::op::Message;

use crate::world::{World, talk, zone};

fn query(size: Option<u16>) -> Message {
    let mut query = message::query(&Name::from_ascii("many.shop.svc.cluster.local.").expect("a name"), RecordType::A);
    match (size, &mut query.edns) {
        (Some(size), Some(edns)) => _ = edns.set_max_payload(size),
        _ => query.edns = None,
    }
    query
}

#[test]
fn an_answer_is_cut_to_what_the_client_takes() {
    let world = World::start(zone("cluster.local.", 200), Vec::new());
    // What the client says, what the answer may be long, and how many of 200 addresses of 16 bytes fit then.
    let table = [(None, 512, 29), (Some(100), 512, 28), (Some(900), 900, 52), (Some(4096), 1232, 73)];
    for (told, size, count) in table {
        let query = query(told);
        let bytes = world.datagram(&message::encode(&query).expect("bytes"));
        let answer = message::decode(&bytes).expect("a message");
        assert!(bytes.len() <= size, "{told:?}: {} bytes", bytes.len());
        assert!(answer.metadata.truncation, "{told:?}");
        assert!(message::is_answer_to(&answer, &query), "{told:?}");
        assert_eq!(answer.edns.is_some(), told.is_some(), "{told:?}");
        assert_eq!(answer.answers.len(), count, "{told:?}");
    }
}

#[test]
fn the_rest_comes_over_tcp() {
    let world = World::start(zone("cluster.local.", 200), Vec::new());
    let answer = world.ask("many.shop.svc.cluster.local.", RecordType::A);
    assert_eq!(answer.answers.len(), 200);
    assert!(!answer.metadata.truncation);
    assert!(answer.metadata.authoritative);
}

#[test]
fn a_connection_carries_several_queries() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    let mut stream = world.connect();
    for _ in 0..3 {
        let query = query(None);
        let answer = message::decode(&talk(&mut stream, &message::encode(&query).expect("bytes"))).expect("a message");
        assert!(message::is_answer_to(&answer, &query));
        assert_eq!(answer.answers.len(), 3);
    }
}

#[test]
fn what_is_not_there_comes_with_the_start_of_authority() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    let table = [
        ("nobody.shop.svc.cluster.local.", ResponseCode::NXDomain),
        ("web.shop.svc.cluster.local.", ResponseCode::NoError),
        ("WEB.shop.svc.Cluster.Local.", ResponseCode::NoError),
    ];
    for (name, code) in table {
        let answer = world.ask(name, RecordType::AAAA);
        assert_eq!(answer.metadata.response_code, code, "{name}");
        assert!(answer.answers.is_empty(), "{name}");
        let kinds: Vec<RecordType> = answer.authorities.iter().map(|record| record.record_type()).collect();
        assert_eq!(kinds, [RecordType::SOA], "{name}");
    }
}

#[test]
fn a_newer_version_of_edns_is_refused() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    let mut query = query(Some(1232));
    query.edns.as_mut().expect("EDNS").set_version(1);
    let answer = message::decode(&world.datagram(&message::encode(&query).expect("bytes"))).expect("a message");
    // The number also means something about signatures, which is what the reader calls it.
    assert_eq!(message::code_name(answer.metadata.response_code), "BADVERS");
    assert_eq!(answer.edns.expect("EDNS").version(), 0);
}
