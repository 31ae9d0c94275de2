//! A bound on what a NIC sends.
//!
//! Nothing is dropped for it: while a NIC has sent more than it may, it is not read, and what it sends waits in its own queue, where
//! the kernel's TCP notices. A frame is taken whole, so that the account may go below zero; it is then paid off before the next.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How much of a second may be sent at once after a pause: a tenth. A worker that has to wait for the processor for less loses nothing.
const BURST_PER_SECOND: u64 = 10;

/// Less would let a large frame pass alone and then wait, which is no way to reach a rate.
const BURST_LEAST: u64 = 128 * 1024;

/// A token bucket: it fills with time and is emptied by frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shaper {
    /// Bytes per second.
    rate: NonZeroU64,
    burst: i64,
    tokens: i64,
    filled: Instant,
}

impl Shaper {
    pub(super) fn new(rate: NonZeroU64, now: Instant) -> Self {
        let burst = i64::try_from((rate.get() / BURST_PER_SECOND).max(BURST_LEAST)).unwrap_or(i64::MAX);
        Self { rate, burst, tokens: burst, filled: now }
    }

    /// How long nothing may be sent; none if something may.
    pub(super) fn rest(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        let missing = u64::try_from(1 - self.tokens).ok().filter(|missing| *missing > 0)?;
        Some(Duration::from_nanos(scaled(missing, 1_000_000_000, self.rate.get()).max(1)))
    }

    /// Notes that a frame was sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.tokens = self.tokens.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = u64::try_from(now.saturating_duration_since(self.filled).as_nanos()).unwrap_or(u64::MAX);
        let earned = scaled(elapsed, self.rate.get(), 1_000_000_000);
        if earned == 0 {
            // Time too short for a byte is kept for the next time.
            return;
        }
        self.tokens = self.tokens.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX)).min(self.burst);
        self.filled += Duration::from_nanos(scaled(earned, 1_000_000_000, self.rate.get()).min(elapsed));
    }
}

/// A product divided, without loss on the way.
fn scaled(value: u64, by: u64, per: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(per.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends frames as fast as it may for some seconds, and answers how many bytes that were.
    fn sent_in(seconds: u64, rate: u64, frame: usize) -> u64 {
        let start = Instant::now();
        let (mut now, mut sent) = (start, 0);
        let mut shaper = Shaper::new(NonZeroU64::new(rate).unwrap(), start);
        while now < start + Duration::from_secs(seconds) {
            match shaper.rest(now) {
                Some(rest) => now += rest,
                None => {
                    shaper.sent(frame);
                    sent += frame as u64;
                }
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_kept_within_five_per_cent_over_ten_seconds() {
        for (rate, frame) in [(1_000_000, 1514), (1_000_000, 61_000), (125_000_000, 1514), (1_250_000_000, 61_000), (300_000, 200)] {
            let sent = sent_in(10, rate, frame) as f64 / (10 * rate) as f64;
            assert!((0.95..=1.05).contains(&sent), "{rate} bytes a second in frames of {frame}: {sent:.3}");
        }
    }

    #[test]
    fn what_was_sent_too_much_is_paid_off() {
        let now = Instant::now();
        let mut shaper = Shaper::new(NonZeroU64::new(1000).unwrap(), now);
        assert_eq!(shaper.rest(now), None);
        shaper.sent(BURST_LEAST as usize + 1000);
        assert_eq!(shaper.rest(now), Some(Duration::from_millis(1001)));
        assert_eq!(shaper.rest(now + Duration::from_millis(1001)), None);
    }

    #[test]
    fn the_slowest_rate_gets_there_too() {
        let now = Instant::now();
        let mut shaper = Shaper::new(NonZeroU64::MIN, now);
        shaper.sent(BURST_LEAST as usize);
        assert_eq!(shaper.rest(now + Duration::from_millis(10)), Some(Duration::from_secs(1)));
        assert_eq!(shaper.rest(now + Duration::from_secs(1)), None);
    }
}
