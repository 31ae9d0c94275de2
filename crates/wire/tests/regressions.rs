//! What went wrong once, each with a sentence about it.

use wire::{Checksum, Fragment, Frame, Headers, Ip, Kind, MacAddress, Malformed, Offload, icmp, neighbour};

/// An IPv6 packet from fd00::1 to fd00::2.
fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next_header, 64]);
    bytes.extend((0xfd00u128 << 112 | 1).to_be_bytes());
    bytes.extend((0xfd00u128 << 112 | 2).to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2 with a right checksum.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    let sum = !wire::checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &header, payload].concat()
}

/// With a tag before something that is not IP, the transport header was said to start before the network header.
#[test]
fn offsets_of_tagged_frames_that_are_not_ip() {
    let frame = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 0x88, 0xcc, 1, 2];
    let headers = Headers::parse(&frame).unwrap();
    assert_eq!((headers.kind, headers.l3, headers.l4, headers.payload), (Kind::Other, 18, 18, 18));
}

/// A second fragment header, saying that nothing is missing, made the first piece of a packet pass for a whole one, and rules
/// for ports were then asked about a packet whose rest could say anything.
#[test]
fn a_second_fragment_header() {
    let udp = [0, 1, 0, 2, 0, 8, 0, 0];
    let first = [44, 0, 0, 1, 0, 0, 0, 9];
    let none = [17, 0, 0, 0, 0, 0, 0, 9];
    let one = Headers::parse(&ipv6(44, &[&[17, 0, 0, 1, 0, 0, 0, 9][..], &udp].concat())).unwrap();
    assert_eq!(one.fragment, Fragment::First { id: 9 });
    let two = Headers::parse(&ipv6(44, &[&first[..], &none, &udp].concat()));
    assert_eq!(two, Err(Malformed::ExtensionHeaders));
}

/// A neighbour message about an IPv4 address in IPv6 spelling became a flow of that IPv4 address.
#[test]
fn a_neighbour_message_about_an_ipv4_address() {
    let mut frame = Frame::default();
    neighbour::request(Ip(1), MacAddress([2, 0, 0, 0, 0, 1]), Ip(0xfd00 << 112 | 2), &mut frame);
    assert!(Headers::parse(frame.bytes()).is_ok());
    for target in [Ip::v4(0x0a00_0001), Ip(0xff02 << 112 | 1)] {
        let mut bytes = frame.bytes().to_vec();
        bytes[62..78].copy_from_slice(&target.0.to_be_bytes());
        assert_eq!(Headers::parse(&bytes), Err(Malformed::SourceAddress), "{target}");
    }
}

/// A request to complete the checksum of a later piece was found to fit, and would have written into its payload.
#[test]
fn a_partial_checksum_of_a_piece() {
    for (fragment, fits) in [(0x4000, true), (0x2000, false), (5, false)] {
        let mut frame = Frame::from_bytes(&ipv4(17, fragment, &[0, 1, 0, 2, 0, 8, 0, 0]));
        let headers = Headers::parse(frame.bytes()).unwrap();
        frame.offload = Offload { checksum: Checksum::Partial { start: headers.l4, field: 6 }, segmentation: None };
        assert_eq!(headers.check_offload(&frame).is_ok(), fits, "{fragment:04x}");
    }
}

/// An echo request went unanswered if a byte of its payload looked like the type of a redirect.
#[test]
fn an_echo_request_with_a_redirect_in_its_payload() {
    let frame = ipv6(58, &[&[128, 0, 0, 0, 0, 1, 0, 1][..], &[137; 100]].concat());
    let headers = Headers::parse(&frame).unwrap();
    assert!(icmp::echo_reply(&frame, &headers, &mut Frame::default()));
}
