//! The server: UDP and TCP on several addresses, around one responder.
//!
//! Names of the cluster are answered at once, where the query was read. Only what others are asked for waits, in a task of its own.

mod counters;
mod responder;
mod tcp;
mod udp;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;

pub use counters::{Counters, Transport};
pub use responder::Responder;

use crate::zone::Zone;

/// The zone as it is now, for whoever answers and whoever makes new ones.
pub type CurrentZone = Arc<ArcSwap<Zone>>;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// How often a free port is looked for that both transports have.
const PORT_TRIES: usize = 16;

/// A server that listens, and does not answer yet.
pub struct Server {
    doors: Vec<Door>,
    responder: Arc<Responder>,
}

struct Door {
    address: SocketAddr,
    udp: UdpSocket,
    tcp: TcpListener,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

impl Server {
    /// A server that listens nowhere.
    pub fn new(responder: Arc<Responder>) -> Self {
        Self { doors: Vec::new(), responder }
    }

    /// Listens on an address, over UDP and TCP; port 0 takes any that is free for both. Not outside of a runtime.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut outcome = open(address);
        for _ in 0..PORT_TRIES {
            match &outcome {
                Err(error) if address.port() == 0 && error.kind() == io::ErrorKind::AddrInUse => outcome = open(address),
                _ => break,
            }
        }
        self.doors.push(outcome?);
        Ok(())
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.doors.iter().map(|door| door.address).collect()
    }

    /// Answers for as long as it is waited for.
    pub async fn run(self) {
        let mut tasks = JoinSet::new();
        for door in self.doors {
            tasks.spawn(udp::serve(Arc::new(door.udp), self.responder.clone()));
            tasks.spawn(tcp::serve(door.tcp, self.responder.clone()));
        }
        while tasks.join_next().await.is_some() {}
    }
}

fn open(address: SocketAddr) -> io::Result<Door> {
    let udp = UdpSocket::from_std(socket(address, Type::DGRAM)?.into())?;
    let address = udp.local_addr()?;
    let tcp = socket(address, Type::STREAM)?;
    tcp.listen(BACKLOG)?;
    Ok(Door { address, udp, tcp: TcpListener::from_std(tcp.into())? })
}

/// A socket of one family only, so that every address of IPv4 and every address of IPv6 can be listened on side by side.
fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let is_stream = kind == Type::STREAM;
    let protocol = if is_stream { Protocol::TCP } else { Protocol::UDP };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Connections that have just ended do not keep a new server from its port. On Windows the option means something else.
    if is_stream && cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
