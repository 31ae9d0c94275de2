//! What passes links of a network namespace, as a pcapng stream. Windows nodes have a better one: their switch knows what became of a packet.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use host::netlink::Netlink;
use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use host::nic::{Nic, NicError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use wire::pcapng::{self, Direction, Packet};
use wire::{Frame, Headers, MacAddress};

/// The argument by which the program is told to capture.
pub const ARGUMENT: &str = "capture";

/// How many frames of one link are read before the next has its turn.
const TURN: usize = 64;

/// A link that is watched.
struct Link {
    nic: Nic,
    mac: MacAddress,
}

/// Writes what passes links of this thread's network namespace, until standard input ends: whoever wants it holds the other end.
pub fn run(names: &[String], out: &mut impl Write) -> io::Result<()> {
    let mut links = open(names)?;
    let mut start = Vec::new();
    pcapng::section(&mut start);
    names.iter().for_each(|name| pcapng::interface(&mut start, name));
    out.write_all(&start)?;
    out.flush()?;
    while wait(&links)? {
        let mut blocks = Vec::new();
        for (number, link) in (0..).zip(&mut links) {
            let mac = link.mac;
            link.nic.receiver.receive(TURN, &mut |frame, _| put(&mut blocks, number, mac, frame))?;
        }
        out.write_all(&blocks)?;
        out.flush()?;
    }
    Ok(())
}

fn open(names: &[String]) -> io::Result<Vec<Link>> {
    let netlink = Netlink::open().map_err(|error| io::Error::other(error.to_string()))?;
    let find = |name: &String| {
        let found = netlink.link_by_name(name).map_err(|error| io::Error::other(error.to_string()))?;
        let link = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("there is no link {name}")))?;
        let options = PacketSocketOptions { promiscuous: true, outgoing: true, ..PacketSocketOptions::default() };
        let socket = PacketSocket::open(name, link.index, &options).map_err(|error: NicError| io::Error::other(error.to_string()))?;
        Ok(Link { nic: socket.nic(), mac: link.mac })
    };
    names.iter().map(find).collect()
}

/// Waits for frames. Returns whether anybody still wants them.
fn wait(links: &[Link]) -> io::Result<bool> {
    let input = io::stdin();
    let mut waited = vec![PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    waited.extend(links.iter().filter_map(|link| link.nic.receiver.fd()).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
    match poll(&mut waited, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(waited[0].revents().is_none_or(|events| events.is_empty())),
        Err(errno) => Err(errno.into()),
    }
}

fn put(blocks: &mut Vec<u8>, interface: u32, mac: MacAddress, frame: &Frame) {
    let is_ours = Headers::parse(frame.bytes()).is_ok_and(|headers| headers.source_mac == mac);
    let time_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(0));
    let packet = Packet {
        interface,
        time_ns,
        direction: Some(if is_ours { Direction::Outbound } else { Direction::Inbound }),
        comment: "",
        bytes: frame.bytes(),
        original_length: u32::try_from(frame.len()).unwrap_or(u32::MAX),
    };
    pcapng::packet(blocks, &packet);
}
