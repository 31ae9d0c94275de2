//! ARP (RFC 826) for IPv4 over Ethernet, with the rules of RFC 5227 for probes and announcements.

use std::ops::Range;

use crate::number::ether_type;
use crate::{Frame, Headers, Ip, Kind, MacAddress, compose};

const SENDER_MAC: Range<usize> = 8..14;
const TARGET_MAC: Range<usize> = 18..24;

/// The length of the message.
pub const LENGTH: usize = 28;

const BROADCAST: MacAddress = MacAddress([0xff; 6]);

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It asks for the target's address.
    Request,
    /// It tells the sender's address.
    Reply,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// What it does.
    pub operation: Operation,
    /// The hardware address of who sends it.
    pub sender_mac: MacAddress,
    /// The IPv4 address of who sends it; 0.0.0.0 in a probe.
    pub sender: Ip,
    /// The hardware address of whom it is about; means nothing in a request.
    pub target_mac: MacAddress,
    /// The IPv4 address of whom it is about.
    pub target: Ip,
}

impl Arp {
    /// Reads the message of a frame. `None` if it has none of this kind.
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        let bytes = message(frame, headers)?;
        let mac = |at: usize| Some(MacAddress(*bytes.get(at..)?.first_chunk()?));
        let address = |at: usize| Some(Ip::v4(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?)));
        let operation = match bytes[6..8] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return None,
        };
        Some(Self { operation, sender_mac: mac(8)?, sender: address(14)?, target_mac: mac(18)?, target: address(24)? })
    }

    /// The bytes of the message.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        bytes[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        bytes[SENDER_MAC].copy_from_slice(&self.sender_mac.0);
        bytes[14..18].copy_from_slice(&self.sender.v4_bits().to_be_bytes());
        bytes[TARGET_MAC].copy_from_slice(&self.target_mac.0);
        bytes[24..].copy_from_slice(&self.target.v4_bits().to_be_bytes());
        bytes
    }
}

/// The message of a frame that [`Headers::parse`] found to be ARP for IPv4 over Ethernet.
fn message<'a>(frame: &'a [u8], headers: &Headers) -> Option<&'a [u8; LENGTH]> {
    let is_arp = headers.ether_type == ether_type::ARP && matches!(headers.kind, Kind::Neighbour { .. });
    frame.get(usize::from(headers.l3)..).filter(|_| is_arp)?.first_chunk()
}

/// Makes `out` the answer to a request: the address asked about is at `mac`. Whether there is one to be given.
///
/// An announcement (sender and target are the same) asks nothing, and an answer would be taken for a conflict.
#[must_use]
pub fn answer(request: &[u8], headers: &Headers, mac: MacAddress, out: &mut Frame) -> bool {
    let Some(asked) = Arp::parse(request, headers) else {
        return false;
    };
    if asked.operation != Operation::Request || asked.sender == asked.target {
        return false;
    }
    let reply =
        Arp { operation: Operation::Reply, sender_mac: mac, sender: asked.target, target_mac: asked.sender_mac, target: asked.sender };
    compose::answer_link(out, request, headers, mac) && out.append(&reply.emit()) == LENGTH
}

/// Makes `out` a request for the hardware address of `target`, to everybody.
pub fn request(sender: Ip, sender_mac: MacAddress, target: Ip, out: &mut Frame) {
    let request = Arp { operation: Operation::Request, sender_mac, sender, target_mac: MacAddress::default(), target };
    out.fill(&compose::ethernet(BROADCAST, sender_mac, ether_type::ARP));
    out.append(&request.emit());
}

/// Makes `out` an announcement to everybody that `address` is at `mac` (a gratuitous ARP).
pub fn announce(address: Ip, mac: MacAddress, out: &mut Frame) {
    request(address, mac, address, out);
}

/// Changes the sender's hardware address in the message of a frame. Whether there is one.
pub fn set_sender_mac(frame: &mut [u8], headers: &Headers, mac: MacAddress) -> bool {
    set(frame, headers, SENDER_MAC, mac)
}

/// Changes the target's hardware address in the message of a frame. Whether there is one.
pub fn set_target_mac(frame: &mut [u8], headers: &Headers, mac: MacAddress) -> bool {
    set(frame, headers, TARGET_MAC, mac)
}

fn set(frame: &mut [u8], headers: &Headers, field: Range<usize>, mac: MacAddress) -> bool {
    if message(frame, headers).is_none() {
        return false;
    }
    frame[usize::from(headers.l3)..][field].copy_from_slice(&mac.0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: MacAddress = MacAddress([0, 0x15, 0x5d, 0, 0, 1]);
    const ANSWERER: MacAddress = MacAddress([0, 0x15, 0x5d, 0, 0, 2]);

    fn asked(sender: Ip, target: Ip) -> (Frame, Headers) {
        let mut frame = Frame::default();
        request(sender, ASKER, target, &mut frame);
        let headers = Headers::parse(frame.bytes()).unwrap();
        (frame, headers)
    }

    #[test]
    fn a_request_is_answered() {
        let (request, headers) = asked(Ip::v4(1), Ip::v4(2));
        assert_eq!(headers.kind, Kind::Neighbour { request: true });
        let mut out = Frame::default();
        assert!(answer(request.bytes(), &headers, ANSWERER, &mut out));
        let headers = Headers::parse(out.bytes()).unwrap();
        assert_eq!((headers.destination_mac, headers.source_mac), (ASKER, ANSWERER));
        let expected = Arp { operation: Operation::Reply, sender_mac: ANSWERER, sender: Ip::v4(2), target_mac: ASKER, target: Ip::v4(1) };
        assert_eq!(Arp::parse(out.bytes(), &headers), Some(expected));
        assert!(!answer(out.bytes(), &headers, ANSWERER, &mut Frame::default()), "a reply is not answered");
    }

    #[test]
    fn the_tag_of_a_request_is_kept() {
        let (request, _) = asked(Ip::v4(1), Ip::v4(2));
        let mut tagged = request.bytes()[..12].to_vec();
        tagged.extend([0x81, 0, 0x20, 7]);
        tagged.extend(&request.bytes()[12..]);
        let mut out = Frame::default();
        assert!(answer(&tagged, &Headers::parse(&tagged).unwrap(), ANSWERER, &mut out));
        assert_eq!(Headers::parse(out.bytes()).unwrap().vlan, Some(7));
    }

    #[test]
    fn an_announcement_is_not_answered_and_a_probe_is() {
        let mut out = Frame::default();
        let (announcement, headers) = asked(Ip::v4(2), Ip::v4(2));
        assert!(!answer(announcement.bytes(), &headers, ANSWERER, &mut out));
        let (probe, headers) = asked(Ip::v4(0), Ip::v4(2));
        assert!(answer(probe.bytes(), &headers, ANSWERER, &mut out));
    }

    #[test]
    fn hardware_addresses_are_changed_in_place() {
        let (mut frame, headers) = asked(Ip::v4(1), Ip::v4(2));
        assert!(set_sender_mac(frame.bytes_mut(), &headers, ANSWERER));
        assert!(set_target_mac(frame.bytes_mut(), &headers, BROADCAST));
        let arp = Arp::parse(frame.bytes(), &headers).unwrap();
        assert_eq!((arp.sender_mac, arp.sender, arp.target_mac, arp.target), (ANSWERER, Ip::v4(1), BROADCAST, Ip::v4(2)));
    }
}
