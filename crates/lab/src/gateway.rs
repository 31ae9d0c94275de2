//! The process of a lab that stays on the machine, where a cluster that is there already can be reached.
//!
//! It listens on a socket in the lab's directory, which the lab reaches from its own network. Who connects first is the lab itself: the
//! connection lasts for as long as the lab does, however that ends, and the gateway goes with it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixStream};

/// How long the lab may take to connect. One that was killed before never does.
const PATIENCE: Duration = Duration::from_secs(30);

/// Leads connections on the socket that is our standard input to a server, until the lab ends.
pub(crate) fn run(host: &str, port: u16) -> io::Result<()> {
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let listener = UnixListener::from(socket);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(listener, host, port))
}

async fn serve(listener: UnixListener, host: &str, port: u16) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let Ok(first) = tokio::time::timeout(PATIENCE, listener.accept()).await else { return Ok(()) };
    let (mut lab, _) = first?;
    let mut byte = [0_u8; 1];
    loop {
        tokio::select! {
            connection = listener.accept() => {
                let (stream, _) = connection?;
                tokio::spawn(pass_on(stream, host.to_owned(), port));
            }
            // It never says anything: this is its end.
            _ = lab.read(&mut byte) => return Ok(()),
        }
    }
}

async fn pass_on(mut inner: UnixStream, host: String, port: u16) {
    let Ok(mut outer) = TcpStream::connect((host.as_str(), port)).await else { return };
    _ = outer.set_nodelay(true);
    _ = copy_bidirectional(&mut inner, &mut outer).await;
}
