//! Pushing the outer headers of a tunnel before a frame, and taking them off again.
//!
//! What travels outside is not cut on its way ("don't fragment" is set; RFC 7348, 4.3) and does not take part in congestion
//! marking: the ECN bits outside are zero (the compatibility mode of RFC 6040). Over IPv4 the outer UDP checksum is zero,
//! as is usual; over IPv6 it is computed, since receivers drop a zero there unless told otherwise (RFC 6935).

use crate::compose::{self, IpHeader};
use crate::geneve::{self, Geneve};
use crate::number::protocol;
use crate::stt::{self, Segment, Stt};
use crate::vxlan::{self, Vxlan};
use crate::{Checksum, Encapsulation, Fragment, Frame, Headers, Kind, MacAddress, Malformed, Offload, TunnelKind, checksum};

/// The outer headers apart from those that make the [`Encapsulation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outer {
    /// Our address towards the other side.
    pub source_mac: MacAddress,
    /// The address of the next hop.
    pub destination_mac: MacAddress,
    /// The transport port to send from. It should follow from the flow inside, so that networks spread flows over paths.
    pub source_port: u16,
    /// How many routers it may cross.
    pub hop_limit: u8,
    /// The class of service, of six bits.
    pub dscp: u8,
    /// What tells frames apart whose pieces are under way at the same time; of use to STT only.
    pub id: u32,
}

const ETHERNET: usize = 14;
const UDP: usize = 8;

/// The most bytes that [`push`] puts before a frame.
pub const OUTER_MAX: usize = ETHERNET + 40 + stt::SEGMENT_LENGTH + stt::LENGTH;

/// How many bytes [`push`] puts before a frame.
pub const fn length(tunnel: &Encapsulation) -> usize {
    let ip = if tunnel.local.is_v4() { 20 } else { 40 };
    ETHERNET
        + ip
        + match tunnel.kind {
            TunnelKind::Vxlan => UDP + vxlan::LENGTH,
            TunnelKind::Geneve => UDP + geneve::LENGTH,
            TunnelKind::Stt => stt::SEGMENT_LENGTH + stt::LENGTH,
        }
}

/// Wraps a frame.
///
/// A frame that is still to be cut travels in STT only, which says so in its header; for the others it must be cut first.
/// An inner checksum that is still partial stays so: in VXLAN and Geneve the request stays with the frame, its offsets
/// moved; in STT it travels in the header, and the request is then for the outer checksum. If the way is too narrow for an
/// STT frame, ask for it to be cut as TCP: the pieces are then what STT wants them to be.
///
/// On an error the frame may already have grown, and is of no more use.
pub fn push(frame: &mut Frame, tunnel: &Encapsulation, outer: &Outer) -> Result<(), Malformed> {
    if tunnel.local.is_v4() != tunnel.remote.is_v4() {
        return Err(Malformed::IpVersion);
    }
    match tunnel.kind {
        TunnelKind::Vxlan => push_udp(frame, tunnel, outer, &Vxlan { vni: tunnel.vni }.emit()),
        TunnelKind::Geneve => push_udp(frame, tunnel, outer, &Geneve::ethernet(tunnel.vni).emit()),
        TunnelKind::Stt => push_stt(frame, tunnel, outer),
    }
}

fn push_udp(frame: &mut Frame, tunnel: &Encapsulation, outer: &Outer, header: &[u8]) -> Result<(), Malformed> {
    if frame.offload.segmentation.is_some() {
        return Err(Malformed::Segmentation);
    }
    prepend(frame, header)?;
    let length = u16::try_from(UDP + frame.len()).map_err(|_| Malformed::IpLength)?;
    let mut udp = [0; UDP];
    udp[..2].copy_from_slice(&outer.source_port.to_be_bytes());
    udp[2..4].copy_from_slice(&tunnel.port.to_be_bytes());
    udp[4..6].copy_from_slice(&length.to_be_bytes());
    prepend(frame, &udp)?;
    if !tunnel.local.is_v4() {
        let sum = checksum::pseudo_header(tunnel.local, tunnel.remote, protocol::UDP, u32::from(length));
        let field = match !checksum::add(sum, future_sum(frame)?) {
            0 => 0xffff,
            field => field,
        };
        frame.bytes_mut()[6..8].copy_from_slice(&field.to_be_bytes());
    }
    push_network(frame, tunnel, outer, protocol::UDP)
}

/// The sum that the bytes of a frame will have when its partial checksum is completed.
///
/// A transport header with its checksum and payload sums up to the opposite of its pseudo-header, whatever they are, and
/// the pseudo-header's sum is what the field holds until then. So the payload need not be looked at.
fn future_sum(frame: &Frame) -> Result<u16, Malformed> {
    let bytes = frame.bytes();
    let Checksum::Partial { start, field } = frame.offload.checksum else {
        return Ok(checksum::sum(bytes));
    };
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(field));
    let field = bytes.get(at..at + 2).filter(|_| start % 2 == 0).ok_or(Malformed::Segmentation)?;
    Ok(checksum::add(checksum::sum(&bytes[..start]), !u16::from_be_bytes([field[0], field[1]])))
}

fn push_stt(frame: &mut Frame, tunnel: &Encapsulation, outer: &Outer) -> Result<(), Malformed> {
    let headers = Headers::parse(frame.bytes()).ok();
    let header = Stt { context: u64::from(tunnel.vni), vlan: None, offload: frame.offload };
    let header = header.emit(headers.as_ref()).ok_or(Malformed::Segmentation)?;
    frame.offload = Offload::NONE;
    prepend(frame, &header)?;
    let frame_length = u16::try_from(frame.len()).map_err(|_| Malformed::IpLength)?;
    let segment = Segment { source_port: outer.source_port, destination_port: tunnel.port, frame_length, offset: 0, id: outer.id }.emit();
    prepend(frame, &segment)?;
    let length = frame.len() as u32;
    let sum = checksum::pseudo_header(tunnel.local, tunnel.remote, protocol::TCP, length);
    frame.bytes_mut()[16..18].copy_from_slice(&sum.to_be_bytes());
    frame.offload.checksum = Checksum::Partial { start: 0, field: 16 };
    push_network(frame, tunnel, outer, protocol::TCP)
}

fn push_network(frame: &mut Frame, tunnel: &Encapsulation, outer: &Outer, protocol: u8) -> Result<(), Malformed> {
    let ip =
        IpHeader { source: tunnel.local, destination: tunnel.remote, protocol, hop_limit: outer.hop_limit, traffic_class: outer.dscp << 2 };
    let header = ip.emit(frame.len()).ok_or(Malformed::IpLength)?;
    prepend(frame, &header[..ip.len()])?;
    prepend(frame, &compose::ethernet(outer.destination_mac, outer.source_mac, ip.ether_type()))
}

fn prepend(frame: &mut Frame, bytes: &[u8]) -> Result<(), Malformed> {
    frame.push(bytes.len()).ok_or(Malformed::IpLength)?.copy_from_slice(bytes);
    Ok(())
}

/// Unwraps a frame: `headers` are its own, and `kind` is what listens on the transport port it came to. Afterwards the
/// frame is the one inside. The answer is how it was wrapped, with our side as the local one.
///
/// An outer checksum that is there must be right, unless the device has verified it or the sender is on this machine and
/// left it open. What the frame inside asks for is not looked at: [`Headers::check_offload`] has to be asked, as for any
/// other frame. On an error the frame is of no more use.
pub fn pop(frame: &mut Frame, headers: &Headers, kind: TunnelKind) -> Result<Encapsulation, Malformed> {
    let protocol = if kind == TunnelKind::Stt { protocol::TCP } else { protocol::UDP };
    if headers.kind != Kind::Ip || headers.id.protocol != protocol || headers.fragment != Fragment::Whole {
        return Err(Malformed::Tunnel);
    }
    verify(frame, headers)?;
    let vni = match kind {
        TunnelKind::Stt => {
            let (segment, _) = Segment::parse(frame.bytes().get(usize::from(headers.l4)..).unwrap_or_default())?;
            let length = (headers.end as usize).saturating_sub(usize::from(headers.payload));
            // A piece of a larger frame is for the reassembler.
            if segment.offset != 0 || usize::from(segment.frame_length) != length {
                return Err(Malformed::Tunnel);
            }
            frame.truncate(headers.end as usize);
            frame.pull(usize::from(headers.payload))?;
            open_stt(frame)?
        }
        TunnelKind::Vxlan | TunnelKind::Geneve => pop_udp(frame, headers, kind)?,
    };
    Ok(Encapsulation { kind, vni, local: headers.id.destination, remote: headers.id.source, port: headers.id.destination_port })
}

/// Checks the outer transport checksum where there is one to check.
pub(crate) fn verify(frame: &Frame, headers: &Headers) -> Result<(), Malformed> {
    let (l4, udp) = (usize::from(headers.l4), headers.id.protocol == protocol::UDP);
    let bytes = frame.bytes().get(l4..headers.end as usize).ok_or(Malformed::Truncated)?;
    let field = if udp { 6 } else { 16 };
    let absent = udp && bytes.get(field..field + 2) == Some(&[0, 0]);
    // A request about the inner frame leaves the outer checksum such that it will be right; who made both is on this machine.
    if absent || frame.offload.checksum != Checksum::Complete {
        return Ok(());
    }
    let length = match bytes.get(4..6) {
        Some([high, low]) if udp => usize::from(u16::from_be_bytes([*high, *low])),
        _ => bytes.len(),
    };
    let covered = bytes.get(..length).ok_or(Malformed::TransportLength)?;
    let pseudo = checksum::pseudo_header(headers.id.source, headers.id.destination, headers.id.protocol, length as u32);
    match checksum::add(pseudo, checksum::sum(covered)) {
        0xffff => Ok(()),
        _ => Err(Malformed::Tunnel),
    }
}

fn pop_udp(frame: &mut Frame, headers: &Headers, kind: TunnelKind) -> Result<u32, Malformed> {
    // Several datagrams that were merged into one frame have a tunnel header each.
    if frame.offload.segmentation.is_some() {
        return Err(Malformed::Segmentation);
    }
    let l4 = usize::from(headers.l4);
    let udp = frame.bytes().get(l4..).and_then(|bytes| bytes.first_chunk::<UDP>()).ok_or(Malformed::Truncated)?;
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    frame.truncate(l4 + length);
    frame.pull(usize::from(headers.payload))?;
    let (vni, header) = match kind {
        TunnelKind::Geneve => {
            let header = Geneve::parse(frame.bytes())?;
            if header.control || header.protocol != geneve::ETHERNET {
                return Err(Malformed::Tunnel);
            }
            (header.vni, header.len())
        }
        TunnelKind::Vxlan | TunnelKind::Stt => (Vxlan::parse(frame.bytes())?.vni, vxlan::LENGTH),
    };
    frame.pull(header)?;
    // What was verified, or left open, was the outer checksum.
    if frame.offload.checksum == Checksum::Verified {
        frame.offload.checksum = Checksum::Complete;
    }
    Ok(vni)
}

/// Takes the STT header off an STT frame, as [`Reassembler`](crate::stt::Reassembler) completes it, and answers its
/// network.
pub fn open_stt(frame: &mut Frame) -> Result<u32, Malformed> {
    let header = Stt::parse(frame.bytes())?;
    let vni = u32::try_from(header.context).map_err(|_| Malformed::Tunnel)?;
    frame.pull(stt::LENGTH)?;
    frame.offload = header.offload;
    if let Some(tag) = header.vlan {
        insert_tag(frame, tag)?;
    }
    Ok(vni)
}

/// Puts a tag, carried outside, into the frame where it belongs.
fn insert_tag(frame: &mut Frame, tag: u16) -> Result<(), Malformed> {
    const MACS: usize = 12;
    if frame.len() < ETHERNET {
        return Err(Malformed::Truncated);
    }
    frame.push(4).ok_or(Malformed::IpLength)?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(4..4 + MACS, 0);
    bytes[MACS..MACS + 2].copy_from_slice(&crate::number::ether_type::VLAN.to_be_bytes());
    bytes[MACS + 2..MACS + 4].copy_from_slice(&tag.to_be_bytes());
    Ok(())
}
