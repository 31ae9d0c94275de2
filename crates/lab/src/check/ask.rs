//! Questions over real sockets, from inside of network namespaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use host::namespace::Namespace;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::http::get_in;

/// How long is asked until what is new has to be everywhere.
const LONG: Duration = Duration::from_millis(2500);

/// How long is waited between two questions.
const PAUSE: Duration = Duration::from_millis(200);

/// How many datagrams are on their way at once, and how long is waited for an answer to one of them.
const DATAGRAMS: usize = 128;
const MOMENT: Duration = Duration::from_millis(20);

/// Who answered, and what they saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// The name of the pod.
    pub(super) name: String,
    /// Whom it saw as the client.
    pub(super) client: IpAddr,
    /// The address at which it was asked.
    pub(super) local: IpAddr,
}

/// Does something in a network namespace that may take a while.
pub(super) async fn inside<T: Send + 'static>(
    namespace: &Arc<Namespace>,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let namespace = namespace.clone();
    let done = tokio::task::spawn_blocking(move || namespace.run(work).map_err(|error| error.to_string())?);
    done.await.map_err(|error| error.to_string())?
}

/// Asks once who is at an address, over TCP.
pub(super) async fn meet(from: &Arc<Namespace>, to: SocketAddr) -> Result<Met, String> {
    let answer = get_in(from, &to.to_string(), "/who").await.map_err(|error| format!("{to}: {}", cause(&error)))?;
    read(&answer.body).ok_or_else(|| format!("{to}: the answer is not understood"))
}

/// Asks until somebody answers, or it is clear that nobody will.
pub(super) async fn meet_soon(from: &Arc<Namespace>, to: SocketAddr) -> Result<Met, String> {
    let begin = Instant::now();
    loop {
        let outcome = meet(from, to).await;
        if outcome.is_ok() || begin.elapsed() > LONG {
            return outcome;
        }
        sleep(PAUSE).await;
    }
}

fn read(body: &str) -> Option<Met> {
    let value: Value = serde_json::from_str(body).ok()?;
    let address = |whose: &str| value[whose]["address"].as_str()?.parse().ok();
    Some(Met { name: value["hostname"].as_str()?.to_owned(), client: address("client")?, local: address("local")? })
}

fn cause(error: &io::Error) -> String {
    use io::ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => "no answer".to_owned(),
        ConnectionRefused => "refused".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether one of many datagrams, each from a port of its own, is answered.
pub(super) async fn is_any_answered(from: &Arc<Namespace>, to: SocketAddr, count: usize) -> Result<bool, String> {
    inside(from, move || flood(to, count).map_err(|error| error.to_string())).await
}

fn flood(to: SocketAddr, count: usize) -> io::Result<bool> {
    for _ in 0..count.div_ceil(DATAGRAMS) {
        let sockets = (0..DATAGRAMS).map(|_| send(to)).collect::<io::Result<Vec<UdpSocket>>>()?;
        std::thread::sleep(MOMENT);
        if sockets.iter().any(|socket| socket.recv(&mut [0; 64]).is_ok()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn send(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.set_nonblocking(true)?;
    // A datagram that could not be sent is as good as one that was lost.
    _ = socket.send_to(b"hostname", to);
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let body = r#"{"hostname": "a", "client": {"address": "10.0.0.1", "port": 1}, "local": {"address": "10.0.0.2", "port": 80}}"#;
        let met = Met { name: "a".to_owned(), client: "10.0.0.1".parse().unwrap(), local: "10.0.0.2".parse().unwrap() };
        assert_eq!(read(body), Some(met));
        assert_eq!(read("{}"), None);
    }
}
