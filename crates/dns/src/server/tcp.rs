//! Queries over connections: each message after its length, one after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::counters::Transport;
use super::responder::Responder;

/// How long a client may say nothing, or not take its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many connections there may be. Who comes later waits until one ends, which is soon.
const LARGEST_CROWD: usize = 512;

/// How long nobody is let in after an error, such as that there are no more files to open.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn serve(listener: TcpListener, responder: Arc<Responder>) {
    let places = Arc::new(Semaphore::new(LARGEST_CROWD));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let responder = responder.clone();
                tokio::spawn(async move {
                    let _place = place;
                    if let Err(error) = talk(stream, &responder).await {
                        tracing::debug!(%client, %error, "a connection has ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers until the client goes, or says something that is no query.
async fn talk(mut stream: TcpStream, responder: &Responder) -> io::Result<()> {
    loop {
        let Some(query) = timeout(PATIENCE, read(&mut stream)).await?? else { return Ok(()) };
        let Some(answer) = responder.respond(&query, Transport::Tcp).await else { return Ok(()) };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        timeout(PATIENCE, stream.write_all(&framed)).await??;
    }
}

/// Reads a message; none if the client has nothing more to say.
async fn read(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u16().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}
