//! A unified flow: a plain value of fixed size, so that it can live in any kind of table.

use wire::{Encapsulation, Ip, MacAddress, TunnelKind};

use super::connection::ConnectionId;
use super::key::FlowKey;
use crate::port::PortId;
use crate::rule::RuleId;
use crate::transposition::Transposition;

/// How many words an entry has.
pub(crate) const WORDS: usize = 24;

/// What is known about the packets of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Which packets.
    pub(crate) key: FlowKey,
    /// Where they go.
    pub(crate) to: PortId,
    /// The rule that decided so.
    pub(crate) rule: RuleId,
    /// The connection they belong to.
    pub(crate) connection: u32,
    /// Whether they answer.
    pub(crate) reply: bool,
    /// Whether they are forwarded elsewhere too.
    pub(crate) offloaded: bool,
    /// Whether another connection of the same name would be decided about the same.
    pub(crate) again: bool,
    /// The largest IP packet that can go this way.
    pub(crate) mtu: u16,
    /// The generations of the two ports when this was decided.
    pub(crate) generations: [u32; 2],
    /// The port that the connection came from, with its generation, if answers go past it.
    pub(crate) past: Option<(PortId, u32)>,
    /// Their new headers.
    pub(crate) transposition: Transposition,
    /// Their outer headers.
    pub(crate) encapsulation: Option<Encapsulation>,
    /// The provider that they come from, if they come by a tunnel: then they leave by none, so that both fit into the same words.
    pub(crate) provider: Ip,
}

const REPLY: u64 = 1;
const ENCAPSULATED: u64 = 2;
const PAST: u64 = 4;
const OFFLOADED: u64 = 8;
const AGAIN: u64 = 16;

fn mac_word(mac: MacAddress, rest: u16) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    let [r0, r1] = rest.to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, r0, r1])
}

fn mac_of(word: u64) -> (MacAddress, u16) {
    let [a, b, c, d, e, f, r0, r1] = word.to_be_bytes();
    (MacAddress([a, b, c, d, e, f]), u16::from_be_bytes([r0, r1]))
}

fn ip_words(ip: Ip) -> [u64; 2] {
    [ip.0 as u64, (ip.0 >> 64) as u64]
}

#[inline]
fn ip_of(low: u64, high: u64) -> Ip {
    Ip(u128::from(low) | u128::from(high) << 64)
}

/// The word that says where packets go, and the one that says whose they are, for those who want no more than that: a slot is four lines
/// of the cache.
pub(crate) const TO: usize = 8;
pub(crate) const OWNER: usize = 9;

/// The port that packets go to.
pub(crate) const fn to_of(word: u64) -> PortId {
    PortId((word >> 32) as u32)
}

/// The word with another say about whether packets are forwarded elsewhere too.
pub(crate) const fn with_offloaded(word: u64, offloaded: bool) -> u64 {
    if offloaded { word | OFFLOADED } else { word & !OFFLOADED }
}

/// The connection that packets belong to.
pub(crate) const fn owner_of(word: u64) -> ConnectionId {
    word as ConnectionId
}

impl Entry {
    /// The entry as words; the first eight are the key.
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let Self { key, to, rule, connection, reply, offloaded, again, mtu, generations, past, transposition: t, encapsulation, provider } =
            self;
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(reply, REPLY)
            | flag(encapsulation.is_some(), ENCAPSULATED)
            | flag(past.is_some(), PAST)
            | flag(offloaded, OFFLOADED)
            | flag(again, AGAIN);
        let outer = encapsulation.unwrap_or_default();
        let ([s0, s1], [d0, d1]) = (ip_words(t.source), ip_words(t.destination));
        let ([l0, l1], [r0, r1]) = (ip_words(outer.local), ip_words(if encapsulation.is_some() { outer.remote } else { provider }));
        let mut words = [0; WORDS];
        words[..8].copy_from_slice(&key.0);
        words[TO] = u64::from(to.0) << 32 | u64::from(mtu) << 16 | u64::from(t.parts) << 8 | flags;
        words[OWNER] = u64::from(rule.0) << 32 | u64::from(connection);
        words[10] = u64::from(generations[0]) << 32 | u64::from(generations[1]);
        words[11] = mac_word(t.destination_mac, t.address_difference);
        words[12] = mac_word(t.source_mac, t.port_difference);
        words[13..17].copy_from_slice(&[s0, s1, d0, d1]);
        words[17] = u64::from(t.source_port) << 48 | u64::from(t.destination_port) << 32 | u64::from(outer.port) << 16 | outer.kind as u64;
        words[18] = u64::from(outer.vni);
        words[19..23].copy_from_slice(&[l0, l1, r0, r1]);
        words[23] = past.map_or(0, |(port, generation)| u64::from(port.0) << 32 | u64::from(generation));
        words
    }

    /// The entry that these words are.
    #[inline(always)]
    pub(crate) fn from_words(words: &[u64; WORDS]) -> Self {
        let (destination_mac, address_difference) = mac_of(words[11]);
        let (source_mac, port_difference) = mac_of(words[12]);
        let flags = words[8] & 0xff;
        let remote = ip_of(words[21], words[22]);
        let encapsulation = (flags & ENCAPSULATED != 0).then(|| Encapsulation {
            kind: match words[17] & 0xff {
                1 => TunnelKind::Geneve,
                2 => TunnelKind::Stt,
                _ => TunnelKind::Vxlan,
            },
            vni: words[18] as u32,
            local: ip_of(words[19], words[20]),
            remote,
            port: (words[17] >> 16) as u16,
        });
        Self {
            key: FlowKey([words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]]),
            to: to_of(words[TO]),
            rule: RuleId((words[9] >> 32) as u32),
            connection: owner_of(words[OWNER]),
            reply: flags & REPLY != 0,
            offloaded: flags & OFFLOADED != 0,
            again: flags & AGAIN != 0,
            mtu: (words[8] >> 16) as u16,
            generations: [(words[10] >> 32) as u32, words[10] as u32],
            past: (flags & PAST != 0).then(|| (PortId((words[23] >> 32) as u32), words[23] as u32)),
            transposition: Transposition {
                parts: (words[8] >> 8) as u8,
                source_mac,
                destination_mac,
                source: ip_of(words[13], words[14]),
                destination: ip_of(words[15], words[16]),
                source_port: (words[17] >> 48) as u16,
                destination_port: (words[17] >> 32) as u16,
                address_difference,
                port_difference,
            },
            provider: if encapsulation.is_some() { Ip::NONE } else { remote },
            encapsulation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_the_circle() {
        let transposition = Transposition {
            parts: 7,
            source_mac: MacAddress([1, 2, 3, 4, 5, 6]),
            destination_mac: MacAddress([7, 8, 9, 10, 11, 12]),
            source: Ip(u128::MAX / 3),
            destination: Ip::v4(0x0a00_0001),
            source_port: 65_535,
            destination_port: 1,
            address_difference: 0xfffe,
            port_difference: 0x1234,
        };
        let outer = Encapsulation { kind: TunnelKind::Stt, vni: 0xff_ffff, local: Ip::v4(1), remote: Ip(u128::MAX), port: 4789 };
        for encapsulation in [None, Some(outer)] {
            let entry = Entry {
                key: FlowKey([1, 2, 3, 4, 5, 6, 7, u64::MAX]),
                to: PortId(u32::MAX),
                rule: RuleId(77),
                connection: u32::MAX - 1,
                reply: encapsulation.is_some(),
                offloaded: encapsulation.is_none(),
                again: encapsulation.is_some(),
                mtu: 1450,
                generations: [3, u32::MAX],
                past: encapsulation.map(|_| (PortId(u32::MAX - 2), 9)),
                transposition,
                encapsulation,
                provider: if encapsulation.is_some() { Ip::NONE } else { Ip(u128::MAX / 5) },
            };
            assert_eq!(Entry::from_words(&entry.to_words()), entry);
        }
    }
}
