//! Frames behind the header of virtio, as TAP devices and packet sockets exchange them.

use std::fs::File;
use std::io::{self, IoSlice, Write};

use wire::segment::{HEADERS_MAX, Segments};
use wire::{Frame, Headers, Malformed, virtio};

/// The header of old packet sockets, which lacks the two bytes at the end that no Linux uses.
pub(super) const LENGTH_OLD: usize = 10;

/// Makes a frame of `length` bytes that were read into the area behind a header of `prefix` bytes.
pub(super) fn received(frame: &mut Frame, prefix: usize, length: usize) -> Result<(), Malformed> {
    frame.received(prefix, length)?;
    let mut header = [0; virtio::LENGTH];
    header[..prefix].copy_from_slice(frame.prefix(prefix));
    frame.offload = virtio::decode(&header)?;
    Ok(())
}

/// Writes a frame behind a header of `prefix` bytes. If the kernel refuses to cut it, it is cut here.
pub(super) fn write(mut device: &File, prefix: usize, frame: &mut Frame) -> io::Result<()> {
    let header = virtio::encode(&frame.offload);
    let bytes = frame.with_prefix(&header[..prefix]).ok_or(io::ErrorKind::InvalidInput)?;
    match device.write(bytes) {
        Ok(_) => Ok(()),
        Err(error) if frame.offload.segmentation.is_some() && is_refusal(&error) => write_pieces(device, prefix, frame),
        Err(error) => Err(error),
    }
}

/// What an older kernel, or an adapter without the offload, says to a frame that is to be cut.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}

fn write_pieces(mut device: &File, prefix: usize, frame: &Frame) -> io::Result<()> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidData);
    let headers = Headers::parse(frame.bytes()).map_err(invalid)?;
    let segments = Segments::new(frame, &headers).map_err(invalid)?;
    let nothing_left = [0; virtio::LENGTH];
    let mut room = [0; HEADERS_MAX];
    for index in 0..segments.count() {
        let Some(payload) = segments.piece(index, &mut room) else {
            break;
        };
        let parts =
            [IoSlice::new(&nothing_left[..prefix]), IoSlice::new(&room[..segments.header_length()]), IoSlice::new(&frame.bytes()[payload])];
        // A device takes a frame whole or not at all.
        _ = device.write_vectored(&parts)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    use wire::{Checksum, Offload, Segmentation, SegmentationKind, checksum};

    use super::*;

    /// A UDP frame over IPv4 with 2500 bytes of payload, to be cut at 1000.
    fn large() -> Frame {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        bytes.extend([0x45, 0, 0x09, 0xe0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !checksum::sum(&bytes[14..]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([0, 7, 0, 9, 0x09, 0xcc, 0, 0]);
        bytes.extend((0..2500).map(|n| n as u8));
        let mut frame = Frame::from_bytes(&bytes);
        let segmentation = Segmentation { kind: SegmentationKind::Udp, size: 1000, header_length: 42 };
        frame.offload = Offload { checksum: Checksum::Partial { start: 34, field: 6 }, segmentation: Some(segmentation) };
        frame
    }

    #[test]
    fn what_the_kernel_does_not_cut_is_written_in_pieces() {
        for prefix in [LENGTH_OLD, virtio::LENGTH] {
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            let device = File::from(OwnedFd::from(ours));
            write_pieces(&device, prefix, &large()).unwrap();
            let mut payload = Vec::new();
            for _ in 0..3 {
                let mut piece = Frame::default();
                let length = theirs.recv(piece.receive_area(prefix)).unwrap();
                received(&mut piece, prefix, length).unwrap();
                assert_eq!(piece.offload, Offload::NONE);
                let headers = Headers::parse(piece.bytes()).unwrap();
                payload.extend_from_slice(&piece.bytes()[usize::from(headers.payload)..]);
            }
            assert_eq!(payload, (0..2500).map(|n| n as u8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_request_that_does_not_fit_is_an_error() {
        let mut frame = large();
        frame.truncate(50);
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        let error = write_pieces(&File::from(OwnedFd::from(ours)), virtio::LENGTH, &frame).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
