//! A Unix socket for root and one user.

use std::io;

use axum::serve::Listener;
use tokio::net::unix::SocketAddr as UnixAddr;
use tokio::net::{UnixListener, UnixStream};

/// A Unix socket that talks only to root and to the user it belongs to.
pub(crate) struct OwnerOnly {
    listener: UnixListener,
    owner: u32,
}

impl OwnerOnly {
    /// A socket for the user that this process runs as.
    pub(crate) fn new(listener: UnixListener) -> Self {
        Self { listener, owner: host::socket::own_user() }
    }
}

impl Listener for OwnerOnly {
    type Io = UnixStream;
    type Addr = UnixAddr;

    async fn accept(&mut self) -> (UnixStream, UnixAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match stream.peer_cred().map(|peer| peer.uid()) {
                Ok(user) if user == 0 || user == self.owner => return (stream, address),
                Ok(user) => tracing::warn!(user, "a connection by another user was refused"),
                Err(error) => tracing::warn!(%error, "a connection by an unknown user was refused"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<UnixAddr> {
        self.listener.local_addr()
    }
}
