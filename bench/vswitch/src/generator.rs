//! The ends of tests that are our own: round trips, connections, datagrams. Each is a process in a namespace.

mod first_packet;
mod flows;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use clap::Subcommand;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, TcpCongestion};

pub(crate) use self::flows::FLOWS;

/// The congestion control of all tests, whatever the machine's own is. A namespace's setting would do for all sockets at once, but the
/// kernel lets it have only what the machine allows to everybody, which is reno at least.
pub(crate) const CONGESTION_CONTROL: &str = "cubic";

/// The first port of servers.
const PORT: u16 = 7000;

/// A server listens on several ports in turn, so that a client does not run out of its own.
const PORTS: u16 = 16;

/// The ports of servers.
pub(crate) fn ports() -> std::ops::Range<u16> {
    PORT..PORT + PORTS
}

/// What a datagram carries.
const PAYLOAD: usize = 64;

/// What the kernel may hold of datagrams, in bytes: a moment in which the receiver does not run must not count as a loss of the switch.
const BUFFER: usize = 8 << 20;

/// How long datagrams may stay away.
const SILENCE: Duration = Duration::from_secs(5);

/// Which end of which test, and for how long. Times are in milliseconds.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Generator {
    /// Answer every byte with a byte, one connection after the other.
    Serve,
    /// Send a byte, wait for a byte, and so on.
    RoundTrip(Client),
    /// Connect, send a byte, wait for a byte, close, and so on.
    Connect(Client),
    /// Count datagrams.
    Receive {
        /// Before counting, from the first one on.
        #[arg(long)]
        warm_up: u64,
        /// Counting.
        #[arg(long)]
        duration: u64,
    },
    /// Send small datagrams as fast as possible.
    Send(Client),
    /// Answer every datagram.
    Answer,
    /// Send a datagram from many ports to one, and wait for each answer; then once more.
    FirstPackets {
        /// The other end.
        #[arg(long)]
        server: Ipv4Addr,
        /// Its port.
        #[arg(long)]
        port: u16,
    },
    /// Send a datagram from many ports to many others, and see that each is answered.
    Open {
        /// The other end.
        #[arg(long)]
        server: Ipv4Addr,
    },
}

/// The end that begins.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Client {
    /// The other end.
    #[arg(long)]
    server: Ipv4Addr,
    /// Before measuring.
    #[arg(long)]
    warm_up: u64,
    /// Measuring.
    #[arg(long)]
    duration: u64,
}

impl Client {
    fn port(&self, number: u64) -> SocketAddr {
        SocketAddr::from((self.server, PORT + (number % u64::from(PORTS)) as u16))
    }

    fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up)
    }

    fn duration(&self) -> Duration {
        Duration::from_millis(self.duration)
    }
}

/// Is that end. What it found is one line.
pub(crate) fn run(generator: &Generator) -> Result<(), String> {
    let line = match generator {
        Generator::Serve => serve().map(|()| String::new()),
        Generator::RoundTrip(client) => round_trips(client),
        Generator::Connect(client) => connections(client),
        Generator::Receive { warm_up, duration } => receive(Duration::from_millis(*warm_up), Duration::from_millis(*duration)),
        Generator::Send(client) => send(client).map(|()| String::new()),
        Generator::Answer => flows::answer().map(|()| String::new()),
        Generator::FirstPackets { server, port } => first_packet::first_packets(SocketAddrV4::new(*server, *port)),
        Generator::Open { server } => flows::open(*server).map(|()| String::new()),
    };
    println!("{}", line.map_err(|error| error.to_string())?);
    Ok(())
}

fn serve() -> std::io::Result<()> {
    let listen = |number| {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT + number))?;
        // Those that it accepts inherit it.
        setsockopt(&listener, TcpCongestion, &CONGESTION_CONTROL.into())?;
        Ok(listener)
    };
    let listeners = (0..PORTS).map(listen).collect::<std::io::Result<Vec<_>>>()?;
    println!("ready");
    loop {
        for listener in &listeners {
            // A client that goes away in the middle is the client's affair.
            _ = listener.accept().and_then(|(stream, _)| echo(stream));
        }
    }
}

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// Connects with as few system calls as possible, since they are part of what is measured. Whoever waits for ever is ended from outside.
fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    setsockopt(&stream, TcpCongestion, &CONGESTION_CONTROL.into())?;
    Ok(stream)
}

fn exchange(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(&[1])?;
    stream.read_exact(&mut [0])
}

/// Repeats something through the warm-up and the time, and returns how long each took in the time.
fn repeat(client: &Client, mut each: impl FnMut(u64) -> std::io::Result<()>) -> std::io::Result<Vec<Duration>> {
    let (mut number, mut times) = (0, Vec::with_capacity(1 << 18));
    let begin = Instant::now();
    let (start, end) = (begin + client.warm_up(), begin + client.warm_up() + client.duration());
    let mut before = begin;
    while before < end {
        each(number)?;
        let after = Instant::now();
        if before >= start {
            times.push(after - before);
        }
        (before, number) = (after, number + 1);
    }
    Ok(times)
}

/// The middle and the mean of round trips, in microseconds.
fn round_trips(client: &Client) -> std::io::Result<String> {
    let mut stream = connect(client.port(0))?;
    repeat(client, |_| exchange(&mut stream)).map(middle_and_mean)
}

/// The middle and the mean of some times, in microseconds.
fn middle_and_mean(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let middle = times.get(times.len() / 2).copied().map_or(f64::NAN, micros);
    let mean = micros(times.iter().sum::<Duration>()) / times.len() as f64;
    format!("{middle} {mean}")
}

/// Connections per second.
fn connections(client: &Client) -> std::io::Result<String> {
    let times = repeat(client, |number| exchange(&mut connect(client.port(number))?))?;
    let seconds = times.iter().sum::<Duration>().as_secs_f64();
    Ok(format!("{}", times.len() as f64 / seconds))
}

/// Datagrams per second that arrive.
fn receive(warm_up: Duration, duration: Duration) -> std::io::Result<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT))?;
    // Past the machine's limit only root may go.
    setsockopt(&socket, RcvBufForce, &BUFFER).or_else(|_| setsockopt(&socket, RcvBuf, &BUFFER))?;
    println!("ready");
    let mut buffer = [0; 2 * PAYLOAD];
    socket.set_read_timeout(Some(SILENCE))?;
    socket.recv(&mut buffer)?;
    let start = Instant::now() + warm_up;
    while Instant::now() < start {
        socket.recv(&mut buffer)?;
    }
    let (begin, mut count) = (Instant::now(), 0u64);
    while begin.elapsed() < duration {
        socket.recv(&mut buffer)?;
        count += 1;
    }
    Ok(format!("{}", count as f64 / begin.elapsed().as_secs_f64()))
}

fn send(client: &Client) -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(client.port(0))?;
    let end = Instant::now() + client.warm_up() + client.duration();
    while Instant::now() < end {
        match socket.send(&[1; PAYLOAD]) {
            // The receiver ends first, or a queue is full.
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused || error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32) => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_not_the_mean() {
        assert_eq!(middle_and_mean([9, 1, 2].map(Duration::from_micros).to_vec()), "2 4");
        assert_eq!(middle_and_mean(Vec::new()), "NaN NaN");
    }
}
