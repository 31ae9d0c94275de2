//! A stand-in for the fabric of a cloud: what L2Tunnel networks send every packet to.
//!
//! It is a switch with one link to each node. It answers every question for a neighbour with its own hardware address, so that all packets
//! come to it; it filters them by rules of its own, and sends them on by routes of its own, also back to the node they came from.

mod config;
mod links;

use std::io::Write;
use std::sync::Arc;

use vfp::{
    Action, AddressMatch, Conditions, DomainId, DomainSpec, DropReason, GroupSpec, LayerSpec, Limits, PortId, PortKind, PortSpec,
    ProgramSpec, RuleSpec, Stage, Switch, SwitchError, Timeouts,
};
use wire::MacAddress;

pub use config::{Config, ConfigError, Link, Route, Rule, RuleAction};

use crate::vswitchd::Error;

/// The layer of the fabric's own rules.
const ACL: &str = "acl";

/// The largest IP packet on a link.
const MTU: u16 = 1500;

/// A fabric that is set up: the switch, and the port of each link.
pub(crate) struct Fabric {
    pub(crate) switch: Arc<Switch>,
    pub(crate) ports: Vec<PortId>,
    config: Config,
    domain: DomainId,
}

impl Fabric {
    /// Sets up the switch. Hardware addresses of nodes that the configuration leaves out are learned.
    pub(crate) fn new(config: Config, seed: u64) -> Result<Self, Error> {
        let limits = Limits { ports: config.links.len() + 1, ..Limits::default() };
        let switch = Arc::new(Switch::new(limits, Timeouts::default(), seed));
        let domain = switch.add_domain(DomainSpec { name: "fabric".into(), ..DomainSpec::default() });
        let program = program(&config).map_err(|error| Error::Message(error.to_string()))?;
        let port = |link: &Link| port(link, &config, domain, program.clone());
        let ports = config.links.iter().map(|link| switch.add_port(port(link))).collect::<Result<Vec<_>, SwitchError>>()?;
        let answer = RuleSpec::new("everybody", 1000, Conditions::any(), Action::Answer(config.mac));
        switch.put_rules(domain, [(Stage::NeighbourOut, answer)])?;
        let fabric = Self { switch, ports, config, domain };
        for (number, link) in fabric.config.links.iter().enumerate() {
            if let Some(mac) = link.mac {
                fabric.learn(number, mac)?;
            }
        }
        Ok(fabric)
    }

    /// Routes what is behind a link to the hardware address of its node.
    pub(crate) fn learn(&self, number: usize, mac: MacAddress) -> Result<(), Error> {
        let Some(port) = self.ports.get(number).copied() else { return Ok(()) };
        let link = &self.config.links[number];
        let routed = self.config.routes.iter().filter(|route| route.link == link.interface).map(|route| route.prefix);
        let action = Action::Forward { port, source_mac: Some(self.config.mac), destination_mac: Some(mac) };
        let rule = |prefix: ipnet::IpNet| {
            let open = u16::from(prefix.max_prefix_len() - prefix.prefix_len());
            (
                Stage::ForwardOut,
                RuleSpec::new(format!("{} {prefix}", link.interface), 100 + open, Conditions::to_prefix(prefix), action.clone()),
            )
        };
        let rules: Vec<_> = link.addresses.iter().copied().chain(routed).map(rule).collect();
        Ok(self.switch.put_rules(self.domain, rules)?)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

fn port(link: &Link, config: &Config, domain: DomainId, program: ProgramSpec) -> PortSpec {
    PortSpec {
        name: link.interface.clone(),
        kind: PortKind::Nic,
        mac: config.mac,
        addresses: Vec::new(),
        domain,
        mtu: MTU,
        hidden_behind: None,
        hairpin: true,
        router_guard: false,
        program,
    }
}

/// The fabric's own rules, which hold on every link. What answers an allowed packet passes.
fn program(config: &Config) -> Result<ProgramSpec, ConfigError> {
    let rule = |rule: &Rule| {
        let addresses = |list: &[ipnet::IpNet]| list.iter().copied().map(AddressMatch::Prefix).collect();
        let conditions = Conditions {
            protocols: rule.protocols.clone(),
            sources: addresses(&rule.sources),
            destinations: addresses(&rule.destinations),
            destination_ports: rule.port_ranges()?,
            ..Conditions::default()
        };
        let action = match rule.action {
            RuleAction::Allow => Action::Allow,
            RuleAction::Block => Action::Block(DropReason::AclBlock),
        };
        Ok(RuleSpec::new(&rule.name, rule.priority, conditions, action))
    };
    let rules = config.rules.iter().map(rule).collect::<Result<Vec<_>, ConfigError>>()?;
    let outward = vec![GroupSpec { name: "rules".into(), rules }];
    Ok(ProgramSpec { layers: vec![LayerSpec { name: ACL.into(), stateful: true, outward, ..LayerSpec::default() }] })
}

/// Runs a fabric until the process is told to stop.
pub fn run(config: Config) -> Result<(), Error> {
    config.check().map_err(|error| Error::Message(error.to_string()))?;
    let fabric = Fabric::new(config, crate::vswitchd::random_seed())?;
    let mut links = links::Links::open(fabric)?;
    let mut out = std::io::stdout().lock();
    _ = writeln!(out, "ready: the fabric has {} links", links.len()).and_then(|()| out.flush());
    drop(out);
    crate::manager::ready();
    links.run()
}

#[cfg(test)]
mod tests;
