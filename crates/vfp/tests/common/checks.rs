//! What must hold in a script.

use vfp::{DropReason, Egress, Outcome, PoolId, PortId, SwitchCounters, Tier, Verdict};
use wire::{Encapsulation, Frame, Headers, Kind};

use super::super::frames;
use super::{Past, RECENT, World};

/// What asking must not change.
#[derive(Debug, PartialEq)]
struct Books {
    counters: SwitchCounters,
    connections: usize,
    affinities: usize,
    leases: [Option<usize>; 2],
}

impl World {
    fn books(&self) -> Books {
        let (connections, _) = self.switch.connection_usage();
        let (affinities, _) = self.switch.affinity_usage();
        Books {
            counters: self.switch.counters(),
            connections,
            affinities,
            leases: [self.pool, PoolId(0)].map(|pool| self.switch.pool_usage(pool)),
        }
    }

    /// How many frames the NICs have sent, and received, and how many were dropped.
    fn traffic(&self) -> [u64; 3] {
        let counters = (0..self.mtus.len()).filter_map(|number| self.switch.port_counters(PortId(number as u32)));
        counters.fold([0; 3], |[sent, received, dropped], port| {
            let drops: u64 = port.drops.iter().map(|count| count.packets).sum();
            [sent + port.packets_sent, received + port.packets_received, dropped + drops]
        })
    }

    pub(super) fn handle(&mut self, port: PortId, frame: &Frame, outer: Option<&Encapsulation>, sound: bool) {
        let before = self.books();
        let mut asked = frame.clone();
        let said = self.switch.simulate(self.now, port, &mut asked, outer);
        assert_eq!(self.books(), before, "asking changes nothing");
        let [sent, received, dropped] = self.traffic();
        let verdict = self.switch.process(self.now, port, &mut frame.clone(), outer, &mut self.out);
        let left = std::mem::take(&mut self.out.sent);
        let drop = u64::from(verdict.drop_reason().is_some());
        assert_eq!(self.traffic(), [sent + 1, received + left.len() as u64, dropped + drop], "the ports count every frame");
        let after = self.books().counters;
        let ended = |counters: &SwitchCounters| (counters.connections_revoked, counters.connections_expired, counters.connections_evicted);
        let fresh = ended(&after) != ended(&before.counters);
        agree(&said, &verdict, fresh);
        if said.outcome == verdict.outcome {
            self.check_frames(port, &verdict, &asked, &left, fresh);
        }
        for (egress, frame) in left {
            self.check_sent(&egress, &frame, sound);
            self.recent.push((egress, frame));
        }
        self.past.push(Past { port, frame: frame.clone(), outer: outer.copied(), sound });
        let surplus = |length: usize| ..length.saturating_sub(RECENT);
        self.recent.drain(surplus(self.recent.len()));
        self.past.drain(surplus(self.past.len()));
    }

    /// What left is what was said.
    fn check_frames(&self, port: PortId, verdict: &Verdict, asked: &Frame, left: &[(Egress, Frame)], fresh: bool) {
        match verdict.outcome {
            Outcome::Forwarded(egress) => {
                assert!(left.iter().all(|(to, _)| *to == egress));
                match left {
                    [(_, frame)] => assert_same(asked, frame, fresh),
                    pieces => {
                        // What follows the packet in its frame is not in the pieces.
                        let whole = Headers::parse(asked.bytes()).expect("what leaves can be read").end as usize;
                        assert_eq!(joined(pieces.iter().map(|(_, piece)| piece)).len(), whole, "the pieces are the whole")
                    }
                }
            }
            Outcome::Flooded(count) => assert_eq!(left.len(), count as usize),
            Outcome::Answered => {
                assert_eq!((left.len(), left[0].0.port), (1, port));
                assert_eq!(left[0].1.bytes(), asked.bytes());
            }
            Outcome::Dropped(DropReason::PacketTooBig | DropReason::Refused | DropReason::NoBackend) => {
                assert!(left.len() <= 1 && left.iter().all(|(egress, _)| egress.port == port))
            }
            Outcome::Dropped(_) => assert!(left.is_empty(), "what is dropped does not leave"),
        }
    }

    fn check_sent(&self, egress: &Egress, frame: &Frame, sound: bool) {
        let headers = Headers::parse(frame.bytes()).expect("what leaves can be read");
        headers.check_offload(frame).expect("what is left to do fits");
        assert_eq!(egress.encapsulation.is_some(), egress.port == self.tunnel, "tunnels wrap, and nothing else does");
        let length = match frame.offload.segmentation {
            None => headers.end - u32::from(headers.l3),
            Some(segmentation) => u32::from(headers.payload - headers.l3) + u32::from(segmentation.size),
        };
        assert!(length <= u32::from(self.mtus[egress.port.0 as usize]), "it fits the way it goes");
        // What is not IP has no checksums.
        if sound && headers.kind != Kind::Other {
            frames::assert_sound(frame);
        }
    }

    /// When everything is over, nothing is left.
    pub(super) fn settle(&mut self) {
        self.now = self.now.after(std::time::Duration::from_secs(86_400));
        // The first round may have begun in the middle.
        for _ in 0..2 {
            while !self.switch.sweep(self.now, 7) {}
        }
        let books = self.books();
        assert_eq!((books.connections, books.leases), (0, [Some(0); 2]));
        assert!(self.switch.flows().is_empty());
        assert_eq!(self.switch.affinity_usage().0, 0);
    }
}

/// What was said and what happened are the same. Whether there is room was not asked, and a connection that ended with this very
/// packet had names that were not free before.
fn agree(said: &Verdict, verdict: &Verdict, fresh: bool) {
    let no_room = verdict.outcome == Outcome::Dropped(DropReason::NoNatPorts) && verdict.tier == Tier::New;
    let was_taken = fresh && said.outcome == Outcome::Dropped(DropReason::NoNatPorts);
    if no_room || was_taken {
        return;
    }
    assert_eq!(said.outcome, verdict.outcome);
    assert_eq!(said.rule, verdict.rule);
    let tier = if verdict.tier == Tier::Unified { Tier::Connection } else { verdict.tier };
    assert_eq!(said.tier, tier);
}

fn assert_same(asked: &Frame, frame: &Frame, fresh: bool) {
    let is_same = asked.bytes() == frame.bytes() || completed(asked) == frame.bytes();
    if is_same {
        return;
    }
    assert!(fresh, "what leaves is what was said\n{:x?}\n{:x?}", asked.bytes(), frame.bytes());
    assert_eq!(without_names(asked), without_names(frame), "but for the name that translation gave it");
}

fn completed(frame: &Frame) -> Vec<u8> {
    let mut whole = frame.clone();
    if let Ok(headers) = Headers::parse(frame.bytes()) {
        let _ = wire::segment::complete_checksum(&mut whole, &headers);
    }
    whole.bytes().to_vec()
}

/// A frame without what source translation chooses: the source port or identifier, and checksums.
fn without_names(frame: &Frame) -> Vec<u8> {
    let mut bytes = frame.bytes().to_vec();
    let Ok(headers) = Headers::parse(&bytes) else { return bytes };
    let l4 = usize::from(headers.l4);
    let zero: &[usize] = match headers.id.protocol {
        6 => &[0, 1, 16, 17],
        17 => &[0, 1, 6, 7],
        1 | 58 => &[2, 3, 4, 5],
        _ => &[],
    };
    zero.iter().for_each(|at| bytes[l4 + at] = 0);
    bytes
}

/// The packet that these pieces are, as far as its length and payload go.
fn joined<'a>(pieces: impl Iterator<Item = &'a Frame>) -> Vec<u8> {
    let mut whole: Vec<u8> = Vec::new();
    for piece in pieces {
        let headers = Headers::parse(piece.bytes()).expect("a piece can be read");
        let from = if whole.is_empty() { 0 } else { usize::from(headers.l4) };
        whole.extend(&piece.bytes()[from..headers.end as usize]);
    }
    whole
}
