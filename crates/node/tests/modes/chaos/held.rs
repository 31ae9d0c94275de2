//! Connections that are held while everything around them happens.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::harness::probe::connect_soon;
use crate::harness::{PATIENCE, Place, eventually};

/// Where everything that is said comes back.
pub(super) const PORT: u16 = 7;

/// How much is said at once.
const WORDS: usize = 2000;

/// Starts the service that says everything back, for as long as the process lives.
pub(super) fn start(place: &Place) {
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT);
    let listener = place.run(|| TcpListener::bind(everywhere)).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
}

/// A connection through a Service.
pub(super) struct Held {
    stream: TcpStream,
    who: String,
    said: u8,
}

impl Held {
    /// Begins one as soon as there is a way. Before there is a load balancer, packets go in a circle of the test's routes, and a connection that
    /// begins meanwhile may be lost.
    pub(super) fn begin(from: &Place, to: SocketAddr) -> Self {
        let mut made = None;
        eventually(&format!("{} connects to {to}", from.name), || {
            made = connect_soon(from, to).ok().and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                let mut held = Self { stream, who: format!("{} to {to}", from.name), said: 0 };
                held.try_exchange().ok().map(|()| held)
            });
            made.is_some()
        });
        made.expect("it is made")
    }

    /// Says something new, and expects to hear it back.
    pub(super) fn exchange(&mut self) {
        self.try_exchange().unwrap_or_else(|error| panic!("the connection from {} is lost: {error}", self.who));
    }

    fn try_exchange(&mut self) -> io::Result<()> {
        self.said = self.said.wrapping_add(1);
        let (said, mut heard) = ([self.said; WORDS], [0; WORDS]);
        self.stream.write_all(&said)?;
        self.stream.read_exact(&mut heard)?;
        assert!(heard == said, "the connection from {} brings back something else", self.who);
        Ok(())
    }
}
