//! VLAN tags (IEEE 802.1Q): four bytes behind the hardware addresses of a frame.

use std::io;

use wire::number::ether_type;
use wire::{Frame, Malformed};

const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// A tag of a provider's network, outside of the customer's (802.1ad).
const PROVIDER_VLAN: u16 = 0x88a8;

/// Whether a frame has a tag.
pub(super) fn is_tagged(frame: &Frame) -> bool {
    let kind = frame.bytes().get(ADDRESSES..ADDRESSES + 2).map(|kind| u16::from_be_bytes([kind[0], kind[1]]));
    matches!(kind, Some(ether_type::VLAN | PROVIDER_VLAN))
}

/// Gives a frame a tag.
pub(super) fn push(frame: &mut Frame, tag: [u8; TAG]) -> Result<(), Malformed> {
    if frame.len() < ADDRESSES {
        return Err(Malformed::Truncated);
    }
    frame.push(TAG).ok_or(Malformed::Segmentation)?;
    let bytes = frame.bytes_mut();
    bytes.copy_within(TAG..TAG + ADDRESSES, 0);
    bytes[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
    Ok(())
}

/// Does something with a frame that has the tag of a VLAN meanwhile.
pub(super) fn with<T>(frame: &mut Frame, id: u16, action: impl FnOnce(&mut Frame) -> io::Result<T>) -> io::Result<T> {
    let ([high, low], [kind_high, kind_low]) = (id.to_be_bytes(), ether_type::VLAN.to_be_bytes());
    push(frame, [kind_high, kind_low, high, low]).map_err(|_| io::ErrorKind::InvalidData)?;
    let outcome = action(frame);
    frame.bytes_mut().copy_within(..ADDRESSES, TAG);
    frame.pull(TAG).map_err(|_| io::ErrorKind::InvalidData)?;
    outcome
}

#[cfg(test)]
mod tests {
    use wire::{Checksum, Headers, Offload, Segmentation, SegmentationKind};

    use super::*;

    #[test]
    fn a_frame_is_the_same_after_having_had_a_tag() {
        let bytes: Vec<u8> = [[1; 6], [2; 6]].concat().into_iter().chain([8, 0]).chain(0..40).collect();
        let mut frame = Frame::from_bytes(&bytes);
        let segmentation = Segmentation { kind: SegmentationKind::Udp, size: 1000, header_length: 42 };
        let offload = Offload { checksum: Checksum::Partial { start: 34, field: 6 }, segmentation: Some(segmentation) };
        frame.offload = offload;
        assert!(!is_tagged(&frame));
        let tagged = with(&mut frame, 100, |tagged| Ok((tagged.bytes().to_vec(), tagged.offload, is_tagged(tagged)))).unwrap();
        assert_eq!(tagged.0[..18], [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0, 100, 8, 0]);
        assert_eq!(tagged.1.checksum, Checksum::Partial { start: 38, field: 6 });
        assert!(tagged.2);
        assert_eq!((frame.bytes(), frame.offload), (bytes.as_slice(), offload));
    }

    #[test]
    fn a_frame_without_addresses_gets_no_tag() {
        let mut frame = Frame::from_bytes(&[1; 11]);
        assert!(with(&mut frame, 100, |_| Ok(())).is_err() && !is_tagged(&frame));
        assert!(Headers::parse(frame.bytes()).is_err());
    }
}
