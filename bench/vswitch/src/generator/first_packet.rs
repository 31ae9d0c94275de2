//! Round trips of datagrams whose flow nobody knows yet, against the same ones again.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// The first port that datagrams come from.
const SOURCE: u16 = 20_000;

/// How many sockets there are at a time. They are made before anything is timed.
const BATCH: u16 = 250;

/// How many batches there are. The first is not counted: it finds caches cold, and neighbours unknown.
const BATCHES: u16 = 21;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The middle and the mean of round trips in microseconds: the first of each flow, then the second.
///
/// The flows are new if no others were to this port of the server.
pub(super) fn first_packets(server: SocketAddrV4) -> io::Result<String> {
    let (mut first, mut known) = (Vec::new(), Vec::new());
    for batch in 0..BATCHES {
        let sockets = (0..BATCH).map(|index| connect(server, SOURCE + batch * BATCH + index)).collect::<io::Result<Vec<_>>>()?;
        let [new, again] = [exchange_all(&sockets)?, exchange_all(&sockets)?];
        if batch > 0 {
            first.extend(new);
            known.extend(again);
        }
    }
    Ok(format!("{} {}", super::middle_and_mean(first), super::middle_and_mean(known)))
}

fn connect(server: SocketAddrV4, source: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, source))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// One round trip on each socket, one after the other.
fn exchange_all(sockets: &[UdpSocket]) -> io::Result<Vec<Duration>> {
    let exchange = |socket: &UdpSocket| {
        let before = Instant::now();
        socket.send(&[1])?;
        socket.recv(&mut [0; 8])?;
        Ok(before.elapsed())
    };
    sockets.iter().map(exchange).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_as_many_as_the_report_says() {
        assert_eq!((BATCH, (BATCHES - 1) * BATCH), (250, 5000));
    }

    #[test]
    fn every_flow_has_a_port_of_its_own() {
        assert!(u32::from(SOURCE) + u32::from(BATCH) * u32::from(BATCHES) <= u32::from(u16::MAX));
        assert!(!super::super::ports().contains(&SOURCE));
    }
}
