//! The sockets: where the server listens, and what it does with who comes.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{self, Request};
use crate::pages::{Ends, Outcome, Site};
use crate::{datagram, stack};

/// A connection on which nothing is asked for this long is closed.
const IDLE: Duration = Duration::from_secs(120);

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The port of HTTP; zero is any.
    pub http_port: u16,
    /// The port of UDP, if any.
    pub udp_port: Option<u16>,
    /// The port on which everything is sent back over TCP, if any.
    pub tcp_port: Option<u16>,
    /// The addresses that UDP is served on; all if there are none.
    pub udp_addresses: Vec<IpAddr>,
    /// A path and query that every request is answered as.
    pub http_override: Option<String>,
    /// For how long it says that it is healthy; always without it.
    pub healthy_for: Option<Duration>,
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    http: SocketAddr,
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    ended: mpsc::Receiver<Exit>,
    connections: Arc<AtomicUsize>,
}

struct Exit {
    code: i32,
    wait: Duration,
    timeout: Duration,
}

impl Server {
    /// Listens on everything, and answers from now on.
    pub fn start(settings: &Settings) -> io::Result<Self> {
        let (sender, ended) = mpsc::channel();
        let site = Arc::new(Shared {
            site: Site { ready: false.into(), since: Instant::now(), healthy_for: settings.healthy_for },
            http_override: settings.http_override.clone(),
            exit: sender,
            connections: Arc::default(),
        });
        let http = listen(settings.http_port, |listener| {
            let site = Arc::clone(&site);
            serve_streams("http", listener, move |stream| site.serve(stream))
        })?;
        let tcp = settings.tcp_port.map(|port| listen(port, |listener| serve_streams("tcp", listener, send_back))).transpose()?;
        let udp = settings.udp_port.map(|port| serve_datagrams(port, &settings.udp_addresses)).transpose()?;
        site.site.ready.store(true, Ordering::Relaxed);
        Ok(Self { http, udp, tcp, ended, connections: Arc::clone(&site.connections) })
    }

    /// Where HTTP is served.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Where UDP is served.
    pub fn udp(&self) -> Option<SocketAddr> {
        self.udp
    }

    /// Where everything is sent back over TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Waits until somebody asks for the end, and gives the exit code that was asked for.
    pub fn wait(self) -> i32 {
        let Ok(exit) = self.ended.recv() else {
            return 1;
        };
        thread::sleep(exit.wait);
        let start = Instant::now();
        // The one who asked is one of them, and gets no answer.
        while start.elapsed() < exit.timeout && self.connections.load(Ordering::Relaxed) > 1 {
            thread::sleep(Duration::from_millis(10));
        }
        exit.code
    }
}

/// Listens for both families: on one socket where it takes both, and else on two.
fn listen(port: u16, serve: impl Fn(TcpListener) -> io::Result<()>) -> io::Result<SocketAddr> {
    let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    let port = both.as_ref().map_or(port, |listener| listener.local_addr().map_or(port, |address| address.port()));
    let old = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    let address = match (&both, &old) {
        (Ok(listener), _) | (_, Ok(listener)) => listener.local_addr()?,
        (Err(_), Err(error)) => return Err(io::Error::new(error.kind(), format!("could not listen on TCP port {port}: {error}"))),
    };
    both.into_iter().chain(old).try_for_each(serve)?;
    Ok(address)
}

fn serve_streams(name: &'static str, listener: TcpListener, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> io::Result<()> {
    stack::spawn(name, move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    let serve = serve.clone();
                    // Without a thread there is no answer, and the caller sees it.
                    let _ = stack::spawn(name, move || serve(stream));
                }
                // A caller that has gone is nothing; too many open files pass when others go.
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    })
}

fn serve_datagrams(port: u16, addresses: &[IpAddr]) -> io::Result<SocketAddr> {
    let (any, old) = ([IpAddr::V6(Ipv6Addr::UNSPECIFIED)], IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let addresses = if addresses.is_empty() { &any } else { addresses };
    let mut sockets = addresses.iter().map(|address| UdpSocket::bind((*address, port))).collect::<Vec<_>>();
    if addresses == any {
        let port = sockets[0].as_ref().map_or(port, |socket| socket.local_addr().map_or(port, |address| address.port()));
        let second = UdpSocket::bind((old, port));
        // One of the two is enough, and often takes both families.
        match (sockets[0].is_ok(), second.is_ok()) {
            (true, true) => sockets.push(second),
            (false, true) => sockets = vec![second],
            _ => {}
        }
    }
    let mut first = None;
    for socket in sockets {
        let socket = socket.map_err(|error| io::Error::new(error.kind(), format!("could not listen on UDP port {port}: {error}")))?;
        first.get_or_insert(socket.local_addr()?);
        stack::spawn("udp", move || datagram::serve(&socket))?;
    }
    first.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn send_back(mut stream: TcpStream) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

struct Shared {
    site: Site,
    http_override: Option<String>,
    exit: mpsc::Sender<Exit>,
    connections: Arc<AtomicUsize>,
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        // A caller that leaves is no news.
        let _ = self.converse(stream);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_nodelay(true)?;
        let ends = Ends { client: stream.peer_addr()?, local: stream.local_addr()? };
        let mut buffer = Vec::new();
        while let Some(request) = self.next_request(&mut stream, &mut buffer)? {
            let keep_alive = request.keep_alive;
            let target = self.http_override.as_deref().map(Request::get);
            match self.site.visit(target.as_ref().unwrap_or(&request), ends) {
                Outcome::Answer(answer) => answer.write(keep_alive, request.method != "HEAD", &mut stream)?,
                Outcome::Exit { code, wait, timeout } => {
                    let _ = self.exit.send(Exit { code, wait, timeout });
                    // The caller waits for the end.
                    stream.set_read_timeout(None)?;
                    let _ = stream.read(&mut [0]);
                    return Ok(());
                }
            }
            if !keep_alive {
                break;
            }
        }
        Ok(())
    }

    fn next_request(&self, stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
        http::read(stream, buffer).or_else(|error| {
            if error.kind() == io::ErrorKind::InvalidData {
                http::Answer::new(400, format!("{error}\n")).write(false, true, stream)?;
            }
            Ok(None)
        })
    }
}

/// An address of the older family that came through a socket of the newer one, as itself.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
