//! Checksums that nobody has finished.
//!
//! Between namespaces of one machine, the kernel's own tunnels leave inner checksums to an adapter that never computes
//! them: veth. A UDP socket then delivers a frame whose checksum is the sum of the pseudo-header only, and does not say
//! so. Such a frame is as good as one from a TAP device, and is marked as that. It may also be longer than any wire takes.
//! How it was to be cut is lost as well; TCP does not mind if it is cut into other pieces than it was made of, so it is marked
//! to be cut into some that fit everywhere.
//!
//! On a wire, a damaged frame looks like this once in 65,536 times, if its outer checksum did not give it away before.

use wire::number::protocol;
use wire::{Checksum, Fragment, Frame, Headers, Kind, Segmentation, SegmentationKind, checksum};

/// The longest IP packet that is taken for one that was on a wire.
const WIRE: u32 = 1500;

/// The longest IP packet that every link carries.
const EVERYWHERE: u16 = 1280;

/// Marks the checksum of a frame as partial if that is what it is.
pub(super) fn mark(frame: &mut Frame) {
    let Ok(headers) = Headers::parse(frame.bytes()) else {
        return;
    };
    let field = match headers.id.protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return,
    };
    if headers.kind != Kind::Ip || headers.fragment != Fragment::Whole {
        return;
    }
    let Some(transport) = frame.bytes().get(usize::from(headers.l4)..headers.end as usize) else {
        return;
    };
    let pseudo = checksum::pseudo_header(headers.id.source, headers.id.destination, headers.id.protocol, transport.len() as u32);
    let unfinished = transport.get(field..field + 2) == Some(&pseudo.to_be_bytes());
    // The sum over everything is only needed where the field is suspect, which is next to never.
    if unfinished && checksum::add(pseudo, checksum::sum(transport)) != 0xffff {
        frame.offload.checksum = Checksum::Partial { start: headers.l4, field: field as u16 };
        frame.offload.segmentation = pieces(&headers);
    }
}

/// How a frame is cut that is too long for a wire. Only TCP is one stream, whatever its pieces.
fn pieces(headers: &Headers) -> Option<Segmentation> {
    if headers.id.protocol != protocol::TCP || headers.end - u32::from(headers.l3) <= WIRE {
        return None;
    }
    let kind = match headers.id.source.is_v4() {
        true => SegmentationKind::Tcp4 { ecn: false },
        false => SegmentationKind::Tcp6 { ecn: false },
    };
    let size = EVERYWHERE.checked_sub(headers.payload - headers.l3)?;
    Some(Segmentation { kind, size, header_length: headers.payload })
}
