//! A relay before hnsd that counts what is asked.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// What ends the first line of every request, and stands nowhere else.
const MARK: &[u8] = b" HTTP/1.1\r\n";

/// The relay, for as long as the process lives.
pub(crate) struct Relay {
    port: u16,
    calls: Arc<AtomicU64>,
}

impl Relay {
    /// Passes everything on to a port of this machine.
    pub(crate) fn start(to: u16) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| format!("no relay: {error}"))?;
        let port = listener.local_addr().map_err(|error| format!("no relay: {error}"))?.port();
        let calls = Arc::new(AtomicU64::new(0));
        let counter = calls.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { continue };
                let (Ok(back_from), Ok(back_to)) = (server.try_clone(), client.try_clone()) else { continue };
                let counter = counter.clone();
                thread::spawn(move || pass(client, server, |bytes| _ = counter.fetch_add(bytes, Ordering::Relaxed)));
                thread::spawn(move || pass(back_from, back_to, |_| {}));
            }
        });
        Ok(Self { port, calls })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How many requests have come.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Passes bytes on until one side ends, and tells how many requests were among them.
fn pass(mut from: TcpStream, mut to: TcpStream, count: impl Fn(u64)) {
    _ = to.set_nodelay(true);
    let mut buffer = vec![0; 64 << 10];
    // The end of what came before: a mark may be cut in two.
    let mut tail: Vec<u8> = Vec::new();
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let piece = &buffer[..length];
        tail.extend_from_slice(piece);
        count(tail.windows(MARK.len()).filter(|window| *window == MARK).count() as u64);
        tail.drain(..tail.len().saturating_sub(MARK.len() - 1));
        if to.write_all(piece).is_err() {
            break;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Both);
}
