//! Printing frames.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::outer::{self, Outer};
use wire::{Encapsulation, Frame, Headers, Ip, MacAddress, Printed, TunnelKind, icmp, neighbour};

use crate::sample::good;

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn any_bytes_can_be_printed(bytes in vec(any::<u8>(), 0..200)) {
        let text = format!("{} {:#}", Printed(&bytes), Printed(&bytes));
        prop_assert!(!text.is_empty());
    }

    #[test]
    fn damaged_packets_can_be_printed(sample in good(), damage in vec(any::<(u16, u8)>(), 0..6), kind in 0..4u8) {
        let mut frame = Frame::from_bytes(&sample.bytes());
        let (kind, port) = [(TunnelKind::Vxlan, 4789), (TunnelKind::Geneve, 6081), (TunnelKind::Stt, 7471), (TunnelKind::Vxlan, 1)][usize::from(kind)];
        let tunnel = Encapsulation { kind, vni: 7, local: Ip::v4(1), remote: Ip::v4(2), port };
        outer::push(&mut frame, &tunnel, &Outer::default()).unwrap();
        for (at, value) in damage {
            let at = usize::from(at) % frame.len();
            frame.bytes_mut()[at] = value;
        }
        let text = format!("{} {:#}", Printed(frame.bytes()), Printed(frame.bytes()));
        prop_assert!(!text.is_empty());
    }
}

fn udp() -> Frame {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 2]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
    builder.udp(53, 1000).write(&mut bytes, &[0; 5]).unwrap();
    Frame::from_bytes(&bytes)
}

fn tcp() -> Frame {
    let mut bytes = Vec::new();
    let builder = etherparse::PacketBuilder::ethernet2([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 2]).ipv6([0xfd; 16], [0xfe; 16], 64);
    builder.tcp(40000, 80, 7, 512).syn().ack(3).write(&mut bytes, &[]).unwrap();
    Frame::from_bytes(&bytes)
}

/// What is printed for frames of each kind, for a person to judge.
#[test]
fn lines() {
    let line = |frame: &Frame| Printed(frame.bytes()).to_string();
    let ends = "00-00-00-00-00-01 > 00-00-00-00-00-02";
    assert_eq!(line(&udp()), format!("{ends} | 10.0.0.1 > 10.0.0.2 ttl 9 | UDP 53 > 1000 length 5"));
    let six = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd > fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe";
    assert_eq!(line(&tcp()), format!("{ends} | {six} ttl 64 | TCP 40000 > 80 [S.] seq 7 ack 3 win 512 length 0"));

    let mut wrapped = udp();
    let tunnel = Encapsulation { kind: TunnelKind::Vxlan, vni: 4096, local: Ip::v4(1), remote: Ip::v4(2), port: 4789 };
    outer::push(&mut wrapped, &tunnel, &Outer { source_port: 5, hop_limit: 64, ..Outer::default() }).unwrap();
    let expected = "00-00-00-00-00-00 > 00-00-00-00-00-00 | 0.0.0.1 > 0.0.0.2 ttl 64 | UDP 5 > 4789 length 55 | VXLAN 4096 | ";
    assert_eq!(line(&wrapped), format!("{expected}{}", line(&udp())));

    let mut broken = udp();
    broken.truncate(40);
    assert_eq!(line(&broken), format!("{ends} | 10.0.0.1 > 10.0.0.2 | broken: the IP length does not fit the frame, 40 bytes"));
    broken.truncate(3);
    assert_eq!(line(&broken), "3 bytes, too short for a frame");
}

#[test]
fn a_header_a_line() {
    let (about, mut error) = (udp(), Frame::default());
    let headers = Headers::parse(about.bytes()).unwrap();
    let mac = MacAddress([2; 6]);
    assert!(icmp::error(about.bytes(), &headers, icmp::Problem::TooLarge { mtu: 1400 }, Ip::v4(1), mac, &mut error));
    let expected = "\
02-02-02-02-02-02 > 00-00-00-00-00-01
  0.0.0.1 > 10.0.0.1 ttl 64
    ICMP too large, mtu 1400
      about UDP 10.0.0.1:53 > 10.0.0.2:1000";
    assert_eq!(format!("{:#}", Printed(error.bytes())), expected);

    let mut question = Frame::default();
    neighbour::request(Ip(1), mac, Ip(2), &mut question);
    let expected = "\
02-02-02-02-02-02 > 33-33-FF-00-00-02
  ::1 > ff02::1:ff00:2 ttl 255
    ICMPv6 who has ::2, tell 02-02-02-02-02-02";
    assert_eq!(format!("{:#}", Printed(question.bytes())), expected);
}
