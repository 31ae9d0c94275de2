//! The host outside: a server like those of pods, and names that no cluster knows.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};

use dns::message::{answer_to, answer_to_nonsense, decode, encode, question};
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use host::namespace::Namespace;
use tokio::net::UdpSocket;

/// The domain of the names outside: every name in it is the host's.
pub(crate) const DOMAIN: &str = "example";

/// How long an answer is good for.
const TTL: u32 = 30;

/// The largest query that there is.
const LARGEST: usize = 4096;

/// Begins to serve names at the host's addresses.
pub(crate) fn serve_names(namespace: &Namespace, addresses: &[IpAddr]) -> io::Result<()> {
    for address in addresses {
        let socket = namespace.run(|| StdSocket::bind(SocketAddr::new(*address, 53)))??;
        socket.set_nonblocking(true)?;
        tokio::spawn(serve(UdpSocket::from_std(socket)?, addresses.to_vec()));
    }
    Ok(())
}

async fn serve(socket: UdpSocket, addresses: Vec<IpAddr>) {
    let mut bytes = [0; LARGEST];
    loop {
        // An error is about somebody who has gone.
        let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
        let answer = match decode(&bytes[..length]) {
            Ok(query) => Some(answer(&query, &addresses)),
            Err(_) => answer_to_nonsense(&bytes[..length]),
        };
        if let Some(answer) = answer.and_then(|answer| encode(&answer).ok()) {
            _ = socket.send_to(&answer, from).await;
        }
    }
}

fn answer(query: &Message, addresses: &[IpAddr]) -> Message {
    let asked = match question(query) {
        Ok(asked) => asked,
        Err(code) => return answer_to(query, code),
    };
    let name = asked.name().clone();
    let is_ours = name.iter().next_back().is_some_and(|label| label.eq_ignore_ascii_case(DOMAIN.as_bytes()));
    if !is_ours {
        return answer_to(query, ResponseCode::NXDomain);
    }
    let mut answer = answer_to(query, ResponseCode::NoError);
    for address in addresses {
        let data = match (asked.query_type(), address) {
            (RecordType::A, IpAddr::V4(v4)) => RData::A(A(*v4)),
            (RecordType::AAAA, IpAddr::V6(v6)) => RData::AAAA(AAAA(*v6)),
            _ => continue,
        };
        answer.add_answer(Record::from_rdata(name.clone(), TTL, data));
    }
    answer
}

#[cfg(test)]
mod tests {
    use dns::message::query;
    use hickory_proto::rr::Name;

    use super::*;

    #[test]
    fn names_of_the_domain_are_the_hosts_and_others_are_nobodys() {
        let addresses: [IpAddr; 2] = ["203.0.113.9".parse().unwrap(), "2001:db8::9".parse().unwrap()];
        let ask = |name: &str, kind| answer(&query(&Name::from_ascii(name).unwrap(), kind), &addresses);
        let found = ask("www.Example.", RecordType::AAAA);
        assert_eq!(found.answers.iter().map(|record| record.data.to_string()).collect::<Vec<_>>(), ["2001:db8::9"]);
        assert_eq!(ask("www.example.", RecordType::TXT).answers.len(), 0);
        assert_eq!(ask("example.org.", RecordType::A).metadata.response_code, ResponseCode::NXDomain);
    }
}
