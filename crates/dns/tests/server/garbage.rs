//! Bytes that are no query. Whatever they are, the server goes on.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::LazyLock;

use dns::server::Transport;
use dns::{Name, RecordType, ResponseCode, message};
use proptest::prelude::*;

use crate::world::{World, zone};

/// One server for many bytes.
static WORLD: LazyLock<World> = LazyLock::new(|| World::start(zone("cluster.local.", 200), Vec::new()));

/// What it says to bytes, without the sockets around it.
fn respond(bytes: &[u8], transport: Transport) -> Option<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(WORLD.responder.respond(bytes, transport))
}

fn question() -> Vec<u8> {
    let query = message::query(&Name::from_ascii("many.shop.svc.cluster.local.").expect("a name"), RecordType::A);
    message::encode(&query).expect("bytes")
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        for transport in [Transport::Udp, Transport::Tcp] {
            if let Some(answer) = respond(&bytes, transport) {
                prop_assert_eq!(&answer[..2], &bytes[..2]);
                prop_assert!(answer[2] & 0x80 != 0);
            }
        }
    }

    #[test]
    fn a_damaged_query_is_survived(place in 0_usize..60, byte in any::<u8>(), length in 0_usize..80) {
        let mut bytes = question();
        if let Some(target) = bytes.get_mut(place) {
            *target = byte;
        }
        bytes.truncate(length);
        if let Some(answer) = respond(&bytes, Transport::Udp) {
            prop_assert!(message::decode(&answer).is_ok());
            prop_assert!(answer.len() <= 1232);
        }
    }
}

#[test]
fn an_answer_is_not_answered() {
    let mut bytes = question();
    bytes[2] |= 0x80;
    assert_eq!(respond(&bytes, Transport::Udp), None);
    assert_eq!(respond(&bytes[..20], Transport::Udp), None);
}

#[test]
fn nonsense_with_a_header_is_complained_of() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    let cut = &question()[..20];
    let answer = message::decode(&world.datagram(cut)).expect("a message");
    assert_eq!(answer.metadata.response_code, ResponseCode::FormErr);
    let mut none = question();
    none[5] = 0;
    assert_eq!(message::decode(&world.datagram(&none)).expect("a message").metadata.response_code, ResponseCode::FormErr);
    let mut update = question();
    update[2] = 5 << 3;
    assert_eq!(message::decode(&world.datagram(&update)).expect("a message").metadata.response_code, ResponseCode::NotImp);
}

#[test]
fn the_server_goes_on_after_nonsense() {
    let world = World::start(zone("cluster.local.", 3), Vec::new());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for bytes in [&b""[..], b"\0", &[0xff; 11], &[0; 12], &[0xff; 1000]] {
        socket.send_to(bytes, world.address).expect("sent");
    }
    let mut stream = world.connect();
    stream.write_all(&[0, 3, 1, 2, 3]).expect("sent");
    assert_eq!(stream.read(&mut [0; 1]).expect("the end"), 0);
    assert_eq!(world.ask("web.shop.svc.cluster.local.", RecordType::A).answers.len(), 1);
}
