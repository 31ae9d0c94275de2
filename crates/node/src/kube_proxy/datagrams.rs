//! Clients over UDP whose backend has gone. The kernel leads them on for as long as they send, unless it is told to forget them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use host::nftables::conversations::{self, Conversation};
use host::nftables::services::{Frontend, Services, Way};

/// The number of UDP.
pub(super) const UDP: u8 = 17;

/// Where frontends of UDP lead, as it was told last.
#[derive(Default)]
pub(super) struct Datagrams {
    led: Option<Led>,
}

/// Where frontends lead: those with an address of their own, and node ports by family, which are at every address of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Led {
    addresses: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
    ports: BTreeMap<(bool, u16), BTreeSet<SocketAddr>>,
}

impl Datagrams {
    /// Ends the conversations that lead to somebody who is no backend any more, and those that began before there was a Service. The kernel has the
    /// new rules already, so that their next packet is led by them.
    pub(super) fn follow(&mut self, services: &Services) {
        let led = Led::of(services);
        if self.led.as_ref() == Some(&led) {
            return;
        }
        match conversations::forget(|conversation| led.is_over(conversation)) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "conversations over UDP were ended: whom they led to is no backend"),
            // New conversations are led right; those that there are end when their client is silent for a while.
            Err(error) => tracing::warn!(%error, "clients over UDP may keep backends that have gone"),
        }
        self.led = Some(led);
    }
}

impl Led {
    fn of(services: &Services) -> Self {
        let mut led = Self::default();
        for frontend in services.frontends.iter().filter(|frontend| frontend.protocol == UDP) {
            let targets = match frontend.address.is_unspecified() {
                true => led.ports.entry((frontend.address.is_ipv6(), frontend.port)).or_default(),
                false => led.addresses.entry(SocketAddr::new(frontend.address, frontend.port)).or_default(),
            };
            targets.extend(targets_of(services, frontend));
        }
        led
    }

    fn is_over(&self, conversation: &Conversation) -> bool {
        let asked = conversation.asked;
        if let Some(targets) = self.addresses.get(&asked) {
            return !targets.contains(&conversation.answers);
        }
        // Who was not led and is answered has asked somebody else, at a port of the same number.
        let is_ours = conversation.is_led() || !conversation.is_answered;
        is_ours && self.ports.get(&(asked.is_ipv6(), asked.port())).is_some_and(|targets| !targets.contains(&conversation.answers))
    }
}

/// Where a frontend leads anybody.
fn targets_of<'a>(services: &'a Services, frontend: &Frontend) -> impl Iterator<Item = SocketAddr> + use<'a> {
    let pool = |way| match way {
        Way::Pool { index, .. } => services.pools.get(index),
        Way::Refused => None,
    };
    let pools = [frontend.for_pods, frontend.for_node, frontend.for_others].map(pool);
    pools.into_iter().flatten().flat_map(|pool| pool.targets.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::nftables::services::Pool;

    #[test]
    fn only_those_without_a_backend_are_over() {
        let way = Way::Pool { index: 0, is_hidden: false };
        let frontend = |address: &str, port: u16, protocol: u8| Frontend {
            name: String::new(),
            address: address.parse().unwrap(),
            protocol,
            port,
            for_pods: way,
            for_node: way,
            for_others: Way::Refused,
            source_ranges: Vec::new(),
        };
        let services = Services {
            pools: vec![Pool { name: String::new(), targets: vec!["10.0.0.2:53".parse().unwrap()], affinity: None }],
            frontends: vec![frontend("10.96.0.10", 53, UDP), frontend("0.0.0.0", 30053, UDP), frontend("10.96.0.11", 80, 6)],
            ..Services::default()
        };
        let led = Led::of(&services);
        let is_over = |asked: &str, answers: &str, is_answered| {
            led.is_over(&Conversation { asked: asked.parse().unwrap(), answers: answers.parse().unwrap(), is_answered })
        };
        assert!(!is_over("10.96.0.10:53", "10.0.0.2:53", true), "the backend is there");
        assert!(is_over("10.96.0.10:53", "10.0.0.3:53", true), "the backend is gone");
        assert!(is_over("10.96.0.10:53", "10.96.0.10:53", false), "there was no Service yet");
        assert!(is_over("192.0.2.1:30053", "10.0.0.3:53", true), "a node port leads to nobody");
        assert!(is_over("192.0.2.1:30053", "192.0.2.1:30053", false), "nobody answered at a node port");
        assert!(!is_over("192.0.2.9:30053", "192.0.2.9:30053", true), "somebody else has a port of this number");
        assert!(!is_over("10.96.0.11:80", "10.0.0.9:80", true), "no Service over UDP is there");
    }
}
