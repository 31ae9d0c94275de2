//! Datagrams between the two ends of a trial.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::End;

/// How long is tried until it is clear that nothing comes, and how long is waited for one datagram.
const LONG: Duration = Duration::from_secs(2);
const MOMENT: Duration = Duration::from_millis(100);

/// Where the ends listen.
const PORT: u16 = 7;

/// Sends a datagram and its answer, until both have come.
pub(super) fn both_ways(from: &End, at: IpAddr, to: &End, there: IpAddr) -> Result<(), String> {
    let failed = |error: io::Error| format!("{at} to {there}: {error}");
    let (near, far) = (open(from, at).map_err(failed)?, open(to, there).map_err(failed)?);
    let begin = Instant::now();
    loop {
        // Whatever is wrong with one of them, the next is another matter.
        let outcome = once(&near, &far, there);
        if outcome.is_ok() || begin.elapsed() > LONG {
            return outcome.map_err(|error| format!("{at} to {there}: {}", told(&error)));
        }
    }
}

fn open(end: &End, address: IpAddr) -> io::Result<UdpSocket> {
    let socket = end.0.run(move || UdpSocket::bind(SocketAddr::new(address, PORT)))??;
    socket.set_read_timeout(Some(MOMENT))?;
    Ok(socket)
}

fn once(near: &UdpSocket, far: &UdpSocket, there: IpAddr) -> io::Result<()> {
    near.send_to(b"who", SocketAddr::new(there, PORT))?;
    let mut buffer = [0; 16];
    let (_, client) = far.recv_from(&mut buffer)?;
    far.send_to(b"me", client)?;
    near.recv_from(&mut buffer).map(drop)
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => error.to_string(),
    }
}
