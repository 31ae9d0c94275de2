//! The kernel's program for NICs, run by the kernel itself on packets that are made up: what it forwards it forwards as it should be, and what it
//! cannot read as `wire` reads it, it leaves to the engine.

use std::cell::Cell;
use std::path::Path;

use etherparse::PacketBuilder;
use host::kernel_flows::{KernelFlow, KernelFlows, KernelKey, KernelLimits, KernelOwner};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wire::Headers;
use wire::number::tcp_flag;

/// What the program says: handed on, or dropped as there is no way up here.
const REDIRECT: u32 = 7;
const DROPPED: u32 = 2;

/// The link that packets come from when nobody says otherwise.
const LOOPBACK: u64 = 1;

/// The parts of a transposition.
const MACS: u8 = 1;
const ADDRESSES: u8 = 2;
const PORTS: u8 = 4;

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ends {
    macs: ([u8; 6], [u8; 6]),
    v4: bool,
    addresses: ([u8; 16], [u8; 16]),
    ports: (u16, u16),
}

/// A packet of TCP or UDP.
#[derive(Clone, Debug)]
struct Packet {
    ends: Ends,
    tcp: bool,
    payload: Vec<u8>,
}

fn ends(v4: bool) -> impl Strategy<Value = Ends> {
    // Neither groups of receivers nor IPv4 in the form of IPv6.
    let mac = any::<[u8; 6]>().prop_map(|mut mac| {
        mac[0] &= 0xfe;
        mac
    });
    let address = any::<[u8; 16]>().prop_map(move |mut address| {
        address[0] = if v4 { 10 } else { 0xfd };
        address
    });
    ((mac.clone(), mac), (address.clone(), address), any::<(u16, u16)>()).prop_map(move |(macs, addresses, ports)| Ends {
        macs,
        v4,
        addresses,
        ports,
    })
}

fn packets() -> impl Strategy<Value = (Packet, Ends, u8)> {
    any::<bool>().prop_flat_map(|v4| (ends(v4), ends(v4), any::<bool>(), vec(any::<u8>(), 0..100), 0..8_u8)).prop_map(
        |(before, after, tcp, payload, parts)| {
            let pick = |part: u8| parts & part != 0;
            let after = Ends {
                macs: if pick(MACS) { after.macs } else { before.macs },
                addresses: if pick(ADDRESSES) { after.addresses } else { before.addresses },
                ports: if pick(PORTS) { after.ports } else { before.ports },
                ..before
            };
            (Packet { ends: before, tcp, payload }, after, parts)
        },
    )
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let Ends { macs, v4, addresses, ports } = self.ends;
        let link = PacketBuilder::ethernet2(macs.0, macs.1);
        let first = |address: [u8; 16]| [address[0], address[1], address[2], address[3]];
        let ip = if v4 { link.ipv4(first(addresses.0), first(addresses.1), 64) } else { link.ipv6(addresses.0, addresses.1, 64) };
        let mut bytes = Vec::new();
        let written = match self.tcp {
            true => ip.tcp(ports.0, ports.1, 7, 1000).ack(9).write(&mut bytes, &self.payload),
            false => ip.udp(ports.0, ports.1).write(&mut bytes, &self.payload),
        };
        written.expect("a packet");
        bytes
    }
}

fn key(headers: &Headers) -> KernelKey {
    let id = &headers.id;
    let mac = |mac: [u8; 6]| u64::from_le_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0]);
    let ports = u64::from(id.source_port) << 48 | u64::from(id.destination_port) << 32;
    [
        LOOPBACK << 32,
        id.source.0 as u64,
        (id.source.0 >> 64) as u64,
        id.destination.0 as u64,
        (id.destination.0 >> 64) as u64,
        ports | u64::from(id.protocol) << 16 | 0xffff,
        mac(headers.destination_mac.0),
        mac(headers.source_mac.0),
    ]
}

/// A flow whose packets become those of other ends.
fn flow(after: &Ends, parts: u8, mtu: u16) -> KernelFlow {
    let mut macs = [0; 12];
    macs[..6].copy_from_slice(&after.macs.1);
    macs[6..].copy_from_slice(&after.macs.0);
    KernelFlow {
        to: LOOPBACK as u32,
        mtu,
        parts,
        ports: [1, 2, 0],
        generations: [5, 6, 0],
        macs,
        source_port: after.ports.0.to_be_bytes(),
        destination_port: after.ports.1.to_be_bytes(),
        source: after.addresses.0,
        destination: after.addresses.1,
        ..KernelFlow::default()
    }
}

/// The table, if there can be one here.
fn table() -> Option<KernelFlows> {
    let loaded = KernelFlows::load(KernelLimits { flows: 64, openings: 8, ports: 8 }, KernelOwner::at(Path::new("/nobody")));
    let table = loaded.map_err(|error| println!("skipped: {error}")).ok()?;
    for (port, generation) in [(1, 5), (2, 6), (3, 7)] {
        table.set_generation(port, generation).expect("a generation");
    }
    Some(table)
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

#[test]
fn packets_leave_as_if_they_had_been_made_so() {
    let Some(table) = table() else { return };
    let outcome = runner(2000).run(&packets(), |(packet, after, parts)| {
        let bytes = packet.bytes();
        let key = key(&Headers::plain(&bytes).expect("a plain packet"));
        table.put(&key, &flow(&after, parts, 1500)).expect("room");
        let (verdict, left) = table.try_packet(&bytes).expect("the kernel runs it");
        let seen = table.get(&key).expect("the flow");
        table.remove(&key);
        prop_assert_eq!(verdict, REDIRECT);
        prop_assert_eq!(left, Packet { ends: after, ..packet.clone() }.bytes());
        prop_assert_eq!((seen.packets, seen.bytes), (1, bytes.len() as u64));
        prop_assert_eq!(seen.tcp_flags, if packet.tcp { u64::from(tcp_flag::ACK) } else { 0 });
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_wire_does_not_read_as_this_flow_is_left_alone() {
    let Some(table) = table() else { return };
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let count = Cell::new(0);
    let outcome = runner(4000).run(&(packets(), damage, 34..200_usize), |((packet, after, parts), damage, length)| {
        let whole = packet.bytes();
        let key_of_flow = key(&Headers::plain(&whole).expect("a plain packet"));
        let mut bytes = whole.clone();
        bytes.truncate(length);
        for (at, value) in damage {
            // Mostly in the headers.
            let at = at.index(bytes.len().min(60));
            bytes[at] = value;
        }
        table.put(&key_of_flow, &flow(&after, parts, 1500)).expect("room");
        let tried = table.try_packet(&bytes);
        table.remove(&key_of_flow);
        // The kernel itself makes no packets that are too short for what they say they are.
        let Ok((verdict, left)) = tried else { return Ok(()) };
        count.set(count.get() + 1);
        let read = Headers::plain(&bytes);
        let opens = |headers: &Headers| headers.tcp_flags & (tcp_flag::SYN | tcp_flag::ACK) == tcp_flag::SYN;
        let is_own = read.as_ref().is_some_and(|headers| key(headers) == key_of_flow && !(packet.tcp && opens(headers)));
        prop_assert_eq!(verdict, if is_own { REDIRECT } else { DROPPED }, "{:?}", read);
        if !is_own {
            prop_assert_eq!(left, bytes);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(count.get() > 2000, "{} packets were tried", count.get());
}

#[test]
fn a_flow_holds_while_its_ports_are_as_they_were_and_packets_fit() {
    let Some(table) = table() else { return };
    let ends = |port: u16| Ends { macs: ([2; 6], [4; 6]), v4: true, addresses: ([10; 16], [11; 16]), ports: (port, 80) };
    let packet = Packet { ends: ends(1), tcp: false, payload: vec![0; 100] };
    let bytes = packet.bytes();
    let key = key(&Headers::plain(&bytes).expect("a plain packet"));
    let judge = |flow: KernelFlow| {
        table.put(&key, &flow).expect("room");
        table.try_packet(&bytes).expect("the kernel runs it").0
    };
    let good = flow(&ends(2), PORTS, 128);
    assert_eq!(judge(good), REDIRECT);
    assert_eq!(judge(KernelFlow { mtu: 127, ..good }), DROPPED, "a byte too long");
    assert_eq!(judge(KernelFlow { generations: [4, 6, 0], ..good }), DROPPED, "of another generation of the sender");
    assert_eq!(judge(KernelFlow { generations: [5, 7, 0], ..good }), DROPPED, "of another generation of the receiver");
    let past = KernelFlow { flags: host::kernel_flows::FLAG_PAST, ports: [1, 2, 3], ..good };
    assert_eq!(judge(KernelFlow { generations: [5, 6, 7], ..past }), REDIRECT);
    assert_eq!(judge(KernelFlow { generations: [5, 6, 8], ..past }), DROPPED, "of another generation of the third");
    assert_eq!(judge(KernelFlow { ports: [1, 900, 0], ..good }), DROPPED, "of a port that cannot be");
    table.set_generation(2, 7).expect("a generation");
    assert_eq!(judge(good), DROPPED, "policy has changed");
    table.set_generation(2, 6).expect("a generation");
    table.pause(true).expect("a word");
    assert_eq!(judge(good), DROPPED, "everything goes by the engine");
    let ways = table.ways();
    assert_eq!((ways.forwarded, ways.stale, ways.large, ways.paused), (2, 5, 1, 1));
}

#[test]
fn a_full_table_says_so_and_keeps_what_it_has() {
    let Some(table) = table() else { return };
    let put = |number: u64| table.put(&[number; 8], &KernelFlow::default());
    let full = (0..10_000).find(|number| put(*number).is_err()).expect("an end");
    assert!(full >= 64, "room for {full}");
    assert!(table.get(&[0; 8]).is_some());
    assert!(put(full).unwrap_err().to_string().starts_with("could not put a flow into the kernel"));
    table.remove(&[0; 8]);
    assert!(table.get(&[0; 8]).is_none());
    assert!(put(full).is_ok(), "there is room again");
}
