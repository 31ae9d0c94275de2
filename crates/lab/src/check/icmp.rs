//! ICMP: out of the cluster, where it would have to be translated, and inside of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::namespace::Namespace;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;

use super::ask::inside;
use super::stage::{CLIENT, SERVERS, Stage};
use super::subject::Subject;
use super::{Documented, Observed};
use crate::topology::Mode;

/// How long an answer may take, and how often it is asked for.
const PATIENCE: Duration = Duration::from_secs(1);
const TRIES: usize = 3;

/// Types of messages.
const REQUEST: u8 = 8;
const REPLY: u8 = 0;

/// The length of an IPv4 header without options.
const HEADER: usize = 20;

/// What the documents say of ICMP out of the cluster.
pub(super) fn outward_documented(subject: &Subject) -> Documented {
    // It is said of win-overlay, win-bridge and azure-vnet. Nobody translates on transparent networks, and WinNAT does it for ICMP too.
    let is_transposed = !matches!(subject.mode, Mode::Transparent | Mode::Nat);
    Documented::unless(
        subject.is_windows() && is_transposed,
        "ICMP packets to remote networks cannot be transposed, so that no answer comes back",
    )
}

/// What is observed of ICMP out of the cluster.
pub(super) async fn observe_outward(stage: &Stage) -> Observed {
    let outside = stage.lab.topology().outside().iter().map(ipnet::IpNet::addr).find(IpAddr::is_ipv4);
    Observed::of(ping(stage, outside.ok_or_else(|| "outside has no IPv4".to_owned())).await)
}

/// What the documents say of ICMP inside.
pub(super) fn inside_documented(_subject: &Subject) -> Documented {
    Documented::works()
}

/// What is observed of ICMP inside: a pod pings one of the other node, or behind NAT, where the network ends with the node, one of its own.
pub(super) async fn observe_inside(stage: &Stage) -> Observed {
    let server = if stage.subject.is_behind_nat() { SERVERS[0] } else { SERVERS[2] };
    Observed::of(ping(stage, stage.pod(server).address(false)).await)
}

async fn ping(stage: &Stage, to: Result<IpAddr, String>) -> Result<String, String> {
    let IpAddr::V4(to) = to? else { return Err("it is no IPv4 address".to_owned()) };
    for _ in 0..TRIES {
        if echo_from(&stage.pod(CLIENT).namespace, to).await? {
            return Ok(format!("{to} answered"));
        }
    }
    Err(format!("{to}: no answer to {TRIES} echo requests"))
}

async fn echo_from(namespace: &Arc<Namespace>, to: Ipv4Addr) -> Result<bool, String> {
    inside(namespace, move || echo(to).map_err(|error| error.to_string())).await
}

/// Sends an echo request, and waits for its answer.
fn echo(to: Ipv4Addr) -> io::Result<bool> {
    let socket = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 100_000))?;
    let [high, low] = (socket.as_raw_fd() as u16 ^ std::process::id() as u16).to_be_bytes();
    let mut packet = [REQUEST, 0, 0, 0, high, low, 0, 1];
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    sendto(socket.as_raw_fd(), &packet, &SockaddrIn::from(SocketAddrV4::new(to, 0)), MsgFlags::empty())?;
    let (begin, mut buffer) = (Instant::now(), [0; 1500]);
    while begin.elapsed() < PATIENCE {
        let Ok(length) = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) else { continue };
        let message = &buffer[HEADER.min(length)..length];
        if message.first() == Some(&REPLY) && message.get(4..8) == Some(&packet[4..]) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The Internet checksum of a message of few bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}
