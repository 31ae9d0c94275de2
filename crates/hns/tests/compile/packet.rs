//! Packets as text, there and back.
//!
//! | text | packet |
//! |---|---|
//! | `tcp 10.0.0.2:1000 > 10.0.0.3:80` | a SYN; likewise `udp` and `sctp` |
//! | `echo 10.0.0.2 > 10.0.0.3` | an echo request; `pong` is its answer |
//! | `raw252 10.0.0.2 > 10.0.0.3` | a packet of protocol 252 |
//! | `who 10.0.0.3 tell 10.0.0.2` | an ARP request or a neighbour solicitation |
//! | `other` | neither IP nor ARP |
//!
//! Then, in any order: `@x` is the hardware address it goes to, `as x` the one it comes from, `vni 5000` the virtual network that a tunnel has
//! popped, `size 1400` the length of its payload. `nat` stands for the port that was last given out for translation.

use std::net::{IpAddr, SocketAddr};

use wire::arp::{Arp, Operation};
use wire::{Encapsulation, Frame, Headers, Ip, MacAddress, TunnelKind};

use crate::frames::{self, Carries};

/// The ports for translation.
pub(crate) const NAT_PORTS: std::ops::RangeInclusive<u16> = 61000..=65535;

/// The identifier of echo requests.
const ECHO: u16 = 77;

/// Hardware addresses by name.
#[derive(Default)]
pub(crate) struct Names {
    macs: Vec<(String, MacAddress)>,
    /// The port that was last given out for translation.
    nat: u16,
}

/// A packet to send.
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    pub(crate) encapsulation: Option<Encapsulation>,
}

impl Names {
    pub(crate) fn put(&mut self, name: &str, mac: MacAddress) {
        self.macs.push((name.to_owned(), mac));
    }

    fn mac(&self, name: &str) -> MacAddress {
        let named = self.macs.iter().find(|(known, _)| known == name).map(|(_, mac)| *mac);
        named.or_else(|| name.parse().ok()).unwrap_or_else(|| panic!("nobody is called {name}"))
    }

    fn name(&self, mac: MacAddress) -> String {
        self.macs.iter().find(|(_, known)| *known == mac).map_or_else(|| mac.to_string(), |(name, _)| name.clone())
    }

    /// Reads a packet that the NIC with this hardware address sends.
    pub(crate) fn read(&self, text: &str, own: MacAddress) -> Packet {
        let words: Vec<&str> = text.split_whitespace().collect();
        let after = |word: &str| words.iter().position(|other| *other == word).and_then(|at| words.get(at + 1)).copied();
        let to = words.iter().find_map(|word| word.strip_prefix('@'));
        let macs = (after("as").map_or(own, |name| self.mac(name)), to.map_or(MacAddress([0x02; 6]), |name| self.mac(name)));
        let payload = vec![0x2a; after("size").map_or(8, |size| size.parse().expect("a length"))];
        let bytes = match words[0] {
            "other" => [&macs.1.0[..], &macs.0.0, &[0x88, 0xb5], &payload].concat(),
            "who" => question(macs.0, address(words[3]), address(words[1])),
            kind => self.ip_packet(kind, macs, words[1], words[3], &payload),
        };
        Packet { bytes, encapsulation: after("vni").map(|vni| popped(vni.parse().expect("a number"))) }
    }

    fn ip_packet(&self, kind: &str, macs: (MacAddress, MacAddress), from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
        if matches!(kind, "echo" | "pong") {
            let number = if to.contains("#nat") || from.contains("#nat") { self.nat } else { ECHO };
            let what = if kind == "echo" { Carries::Echo(number) } else { Carries::EchoReply(number) };
            let plain = |text: &str| address(text.trim_end_matches("#nat"));
            return frames::frame(macs, plain(from), plain(to), what, payload);
        }
        if let Some(number) = kind.strip_prefix("raw") {
            return frames::frame(macs, address(from), address(to), Carries::Raw(number.parse().expect("a protocol")), payload);
        }
        let (from, to) = (self.end(from), self.end(to));
        let what = match kind {
            "tcp" => Carries::Tcp(from.port(), to.port(), 2),
            "ack" => Carries::Tcp(from.port(), to.port(), 16),
            "udp" => Carries::Udp(from.port(), to.port()),
            "sctp" => Carries::Sctp(from.port(), to.port()),
            other => panic!("nobody knows how to send {other}"),
        };
        frames::frame(macs, from.ip().into(), to.ip().into(), what, payload)
    }

    fn end(&self, text: &str) -> SocketAddr {
        let text = text.replace(":nat", &format!(":{}", self.nat));
        text.parse().unwrap_or_else(|_| panic!("{text:?} is no address with a port"))
    }

    /// Prints a frame, and remembers a port that was given out for it.
    pub(crate) fn print(&mut self, frame: &Frame) -> String {
        let headers = Headers::parse(frame.bytes()).expect("what is sent can be read");
        let macs = format!("{} > {}", self.name(headers.source_mac), self.name(headers.destination_mac));
        if let Some(arp) = Arp::parse(frame.bytes(), &headers) {
            let tell = if arp.operation == Operation::Request { "who" } else { "at" };
            return format!("{macs} | {tell} {} tell {} {}", arp.target, self.name(arp.sender_mac), arp.sender);
        }
        let id = headers.id;
        if id.source == Ip::NONE && id.source_port == 0 && headers.ether_type == 0x88b5 {
            return format!("{macs} | other");
        }
        let (from, to) = (id.source, id.destination);
        match id.is_icmp() {
            true => format!("{macs} | {from}{} > {to}", if self.note(id.source_port) { "#nat" } else { "" }),
            false => format!("{macs} | {} > {}", self.socket(from, id.source_port), self.socket(to, id.destination_port)),
        }
    }

    /// Whether a port is one of those that are given out.
    fn note(&mut self, port: u16) -> bool {
        let given = NAT_PORTS.contains(&port);
        if given {
            self.nat = port;
        }
        given
    }

    fn socket(&mut self, address: Ip, port: u16) -> String {
        let text = SocketAddr::new(address.into(), port).to_string();
        match self.note(port) {
            true => text.replace(&format!(":{port}"), ":nat"),
            false => text,
        }
    }

    /// Prints the answer to a question for a neighbour: whose hardware address it tells.
    pub(crate) fn print_answer(&self, frame: &Frame) -> String {
        let headers = Headers::parse(frame.bytes()).expect("what is sent can be read");
        self.name(headers.source_mac)
    }
}

/// What a tunnel has popped of a frame of another node.
fn popped(vni: u32) -> Encapsulation {
    Encapsulation { kind: TunnelKind::Vxlan, vni, local: address("192.0.2.10"), remote: address("192.0.2.11"), port: 4789 }
}

fn question(mac: MacAddress, from: Ip, to: Ip) -> Vec<u8> {
    let mut frame = Frame::default();
    if from.is_v4() {
        wire::arp::request(from, mac, to, &mut frame);
    } else {
        assert!(wire::neighbour::request(from, mac, to, &mut frame), "both are IPv6");
    }
    frame.bytes().to_vec()
}

fn address(text: &str) -> Ip {
    Ip::from(text.parse::<IpAddr>().unwrap_or_else(|_| panic!("{text:?} is no address")))
}
