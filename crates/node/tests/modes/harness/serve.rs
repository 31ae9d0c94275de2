//! The service that answers in every place, over TCP and UDP: it says who it believes to talk to, and checks what it is sent.
//!
//! Over TCP the server sends a greeting, which is the client's address as it sees it and the name of its own place, in [`GREETING`] bytes. The client says in 24 bytes how
//! much it will send, how much it wants, and by which seed; then both send at once. The server ends with one byte, 1 if all was right. Over
//! UDP the answer is the greeting and the question.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use super::{PATIENCE, Place};

/// The port of the service.
pub(crate) const PORT: u16 = 29_417;

/// How long the greeting is.
pub(crate) const GREETING: usize = 96;

/// How much is written or compared at once.
const PIECE: usize = 64 << 10;

/// Starts the service in a place, for as long as the process lives.
pub(crate) fn start(place: &Place) {
    start_at(place, PORT);
}

/// The same at another port.
pub(crate) fn start_at(place: &Place, port: u16) {
    let everywhere = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port);
    let (tcp, udp) = place.run(|| (TcpListener::bind(everywhere), UdpSocket::bind(everywhere)));
    let (tcp, udp) = (tcp.expect("a TCP socket"), udp.expect("a UDP socket"));
    let (name, udp_name) = (place.name.clone(), place.name.clone());
    thread::spawn(move || {
        for stream in tcp.incoming().map_while(Result::ok) {
            // A client that gives up is the client's to complain of.
            let name = name.clone();
            thread::spawn(move || answer(stream, &name));
        }
    });
    thread::spawn(move || echo(&udp, &udp_name));
}

fn echo(socket: &UdpSocket, name: &str) {
    let mut question = vec![0; 1 << 16];
    loop {
        // An error is one of an earlier answer that could not be delivered.
        let Ok((length, asker)) = socket.recv_from(&mut question) else { continue };
        let mut answer = greeting(asker, name);
        answer.extend(&question[..length]);
        _ = socket.send_to(&answer, asker);
    }
}

fn answer(mut stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = stream.peer_addr()?;
    stream.write_all(&greeting(peer, name))?;
    let mut numbers = [0; 24];
    stream.read_exact(&mut numbers)?;
    let number = |at: usize| u64::from_be_bytes(numbers[at..at + 8].try_into().unwrap_or_default());
    let (up, down, seed) = (number(0) as usize, number(8) as usize, number(16));
    let mut writer = stream.try_clone()?;
    let right = thread::scope(|scope| {
        scope.spawn(move || send_stream(&mut writer, down, !seed));
        check_stream(&mut stream, up, seed)
    })?;
    stream.write_all(&[u8::from(right)])
}

fn greeting(peer: SocketAddr, name: &str) -> Vec<u8> {
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    format!("{:<GREETING$}", format!("{peer} {name}")).into_bytes()
}

/// Reads whom a greeting is for.
pub(crate) fn read_greeting(bytes: &[u8]) -> Option<SocketAddr> {
    std::str::from_utf8(bytes.get(..GREETING)?).ok()?.split(' ').next()?.parse().ok()
}

/// Reads whom a greeting is from.
pub(crate) fn read_name(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes.get(..GREETING)?).ok()?.split(' ').nth(1).map(str::to_owned)
}

/// A stream of bytes that follows from a seed.
struct Stream(u64);

impl Stream {
    fn fill(&mut self, piece: &mut [u8]) {
        for chunk in piece.chunks_mut(8) {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            chunk.copy_from_slice(&(self.0 ^ self.0 >> 29).to_be_bytes()[..chunk.len()]);
        }
    }
}

/// Sends so many bytes of the stream with this seed.
pub(crate) fn send_stream(to: &mut TcpStream, mut length: usize, seed: u64) -> io::Result<()> {
    let (mut stream, mut piece) = (Stream(seed), vec![0; PIECE]);
    while length > 0 {
        let part = length.min(PIECE);
        stream.fill(&mut piece[..part]);
        to.write_all(&piece[..part])?;
        length -= part;
    }
    Ok(())
}

/// Receives so many bytes and says whether they are those of the stream with this seed.
pub(crate) fn check_stream(from: &mut TcpStream, mut length: usize, seed: u64) -> io::Result<bool> {
    let (mut stream, mut expected, mut piece, mut right) = (Stream(seed), vec![0; PIECE], vec![0; PIECE], true);
    while length > 0 {
        let part = length.min(PIECE);
        stream.fill(&mut expected[..part]);
        from.read_exact(&mut piece[..part])?;
        right &= piece[..part] == expected[..part];
        length -= part;
    }
    Ok(right)
}
