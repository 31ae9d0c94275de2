//! Cutting IPv4 packets.

use proptest::prelude::*;
use wire::fragment::{Fragmentation, fragment4};
use wire::{Fragment, Frame, Headers};

use crate::judge::assert_sound;
use crate::sample::good;

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn the_pieces_are_the_packet(sample in good(), mtu in 28..1700usize) {
        let mut bytes = sample.bytes();
        let headers = Headers::parse(&bytes).unwrap();
        bytes.truncate(headers.end as usize);
        let frame = Frame::from_bytes(&bytes);
        let own = Fragmentation::of(&bytes, &headers).unwrap();
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        let count = fragment4(&frame, &headers, mtu, &mut Frame::default(), |piece| pieces.push(piece.bytes().to_vec()));
        let header = usize::from(headers.l4 - headers.l3);
        let may = sample.v4 && !own.dont_fragment && mtu >= header + 8;
        prop_assert_eq!(count, may.then_some(pieces.len()));
        if !may {
            return Ok(());
        }
        let mut payload: Vec<u8> = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let read = Headers::parse(piece);
            // A first piece may be too small for the transport header, which the switch refuses to believe.
            if let Ok(read) = read {
                assert_sound(piece);
                let place = Fragmentation::of(piece, &read).unwrap();
                prop_assert_eq!(usize::from(place.offset), payload.len());
                prop_assert_eq!(place.more, number + 1 < pieces.len() || own.more);
                prop_assert_eq!(matches!(read.fragment, Fragment::Later { .. }), number > 0);
                prop_assert!(read.end as usize - usize::from(read.l3) <= mtu);
            }
            let l4 = usize::from(headers.l3) + usize::from(piece[usize::from(headers.l3)] & 15) * 4;
            payload.extend(&piece[l4..]);
        }
        prop_assert_eq!(&payload[..], &bytes[usize::from(headers.l4)..]);
    }
}
