//! A pcapng stream as it comes in, block by block.

use std::io::{self, Read};

/// No block of ours is longer.
const LONGEST: usize = 1 << 20;

/// What stands before the body of a block: its type and its length.
const HEAD: usize = 8;

/// The next block, whole; none after the last.
pub(super) fn next(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    match stream.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        outcome => outcome?,
    }
    let [.., a, b, c, d] = head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if !(HEAD + 4..=LONGEST).contains(&length) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a block of {length} bytes is none of ours")));
    }
    let mut block = head.to_vec();
    block.resize(length, 0);
    match stream.read_exact(&mut block[HEAD..]) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        outcome => outcome.map(|()| Some(block)),
    }
}

#[cfg(test)]
mod tests {
    use wire::pcapng;

    use super::*;

    #[test]
    fn a_stream_is_cut_at_its_blocks_and_ends_with_the_last_whole_one() {
        let mut bytes = Vec::new();
        pcapng::section(&mut bytes);
        let first = bytes.len();
        pcapng::interface(&mut bytes, "eth0");
        let mut stream = &bytes[..bytes.len() - 1];
        assert_eq!(next(&mut stream).unwrap().as_deref(), Some(&bytes[..first]));
        assert_eq!(next(&mut stream).unwrap(), None);
        assert!(next(&mut [0xff; 64].as_slice()).is_err());
    }
}
