//! Any bytes as a frame: read, printed, unwrapped, answered, cut.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use wire::icmp::{self, Problem};
use wire::outer::{self, Outer};
use wire::stt::Reassembler;
use wire::{
    Embedded, Encapsulation, FlowId, Frame, Headers, Ip, Kind, MacAddress, Printed, TunnelKind, arp, fragment, neighbour, pcapng, segment,
    tcp_reset, virtio,
};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

/// Frames to work in, made once, since making one costs more than all that is done with it.
struct Room {
    frame: Frame,
    changed: Frame,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::new(Room { frame: Frame::default(), changed: Frame::default() });
}

fuzz_target!(|input: &[u8]| {
    let _ = pcapng::blocks(input).count();
    let text = format!("{} {:#}", Printed(input), Printed(input));
    assert!(!text.is_empty());
    ROOM.with_borrow_mut(|room| try_frame(input, room));
});

fn try_frame(input: &[u8], Room { frame, changed }: &mut Room) {
    // A device's header before the frame decides what is left to do on it.
    let (offload, bytes) = match input.split_first_chunk::<{ virtio::LENGTH }>() {
        Some((header, rest)) if input.len() % 2 == 1 => (virtio::decode(header).unwrap_or_default(), rest),
        _ => (wire::Offload::NONE, input),
    };
    frame.fill(bytes);
    repair(frame);
    frame.offload = offload;
    let Ok(headers) = Headers::parse(frame.bytes()) else {
        return;
    };
    offsets_hold(frame.bytes(), &headers);
    wrap(frame, &headers, changed);
    unwrap(frame, &headers, changed);
    answer(frame.bytes(), &headers, changed);
    rewrite(frame, &headers, changed);
    cut(frame, &headers, changed);
}

/// Makes the checksum of an IPv4 header right, which chance hardly ever does.
fn repair(frame: &mut Frame) {
    let at = if frame.bytes().get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    let bytes = frame.bytes_mut();
    let length = bytes.get(at).map_or(0, |first| usize::from(first & 15) * 4);
    if let Some(header) = bytes.get_mut(at..at + length).filter(|header| header.len() >= 20 && header[0] >> 4 == 4) {
        header[10..12].fill(0);
        let sum = !wire::checksum::sum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Offsets are in order and in the frame, and reading without what follows the packet gives the same.
fn offsets_hold(bytes: &[u8], headers: &Headers) {
    assert!(headers.l3 <= headers.l4 && headers.l4 <= headers.payload);
    assert!(u32::from(headers.payload) <= headers.end && headers.end as usize <= bytes.len());
    assert_eq!(Headers::parse(bytes).as_ref(), Ok(headers));
    assert_eq!(Headers::parse(&bytes[..headers.end as usize]).as_ref(), Ok(headers));
}

fn wrap(frame: &Frame, headers: &Headers, wrapped: &mut Frame) {
    let kinds = [TunnelKind::Vxlan, TunnelKind::Geneve, TunnelKind::Stt];
    for (kind, addresses) in kinds.into_iter().flat_map(|kind| [(kind, (Ip::v4(1), Ip::v4(2))), (kind, (Ip(1), Ip(2)))]) {
        let tunnel = Encapsulation { kind, vni: 7, local: addresses.0, remote: addresses.1, port: 99 };
        wrapped.copy_from(frame);
        if headers.check_offload(frame).is_err() || outer::push(wrapped, &tunnel, &Outer { hop_limit: 64, ..Outer::default() }).is_err() {
            continue;
        }
        let outside = Headers::parse(wrapped.bytes()).expect("what we wrap can be read");
        let popped = outer::pop(wrapped, &outside, kind).expect("what we wrap can be unwrapped");
        assert_eq!((popped.vni, popped.local, popped.remote), (7, addresses.1, addresses.0));
        assert_eq!(wrapped.bytes(), frame.bytes());
    }
}

fn unwrap(frame: &Frame, headers: &Headers, unwrapped: &mut Frame) {
    for kind in [TunnelKind::Vxlan, TunnelKind::Geneve, TunnelKind::Stt] {
        unwrapped.copy_from(frame);
        if outer::pop(unwrapped, headers, kind).is_ok() {
            let _ = Headers::parse(unwrapped.bytes()).map(|inner| inner.check_offload(unwrapped));
        }
    }
    unwrapped.copy_from(frame);
    if Reassembler::default().accept(unwrapped, headers) == Ok(true) {
        let _ = outer::open_stt(unwrapped);
    }
}

fn answer(bytes: &[u8], headers: &Headers, out: &mut Frame) {
    let readable = |made: bool, out: &Frame| {
        if made {
            assert!(Headers::parse(out.bytes()).is_ok(), "{} to {}", Printed(out.bytes()), Printed(bytes));
        }
    };
    // The answers come from where the frame went, which must be an address that can send.
    let sendable = !headers.is_group() && !headers.id.destination.is_multicast();
    let made = arp::answer(bytes, headers, MAC, out);
    readable(made, out);
    let made = neighbour::answer(bytes, headers, MAC, true, out);
    readable(made, out);
    let made = tcp_reset(bytes, headers, out);
    readable(made && sendable, out);
    let made = icmp::echo_reply(bytes, headers, out);
    readable(made && sendable, out);
    let from = if headers.id.source.is_v4() { Ip::v4(1) } else { Ip(1) };
    for problem in [Problem::NoRoute, Problem::HopLimit, Problem::TooLarge { mtu: 1400 }] {
        if icmp::error(bytes, headers, problem, from, MAC, out) {
            let about = Headers::parse(out.bytes()).expect("an error can be read");
            assert_eq!(about.kind, Kind::IcmpError);
            if let Ok(embedded) = Embedded::parse(out.bytes(), &about) {
                assert_eq!((embedded.id.source, embedded.id.destination), (headers.id.source, headers.id.destination));
            }
        }
    }
}

/// Changing a quoted packet, or the hardware addresses in a message, and changing it back gives what was there.
fn rewrite(frame: &Frame, headers: &Headers, changed: &mut Frame) {
    changed.copy_from(frame);
    if let Ok(mut embedded) = Embedded::parse(frame.bytes(), headers) {
        let old = embedded.id;
        let flip = |ip: Ip| Ip(ip.0 ^ 0xff);
        let new = FlowId { source: flip(old.source), destination: flip(old.destination), source_port: !old.source_port, ..old };
        let did = embedded.rewrite(changed.bytes_mut(), headers, &new);
        assert!(!did || embedded.rewrite(changed.bytes_mut(), headers, &old));
        assert_eq!(Embedded::parse(changed.bytes(), headers).map(|read| read.id), Ok(old));
    }
    changed.copy_from(frame);
    if let Some(mac) = neighbour::link_address(frame.bytes(), headers) {
        assert!(neighbour::set_link_address(changed.bytes_mut(), headers, MAC));
        assert_eq!(neighbour::link_address(changed.bytes(), headers), Some(MAC));
        assert!(neighbour::set_link_address(changed.bytes_mut(), headers, mac));
    }
    arp::set_sender_mac(changed.bytes_mut(), headers, MAC);
    arp::set_target_mac(changed.bytes_mut(), headers, MAC);
}

fn cut(frame: &Frame, headers: &Headers, piece: &mut Frame) {
    let mut bytes = 0;
    let count = fragment::fragment4(frame, headers, 100, piece, |piece| bytes += piece.len());
    assert!(count.is_none() || bytes > 0);
    if let Ok(segments) = segment::Segments::new(frame, headers) {
        let mut room = [0; segment::HEADERS_MAX];
        for number in 0..segments.count().min(8) {
            assert!(segments.piece(number, &mut room).is_some());
        }
    }
    piece.copy_from(frame);
    if segment::complete_checksum(piece, headers).is_ok() {
        assert_eq!(Headers::parse(piece.bytes()).map(|read| read.id), Ok(headers.id));
    }
}
