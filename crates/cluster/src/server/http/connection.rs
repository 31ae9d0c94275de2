//! Connections: TLS, then HTTP/1.1 or HTTP/2, whichever the client chose.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::Front;

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of a request's head, and of an answer that the client does not take, is kept for one connection.
const LARGEST_BUFFER: usize = 128 << 10;

/// Serves connections until told to stop.
pub(in crate::server) async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, front: Arc<Front>, stop: impl Future<Output = ()>) {
    let acceptor = TlsAcceptor::from(tls);
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(serve_one(stream, acceptor.clone(), front.clone()));
            }
            Err(error) => {
                // Mostly too many open files: those who are connected may finish first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, acceptor: TlsAcceptor, front: Arc<Front>) {
    _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "no TLS connection came about"),
        Err(_) => return,
    };
    // The handshake has checked a certificate against our authority, if there was one.
    let is_certified = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request, is_certified).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LARGEST_BUFFER);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250).keep_alive_interval(Some(Duration::from_secs(30)));
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}
