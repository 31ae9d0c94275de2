//! Names at the gateway of a NAT network: questions go on to the node's own servers, answers come back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

/// The port of DNS.
const PORT: u16 = 53;

/// How long the node's server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a server looks whether it is still wanted.
const ROUND: Duration = Duration::from_millis(500);

/// The longest message over UDP that anybody sends.
const MESSAGE_MAX: usize = 65_535;

/// How many questions may wait for an answer at once; more are left unanswered, and asked again.
const WAITING_MAX: usize = 256;

/// A server at one address.
pub(super) struct NameServer {
    address: IpAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl NameServer {
    /// Starts it, or says in the log why it cannot be.
    pub(super) fn start(address: IpAddr) -> Option<Self> {
        let at = SocketAddr::new(address, PORT);
        let bound = UdpSocket::bind(at).and_then(|udp| Ok((udp, TcpListener::bind(at)?)));
        let (udp, tcp) = match bound {
            Ok(bound) => bound,
            Err(error) => {
                tracing::warn!(%error, %address, "no names are served at the gateway; something else uses port 53 there");
                return None;
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (udp_stop, tcp_stop) = (stop.clone(), stop.clone());
        let started = spawn(move || serve_udp(&udp, &udp_stop)).and_then(|()| spawn(move || serve_tcp(&tcp, &tcp_stop)));
        if let Err(error) = started {
            tracing::warn!(%error, %address, "no names are served at the gateway");
        }
        Some(Self { address, stop })
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }
}

fn spawn(task: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("names".into()).spawn(task).map(drop)
}

/// The node's own servers, as they are now.
fn servers() -> Vec<SocketAddr> {
    let (servers, _) = host::resolver::settings();
    servers.iter().filter_map(|text| text.parse::<IpAddr>().ok()).map(|address| SocketAddr::new(address, PORT)).collect()
}

fn serve_udp(socket: &UdpSocket, stop: &AtomicBool) {
    _ = socket.set_read_timeout(Some(ROUND));
    let waiting = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut question = vec![0; MESSAGE_MAX];
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, asker)) = socket.recv_from(&mut question) else { continue };
        let Ok(reply) = socket.try_clone() else { continue };
        if waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            continue;
        }
        waiting.fetch_add(1, Ordering::Relaxed);
        let (question, waiting) = (question[..length].to_vec(), waiting.clone());
        let asked = spawn(move || {
            if let Some(answer) = servers().into_iter().find_map(|server| ask(&question, server)) {
                _ = reply.send_to(&answer, asker);
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = asked {
            tracing::debug!(%error, "a question could not be passed on");
        }
    }
}

/// Asks one server. An answer is one that has the question's number.
fn ask(question: &[u8], server: SocketAddr) -> Option<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.send(question).ok()?;
    let mut answer = vec![0; MESSAGE_MAX];
    let length = socket.recv(&mut answer).ok()?;
    answer.truncate(length);
    (answer.get(..2) == question.get(..2)).then_some(answer)
}

fn serve_tcp(listener: &TcpListener, stop: &AtomicBool) {
    _ = listener.set_nonblocking(true);
    while !stop.load(Ordering::Relaxed) {
        let Ok((client, _)) = listener.accept() else {
            std::thread::sleep(ROUND);
            continue;
        };
        if let Err(error) = spawn(move || relay(client)) {
            tracing::debug!(%error, "a question could not be passed on");
        }
    }
}

/// Passes messages over TCP on, one question and its answer at a time.
fn relay(mut client: TcpStream) {
    _ = client.set_nonblocking(false);
    _ = client.set_read_timeout(Some(PATIENCE));
    while let Some(question) = read_message(&mut client) {
        let answer = servers().into_iter().find_map(|server| {
            let mut upstream = TcpStream::connect_timeout(&server, PATIENCE).ok()?;
            upstream.set_read_timeout(Some(PATIENCE)).ok()?;
            write_message(&mut upstream, &question)?;
            read_message(&mut upstream)
        });
        if answer.and_then(|answer| write_message(&mut client, &answer)).is_none() {
            return;
        }
    }
}

fn read_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

fn write_message(stream: &mut TcpStream, message: &[u8]) -> Option<()> {
    let length = u16::try_from(message.len()).ok()?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(message);
    stream.write_all(&bytes).ok()
}
