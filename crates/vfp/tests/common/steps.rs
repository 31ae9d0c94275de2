//! What happens in a script.

use vfp::{Egress, Instant, NextHop, PortId, UnderlaySpec};
use wire::icmp::{self, Problem};
use wire::{Frame, Headers, Kind, MacAddress, Segmentation, SegmentationKind, arp, neighbour};

use super::super::frames::{self, Carries, ip, mac};
use super::{Past, RECENT, STEP, World, destination, nic_address, outer, pick};

/// How many of the packets before come again after a change of policy.
const NOTICING: usize = 3;

impl World {
    pub(super) fn step(&mut self, step: &[u8; STEP]) {
        self.now = Instant(self.now.0 + 1000);
        match step[0] % 32 {
            0..6 => self.packet(step, false),
            6..10 => self.again(step),
            10 | 11 => self.onwards(step),
            12..19 => self.answer(step),
            19 | 20 => self.error(step),
            21 => self.neighbour(step),
            22 => self.packet(step, true),
            28 => self.now = self.now.after(std::time::Duration::from_secs(u64::from(step[1]))),
            29 => self.group(step),
            31 => _ = self.switch.sweep(self.now, usize::from(step[1])),
            _ => self.change(step),
        }
    }

    /// Policy changes, and the flows that are under way notice.
    fn change(&mut self, step: &[u8; STEP]) {
        match step[0] % 32 {
            23 => self.change_program(step),
            24 => self.change_table([step[1], step[2]]),
            25 | 26 => self.set_rule(step[1], step[2] & 1 == 0, step[3]),
            27 if step[2] & 1 != 0 => self.connect_other(step[1] & 1 != 0),
            27 => self.know_gateway(pick(&[None, Some(254), Some(253)], step[1])),
            _ if step[1] & 128 != 0 => self.change_uplink(step[2]),
            _ => self.change_underlay(step),
        }
        let under_way: Vec<Past> = self.past.iter().rev().take(NOTICING).cloned().collect();
        for Past { port, frame, outer, sound } in &under_way {
            self.handle(*port, frame, outer.as_ref(), *sound);
        }
    }

    fn change_program(&self, step: &[u8; STEP]) {
        let number = usize::from(step[1]) % self.nics.len();
        let mut spec = self.nic_spec(number, &step[2..]);
        spec.mtu = self.mtus[self.nics[number].0 as usize];
        self.switch.change_port(self.nics[number], spec).expect("the NIC");
    }

    fn change_underlay(&self, step: &[u8; STEP]) {
        let gateway = NextHop::Gateway(ip("192.168.0.254"));
        let routes = match step[1] % 3 {
            0 => vec![],
            1 => vec![("0.0.0.0/0".parse().expect("a prefix"), gateway)],
            _ => vec![("8.0.0.0/8".parse().expect("a prefix"), gateway), ("0.0.0.0/0".parse().expect("a prefix"), NextHop::Link)],
        };
        let spec = UnderlaySpec { uplink: self.uplink, mac: mac(100), routes };
        self.switch.change_underlay(self.underlay, spec).expect("the underlay");
    }

    fn any_port(&self, byte: u8) -> PortId {
        match byte % 8 {
            6 => self.uplink,
            7 => self.tunnel,
            5 => self.other,
            number => self.nics[usize::from(number) % self.nics.len()],
        }
    }

    /// A packet from a small choice, so that flows repeat; perhaps with a damage.
    fn packet(&mut self, step: &[u8; STEP], damaged: bool) {
        let [_, port, from, to, kind, ports, flags, size, offload, piece, vni, damage] = *step;
        let v4 = kind & 64 == 0;
        let port = self.any_port(port);
        let own = self.nics.iter().position(|nic| *nic == port).filter(|_| from < 224);
        let source = own.map_or_else(|| destination(from, v4), |own| nic_address(own, v4));
        let (source_port, destination_port) = (pick(&[1000, 1001, 8080], ports), pick(&[80, 53, 8080, 1000], ports >> 4));
        let carries = match kind % 8 {
            0..3 => Carries::Tcp(source_port, destination_port, pick(&[2, 16, 18, 17, 4, 24], flags)),
            3 | 4 => Carries::Udp(source_port, destination_port),
            5 => Carries::Echo(source_port),
            6 => Carries::Sctp(source_port, destination_port),
            _ => Carries::Raw(pick(&[47, 1, 58, 255], flags)),
        };
        let payload = vec![flags; pick(&[8, 8, 8, 8, 1, 64, 64, 64, 1250, 1452, 1472, 2000], size)];
        let macs = (mac(pick(&[1, 2, 9], size >> 4)), mac(pick(&[9, 9, 1], from)));
        let mut bytes = frames::frame(macs, source, destination(to, v4), carries, &payload);
        if flags & 128 != 0 && v4 {
            bytes = frames::dont_fragment(bytes);
        }
        let pieces = if piece & 7 == 7 && payload.len() >= 64 { frames::pieces(&bytes, 32, 7).to_vec() } else { vec![bytes] };
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), vni >> 6));
        for (at, bytes) in pieces.iter().enumerate() {
            if at == 0 && piece & 63 == 63 {
                continue;
            }
            let mut frame = offloaded(bytes, offload, carries, pieces.len() == 1);
            if damaged {
                self.damage(&mut frame, [damage, offload, piece]);
            }
            // What claims to be ICMP and is not has no checksum to be judged.
            self.handle(port, &frame, outer.as_ref(), !damaged && !matches!(carries, Carries::Raw(_)));
        }
    }

    fn damage(&self, frame: &mut Frame, [at, value, how]: [u8; 3]) {
        match how & 1 {
            0 => frame.truncate(usize::from(at)),
            _ => {
                let at = usize::from(at) % frame.len().max(1);
                frame.bytes_mut()[at] = value;
            }
        }
        if how & 2 != 0 {
            frames::repair(frame.bytes_mut());
        }
    }

    /// One of the packets before, once more.
    fn again(&mut self, step: &[u8; STEP]) {
        let Some(newest) = self.past.len().checked_sub(1) else { return };
        let Some(at) = newest.checked_sub(usize::from(step[1]) % RECENT) else { return };
        let Past { port, frame, outer, sound } = self.past[at].clone();
        for _ in 0..1 + step[2] % 3 {
            self.handle(port, &frame, outer.as_ref(), sound);
        }
    }

    /// A packet that left is sent on by who got it, as a node does that routes.
    fn onwards(&mut self, step: &[u8; STEP]) {
        let Some((egress, frame)) = self.recent(step[1]) else { return };
        let port = if step[2] & 3 == 0 { self.any_port(step[3]) } else { egress.port };
        let outer = (port == self.tunnel).then(|| egress.encapsulation.unwrap_or(outer(7, 0)));
        // It may have been damaged before.
        self.handle(port, &frame, outer.as_ref(), false);
        if step[4] & 1 == 0 {
            self.answer(&[0; STEP]);
        }
    }

    /// The answer to one of the packets that left.
    fn answer(&mut self, step: &[u8; STEP]) {
        let Some((egress, frame)) = self.recent(step[1]) else { return };
        let Ok(headers) = Headers::parse(frame.bytes()) else { return };
        let id = headers.id;
        if headers.kind != Kind::Ip
            || id.source.is_multicast()
            || id.destination.is_multicast()
            || id.source.is_v4() != id.destination.is_v4()
        {
            return;
        }
        let carries = match id.protocol {
            6 => Carries::Tcp(id.destination_port, id.source_port, pick(&[18, 16, 17, 4, 24], step[2])),
            17 => Carries::Udp(id.destination_port, id.source_port),
            1 | 58 => Carries::EchoReply(id.source_port),
            132 => Carries::Sctp(id.destination_port, id.source_port),
            other => Carries::Raw(other),
        };
        let macs = (headers.destination_mac, headers.source_mac);
        let bytes = frames::frame(macs, id.destination, id.source, carries, &vec![1; pick(&[8, 8, 8, 1250, 1452], step[3])]);
        let frame = offloaded(&bytes, step[4], carries, true);
        self.handle(egress.port, &frame, egress.encapsulation.as_ref(), !matches!(carries, Carries::Raw(_)));
    }

    /// An error about one of the packets that left, by its receiver or by somebody on the way.
    fn error(&mut self, step: &[u8; STEP]) {
        let Some((egress, frame)) = self.recent(step[1]) else { return };
        let Ok(headers) = Headers::parse(frame.bytes()) else { return };
        let v4 = headers.id.source.is_v4();
        let router = ip(if v4 { "172.16.0.1" } else { "2001:db8:9::1" });
        let from = if step[2] & 1 == 0 { headers.id.destination } else { router };
        let problem = pick(&[Problem::PortUnreachable, Problem::TooLarge { mtu: 1400 }, Problem::HopLimit], step[3]);
        let mut error = Frame::default();
        if !from.is_multicast() && icmp::error(frame.bytes(), &headers, problem, from, headers.destination_mac, &mut error) {
            // A partial checksum inside stays what it is, so only the outside can be judged; which it is.
            self.handle(egress.port, &error, egress.encapsulation.as_ref(), true);
        }
    }

    fn neighbour(&mut self, step: &[u8; STEP]) {
        let [_, port, target, kind, from, vni, ..] = *step;
        let (v4, port) = (kind & 1 == 0, self.any_port(port));
        let target = destination(target, v4);
        let own = self.nics.iter().position(|nic| *nic == port);
        let speaker = own.map_or(destination(from, v4), |own| if from < 200 { nic_address(own, v4) } else { destination(from, v4) });
        let mut frame = Frame::default();
        match v4 {
            true => arp::request(speaker, mac(1), target, &mut frame),
            false => assert!(neighbour::request(speaker, mac(1), target, &mut frame)),
        }
        if kind & 2 != 0 {
            let headers = Headers::parse(frame.bytes()).expect("it is sound");
            let mut answer = Frame::default();
            let made = match v4 {
                true => arp::answer(frame.bytes(), &headers, mac(2), &mut answer),
                false => neighbour::answer(frame.bytes(), &headers, mac(2), false, &mut answer),
            };
            frame = if made { answer } else { frame };
        }
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), 0));
        self.handle(port, &frame, outer.as_ref(), true);
    }

    /// A packet to a group, or a frame that is not IP.
    fn group(&mut self, step: &[u8; STEP]) {
        let [_, port, kind, from, vni, ..] = *step;
        let port = self.any_port(port);
        let (source, group) =
            if kind & 1 == 0 { (nic_address(0, true), ip("224.0.0.251")) } else { (nic_address(0, false), ip("ff02::fb")) };
        let to = MacAddress(if kind & 2 == 0 { [0xff; 6] } else { mac(from).0 });
        let mut bytes = frames::frame((mac(1), to), source, group, Carries::Udp(5353, 5353), b"who");
        if kind & 4 != 0 {
            bytes[12..14].copy_from_slice(&[0x88, 0xcc]);
        }
        let outer = (port == self.tunnel).then(|| outer(pick(&[7, 8, 9], vni), 0));
        self.handle(port, &Frame::from_bytes(&bytes), outer.as_ref(), kind & 4 == 0);
    }

    fn recent(&self, byte: u8) -> Option<(Egress, Frame)> {
        let newest = self.recent.len().checked_sub(1)?;
        self.recent.get(newest.checked_sub(usize::from(byte) % RECENT)?).cloned()
    }
}

/// A frame with work left to do on it, of a kind that fits.
fn offloaded(bytes: &[u8], offload: u8, carries: Carries, whole: bool) -> Frame {
    let kind = match (carries, bytes[14] >> 4) {
        (Carries::Tcp(..), 4) => SegmentationKind::Tcp4 { ecn: false },
        (Carries::Tcp(..), _) => SegmentationKind::Tcp6 { ecn: false },
        (Carries::Udp(..), _) => SegmentationKind::Udp,
        _ => return Frame::from_bytes(bytes),
    };
    if Headers::parse(bytes).is_err() {
        return Frame::from_bytes(bytes);
    }
    match offload % 4 {
        2 if whole => frames::partial(bytes),
        3 if whole => {
            let mut frame = frames::partial(bytes);
            frame.offload.segmentation = Some(Segmentation { kind, size: pick(&[500, 1400, 1460], offload >> 2), header_length: 54 });
            frame
        }
        _ => Frame::from_bytes(bytes),
    }
}
