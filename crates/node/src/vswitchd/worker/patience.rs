//! How long a worker looks for packets before it sleeps.
//!
//! Waking a thread costs its waker and the one who waits far more than handling a packet, so while packets follow each other
//! closely a worker keeps looking. Between looks it gives way to whoever wants the processor: looking uses only time that nobody
//! else has a use for. When packets become rare it sleeps at once, and also while large frames come by: nobody waits for one of
//! them, and a worker that sleeps finds more of them together.

use std::time::Duration;

/// Packets this many times further apart than a worker looks for them are still worth looking: having looked brings them closer.
const NEAR: u32 = 4;

/// A longer frame is part of a stream.
const LARGE: usize = 9000;

/// How many times a worker sleeps after a large frame. Half of what a stream consists of is small, namely its acknowledgements.
const SLEEPS: u32 = 64;

/// What a worker does when nothing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Give way, and look again.
    Look,
    /// Sleep until something is there.
    Sleep,
}

/// Decides between looking and sleeping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How long to look at most; zero to never look.
    most: Duration,
    /// Whether the last packets were near each other.
    near: bool,
    /// How many times to sleep before looking is worth a thought.
    sleeps: u32,
}

impl Patience {
    pub(super) fn new(most: Duration) -> Self {
        Self { most, near: false, sleeps: 0 }
    }

    /// What to do after nothing was there for so long.
    pub(super) fn after(&self, quiet: Duration) -> Next {
        if self.near && self.sleeps == 0 && quiet < self.most { Next::Look } else { Next::Sleep }
    }

    /// Learns that something was there after nothing had been for so long.
    pub(super) fn ended(&mut self, quiet: Duration) {
        self.near = quiet < self.most * NEAR;
        self.sleeps = self.sleeps.saturating_sub(1);
    }

    /// Learns of a frame that came by.
    pub(super) fn saw(&mut self, length: usize) {
        if length > LARGE {
            self.sleeps = SLEEPS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn it_begins_to_look_when_packets_come_near_each_other() {
        let mut patience = Patience::new(micros(50));
        assert_eq!(patience.after(Duration::ZERO), Next::Sleep);
        patience.ended(micros(150));
        assert_eq!(patience.after(Duration::ZERO), Next::Look);
        assert_eq!(patience.after(micros(49)), Next::Look);
        assert_eq!(patience.after(micros(50)), Next::Sleep);
    }

    #[test]
    fn it_sleeps_when_packets_are_rare() {
        let mut patience = Patience::new(micros(50));
        patience.ended(micros(10));
        patience.ended(micros(200));
        assert_eq!(patience.after(Duration::ZERO), Next::Sleep);
    }

    #[test]
    fn it_sleeps_while_a_stream_comes_by() {
        let mut patience = Patience::new(micros(50));
        patience.ended(micros(10));
        patience.saw(1500);
        assert_eq!(patience.after(Duration::ZERO), Next::Look);
        patience.saw(60_000);
        for _ in 0..SLEEPS {
            assert_eq!(patience.after(Duration::ZERO), Next::Sleep);
            patience.ended(micros(10));
        }
        assert_eq!(patience.after(Duration::ZERO), Next::Look);
    }

    #[test]
    fn zero_never_looks() {
        let mut patience = Patience::new(Duration::ZERO);
        patience.ended(Duration::ZERO);
        assert_eq!(patience.after(Duration::ZERO), Next::Sleep);
    }
}
