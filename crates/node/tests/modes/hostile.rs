//! Pods that send what they like: it is dropped and counted, and nobody else notices.

mod broken;
mod evasion;
mod flood;
mod neighbours;
mod spoofing;
mod tunnel;

use std::net::IpAddr;

use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use wire::{Frame, Ip, MacAddress};

use crate::frames::{self, Carries};
use crate::harness::{Place, Pod, Sniffer, World, eventually, pings, tcp, udp};
use crate::l2bridge::{routed, routed_pod};

/// The reason under which spoofed frames are counted.
const SPOOFED: &str = "spoofed-source";

/// What frames carry that must not arrive, and what others carry that must.
const BAD: &[u8] = b"this must not arrive";
const GOOD: &[u8] = b"this must arrive";

/// Sends raw frames from a place's `eth0`, and answers how many the kernel took.
fn send(place: &Place, frames: &[Vec<u8>]) -> usize {
    let index = place.link("eth0").index;
    let socket = place.run(|| PacketSocket::open("eth0", index, &PacketSocketOptions::default())).expect("a packet socket");
    let nic = socket.nic();
    let sent = |frame: &Vec<u8>| nic.sender.send(&mut Frame::from_bytes(frame), None).is_ok();
    frames.iter().filter(|frame| sent(frame)).count()
}

fn ethernet(to: MacAddress, from: MacAddress, ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ether_type.to_be_bytes(), payload].concat()
}

/// A frame from one hardware address to another.
fn frame(macs: (MacAddress, MacAddress), from: IpAddr, to: IpAddr, what: Carries, payload: &[u8]) -> Vec<u8> {
    frames::frame(macs, Ip::from(from), Ip::from(to), what, payload)
}

/// A message of ICMPv6 between neighbours, with its checksum.
fn icmpv6(macs: (MacAddress, MacAddress), from: Ip, to: Ip, mut body: Vec<u8>) -> Vec<u8> {
    let length = body.len() as u32;
    let pseudo = wire::checksum::pseudo_header(from, to, 58, length);
    let sum = !wire::checksum::add(pseudo, wire::checksum::sum(&body));
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = frames::frame(macs, from, to, Carries::Raw(58), &body);
    // Messages between neighbours have crossed no router.
    bytes[21] = 255;
    bytes
}

/// The addresses of some pods, of each family in turn.
fn families<const N: usize>(pods: [&Pod; N]) -> [[IpAddr; N]; 2] {
    [pods.map(Pod::v4), pods.map(Pod::v6)]
}

/// Whether a frame with this at its end has come in by a place's `eth0`.
fn has_arrived(sniffer: &Sniffer, what: &[u8]) -> bool {
    sniffer.arrived("eth0").iter().any(|frame| frame.bytes.ends_with(what))
}

/// Three pods of one node, of which one is bad.
struct Scene {
    world: World,
    bad: Pod,
    good: Pod,
    other: Pod,
}

fn scene() -> Scene {
    in_world(World::new(1))
}

fn in_world(world: World) -> Scene {
    let network = routed(&world, world.one());
    let [bad, good, other] = [11, 12, 13].map(|number| routed_pod(world.one(), network, number, &[]));
    pings(&bad, good.v4());
    pings(&good, other.v4());
    Scene { world, bad, good, other }
}

impl Scene {
    /// The others work, and so does the switch.
    fn others_are_fine(&mut self) {
        assert_eq!(tcp(&self.good, self.other.v4()).ip(), self.good.v4());
        assert_eq!(udp(&self.other, self.good.v6(), 9000).ip(), self.other.v6());
        pings(&self.world.outside, self.good.v4());
        assert!(self.world.nodes[0].vswitchd.as_mut().is_some_and(|switch| switch.is_alive()), "vswitchd has ended");
    }

    /// How often something of the bad pod was dropped for a reason.
    fn dropped(&self, reason: &str) -> u64 {
        self.world.one().drops("pod1-11", reason)
    }

    /// The bad pod sends frames, which are all dropped for a reason and counted, at its port and by the switch; what it sends as itself
    /// to the same victim arrives.
    fn all_are_dropped(&self, victim: &Pod, frames: &[Vec<u8>], reason: &str) {
        let inside = Sniffer::start(victim);
        let (before, in_all) = (self.dropped(reason), self.world.one().dropped(reason));
        assert_eq!(send(&self.bad, frames), frames.len());
        let expected = frames.len() as u64;
        eventually(&format!("all are counted as {reason}"), || self.dropped(reason) >= before + expected);
        assert!(self.world.one().dropped(reason) >= in_all + expected);
        for [from, to] in families([&self.bad, victim]) {
            let sound = frame((self.bad.mac, victim.mac), from, to, Carries::Udp(1000, 2000), GOOD);
            send(&self.bad, &[sound]);
        }
        eventually("what is sound arrives", || has_arrived(&inside, GOOD));
        assert!(!has_arrived(&inside, BAD), "one arrived");
    }
}
