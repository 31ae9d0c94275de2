//! ICMP errors, and the packets inside them.

use proptest::prelude::*;
use wire::icmp::{self, Problem};
use wire::{Embedded, FlowId, Frame, Headers, Ip, Kind, MacAddress};

use crate::judge::assert_sound;
use crate::sample::{Sample, Transport, good};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const GATEWAY4: Ip = Ip::v4(0x0a00_0001);
const GATEWAY6: Ip = Ip(0xfd00 << 112 | 1);

fn gateway(sample: &Sample) -> Ip {
    if sample.v4 { GATEWAY4 } else { GATEWAY6 }
}

fn problem() -> impl Strategy<Value = Problem> {
    prop_oneof![
        Just(Problem::NoRoute),
        Just(Problem::HostUnreachable),
        Just(Problem::PortUnreachable),
        Just(Problem::Prohibited),
        Just(Problem::HopLimit),
        any::<u16>().prop_map(|mtu| Problem::TooLarge { mtu }),
    ]
}

/// The bytes of the quoted packet as a frame of its own, so that its checksums can be judged.
fn unquoted(frame: &Frame, headers: &Headers) -> Vec<u8> {
    let mut bytes = frame.bytes()[..usize::from(headers.l3)].to_vec();
    bytes.extend(&frame.bytes()[usize::from(headers.payload)..]);
    bytes
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn an_error_is_sound_and_quotes_the_packet(sample in good(), problem in problem()) {
        let bytes = sample.bytes();
        let about = Headers::parse(&bytes).unwrap();
        let mut out = Frame::default();
        prop_assert!(icmp::error(&bytes, &about, problem, gateway(&sample), MAC, &mut out));
        assert_sound(out.bytes());
        let headers = Headers::parse(out.bytes()).unwrap();
        prop_assert_eq!(headers.kind, Kind::IcmpError);
        prop_assert_eq!((headers.id.source, headers.id.destination), (gateway(&sample), about.id.source));
        let size = headers.end as usize - usize::from(headers.l3);
        let most = if sample.v4 { 576 } else { 1280 };
        prop_assert!(size <= most);
        prop_assert_eq!(Embedded::parse(out.bytes(), &headers).unwrap().id, about.id);
        prop_assert!(!icmp::error(out.bytes(), &headers, problem, about.id.source, MAC, &mut Frame::default()), "about an error");
    }

    #[test]
    fn a_quoted_packet_is_changed_with_all_checksums(sample in good(), ports in any::<(u16, u16)>(), hosts in any::<(u16, u16)>()) {
        let sample = Sample { first_piece: false, padding: 0, payload: sample.payload[..sample.payload.len().min(300)].to_vec(), ..sample };
        let bytes = sample.bytes();
        let about = Headers::parse(&bytes).unwrap();
        let mut out = Frame::default();
        prop_assert!(icmp::error(&bytes, &about, Problem::NoRoute, gateway(&sample), MAC, &mut out));
        let headers = Headers::parse(out.bytes()).unwrap();
        let ports = if matches!(sample.transport, Transport::Echo) { (ports.0, ports.0) } else { ports };
        let address = |host: u16| if sample.v4 { Ip::v4(0xac10_0000 | u32::from(host)) } else { Ip(0xfd77 << 112 | u128::from(host)) };
        let id = FlowId {
            source: address(hosts.0),
            destination: address(hosts.1),
            source_port: ports.0,
            destination_port: ports.1,
            protocol: about.id.protocol,
        };
        let mut embedded = Embedded::parse(out.bytes(), &headers).unwrap();
        prop_assert!(embedded.rewrite(out.bytes_mut(), &headers, &id));
        prop_assert_eq!(embedded, Embedded::parse(out.bytes(), &headers).unwrap());
        prop_assert_eq!(embedded.id, id);
        assert_sound(out.bytes());
        assert_sound(&unquoted(&out, &headers));
        prop_assert!(embedded.rewrite(out.bytes_mut(), &headers, &about.id));
        let l3 = usize::from(headers.l3);
        prop_assert_eq!(&unquoted(&out, &headers)[l3..], &bytes[l3..], "and back");
    }

    #[test]
    fn a_quotation_may_end_behind_eight_bytes(sample in good(), host in any::<u16>()) {
        let bytes = sample.bytes();
        let about = Headers::parse(&bytes).unwrap();
        let shorter = (usize::from(about.l4) + 8).min(bytes.len());
        let cut = Headers { end: shorter as u32, ..about };
        let mut out = Frame::default();
        prop_assert!(icmp::error(&bytes, &cut, Problem::NoRoute, gateway(&sample), MAC, &mut out));
        let headers = Headers::parse(out.bytes()).unwrap();
        let mut embedded = Embedded::parse(out.bytes(), &headers).unwrap();
        prop_assert_eq!(embedded.id, about.id);
        let source = if sample.v4 { Ip::v4(u32::from(host)) } else { Ip(u128::from(host)) };
        let id = FlowId { source, ..about.id };
        prop_assert!(embedded.rewrite(out.bytes_mut(), &headers, &id));
        assert_sound(out.bytes());
    }
}

#[test]
fn nothing_is_said_about_groups_and_later_pieces() {
    let sample = Sample {
        v4: true,
        vlan: None,
        transport: Transport::Udp,
        ports: (1, 2),
        hosts: (1, 2),
        hop_limit: 9,
        options: 0,
        first_piece: false,
        dont_fragment: false,
        payload: vec![0; 100],
        padding: 0,
    };
    let good = sample.bytes();
    let told = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes[24..26].fill(0);
        let sum = !wire::checksum::sum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        let headers = Headers::parse(&bytes).unwrap();
        icmp::error(&bytes, &headers, Problem::NoRoute, GATEWAY4, MAC, &mut Frame::default())
    };
    assert!(told(&|_| {}));
    assert!(!told(&|bytes| bytes[0] = 1), "to an Ethernet group");
    assert!(!told(&|bytes| bytes[30] = 224), "to an IP group");
    assert!(!told(&|bytes| bytes[30..34].fill(255)), "to everybody");
    assert!(!told(&|bytes| bytes[26..30].fill(0)), "from nobody");
    assert!(!told(&|bytes| bytes[26] = 127), "from a loopback address");
    assert!(!told(&|bytes| bytes[21] = 1), "about a later piece");
}
