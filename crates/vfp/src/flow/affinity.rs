//! Which backend a client had, for services whose clients keep theirs.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foldhash::fast::FixedState;
use wire::{FlowId, Ip};

use crate::port::PortId;
use crate::service::Backend;
use crate::time::Instant;

/// A client of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    /// The port it is behind. Two networks may have the same addresses.
    port: PortId,
    address: Ip,
    service: Ip,
    service_port: u16,
    protocol: u8,
}

impl Client {
    /// The client that sent this to a service.
    pub(crate) fn of(port: PortId, id: &FlowId) -> Self {
        Self { port, address: id.source, service: id.destination, service_port: id.destination_port, protocol: id.protocol }
    }
}

#[derive(Clone, Copy, Debug)]
struct Loyalty {
    backend: Backend,
    used: Instant,
    timeout: Duration,
}

/// What is remembered of clients. A port may have as many as it leaves to the others; beyond that, its own oldest make room.
#[derive(Debug)]
pub(crate) struct Affinities {
    known: HashMap<Client, Loyalty, FixedState>,
    /// The clients of each port, oldest first.
    by_port: HashMap<PortId, VecDeque<Client>>,
    capacity: usize,
}

/// How many of a port's oldest are looked at to find the one that was idle longest.
const LOOKED_AT: usize = 32;

impl Affinities {
    pub(crate) fn new(capacity: usize, seed: u64) -> Self {
        Self { known: HashMap::with_hasher(FixedState::with_seed(seed)), by_port: HashMap::new(), capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The backend that a client had, if it was used within this time.
    pub(crate) fn get(&self, client: &Client, now: Instant, timeout: Duration) -> Option<Backend> {
        self.known.get(client).filter(|loyalty| now.since(loyalty.used) < timeout).map(|loyalty| loyalty.backend)
    }

    /// Notes that a client has used a backend.
    pub(crate) fn note(&mut self, client: Client, backend: Backend, timeout: Duration, now: Instant) {
        let loyalty = Loyalty { backend, used: now, timeout };
        if let Some(known) = self.known.get_mut(&client) {
            *known = loyalty;
            return;
        }
        let owned = self.by_port.get(&client.port).map_or(0, VecDeque::len);
        if owned >= self.capacity.saturating_sub(self.known.len()) && !self.make_room(client.port) {
            return;
        }
        self.known.insert(client, loyalty);
        self.by_port.entry(client.port).or_default().push_back(client);
    }

    /// Forgets a client of the port that was idle for long. Whether it has one.
    fn make_room(&mut self, port: PortId) -> bool {
        let Some(own) = self.by_port.get_mut(&port) else { return false };
        let used = |client: &Client| self.known.get(client).map(|loyalty| loyalty.used);
        let idle = own.iter().take(LOOKED_AT).enumerate().min_by_key(|(_, client)| used(client)).map(|(at, _)| at);
        match idle.and_then(|at| own.remove(at)) {
            Some(client) => self.known.remove(&client).is_some(),
            None => false,
        }
    }

    /// Forgets all clients of a port.
    pub(crate) fn forget(&mut self, port: PortId) {
        for client in self.by_port.remove(&port).unwrap_or_default() {
            self.known.remove(&client);
        }
    }

    /// Forgets who has not been seen for as long as its service remembers.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let before = self.known.len();
        self.known.retain(|_, loyalty| now.since(loyalty.used) < loyalty.timeout);
        if self.known.len() == before {
            return;
        }
        for own in self.by_port.values_mut() {
            own.retain(|client| self.known.contains_key(client));
        }
        self.by_port.retain(|_, own| !own.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn client(port: u32, address: u32) -> Client {
        Client { port: PortId(port), address: Ip::v4(address), service: Ip::v4(9), service_port: 80, protocol: 6 }
    }

    fn backend(port: u16) -> Backend {
        Backend { address: Ip::v4(1), port }
    }

    #[test]
    fn a_flood_pushes_out_its_own_only() {
        let mut affinities = Affinities::new(64, 7);
        affinities.note(client(2, 1), backend(1), HOUR, Instant(1));
        for address in 0..1000 {
            affinities.note(client(1, address), backend(1), HOUR, Instant(2 + u64::from(address)));
        }
        assert!(affinities.get(&client(2, 1), Instant(2000), HOUR).is_some(), "of another port");
        assert!(affinities.get(&client(1, 999), Instant(2000), HOUR).is_some(), "the newest");
        assert!(affinities.get(&client(1, 0), Instant(2000), HOUR).is_none(), "the oldest");
        assert_eq!(affinities.len(), 33, "half is left to others");
    }

    #[test]
    fn what_was_used_lately_is_kept() {
        let mut affinities = Affinities::new(8, 7);
        for address in 0..4 {
            affinities.note(client(1, address), backend(1), HOUR, Instant(u64::from(address)));
        }
        affinities.note(client(1, 0), backend(1), HOUR, Instant(10));
        affinities.note(client(1, 4), backend(1), HOUR, Instant(11));
        assert!(affinities.get(&client(1, 0), Instant(12), HOUR).is_some());
        assert!(affinities.get(&client(1, 1), Instant(12), HOUR).is_none(), "it was idle longest");
    }

    #[test]
    fn nothing_is_left_when_all_is_over() {
        let mut affinities = Affinities::new(64, 7);
        affinities.note(client(1, 1), backend(1), HOUR, Instant(0));
        affinities.note(client(2, 1), backend(1), HOUR, Instant(0));
        affinities.forget(PortId(2));
        assert_eq!(affinities.len(), 1);
        affinities.sweep(Instant::default().after(HOUR));
        assert_eq!((affinities.len(), affinities.by_port.len()), (0, 0));
    }
}
