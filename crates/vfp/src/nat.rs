//! Ports for translated connections.
//!
//! One port may serve many connections at once, as long as they go to different places. So what runs out is the range of
//! ports *towards one destination*, and there every owner may take no more than what it would leave to the others: a newcomer
//! always finds as much as the greediest has.

use foldhash::{HashMap, HashSet};
use std::ops::RangeInclusive;

use wire::Ip;

use crate::flow::key::mix;
use crate::port::PortId;

/// A pool of ports, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// The pool of the switch itself, for connections whose answers could not be told apart. Other pools begin with 1.
pub(crate) const CLASHES: PoolId = PoolId(0);

/// Its ports, which Linux does not give to sockets by itself: a client is unlikely to come from one.
pub(crate) const CLASH_PORTS: RangeInclusive<u16> = 61_000..=65_535;

/// A pool as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatPoolSpec {
    /// The ports it may give out.
    pub ports: RangeInclusive<u16>,
}

/// A pool in force.
#[derive(Debug)]
pub struct NatPool {
    spec: NatPoolSpec,
    destinations: HashMap<Destination, Taken>,
}

/// Where translated connections go to, and from which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) source: Ip,
    pub(crate) address: Ip,
    pub(crate) port: u16,
    pub(crate) protocol: u8,
}

#[derive(Debug, Default)]
struct Taken {
    ports: HashSet<u16>,
    by_owner: HashMap<PortId, usize>,
}

/// What a connection asks a pool for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) pool: PoolId,
    pub(crate) destination: Destination,
    pub(crate) owner: PortId,
    /// How many the owner may have towards this destination.
    pub(crate) most: Option<u16>,
    /// The port that it had, which it gets again if it can.
    pub(crate) port: Option<u16>,
}

/// A port that a connection has. It goes back to its pool when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) pool: PoolId,
    pub(crate) destination: Destination,
    pub(crate) port: u16,
    pub(crate) owner: PortId,
}

/// How many ports are tried before the range counts as used up.
const TRIES: u32 = 512;

impl NatPool {
    pub(crate) fn new(spec: NatPoolSpec) -> Self {
        Self { spec, destinations: HashMap::default() }
    }

    pub(crate) fn change(&mut self, spec: NatPoolSpec) {
        self.spec = spec;
    }

    /// Takes a port for an owner that nobody has towards the destination, and that `is_free` besides; `chance` is where to begin.
    pub(crate) fn take(&mut self, wish: &Wish, chance: u64, is_free: impl Fn(u16) -> bool) -> Option<Lease> {
        let Wish { pool, destination, owner, most, port } = *wish;
        let (first, last) = (*self.spec.ports.start(), *self.spec.ports.end());
        let size = usize::from(last.checked_sub(first)?) + 1;
        let taken = self.destinations.get(&destination);
        let (total, own) = taken.map_or((0, 0), |taken| (taken.ports.len(), taken.by_owner.get(&owner).copied().unwrap_or(0)));
        let share = most.map_or(usize::MAX, usize::from).min(size.saturating_sub(total));
        if own >= share {
            return None;
        }
        let start = mix(chance) as usize % size;
        let tries = (TRIES as usize).min(size);
        let is_taken = |port: &u16| taken.is_some_and(|taken| taken.ports.contains(port));
        let wished = port.filter(|port| self.spec.ports.contains(port));
        let tried = (0..tries).map(|step| first + ((start + step) % size) as u16);
        let port = wished.into_iter().chain(tried).find(|port| !is_taken(port) && is_free(*port))?;
        let taken = self.destinations.entry(destination).or_default();
        taken.ports.insert(port);
        *taken.by_owner.entry(owner).or_default() += 1;
        Some(Lease { pool, destination, port, owner })
    }

    pub(crate) fn give_back(&mut self, lease: &Lease) {
        let Some(taken) = self.destinations.get_mut(&lease.destination) else { return };
        taken.ports.remove(&lease.port);
        if let Some(own) = taken.by_owner.get_mut(&lease.owner) {
            *own -= 1;
            if *own == 0 {
                taken.by_owner.remove(&lease.owner);
            }
        }
        if taken.ports.is_empty() {
            self.destinations.remove(&lease.destination);
        }
    }

    /// How many ports are taken, over all destinations.
    pub fn taken(&self) -> usize {
        self.destinations.values().map(|taken| taken.ports.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Destination = Destination { source: Ip::v4(1), address: Ip::v4(2), port: 80, protocol: 6 };

    fn wish(owner: u32) -> Wish {
        Wish { pool: PoolId(0), destination: TO, owner: PortId(owner), most: None, port: None }
    }

    #[test]
    fn a_flood_leaves_as_much_as_it_takes() {
        let mut pool = NatPool::new(NatPoolSpec { ports: 1000..=1099 });
        let mut take = |owner: u32, chance: u64| pool.take(&wish(owner), chance, |_| true);
        let greedy = (0..200).filter(|n| take(1, *n).is_some()).count();
        assert_eq!(greedy, 50);
        assert!((0..25).all(|n| take(2, n).is_some()), "the newcomer has its share");
    }

    #[test]
    fn a_port_that_is_wished_for_is_had_if_it_is_free() {
        let mut pool = NatPool::new(NatPoolSpec { ports: 1000..=1099 });
        let mut take = |port: u16| pool.take(&Wish { port: Some(port), ..wish(1) }, 0, |_| true).map(|lease| lease.port);
        assert_eq!(take(1042), Some(1042));
        assert_ne!(take(1042), Some(1042), "it is taken");
        assert!(take(80).is_some_and(|port| (1000..=1099).contains(&port)), "it is none of the pool's");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut pool = NatPool::new(NatPoolSpec { ports: 5000..=5000 });
        let lease = pool.take(&wish(1), 9, |_| true).expect("one is free");
        assert!(pool.take(&wish(1), 9, |_| true).is_none());
        pool.give_back(&lease);
        assert_eq!(pool.taken(), 0);
        assert!(pool.take(&wish(1), 9, |_| true).is_some());
    }
}
