//! A packet socket: frames of an adapter that belongs to the machine, such as the uplink.
//!
//! The machine's own stack sees every frame as well. What UDP sockets of ours receive is left out here, in the kernel,
//! so that no frame of the overlay arrives twice.
//!
//! A wire may carry VLANs. Several sockets on one adapter then each have their share of it: one the frames without a tag, others
//! those of one VLAN each, which pass in and out here without their tags.

mod filter;
mod tag;

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{Checksum, Encapsulation, Frame, Headers, MacAddress, Malformed, checksum, virtio};

use super::socket::{self, Message};
use super::{Deliver, Nic, NicError, Receiver, Sender, vanished, vnet};

/// Frames that the kernel may hold for us, in bytes, each way.
const BUFFER: c_int = 8 << 20;

const PACKET_IGNORE_OUTGOING: c_int = 23;
const PACKET_VNET_HDR_SZ: c_int = 24;

/// Which frames a packet socket does not receive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// UDP datagrams to these addresses and transport ports, unless they are fragmented or carry a VLAN tag: a socket
    /// of ours has them.
    pub datagrams: Vec<SocketAddr>,
    /// Frames from these addresses.
    pub sources: Vec<MacAddress>,
}

/// Whose frames a socket has of a wire that carries VLANs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All of them, with their tags.
    #[default]
    Whole,
    /// Those in no VLAN. A tag that only gives a priority is taken off. What has a tag is not sent.
    Untagged,
    /// Those in one VLAN. They are received without the tag, and sent with it.
    Vlan(u16),
}

/// How a packet socket is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSocketOptions {
    /// Whose frames it has.
    pub share: Share,
    /// Whether the adapter is to hand over frames to all addresses, and not only to its own.
    pub promiscuous: bool,
    /// Which frames it does not receive.
    pub left_out: LeftOut,
    /// Whether it receives nothing at all, and only sends.
    pub deaf: bool,
    /// Whether it also receives what the machine itself sends by the adapter, as somebody who only watches wants.
    pub outgoing: bool,
}

/// A packet socket on one adapter.
#[derive(Clone, Debug)]
pub struct PacketSocket {
    file: Arc<File>,
    name: String,
    index: u32,
    share: Share,
    /// How long the header before each frame is.
    prefix: usize,
    dropped: Arc<AtomicU64>,
}

impl PacketSocket {
    /// Opens a socket on the adapter with this index in the thread's network namespace. `name` is for messages.
    pub fn open(name: &str, index: u32, options: &PacketSocketOptions) -> Result<Self, NicError> {
        let failed = |action| move |error| explain(NicError::new(name, action, error));
        // Without a protocol it receives nothing until it is bound, by when everything is set.
        let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW).map_err(failed("open a packet socket"))?;
        let prefix = set_header(fd.as_fd()).map_err(failed("have the kernel leave offloads to us"))?;
        set_options(fd.as_fd(), options.outgoing).map_err(failed("set up the packet socket"))?;
        let program = filter::program(options.share, &options.left_out);
        socket::set_filter(fd.as_fd(), &program).map_err(failed("leave frames out"))?;
        let protocol = if options.deaf { 0 } else { libc::ETH_P_ALL };
        socket::bind_packet(fd.as_fd(), index, protocol).map_err(failed("bind to the adapter"))?;
        if options.promiscuous {
            set_promiscuous(fd.as_fd(), index, true).map_err(failed("receive frames to all addresses"))?;
        }
        let (file, share) = (Arc::new(File::from(fd)), options.share);
        Ok(Self { file, name: name.to_owned(), index, share, prefix, dropped: Arc::default() })
    }

    /// The name of the adapter.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which frames are not received from now on.
    pub fn leave_out(&self, left_out: &LeftOut) -> io::Result<()> {
        socket::set_filter(self.file.as_fd(), &filter::program(self.share, left_out))
    }

    /// Whether frames to all hardware addresses are received from now on.
    pub fn set_promiscuous(&self, on: bool) -> io::Result<()> {
        match set_promiscuous(self.file.as_fd(), self.index, on) {
            // It was not on.
            Err(error) if !on && error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => Ok(()),
            other => other,
        }
    }

    /// How many frames were received and lost because they ask for something that cannot be done, such as cutting what
    /// is inside a tunnel.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The socket as a NIC. There should be one only, as each frame arrives at one receiver.
    pub fn nic(&self) -> Nic {
        let receiver = PacketReceiver { socket: self.clone(), frame: Frame::default(), down: false };
        Nic { receiver: Box::new(receiver), sender: Arc::new(self.clone()) }
    }
}

/// Asks for a header before each frame, and answers how long it is.
fn set_header(fd: BorrowedFd<'_>) -> io::Result<usize> {
    match socket::set(fd, libc::SOL_PACKET, PACKET_VNET_HDR_SZ, &(virtio::LENGTH as c_int)) {
        Ok(()) => Ok(virtio::LENGTH),
        Err(_) => socket::set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).map(|()| vnet::LENGTH_OLD),
    }
}

fn set_options(fd: BorrowedFd<'_>, outgoing: bool) -> io::Result<()> {
    // Before Linux 4.20 one's own frames come back; senders there have to leave out their own addresses.
    _ = socket::set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &c_int::from(!outgoing));
    socket::set(fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
    socket::set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, BUFFER)?;
    socket::set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, BUFFER)
}

fn set_promiscuous(fd: BorrowedFd<'_>, index: u32, on: bool) -> io::Result<()> {
    let membership =
        libc::packet_mreq { mr_ifindex: index as c_int, mr_type: libc::PACKET_MR_PROMISC as u16, mr_alen: 0, mr_address: [0; 8] };
    let change = if on { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
    socket::set(fd, libc::SOL_PACKET, change, &membership)
}

fn explain(error: NicError) -> NicError {
    match error.cause.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => error.remedy("run as root, or with the capability CAP_NET_RAW"),
        Some(libc::ENODEV | libc::ENXIO) => error.remedy("there is no such adapter in this network namespace; see `ip link`"),
        Some(libc::EAFNOSUPPORT) => error.remedy("load the kernel module `af_packet`"),
        _ => error,
    }
}

struct PacketReceiver {
    socket: PacketSocket,
    frame: Frame,
    /// Whether the adapter was last seen to be down. Its removal is not told by the kernel other than by that.
    down: bool,
}

impl PacketReceiver {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.file.as_fd()
    }

    /// Says that the adapter is gone, if that is why nothing arrives.
    fn check_presence(&self) -> io::Result<()> {
        let bound = self.down.then(|| socket::bound_packet(self.fd())).transpose()?;
        match bound {
            Some(index) if u32::try_from(index) != Ok(self.socket.index) => Err(vanished(&self.socket.name)),
            _ => Ok(()),
        }
    }

    /// Makes a frame of what was read.
    fn take(&mut self, message: &Message) -> Result<(), Malformed> {
        if message.truncated {
            return Err(Malformed::Truncated);
        }
        vnet::received(&mut self.frame, self.socket.prefix, message.length)?;
        if let (Share::Whole, Some(tag)) = (self.socket.share, stripped_tag(message)) {
            tag::push(&mut self.frame, tag)?;
        }
        repair_offload(&mut self.frame)
    }
}

/// The VLAN tag that the kernel took out of a frame.
fn stripped_tag(message: &Message) -> Option<[u8; 4]> {
    // As in `struct tpacket_auxdata`: the status first, and behind four more fields the tag and its type.
    let data = message.control(libc::SOL_PACKET, libc::PACKET_AUXDATA)?.first_chunk::<20>()?;
    let status = u32::from_ne_bytes([data[0], data[1], data[2], data[3]]);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tag = u16::from_ne_bytes([data[16], data[17]]).to_be_bytes();
    let kind = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => wire::number::ether_type::VLAN,
        _ => u16::from_ne_bytes([data[18], data[19]]),
    };
    let kind = kind.to_be_bytes();
    Some([kind[0], kind[1], tag[0], tag[1]])
}

/// Makes an offload request fit the frame. For what is inside a tunnel, the kernel says the same as for a plain packet, with
/// offsets of the inner headers: a checksum there can be completed, but such a frame cannot be cut.
fn repair_offload(frame: &mut Frame) -> Result<(), Malformed> {
    let Checksum::Partial { start, field } = frame.offload.checksum else {
        return match frame.offload.segmentation {
            None => Ok(()),
            Some(_) => Headers::parse(frame.bytes())?.check_offload(frame),
        };
    };
    let headers = Headers::parse(frame.bytes());
    let fits = headers.and_then(|headers| headers.check_offload(frame));
    if fits.is_ok() || frame.offload.segmentation.is_some() {
        return fits;
    }
    let (start, field) = (usize::from(start), usize::from(field));
    let end = headers.map_or(frame.len(), |headers| headers.end as usize);
    let covered = frame.bytes_mut().get_mut(start..end).ok_or(Malformed::Segmentation)?;
    let sum = !checksum::sum(covered);
    // Zero would say that there is no checksum, and its other form means the same to everybody else.
    let sum = if sum == 0 { 0xffff } else { sum };
    covered.get_mut(field..field + 2).ok_or(Malformed::Segmentation)?.copy_from_slice(&sum.to_be_bytes());
    frame.offload.checksum = Checksum::Complete;
    Ok(())
}

impl Receiver for PacketReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let mut delivered = 0;
        for _ in 0..budget {
            let area = self.frame.receive_area(self.socket.prefix);
            let taken = match socket::receive(self.socket.file.as_fd(), area) {
                Ok(message) => self.take(&message),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.check_presence()?;
                        break;
                    }
                    Some(libc::ENETDOWN) => {
                        self.down = true;
                        self.check_presence()?;
                        break;
                    }
                    Some(libc::EINTR) => continue,
                    // The header has no word for what is to be done on the frame, and the kernel has dropped it.
                    Some(libc::EINVAL) => Err(Malformed::Segmentation),
                    Some(libc::ENODEV | libc::ENXIO) => return Err(vanished(&self.socket.name)),
                    _ => return Err(error),
                },
            };
            if taken.is_err() {
                self.socket.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.down = false;
            deliver(&mut self.frame, None);
            delivered += 1;
        }
        Ok(delivered)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.file.as_fd())
    }
}

impl Sender for PacketSocket {
    fn send(&self, frame: &mut Frame, _: Option<&Encapsulation>) -> io::Result<()> {
        let written = match self.share {
            Share::Whole => vnet::write(&self.file, self.prefix, frame),
            // It would get into a VLAN that its sender was not let into.
            Share::Untagged if tag::is_tagged(frame) => Err(io::ErrorKind::InvalidInput.into()),
            Share::Untagged => vnet::write(&self.file, self.prefix, frame),
            Share::Vlan(id) => tag::with(frame, id, |tagged| vnet::write(&self.file, self.prefix, tagged)),
        };
        match written {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Err(vanished(&self.name)),
            result => result,
        }
    }
}
