use std::net::IpAddr;

use super::*;

/// Whether a program takes a frame, with a tag or without one.
fn takes(program: &[sock_filter], frame: &[u8], tagged: bool) -> bool {
    takes_behind(program, frame, tagged.then_some((ether_type::VLAN, 7)))
}

/// Runs a program on a frame as the kernel does, and answers whether the frame is taken. A load behind the end of the frame
/// leaves it out. The type of a tag and its number with its priority are what the kernel took out.
fn takes_behind(program: &[sock_filter], frame: &[u8], tag: Option<(u16, u16)>) -> bool {
    let load = |at: usize, length: usize| {
        let bytes = frame.get(at..at + length)?;
        Some(bytes.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte)))
    };
    let (mut a, mut x, mut at) = (0, 0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let loaded = match u32::from(code) {
            LOAD_WORD if k == VLAN_TAG_PRESENT => Some(u32::from(tag.is_some())),
            LOAD_WORD if k == VLAN_TAG => tag.map(|(_, number)| u32::from(number)),
            LOAD_WORD if k == VLAN_TYPE => tag.map(|(kind, _)| u32::from(kind)),
            AND => Some(a & k),
            LOAD_BYTE => load(k as usize, 1),
            LOAD_HALF => load(k as usize, 2),
            LOAD_WORD => load(k as usize, 4),
            LOAD_HALF_BEHIND => load((k + x) as usize, 2),
            LOAD_IPV4_LENGTH => load(k as usize, 1).map(|byte| {
                x = 4 * (byte & 15);
                a
            }),
            IF_EQUAL => {
                at += usize::from(if a == k { jt } else { jf });
                continue;
            }
            IF_ANY_BIT => {
                at += usize::from(if a & k != 0 { jt } else { jf });
                continue;
            }
            JUMP => {
                at += k as usize;
                continue;
            }
            RETURN => return k != 0,
            other => panic!("unknown instruction {other:#x}"),
        };
        match loaded {
            Some(value) => a = value,
            None => return false,
        }
    }
}

fn datagram(to: SocketAddr) -> Vec<u8> {
    let mut frame = vec![2; 12];
    match to.ip() {
        IpAddr::V4(address) => {
            frame.extend([0x08, 0x00, 0x46, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1]);
            frame.extend(address.octets());
            frame.extend([1; 4]);
        }
        IpAddr::V6(address) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            frame.extend([0xfd; 16]);
            frame.extend(address.octets());
        }
    }
    frame.extend([0x12, 0xb5]);
    frame.extend(to.port().to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame
}

fn address(number: u16) -> SocketAddr {
    let ip = match number % 2 {
        0 => IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + u32::from(number))),
        _ => IpAddr::from(Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(number))),
    };
    SocketAddr::new(ip, 4789)
}

#[test]
fn only_what_is_named_is_left_out_however_much_that_is() {
    let datagrams: Vec<_> = (0..300).map(address).collect();
    let program = program(Share::Whole, &LeftOut { datagrams: datagrams.clone(), sources: vec![] });
    assert!(program.len() < 4096, "the kernel takes that many");
    for to in &datagrams {
        assert!(!takes(&program, &datagram(*to), false), "{to}");
        assert!(takes(&program, &datagram(*to), true), "{to} behind a tag");
        assert!(takes(&program, &datagram(SocketAddr::new(to.ip(), 4790)), false), "another port of {to}");
    }
    for number in 300..310 {
        assert!(takes(&program, &datagram(address(number)), false), "{}", address(number));
    }
}

#[test]
fn fragments_and_other_protocols_are_taken() {
    let program = program(Share::Whole, &LeftOut { datagrams: vec![address(0), address(1)], sources: vec![] });
    for (number, at, value) in [(0, 20, 0x20), (0, 21, 0x01), (0, 23, 6), (1, 20, 44), (1, 20, 6)] {
        let mut frame = datagram(address(number));
        frame[at] = value;
        assert!(takes(&program, &frame, false), "byte {at} is {value}");
    }
    let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
    assert!(takes(&program, &arp, false));
    assert!(takes(&program, &arp[..14], false));
}

#[test]
fn senders_are_left_out() {
    let sources = vec![MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 1, 1])];
    let program = program(Share::Whole, &LeftOut { datagrams: vec![], sources: sources.clone() });
    let frame = |source: MacAddress| [&[0xff; 6][..], &source.0, &[8, 6], &[0; 28]].concat();
    assert!(sources.iter().all(|source| !takes(&program, &frame(*source), false)));
    for other in [[2, 0, 0, 0, 0, 2], [3, 0, 0, 0, 0, 1]] {
        assert!(takes(&program, &frame(MacAddress(other)), false));
    }
}

#[test]
fn each_share_has_its_own_frames() {
    let arp = [&[0xff; 6][..], &[2; 6], &[8, 6], &[0; 28]].concat();
    let with_priority = 0x6000;
    let tags = [
        None,
        Some((ether_type::VLAN, with_priority)),
        Some((ether_type::VLAN, 100)),
        Some((ether_type::VLAN, 100 | with_priority)),
        Some((ether_type::VLAN, 200)),
        Some((0x88a8, 100)),
    ];
    let table = [
        (Share::Whole, [true, true, true, true, true, true]),
        (Share::Untagged, [true, true, false, false, false, false]),
        (Share::Vlan(100), [false, false, true, true, false, false]),
        (Share::Vlan(200), [false, false, false, false, true, false]),
    ];
    for (share, expected) in table {
        let program = program(share, &LeftOut::default());
        assert_eq!(tags.map(|tag| takes_behind(&program, &arp, tag)), expected, "{share:?}");
    }
}
