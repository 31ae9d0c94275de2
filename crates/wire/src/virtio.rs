//! The header that TAP devices and packet sockets put before a frame (`struct virtio_net_hdr_v1`, little endian).

use crate::Malformed;
use crate::offload::{Checksum, Offload, Segmentation, SegmentationKind};

/// Its length.
pub const LENGTH: usize = 12;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

/// Reads the header.
pub fn decode(header: &[u8; LENGTH]) -> Result<Offload, Malformed> {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let checksum = match header[0] {
        flags if flags & NEEDS_CHECKSUM != 0 => Checksum::Partial { start: word(6), field: word(8) },
        flags if flags & DATA_VALID != 0 => Checksum::Verified,
        _ => Checksum::Complete,
    };
    let ecn = header[1] & ECN != 0;
    let kind = match header[1] & !ECN {
        0 => return Ok(Offload { checksum, segmentation: None }),
        TCP4 => SegmentationKind::Tcp4 { ecn },
        TCP6 => SegmentationKind::Tcp6 { ecn },
        UDP => SegmentationKind::Udp,
        _ => return Err(Malformed::Segmentation),
    };
    match word(4) {
        0 => Err(Malformed::Segmentation),
        size => Ok(Offload { checksum, segmentation: Some(Segmentation { kind, size, header_length: word(2) }) }),
    }
}

/// Writes the header.
pub fn encode(offload: &Offload) -> [u8; LENGTH] {
    let mut header = [0; LENGTH];
    match offload.checksum {
        Checksum::Complete => {}
        Checksum::Verified => header[0] = DATA_VALID,
        Checksum::Partial { start, field } => {
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&start.to_le_bytes());
            header[8..10].copy_from_slice(&field.to_le_bytes());
        }
    }
    if let Some(segmentation) = &offload.segmentation {
        let ecn = |flag: bool| if flag { ECN } else { 0 };
        header[1] = match segmentation.kind {
            SegmentationKind::Tcp4 { ecn: flag } => TCP4 | ecn(flag),
            SegmentationKind::Tcp6 { ecn: flag } => TCP6 | ecn(flag),
            SegmentationKind::Udp => UDP,
        };
        header[2..4].copy_from_slice(&segmentation.header_length.to_le_bytes());
        header[4..6].copy_from_slice(&segmentation.size.to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_circle() {
        let checksums = [Checksum::Complete, Checksum::Verified, Checksum::Partial { start: 34, field: 16 }];
        let kinds = [SegmentationKind::Tcp4 { ecn: true }, SegmentationKind::Tcp6 { ecn: false }, SegmentationKind::Udp];
        for checksum in checksums {
            assert_eq!(decode(&encode(&Offload { checksum, segmentation: None })), Ok(Offload { checksum, segmentation: None }));
            for kind in kinds {
                let offload = Offload { checksum, segmentation: Some(Segmentation { kind, size: 1448, header_length: 66 }) };
                assert_eq!(decode(&encode(&offload)), Ok(offload));
            }
        }
    }

    #[test]
    fn unknown_rules_and_empty_pieces_are_refused() {
        let mut header = [0; LENGTH];
        header[1] = 3;
        assert_eq!(decode(&header), Err(Malformed::Segmentation));
        header[1] = TCP4;
        assert_eq!(decode(&header), Err(Malformed::Segmentation));
    }
}
