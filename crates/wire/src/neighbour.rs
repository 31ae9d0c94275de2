//! IPv6 neighbour discovery (RFC 4861): questions, answers, and the link-layer addresses in them.

use crate::compose::{self, IpHeader};
use crate::number::{ether_type, protocol};
use crate::{Fragment, Frame, Headers, Ip, Kind, MacAddress, checksum};

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

const ALL_NODES: Ip = Ip(0xff02 << 112 | 1);
const SOLICITED_NODE: u128 = 0xff02 << 112 | 0x1_ff00_0000;

/// Messages that arrive with less have crossed a router and are not believed.
const HOP_LIMIT: u8 = 255;

/// Header and target, then one option with an Ethernet address.
const MESSAGE: usize = 24 + 8;

/// The group in which the owner of an address listens for questions about it.
pub const fn solicited_node(address: Ip) -> Ip {
    Ip(SOLICITED_NODE | address.0 & 0xff_ffff)
}

/// The Ethernet address of an IPv6 group (RFC 2464, section 7).
pub const fn group_mac(group: Ip) -> MacAddress {
    let [a, b, c, d] = (group.0 as u32).to_be_bytes();
    MacAddress([0x33, 0x33, a, b, c, d])
}

/// Makes `out` the answer to a neighbour solicitation: the address asked about is at `mac`. Whether there is one to be
/// given.
///
/// Who looks for a duplicate asks from `::` and is answered through all nodes. `router` must be set where the address
/// is a gateway's: hosts remove a gateway that says it is no router.
#[must_use]
pub fn answer(request: &[u8], headers: &Headers, mac: MacAddress, router: bool, out: &mut Frame) -> bool {
    if headers.ether_type != ether_type::IPV6 || headers.kind != (Kind::Neighbour { request: true }) {
        return false;
    }
    let target = headers.id.destination;
    let probe = headers.id.source == Ip::NONE;
    let destination = if probe { ALL_NODES } else { headers.id.source };
    let flags = OVERRIDE | if router { ROUTER } else { 0 } | if probe { 0 } else { SOLICITED };
    if target.is_multicast() || !compose::answer_link(out, request, headers, mac) {
        return false;
    }
    if probe {
        out.bytes_mut()[..6].copy_from_slice(&group_mac(ALL_NODES).0);
    }
    message(out, ADVERTISEMENT, flags, target, destination, target, mac)
}

/// Makes `out` a question, to the group in which its owner listens, for the link-layer address of `target`. Whether the
/// addresses are IPv6.
pub fn request(sender: Ip, sender_mac: MacAddress, target: Ip, out: &mut Frame) -> bool {
    let group = solicited_node(target);
    out.fill(&compose::ethernet(group_mac(group), sender_mac, ether_type::IPV6));
    message(out, SOLICITATION, 0, sender, group, target, sender_mac)
}

/// Makes `out` an announcement to all nodes that `address` is at `mac`. Whether the address is IPv6.
pub fn announce(address: Ip, mac: MacAddress, router: bool, out: &mut Frame) -> bool {
    out.fill(&compose::ethernet(group_mac(ALL_NODES), mac, ether_type::IPV6));
    let flags = OVERRIDE | if router { ROUTER } else { 0 };
    message(out, ADVERTISEMENT, flags, address, ALL_NODES, address, mac)
}

/// Appends the IPv6 packet to an Ethernet header.
fn message(out: &mut Frame, kind: u8, flags: u8, source: Ip, destination: Ip, target: Ip, mac: MacAddress) -> bool {
    let ip = IpHeader { source, destination, protocol: protocol::ICMPV6, hop_limit: HOP_LIMIT, traffic_class: 0 };
    // An IPv4 address here would make an IPv4 header, which is shorter than what follows expects.
    if source.is_v4() || destination.is_v4() || !ip.append(out, MESSAGE) {
        return false;
    }
    let l4 = out.len();
    let option = if kind == SOLICITATION { SOURCE_LINK_ADDRESS } else { TARGET_LINK_ADDRESS };
    let mut bytes = [0; MESSAGE];
    bytes[0] = kind;
    bytes[4] = flags;
    bytes[8..24].copy_from_slice(&target.0.to_be_bytes());
    bytes[24..26].copy_from_slice(&[option, 1]);
    bytes[26..].copy_from_slice(&mac.0);
    out.append(&bytes);
    compose::finish_checksum(out, l4, 2, &ip);
    true
}

/// Where the options of a message start, counted from the ICMPv6 header. Router messages carry the sender's address too.
const fn options_start(kind: u8) -> Option<usize> {
    match kind {
        ROUTER_SOLICITATION => Some(8),
        ROUTER_ADVERTISEMENT => Some(16),
        SOLICITATION | ADVERTISEMENT => Some(24),
        REDIRECT => Some(40),
        _ => None,
    }
}

/// Where in the frame the Ethernet address of an option is, if the message has such an option.
fn link_address_at(frame: &[u8], headers: &Headers) -> Option<usize> {
    let is_icmp = headers.ether_type == ether_type::IPV6 && headers.id.protocol == protocol::ICMPV6;
    if !is_icmp || headers.fragment != Fragment::Whole || headers.hop_limit != HOP_LIMIT {
        return None;
    }
    let l4 = usize::from(headers.l4);
    let message = frame.get(l4..headers.end as usize)?;
    let mut at = options_start(*message.first()?)?;
    loop {
        let (kind, units) = (*message.get(at)?, usize::from(*message.get(at + 1)?));
        if matches!(kind, SOURCE_LINK_ADDRESS | TARGET_LINK_ADDRESS) && units == 1 {
            return message.get(at + 2..at + 8).map(|_| l4 + at + 2);
        }
        // An option without a length would be read for ever.
        at += Some(units * 8).filter(|length| *length > 0)?;
    }
}

/// The link-layer address that a neighbour or router message tells, if it tells one.
pub fn link_address(frame: &[u8], headers: &Headers) -> Option<MacAddress> {
    let at = link_address_at(frame, headers)?;
    frame.get(at..)?.first_chunk().copied().map(MacAddress)
}

/// Changes the link-layer address that a neighbour or router message tells, and its checksum. Whether it tells one.
pub fn set_link_address(frame: &mut [u8], headers: &Headers, mac: MacAddress) -> bool {
    let Some(at) = link_address_at(frame, headers) else {
        return false;
    };
    let field = &mut frame[at..at + 6];
    let difference = checksum::difference(checksum::sum(field), checksum::sum(&mac.0));
    field.copy_from_slice(&mac.0);
    compose::adjust_checksum(frame, usize::from(headers.l4) + 2, difference);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: MacAddress = MacAddress([0, 0x15, 0x5d, 0, 0, 1]);
    const ANSWERER: MacAddress = MacAddress([0, 0x15, 0x5d, 0, 0, 2]);
    const HERE: Ip = Ip(0xfd00 << 112 | 1);
    const THERE: Ip = Ip(0xfd00 << 112 | 0xab_cdef);

    fn is_sound(frame: &Frame) -> Headers {
        let headers = Headers::parse(frame.bytes()).unwrap();
        let l4 = &frame.bytes()[usize::from(headers.l4)..];
        let ip = &frame.bytes()[usize::from(headers.l3)..];
        let address = |at: usize| Ip(u128::from_be_bytes(*ip[at..].first_chunk().unwrap()));
        let pseudo = checksum::pseudo_header(address(8), address(24), protocol::ICMPV6, l4.len() as u32);
        assert_eq!(checksum::add(pseudo, checksum::sum(l4)), 0xffff);
        headers
    }

    fn asked(sender: Ip) -> (Frame, Headers) {
        let mut frame = Frame::default();
        request(sender, ASKER, THERE, &mut frame);
        let headers = is_sound(&frame);
        (frame, headers)
    }

    #[test]
    fn a_question_goes_to_the_group_of_its_target() {
        let (frame, headers) = asked(HERE);
        assert_eq!(headers.destination_mac.to_string(), "33-33-FF-AB-CD-EF");
        assert_eq!((headers.id.source, headers.id.destination), (HERE, THERE));
        assert_eq!(link_address(frame.bytes(), &headers), Some(ASKER));
    }

    #[test]
    fn a_question_is_answered_to_who_asked() {
        let (frame, headers) = asked(HERE);
        let mut out = Frame::default();
        assert!(answer(frame.bytes(), &headers, ANSWERER, true, &mut out));
        let headers = is_sound(&out);
        assert_eq!(headers.kind, Kind::Neighbour { request: false });
        assert_eq!((headers.destination_mac, headers.id.source), (ASKER, THERE));
        assert_eq!(out.bytes()[usize::from(headers.l4) + 4], ROUTER | SOLICITED | OVERRIDE);
        assert_eq!(link_address(out.bytes(), &headers), Some(ANSWERER));
        assert!(!answer(out.bytes(), &headers, ANSWERER, true, &mut Frame::default()), "an answer is not answered");
    }

    #[test]
    fn who_looks_for_a_duplicate_is_answered_through_all_nodes() {
        let (frame, headers) = asked(Ip::NONE);
        let mut out = Frame::default();
        assert!(answer(frame.bytes(), &headers, ANSWERER, false, &mut out));
        let headers = is_sound(&out);
        assert_eq!(headers.destination_mac.to_string(), "33-33-00-00-00-01");
        assert_eq!(out.bytes()[usize::from(headers.l3) + 24..][..16], ALL_NODES.0.to_be_bytes());
        assert_eq!(out.bytes()[usize::from(headers.l4) + 4], OVERRIDE);
    }

    #[test]
    fn the_link_address_is_changed_with_the_checksum() {
        let (mut frame, headers) = asked(HERE);
        assert!(set_link_address(frame.bytes_mut(), &headers, ANSWERER));
        assert_eq!(link_address(frame.bytes(), &is_sound(&frame)), Some(ANSWERER));
    }

    #[test]
    fn an_option_without_a_length_ends_the_search() {
        let (mut frame, headers) = asked(HERE);
        let at = usize::from(headers.l4) + 24;
        frame.bytes_mut()[at..at + 2].copy_from_slice(&[9, 0]);
        assert_eq!(link_address(frame.bytes(), &headers), None);
    }
}
