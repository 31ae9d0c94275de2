//! What is on the wire: frames as they cross the underlay.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt};
use nix::sys::time::TimeVal;
use wire::MacAddress;

use super::Place;

/// How the kernel marks frames that leave by a link.
const OUTGOING: u8 = 4;

/// How much of a frame is kept.
const SNAPSHOT: usize = 2048;

/// A frame that was seen at a link.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    link: usize,
    outgoing: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn destination_mac(&self) -> MacAddress {
        mac(&self.bytes[0..6])
    }

    pub(crate) fn source_mac(&self) -> MacAddress {
        mac(&self.bytes[6..12])
    }

    pub(crate) fn ether_type(&self) -> u16 {
        u16::from_be_bytes([self.bytes[12], self.bytes[13]])
    }

    /// Source, destination and protocol, if it is IP.
    pub(crate) fn ip(&self) -> Option<(IpAddr, IpAddr, u8)> {
        let packet = &self.bytes[14..];
        match self.ether_type() {
            0x0800 => Some((v4(packet.get(12..16)?), v4(packet.get(16..20)?), packet[9])),
            0x86dd => Some((v6(packet.get(8..24)?), v6(packet.get(24..40)?), packet[6])),
            _ => None,
        }
    }

    /// Whether it is IP from one address to another.
    pub(crate) fn is_between(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.ip().is_some_and(|(from, to, _)| from == source && to == destination)
    }

    /// Where the UDP header starts, if it is UDP and not a later fragment.
    fn udp(&self) -> Option<&[u8]> {
        let (source, _, protocol) = self.ip()?;
        let whole = source.is_ipv6() || self.bytes[20] & 0x1f == 0 && self.bytes[21] == 0;
        let start = 14 + if source.is_ipv4() { usize::from(self.bytes[14] & 15) * 4 } else { 40 };
        self.bytes.get(start..).filter(|header| protocol == 17 && whole && header.len() >= 8)
    }

    /// The destination port, if it is UDP.
    pub(crate) fn udp_port(&self) -> Option<u16> {
        self.udp().map(|header| u16::from_be_bytes([header[2], header[3]]))
    }

    /// The virtual network, if it is UDP with a VXLAN header.
    pub(crate) fn vni(&self) -> Option<u32> {
        let header = self.udp()?.get(8..16)?;
        (header[0] == 8).then(|| u32::from_be_bytes([0, header[4], header[5], header[6]]))
    }

    /// Source and destination of the packet inside, if it is VXLAN with IP in it.
    pub(crate) fn inner(&self) -> Option<(IpAddr, IpAddr)> {
        self.vni()?;
        let bytes = self.udp()?.get(16..).filter(|bytes| bytes.len() > 14)?.to_vec();
        let inner = Self { link: self.link, outgoing: self.outgoing, bytes };
        inner.ip().map(|(from, to, _)| (from, to))
    }
}

fn mac(bytes: &[u8]) -> MacAddress {
    MacAddress(bytes.try_into().unwrap_or_default())
}

fn v4(bytes: &[u8]) -> IpAddr {
    Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap_or_default()).into()
}

fn v6(bytes: &[u8]) -> IpAddr {
    Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap_or_default()).into()
}

/// Watches all links of a place until it is asked what it has seen.
pub(crate) struct Sniffer {
    place_link: Box<dyn Fn(&str) -> usize>,
    stop: Arc<AtomicBool>,
    frames: Arc<Mutex<Vec<Frame>>>,
    thread: Option<JoinHandle<()>>,
}

impl Sniffer {
    /// Begins to watch.
    pub(crate) fn start(place: &Place) -> Self {
        let open = || socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll);
        let socket = place.run(open).expect("a packet socket");
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 20_000)).expect("a timeout");
        _ = setsockopt(&socket, sockopt::RcvBuf, &(8 << 20));
        let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let thread = {
            let (stop, frames) = (stop.clone(), frames.clone());
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 17];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, Some(from))) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut buffer) else { continue };
                    if length >= 14 {
                        let bytes = buffer[..length.min(SNAPSHOT)].to_vec();
                        let frame = Frame { link: from.ifindex(), outgoing: from.pkttype() == OUTGOING, bytes };
                        frames.lock().expect("the frames").push(frame);
                    }
                }
            })
        };
        let netlink = place.netlink();
        let place_link = Box::new(move |name: &str| netlink.link_by_name(name).expect("the links").expect("the link").index as usize);
        Self { place_link, stop, frames, thread: Some(thread) }
    }

    /// What has come in by a link so far.
    pub(crate) fn arrived(&self, link: &str) -> Vec<Frame> {
        self.seen(link, false)
    }

    /// What has gone out by a link so far.
    pub(crate) fn left(&self, link: &str) -> Vec<Frame> {
        self.seen(link, true)
    }

    fn seen(&self, link: &str, outgoing: bool) -> Vec<Frame> {
        // The thread may be a little behind.
        thread::sleep(Duration::from_millis(50));
        let index = (self.place_link)(link);
        let frames = self.frames.lock().expect("the frames");
        frames.iter().filter(|frame| frame.link == index && frame.outgoing == outgoing).cloned().collect()
    }
}

impl Drop for Sniffer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        _ = self.thread.take().map(JoinHandle::join);
    }
}
