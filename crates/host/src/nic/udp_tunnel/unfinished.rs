//! Checksums that nobody has finished.
//!
//! Between namespaces of one machine, the kernel's own tunnels leave inner checksums to an adapter that never computes
//! them: veth. A UDP socket then delivers a frame whose checksum is the sum of the pseudo-header only, and does not say
//! so. Such a frame is as good as one from a TAP device, and is marked as that. It may also be longer than any wire takes,
//! since how it was to be cut is lost as well; a TAP device takes it nevertheless.
//!
//! On a wire, a damaged frame looks like this once in 65,536 times, if its outer checksum did not give it away before.

use wire::number::protocol;
use wire::{Checksum, Fragment, Frame, Headers, Kind, checksum};

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
    }
}
