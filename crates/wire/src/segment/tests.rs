use super::*;
use crate::offload::{Offload, Segmentation, SegmentationKind};

/// A TCP frame over IPv4 to be cut at `size`, with a payload of `length` bytes that count upwards.
pub(crate) fn tcp4(flags: u8, length: usize, size: u16) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0];
    bytes.extend([0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let total = (20 + 20 + length) as u16;
    bytes[16..18].copy_from_slice(&total.to_be_bytes());
    write_ipv4_checksum(&mut bytes[14..34]);
    transport(bytes, flags, length, SegmentationKind::Tcp4 { ecn: false }, size)
}

/// The same over IPv6.
pub(crate) fn tcp6(flags: u8, length: usize, size: u16) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    let total = (20 + length) as u16;
    bytes.extend([0x60, 0, 0, 7, total.to_be_bytes()[0], total.to_be_bytes()[1], 6, 64]);
    bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    transport(bytes, flags, length, SegmentationKind::Tcp6 { ecn: false }, size)
}

fn transport(mut bytes: Vec<u8>, flags: u8, length: usize, kind: SegmentationKind, size: u16) -> Frame {
    let start = bytes.len();
    bytes.extend([0x30, 0x39, 0, 80, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    bytes.extend((0..length).map(|n| (n * 7) as u8));
    with_pseudo_header(bytes, start, 16, kind, size)
}

fn with_pseudo_header(mut bytes: Vec<u8>, start: usize, field: usize, kind: SegmentationKind, size: u16) -> Frame {
    let headers = Headers::parse(&bytes).unwrap();
    let length = (bytes.len() - start) as u32;
    let sum = checksum::pseudo_header(headers.id.source, headers.id.destination, headers.id.protocol, length);
    bytes[start + field..start + field + 2].copy_from_slice(&sum.to_be_bytes());
    let mut frame = Frame::from_bytes(&bytes);
    frame.offload = Offload {
        checksum: Checksum::Partial { start: start as u16, field: field as u16 },
        segmentation: Some(Segmentation { kind, size, header_length: headers.payload }),
    };
    frame
}

fn udp4(length: usize, size: u16) -> Frame {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0];
    bytes.extend([0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[16..18].copy_from_slice(&((28 + length) as u16).to_be_bytes());
    write_ipv4_checksum(&mut bytes[14..34]);
    bytes.extend([0x30, 0x39, 0, 53]);
    bytes.extend(((8 + length) as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend((0..length).map(|n| (n * 7) as u8));
    with_pseudo_header(bytes, 34, 6, SegmentationKind::Udp, size)
}

/// All pieces, as frames of their own.
pub(crate) fn pieces(frame: &Frame) -> Vec<Vec<u8>> {
    let headers = Headers::parse(frame.bytes()).unwrap();
    let segments = Segments::new(frame, &headers).unwrap();
    let mut room = [0xaa; HEADERS_MAX];
    let piece = |index| {
        let payload = segments.piece(index, &mut room).unwrap();
        [&room[..segments.header_length()], &frame.bytes()[payload]].concat()
    };
    let pieces = (0..segments.count()).map(piece).collect();
    assert_eq!(segments.piece(segments.count(), &mut room), None, "one more than there are");
    pieces
}

/// Whether the transport checksum of a complete frame is right.
pub(crate) fn is_right(bytes: &[u8]) -> bool {
    let headers = Headers::parse(bytes).unwrap();
    let transport = &bytes[usize::from(headers.l4)..headers.end as usize];
    let pseudo = checksum::pseudo_header(headers.id.source, headers.id.destination, headers.id.protocol, transport.len() as u32);
    checksum::add(pseudo, checksum::sum(transport)) == 0xffff
}

fn payload(piece: &[u8]) -> &[u8] {
    let headers = Headers::parse(piece).unwrap();
    &piece[usize::from(headers.payload)..headers.end as usize]
}

#[test]
fn pieces_of_tcp_have_everything_of_their_own() {
    use tcp_flag::{ACK, CWR, FIN, PSH};
    for frame in [tcp4(ACK | PSH | FIN | CWR, 2500, 1000), tcp6(ACK | PSH | FIN | CWR, 2500, 1000)] {
        let pieces = pieces(&frame);
        let l4 = usize::from(Headers::parse(frame.bytes()).unwrap().l4);
        let sequence: Vec<_> = pieces.iter().map(|piece| u32::from_be_bytes(*piece[l4 + 4..].first_chunk().unwrap())).collect();
        assert_eq!(sequence, [0xffff_ff00, 0xffff_ff00u32.wrapping_add(1000), 0xffff_ff00u32.wrapping_add(2000)]);
        let flags: Vec<_> = pieces.iter().map(|piece| piece[l4 + 13]).collect();
        assert_eq!(flags, [ACK | CWR, ACK, ACK | PSH | FIN]);
        let lengths: Vec<_> = pieces.iter().map(|piece| payload(piece).len()).collect();
        assert_eq!(lengths, [1000, 1000, 500]);
        assert!(pieces.iter().all(|piece| is_right(piece)), "a checksum is wrong");
        let whole: Vec<u8> = pieces.iter().flat_map(|piece| payload(piece).to_vec()).collect();
        assert_eq!(whole, payload(frame.bytes()));
    }
}

#[test]
fn the_identification_counts_upwards_and_wraps() {
    let pieces = pieces(&tcp4(tcp_flag::ACK, 3000, 1000));
    let ids: Vec<_> = pieces.iter().map(|piece| u16::from_be_bytes([piece[18], piece[19]])).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0]);
}

#[test]
fn another_judge_finds_the_pieces_sound() {
    for frame in [tcp4(tcp_flag::ACK, 3000, 1448), tcp6(tcp_flag::ACK, 3000, 1448), udp4(3000, 1200)] {
        for piece in pieces(&frame) {
            let packet = etherparse::PacketHeaders::from_ethernet_slice(&piece).unwrap();
            let (net, transport) = (packet.net.unwrap(), packet.transport.unwrap());
            let payload = packet.payload.slice();
            match (net, transport) {
                (etherparse::NetHeaders::Ipv4(ip, _), etherparse::TransportHeader::Tcp(tcp)) => {
                    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv4(&ip, payload).unwrap());
                }
                (etherparse::NetHeaders::Ipv6(ip, _), etherparse::TransportHeader::Tcp(tcp)) => {
                    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(&ip, payload).unwrap());
                }
                (etherparse::NetHeaders::Ipv4(ip, _), etherparse::TransportHeader::Udp(udp)) => {
                    assert_eq!(udp.checksum, udp.calc_checksum_ipv4(&ip, payload).unwrap());
                    assert_eq!(usize::from(udp.length), 8 + payload.len());
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn datagrams_without_a_checksum_stay_so() {
    let mut frame = udp4(2000, 800);
    frame.bytes_mut()[40..42].fill(0);
    frame.offload.checksum = Checksum::Complete;
    assert!(pieces(&frame).iter().all(|piece| piece[40..42] == [0, 0]));
}

#[test]
fn a_frame_that_fits_is_one_piece() {
    for length in [0, 1, 1000] {
        assert_eq!(pieces(&tcp4(tcp_flag::ACK, length, 1000)).len(), 1, "{length} bytes");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let frame = tcp4(tcp_flag::ACK, 2000, 1000);
    let headers = Headers::parse(frame.bytes()).unwrap();
    let refused = |frame: &Frame, headers: &Headers| Segments::new(frame, headers).err() == Some(Malformed::Segmentation);
    let mut plain = frame.clone();
    plain.offload.segmentation = None;
    assert!(refused(&plain, &headers), "nothing is to be cut");
    let mut shorter = frame.clone();
    shorter.truncate(60);
    assert!(refused(&shorter, &headers), "headers of a longer frame");
    assert!(refused(&frame, &Headers { payload: HEADERS_MAX as u16 + 1, ..headers }), "too many headers");
    assert!(refused(&frame, &Headers { l4: 30, ..headers }), "headers that overlap");
    assert!(refused(&tcp6(tcp_flag::ACK, 10, 5), &headers), "headers of another family");
    let segments = Segments::new(&frame, &headers).unwrap();
    assert_eq!(segments.piece(0, &mut [0; 53]), None, "too little room");
    assert_eq!(segments.piece(usize::MAX, &mut [0; 54]), None);
}

#[test]
fn a_partial_checksum_is_completed() {
    for mut frame in [tcp4(tcp_flag::ACK, 333, 0), tcp6(tcp_flag::ACK, 333, 0), udp4(333, 0)] {
        frame.offload.segmentation = None;
        // Padding is no part of the packet.
        frame.append(&[0xff; 7]);
        let headers = Headers::parse(frame.bytes()).unwrap();
        complete_checksum(&mut frame, &headers).unwrap();
        assert_eq!(frame.offload, Offload::NONE);
        assert!(is_right(frame.bytes()));
        let before = frame.bytes().to_vec();
        complete_checksum(&mut frame, &headers).unwrap();
        assert_eq!(frame.bytes(), before, "a complete checksum was changed");
    }
}

#[test]
fn a_udp_checksum_of_zero_is_written_as_its_other_form() {
    let mut frame = udp4(2, 0);
    frame.offload.segmentation = None;
    let headers = Headers::parse(frame.bytes()).unwrap();
    // Choose the payload so that the sum over everything is 0xffff, of which the complement is zero.
    frame.bytes_mut()[42..44].fill(0);
    let sum = checksum::sum(&frame.bytes()[34..]);
    frame.bytes_mut()[42..44].copy_from_slice(&(!sum).to_be_bytes());
    complete_checksum(&mut frame, &headers).unwrap();
    assert_eq!(frame.bytes()[40..42], [0xff, 0xff]);
}

#[test]
fn a_frame_still_to_be_cut_is_not_completed() {
    let mut frame = tcp4(tcp_flag::ACK, 2000, 1000);
    let headers = Headers::parse(frame.bytes()).unwrap();
    assert_eq!(complete_checksum(&mut frame, &headers), Err(Malformed::Segmentation));
}

#[test]
fn sctp_is_completed_its_own_way() {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0];
    bytes.extend([0x45, 0, 0, 36, 0, 1, 0, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    write_ipv4_checksum(&mut bytes[14..34]);
    bytes.extend([0, 7, 0, 9, 0, 0, 0, 1, 9, 9, 9, 9, 1, 2, 3, 4]);
    let mut frame = Frame::from_bytes(&bytes);
    frame.offload.checksum = Checksum::Partial { start: 34, field: 8 };
    let headers = Headers::parse(frame.bytes()).unwrap();
    complete_checksum(&mut frame, &headers).unwrap();
    bytes[42..46].fill(0);
    assert_eq!(frame.bytes()[42..46], crc32c::sum(&bytes[34..]).to_le_bytes());
}
