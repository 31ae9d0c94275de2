//! Frames that answer frames.

use proptest::prelude::*;
use wire::number::{protocol, tcp_flag};
use wire::{Frame, Headers, Ip, MacAddress, arp, icmp, neighbour, tcp_reset};

use crate::judge::assert_sound;
use crate::sample::{Sample, Transport, good, whole};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn requests_of_arp_are_answered(sender in any::<u32>(), target in any::<u32>(), mac in any::<[u8; 5]>()) {
        let asker = MacAddress([0, mac[0], mac[1], mac[2], mac[3], mac[4]]);
        let (mut request, mut out) = (Frame::default(), Frame::default());
        arp::request(Ip::v4(sender), asker, Ip::v4(target), &mut request);
        assert_sound(request.bytes());
        let headers = Headers::parse(request.bytes()).unwrap();
        prop_assert_eq!(arp::answer(request.bytes(), &headers, MAC, &mut out), sender != target);
        if sender != target {
            assert_sound(out.bytes());
            let headers = Headers::parse(out.bytes()).unwrap();
            let answer = arp::Arp::parse(out.bytes(), &headers).unwrap();
            prop_assert_eq!((answer.sender_mac, answer.sender, answer.target_mac, answer.target), (MAC, Ip::v4(target), asker, Ip::v4(sender)));
            prop_assert_eq!(&answer.emit()[..], &out.bytes()[14..]);
        }
    }

    #[test]
    fn solicitations_are_answered(sender in any::<u64>(), target in any::<u64>(), router in any::<bool>(), probe in any::<bool>()) {
        let address = |host: u64| Ip(0xfd00 << 112 | u128::from(host));
        let sender = if probe { Ip::NONE } else { address(sender) };
        let (mut request, mut out) = (Frame::default(), Frame::default());
        prop_assert!(neighbour::request(sender, MAC, address(target), &mut request));
        assert_sound(request.bytes());
        let headers = Headers::parse(request.bytes()).unwrap();
        prop_assert!(neighbour::answer(request.bytes(), &headers, MAC, router, &mut out));
        assert_sound(out.bytes());
        let headers = Headers::parse(out.bytes()).unwrap();
        prop_assert!(neighbour::set_link_address(out.bytes_mut(), &headers, MacAddress([0xff, 1, 0xff, 2, 0, 0])));
        assert_sound(out.bytes());
        neighbour::announce(address(target), MAC, router, &mut out);
        assert_sound(out.bytes());
    }

    #[test]
    fn echo_requests_are_answered(sample in good()) {
        let bytes = sample.bytes();
        let headers = Headers::parse(&bytes).unwrap();
        let mut out = Frame::default();
        let answered = icmp::echo_reply(&bytes, &headers, &mut out);
        prop_assert_eq!(answered, matches!(sample.transport, Transport::Echo) && !sample.first_piece);
        if answered {
            assert_sound(out.bytes());
            prop_assert_eq!(Headers::parse(out.bytes()).unwrap().id, headers.id.reverse());
        }
    }

    #[test]
    fn segments_are_refused_with_the_numbers_their_sender_expects(sample in whole()) {
        let bytes = sample.bytes();
        let headers = Headers::parse(&bytes).unwrap();
        let mut out = Frame::default();
        let refused = tcp_reset(&bytes, &headers, &mut out);
        let Sample { transport: Transport::Tcp { flags, .. }, .. } = sample else {
            prop_assert!(!refused);
            return Ok(());
        };
        prop_assert_eq!(refused, flags & tcp_flag::RST == 0);
        if !refused {
            return Ok(());
        }
        assert_sound(out.bytes());
        let reset = Headers::parse(out.bytes()).unwrap();
        prop_assert_eq!(reset.id, headers.id.reverse());
        prop_assert_eq!(reset.id.protocol, protocol::TCP);
        let tcp = &out.bytes()[usize::from(reset.l4)..];
        let long = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let counted = (sample.payload.len() as u32) + u32::from(flags & 1) + u32::from(flags >> 1 & 1);
        match flags & tcp_flag::ACK {
            0 => prop_assert_eq!((long(4), long(8), tcp[13]), (0, 0x0102_0304 + counted, tcp_flag::RST | tcp_flag::ACK)),
            _ => prop_assert_eq!((long(4), long(8), tcp[13]), (0x0506_0708, 0, tcp_flag::RST)),
        }
    }
}
