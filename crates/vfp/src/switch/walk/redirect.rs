//! From a service to one of its backends.

use wire::FlowId;
use wire::number::{protocol, tcp_flag};

use super::facts::{Choice, Facts};
use super::source::is_translatable;
use crate::flow::affinity::Client;
use crate::offload::OffloadChoice;
use crate::port::{PortId, PortKind};
use crate::service::{Backend, Distribution, Service};
use crate::switch::core::Core;
use crate::verdict::DropReason;

impl Core {
    /// Sends a packet to one of the backends of a service.
    pub(super) fn redirect(&mut self, facts: &mut Facts, port: PortId, service: &Service) -> Result<(), DropReason> {
        // Only one backend can be remembered.
        if std::mem::replace(&mut facts.is_redirected, true) {
            return Err(DropReason::RuleLoop);
        }
        let id = facts.subject.id;
        let client = Client::of(port, &id);
        let backend = self.choose(facts, &client, service).ok_or(DropReason::NoBackend)?;
        let after = match service.keep_destination {
            true => id,
            false => FlowId { destination: backend.address, destination_port: backend.port, ..id },
        };
        if !is_translatable(&id, &after) || backend.address.is_v4() != id.destination.is_v4() {
            return Err(DropReason::UnsupportedProtocol);
        }
        self.note_choice(facts, &backend, service);
        facts.memory.backend = Some(backend);
        facts.loyal = service.affinity.map(|timeout| (client, timeout));
        facts.subject.id = after;
        facts.towards = service.keep_destination.then_some(backend.address);
        if let Some(domain) = service.domain {
            (facts.domain, facts.from) = (domain, PortKind::Nic);
        }
        if let Some(underlay) = service.underlay {
            facts.routed = Some(underlay);
            // Answers come back into the domain of the wire, whoever asked.
            let uplink = self.underlays.get(&underlay).and_then(|underlay| self.port(underlay.spec.uplink));
            facts.domain = uplink.map_or(facts.domain, |uplink| uplink.spec.domain);
        }
        match service.masquerade.filter(|masquerade| masquerade.always || backend.address == id.source) {
            Some(masquerade) => self.masquerade(facts, port, &masquerade),
            None => Ok(()),
        }
    }

    /// The backend that the connection has, if that is still there or the two have shaken hands; else the one that its client had, while
    /// that counts; else the one that the distribution says.
    fn choose(&self, facts: &Facts, client: &Client, service: &Service) -> Option<Backend> {
        let has = |backend: &Backend| service.backends.contains(backend);
        let kept = || facts.memory.backend.filter(|backend| has(backend) || self.has_shaken_hands(facts));
        let loyal = || self.affinities.get(client, facts.now, service.affinity?).filter(has);
        let wish = || facts.wish.map(|wish| Backend { address: wish.destination, port: wish.destination_port }).filter(has);
        kept().or_else(wish).or_else(loyal).or_else(|| self.distribute(facts, service))
    }

    /// The backend of a connection that nothing is known of.
    fn distribute(&self, facts: &Facts, service: &Service) -> Option<Backend> {
        service.backends.select(service.distribution.hash(&facts.subject.id, self.seed))
    }

    /// Notes whether another connection of the client would have got the same backend, and if not, how it would choose.
    fn note_choice(&self, facts: &mut Facts, backend: &Backend, service: &Service) {
        let list = service.backends.list();
        let has_past = facts.memory.backend.is_some() || facts.wish.is_some();
        facts.is_kept = has_past && self.distribute(facts, service).as_ref() != Some(backend);
        if service.affinity.is_some() {
            facts.is_particular = true;
        } else if service.distribution == Distribution::FiveTuple && list.len() > 1 {
            let choice = OffloadChoice::among(list, backend, self.seed);
            facts.is_particular |= choice.is_none();
            facts.choice = choice.map(|of| Choice { asked: facts.subject.id, of });
        } else {
            facts.is_particular |= facts.is_kept;
        }
    }

    /// Whether a packet belongs to a TCP connection whose client has acknowledged something. No other backend could go on with it, and its
    /// own may be finishing its work before it leaves.
    fn has_shaken_hands(&self, facts: &Facts) -> bool {
        let connection = facts.connection.and_then(|id| self.connections.get(id));
        connection.is_some_and(|it| it.forward.scope.id.protocol == protocol::TCP && it.forward.seen.tcp_flags & tcp_flag::ACK != 0)
    }
}
