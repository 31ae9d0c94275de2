//! From inner frames to trains of datagrams.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use wire::number::ether_type;
use wire::segment::{HEADERS_MAX, Segments, complete_checksum};
use wire::{Encapsulation, FlowId, Frame, Headers, Ip, TunnelKind};

use super::super::Sender;
use super::super::socket::{self, Address};
use super::header;

/// The most datagrams in one train (`UDP_MAX_SEGMENTS`; newer kernels take 128).
const TRAIN_MAX: usize = 64;

/// The longest train: an IPv4 packet of full length, less its headers.
const TRAIN_BYTES_MAX: usize = 65_535 - 20 - 8;

/// The headers that we write before each piece.
const PIECE_HEADERS_MAX: usize = header::LENGTH + HEADERS_MAX;

/// The sending half of a tunnel.
#[derive(Debug)]
pub(super) struct TunnelSender {
    sockets: Vec<OwnedFd>,
    /// Sends what does not fit the path and may be fragmented.
    fragmenting: OwnedFd,
    kind: TunnelKind,
    local: Ip,
    /// Whether the kernel takes trains. Some adapters cannot, and then every piece is a datagram of its own.
    trains: AtomicBool,
}

/// Where a frame goes, and behind which header.
struct Outer {
    to: Address,
    header: [u8; header::LENGTH],
}

impl TunnelSender {
    pub(super) fn new(sockets: Vec<OwnedFd>, fragmenting: OwnedFd, kind: TunnelKind, local: Ip) -> Self {
        Self { sockets, fragmenting, kind, local, trains: AtomicBool::new(true) }
    }

    fn outer(&self, encapsulation: &Encapsulation) -> io::Result<Outer> {
        if encapsulation.kind != self.kind || encapsulation.remote.is_v4() != self.local.is_v4() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let to = SocketAddr::new(IpAddr::from(encapsulation.remote), encapsulation.port);
        Ok(Outer { to: to.into(), header: header::write(self.kind, encapsulation.vni) })
    }

    /// The socket, and so the port, that a flow is sent from.
    fn socket(&self, headers: Option<&Headers>) -> BorrowedFd<'_> {
        let index = headers.map_or(0, |headers| hash(&headers.id) as usize % self.sockets.len());
        self.sockets[index].as_fd()
    }

    fn send_whole(&self, frame: &mut Frame, headers: Option<&Headers>, outer: &Outer) -> io::Result<()> {
        let socket = self.socket(headers);
        let may_fragment = may_fragment(frame.bytes(), headers);
        let datagram = frame.with_prefix(&outer.header).ok_or(io::ErrorKind::InvalidInput)?;
        let parts = [IoSlice::new(datagram)];
        match socket::send(socket, &parts, &outer.to, None) {
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) && may_fragment => {
                socket::send(self.fragmenting.as_fd(), &parts, &outer.to, None)
            }
            result => result,
        }
    }

    fn send_pieces(&self, frame: &Frame, headers: &Headers, outer: &Outer) -> io::Result<()> {
        let segments = Segments::new(frame, headers).map_err(|_| io::ErrorKind::InvalidData)?;
        let pieces = Pieces { bytes: frame.bytes(), segments, outer };
        let socket = self.socket(Some(headers));
        let length = header::LENGTH + segments.piece_length();
        let at_once = (TRAIN_BYTES_MAX / length).clamp(1, TRAIN_MAX);
        let mut from = 0;
        while from < segments.count() {
            let range = from..segments.count().min(from + at_once);
            from = range.end;
            match self.send_train(socket, &pieces, range.clone()) {
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) && may_fragment(frame.bytes(), Some(headers)) => {
                    pieces.send_each(self.fragmenting.as_fd(), range)?;
                }
                result => result?,
            }
        }
        Ok(())
    }

    fn send_train(&self, socket: BorrowedFd<'_>, pieces: &Pieces<'_>, range: Range<usize>) -> io::Result<()> {
        if range.len() == 1 || !self.trains.load(Ordering::Relaxed) {
            return pieces.send_each(socket, range);
        }
        match pieces.send_together(socket, range.clone()) {
            // EIO: the adapter does not compute checksums. EINVAL: the kernel knows no trains, or (before Linux 6.8) the
            // pieces do not fit the path, which sending them one by one tells.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::ENOPROTOOPT)) => {
                pieces.send_each(socket, range)?;
                self.trains.store(false, Ordering::Relaxed);
                Ok(())
            }
            result => result,
        }
    }
}

/// The pieces of a frame, on their way to a socket.
struct Pieces<'a> {
    bytes: &'a [u8],
    segments: Segments<'a>,
    outer: &'a Outer,
}

impl<'a> Pieces<'a> {
    fn header_length(&self) -> usize {
        header::LENGTH + self.segments.header_length()
    }

    /// Writes the headers of a piece to the start of `room`, and answers its payload.
    fn write(&self, index: usize, room: &mut [u8]) -> io::Result<&'a [u8]> {
        let (tunnel, inner) = room.split_at_mut(header::LENGTH);
        tunnel.copy_from_slice(&self.outer.header);
        let payload = self.segments.piece(index, inner).ok_or(io::ErrorKind::InvalidData)?;
        Ok(&self.bytes[payload])
    }

    /// Sends pieces as one train, straight from the frame.
    fn send_together(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<()> {
        let mut headers = [0; TRAIN_MAX * PIECE_HEADERS_MAX];
        let mut parts = [IoSlice::new(&[]); 2 * TRAIN_MAX];
        let count = range.len().min(TRAIN_MAX);
        let rooms = headers.chunks_exact_mut(self.header_length());
        for ((index, room), pair) in range.zip(rooms).zip(parts.chunks_exact_mut(2)) {
            let payload = self.write(index, room)?;
            pair[0] = IoSlice::new(room);
            pair[1] = IoSlice::new(payload);
        }
        let length = u16::try_from(header::LENGTH + self.segments.piece_length()).map_err(|_| io::ErrorKind::InvalidData)?;
        socket::send(socket, &parts[..2 * count], &self.outer.to, Some(length))
    }

    fn send_each(&self, socket: BorrowedFd<'_>, range: Range<usize>) -> io::Result<()> {
        let mut room = [0; PIECE_HEADERS_MAX];
        for index in range {
            let room = &mut room[..self.header_length()];
            let payload = self.write(index, room)?;
            socket::send(socket, &[IoSlice::new(room), IoSlice::new(payload)], &self.outer.to, None)?;
        }
        Ok(())
    }
}

/// Whether an inner frame may arrive in fragments: its sender did not forbid it, or it is no IP at all.
fn may_fragment(bytes: &[u8], headers: Option<&Headers>) -> bool {
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let Some(headers) = headers else {
        return true;
    };
    match headers.ether_type {
        ether_type::IPV4 => bytes.get(usize::from(headers.l3) + 6).is_some_and(|flags| flags & DO_NOT_FRAGMENT == 0),
        ether_type::IPV6 => false,
        _ => true,
    }
}

/// A number for a flow: near numbers for different flows are unlikely, and the same flow always has the same.
fn hash(id: &FlowId) -> u64 {
    let fold = |ip: Ip| (ip.0 as u64) ^ ((ip.0 >> 64) as u64);
    let ports = u64::from(id.source_port) << 32 | u64::from(id.destination_port) << 16 | u64::from(id.protocol);
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    mix(mix(mix(0x2545_f491, fold(id.source)), fold(id.destination)), ports) >> 16
}

impl Sender for TunnelSender {
    fn send(&self, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()> {
        let outer = self.outer(encapsulation.ok_or(io::ErrorKind::InvalidInput)?)?;
        // What cannot be read may still be carried, if nothing is left to do on it.
        let headers = Headers::parse(frame.bytes()).ok();
        match (headers, frame.offload.segmentation) {
            (Some(headers), Some(_)) => self.send_pieces(frame, &headers, &outer),
            (Some(headers), None) => {
                complete_checksum(frame, &headers).map_err(|_| io::ErrorKind::InvalidData)?;
                self.send_whole(frame, Some(&headers), &outer)
            }
            (None, _) if frame.offload == wire::Offload::NONE => self.send_whole(frame, None, &outer),
            (None, _) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
