//! Queries as datagrams.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::counters::Transport;
use super::responder::{Reply, Responder};

/// The longest query that is read. Queries are short, and what is longer is cut and makes no sense.
const LARGEST_QUERY: usize = 4096;

/// How long nothing is read after an error. Most are news of a client that is gone; one that stays must not take the processor.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn serve(socket: Arc<UdpSocket>, responder: Arc<Responder>) {
    let mut buffer = vec![0; LARGEST_QUERY];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "a datagram was not read");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        match responder.begin(&buffer[..length], Transport::Udp) {
            Reply::Nothing => {}
            Reply::Now(answer) => send(&socket, &answer, client).await,
            Reply::Later(later) => {
                let (socket, responder) = (socket.clone(), responder.clone());
                tokio::spawn(async move {
                    if let Some(answer) = responder.finish(*later).await {
                        send(&socket, &answer, client).await;
                    }
                });
            }
        }
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], client: std::net::SocketAddr) {
    if let Err(error) = socket.send_to(answer, client).await {
        tracing::debug!(%client, %error, "an answer was not sent");
    }
}
