//! What a server has done, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use hickory_proto::op::ResponseCode;

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As a datagram.
    Udp,
    /// Over a connection.
    Tcp,
}

/// How many codes have a counter of their own. Those that follow are for signatures and updates, which we have none of.
const CODES: usize = 17;

/// The numbers.
#[derive(Debug, Default)]
pub struct Counters {
    udp: AtomicU64,
    tcp: AtomicU64,
    forwarded: AtomicU64,
    unanswered: AtomicU64,
    answers: [AtomicU64; CODES],
}

impl Counters {
    pub(super) fn asked(&self, transport: Transport) {
        self.queries_of(transport).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, code: ResponseCode) {
        if let Some(counter) = self.answers.get(usize::from(u16::from(code))) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn forwarded(&self, is_answered: bool) {
        self.forwarded.fetch_add(1, Ordering::Relaxed);
        if !is_answered {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn queries_of(&self, transport: Transport) -> &AtomicU64 {
        match transport {
            Transport::Udp => &self.udp,
            Transport::Tcp => &self.tcp,
        }
    }

    /// How many queries came.
    pub fn queries(&self, transport: Transport) -> u64 {
        self.queries_of(transport).load(Ordering::Relaxed)
    }

    /// How many others were asked about.
    pub fn forwards(&self) -> u64 {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// How many of those nobody answered.
    pub fn unanswered_forwards(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// How many answers there were with each code, those without any left out.
    pub fn answers(&self) -> Vec<(ResponseCode, u64)> {
        let codes = (0_u16..).zip(&self.answers).map(|(code, count)| (code_of(code), count.load(Ordering::Relaxed)));
        codes.filter(|(_, count)| *count > 0).collect()
    }
}

fn code_of(number: u16) -> ResponseCode {
    let [high, low] = [number >> 4, number & 0x0f].map(|half| u8::try_from(half).unwrap_or_default());
    ResponseCode::from(high, low)
}
