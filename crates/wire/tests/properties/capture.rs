//! Captures, read by ourselves and by Wireshark.

use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::outer::{self, Outer};
use wire::pcapng::{self, Block, Direction, Packet};
use wire::segment::complete_checksum;
use wire::{Encapsulation, Frame, Headers, Ip, TunnelKind};

use crate::sample::{Sample, Transport};

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn a_capture_survives_the_circle(
        bytes in vec(any::<u8>(), 0..100),
        comment in ".{0,40}",
        name in ".{0,20}",
        time_ns in any::<u64>(),
        direction in proptest::option::of(any::<bool>()),
    ) {
        let direction = direction.map(|inbound| if inbound { Direction::Inbound } else { Direction::Outbound });
        let packet = Packet { interface: 0, time_ns, direction, comment: &comment, bytes: &bytes, original_length: 9000 };
        let mut out = Vec::new();
        pcapng::section(&mut out);
        pcapng::interface(&mut out, &name);
        pcapng::packet(&mut out, &packet);
        let read: Vec<Block<'_>> = pcapng::blocks(&out).collect();
        prop_assert_eq!(read, [Block::Section { application: "transom" }, Block::Interface { name: &name }, Block::Packet(packet)]);
    }

    #[test]
    fn any_bytes_are_read_or_not(bytes in vec(any::<u8>(), 0..200), damage in any::<(u8, u8)>()) {
        prop_assert!(pcapng::blocks(&bytes).count() <= bytes.len());
        let mut out = Vec::new();
        pcapng::section(&mut out);
        pcapng::packet(&mut out, &Packet { interface: 0, time_ns: 1, direction: None, comment: "é", bytes: &bytes, original_length: 3 });
        let at = usize::from(damage.0) % out.len();
        out[at] = damage.1;
        prop_assert!(pcapng::blocks(&out).count() <= 2);
    }
}

fn capture() -> Vec<u8> {
    let sample = Sample {
        v4: true,
        vlan: None,
        transport: Transport::Udp,
        ports: (1000, 53),
        hosts: (1, 2),
        hop_limit: 9,
        options: 0,
        first_piece: false,
        dont_fragment: false,
        payload: b"x".to_vec(),
        padding: 0,
    };
    let bytes = sample.bytes();
    let mut out = Vec::new();
    pcapng::section(&mut out);
    pcapng::interface(&mut out, "uplink");
    pcapng::interface(&mut out, "pod-1");
    let mut packet = Packet {
        interface: 1,
        time_ns: 1_700_000_000_123_456_789,
        direction: Some(Direction::Inbound),
        comment: "allowed by acl/allow-dns",
        bytes: &bytes,
        original_length: bytes.len() as u32,
    };
    pcapng::packet(&mut out, &packet);
    packet.interface = 0;
    packet.direction = Some(Direction::Outbound);
    packet.comment = "wrapped for 10.0.0.2";
    pcapng::packet(&mut out, &packet);
    out
}

#[test]
fn tshark_reads_a_capture() {
    let fields = ["frame.comment", "frame.interface_name", "frame.time_epoch", "frame.packet_flags_direction", "udp.dstport"];
    let Some(rows) = tshark(&capture(), &fields) else {
        return;
    };
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0][..2], ["allowed by acl/allow-dns", "pod-1"]);
    assert_eq!(rows[1][..2], ["wrapped for 10.0.0.2", "uplink"]);
    // Versions differ in how they write a time, but not in its digits.
    assert!(rows[0][2].contains("123456789"), "{rows:?}");
    assert_ne!(rows[0][3], rows[1][3], "the direction");
    assert_eq!(rows[0][4], "53");
}

/// What tshark says of a capture, a row for each packet. `None` if it is not installed.
fn tshark(capture: &[u8], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("skipped: tshark is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capture.pcapng");
    std::fs::write(&file, capture).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args([
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-o",
        "udp.check_checksum:TRUE",
        "-o",
        "tcp.check_checksum:TRUE",
    ]);
    // Wireshark takes STT for TCP unless told to look closer.
    command.args(["-o", "ip.try_heuristic_first:TRUE", "-o", "ipv6.try_heuristic_first:TRUE"]);
    let output = command.args(fields.iter().flat_map(|field| ["-e", field])).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    Some(text.lines().map(|line| line.split('|').map(str::to_string).collect()).collect())
}

#[test]
fn tshark_sees_through_tunnels() {
    let mut inner = Vec::new();
    let ip = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    ip.udp(1000, 2000).write(&mut inner, b"x").unwrap();
    let mut out = Vec::new();
    pcapng::section(&mut out);
    pcapng::interface(&mut out, "uplink");
    for (kind, port) in [(TunnelKind::Vxlan, 4789), (TunnelKind::Geneve, 6081), (TunnelKind::Stt, 7471)] {
        for (local, remote) in [(Ip::v4(1), Ip::v4(2)), (Ip(1), Ip(2))] {
            let mut frame = Frame::from_bytes(&inner);
            let tunnel = Encapsulation { kind, vni: 4097, local, remote, port };
            outer::push(&mut frame, &tunnel, &Outer { source_port: 50000, hop_limit: 64, ..Outer::default() }).unwrap();
            let headers = Headers::parse(frame.bytes()).unwrap();
            complete_checksum(&mut frame, &headers).unwrap();
            let original_length = frame.len() as u32;
            let packet = Packet { interface: 0, time_ns: 0, direction: None, comment: "", bytes: frame.bytes(), original_length };
            pcapng::packet(&mut out, &packet);
        }
    }
    let fields = ["vxlan.vni", "geneve.vni", "stt.context_id", "udp.dstport", "ip.dst", "udp.checksum.status", "_ws.expert.message"];
    let Some(rows) = tshark(&out, &fields) else {
        return;
    };
    assert_eq!(rows.len(), 6, "{rows:?}");
    for (row, column) in rows.iter().zip([0, 0, 1, 1, 2, 2]) {
        assert!(["4097", "0x001001", "0x0000000000001001"].contains(&row[column].as_str()), "{row:?}");
        assert!(row[3].ends_with("2000") && row[4].ends_with("10.0.0.2"), "the packet inside: {row:?}");
        // 1 is "good", 3 is "not present"; 0 would be "bad".
        assert!(!row[5].contains('0') && row[6].is_empty(), "{row:?}");
    }
}
