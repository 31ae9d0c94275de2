//! From a port to where it leads: from the machine to the API inside of the lab, or from the lab to one that the machine reaches.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixStream};

/// Where connections are led to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// To an address of the lab.
    Inside(SocketAddr),
    /// To a socket of the machine, where [`crate::gateway`] listens.
    Machine(PathBuf),
}

/// Passes on every connection. A listener belongs to the network that it was made in.
pub(crate) fn start(listener: TcpListener, target: Target) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => _ = tokio::spawn(pass_on(stream, target.clone())),
                // Out of file handles, most likely: whoever waits in the queue is served when there are some.
                Err(error) => {
                    tracing::warn!(%error, "the API cannot be reached for a moment");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn pass_on(mut outer: TcpStream, target: Target) {
    _ = outer.set_nodelay(true);
    // However it ends, both ends see it.
    match target {
        Target::Inside(address) => {
            let Ok(mut inner) = TcpStream::connect(address).await else { return };
            _ = inner.set_nodelay(true);
            _ = copy_bidirectional(&mut outer, &mut inner).await;
        }
        Target::Machine(path) => {
            let Ok(mut inner) = UnixStream::connect(path).await else { return };
            _ = copy_bidirectional(&mut outer, &mut inner).await;
        }
    }
}
