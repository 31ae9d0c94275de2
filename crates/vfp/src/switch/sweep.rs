//! Ageing: what has been idle for too long goes.

use std::time::Duration;

use super::Switch;
use crate::time::Instant;

/// How often what forwards elsewhere is asked about a connection. It alone may know that one is over, which then is found out so much later; but
/// none is idle for too long before so much time has passed, and asking about very many costs more than all else.
const ASKED: Duration = Duration::from_secs(10);

impl Switch {
    /// Looks at up to `budget` connections and ends those that are over. Called again and again, it comes around; `true` says
    /// that it just did.
    pub fn sweep(&self, now: Instant, budget: usize) -> bool {
        let core = &mut *self.core();
        let numbers = core.connections.numbers();
        let from = core.swept.min(numbers.end);
        let to = from.saturating_add(u32::try_from(budget).unwrap_or(u32::MAX)).min(numbers.end);
        for id in from..to {
            let is_asked = core.connections.get(id).is_some_and(|it| now.since(it.collected_at) >= ASKED || core.is_expired(it, now));
            if !is_asked {
                continue;
            }
            core.collect_all(id, &self.flows);
            let Some(connection) = core.connections.get_mut(id) else { continue };
            connection.collected_at = now;
            let expired = core.connections.get(id).is_some_and(|connection| core.is_expired(connection, now));
            if expired && core.is_over(id, &self.flows, |core, connection| core.is_expired(connection, now)) {
                core.end(id, &self.flows);
                core.counters.connections_expired += 1;
            }
        }
        let around = to >= numbers.end;
        if around {
            core.fragments.sweep(now);
            core.affinities.sweep(now);
        }
        core.swept = if around { 0 } else { to };
        around
    }
}
