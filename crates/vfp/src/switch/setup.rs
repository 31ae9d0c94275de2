//! Changing the switch: ports, domains, tables, rules, underlays, pools.
//!
//! Every change moves the generations of the ports whose flows it may concern; those flows find out at their next packet.

use std::sync::atomic::Ordering;

use wire::{Ip, MacAddress};

use super::core::{Core, Port};
use super::{Switch, SwitchError};
use crate::domain::{Domain, DomainId, DomainSpec};
use crate::group::Stage;
use crate::layer::Program;
use crate::nat::{NatPool, NatPoolSpec, PoolId};
use crate::port::{PortId, PortKind, PortSpec};
use crate::rule::RuleSpec;
use crate::table::{SharedTable, TableId};
use crate::underlay::{Underlay, UnderlayId, UnderlaySpec};

impl Core {
    fn number(&mut self) -> u32 {
        self.last_number += 1;
        self.last_number
    }

    fn check_tables(&self, spec: &PortSpec) -> Result<(), SwitchError> {
        let missing = spec.program.tables().find(|table| !self.tables.contains_key(table));
        missing.map_or(Ok(()), |table| Err(SwitchError::NoTable(table)))
    }
}

impl Switch {
    /// Adds a port.
    pub fn add_port(&self, spec: PortSpec) -> Result<PortId, SwitchError> {
        let core = &mut *self.core();
        let free = core.ports.iter().position(Option::is_none).unwrap_or(core.ports.len());
        if free >= core.limits.ports {
            return Err(SwitchError::NoMorePorts(core.limits.ports));
        }
        core.check_tables(&spec)?;
        let id = PortId(free as u32);
        let domain = core.domains.get_mut(&spec.domain).ok_or(SwitchError::NoDomain(spec.domain))?;
        domain.ports.insert(id);
        let program = Program::build(&spec.program, &spec.name, &mut core.registry);
        let port = Some(Port { spec, program });
        match core.ports.get_mut(free) {
            Some(slot) => *slot = port,
            None => core.ports.push(port),
        }
        self.flows.cells[free].counters.reset();
        self.touch(id);
        Ok(id)
    }

    /// Changes a port. Its connections stay, as far as the new program allows them.
    pub fn change_port(&self, id: PortId, spec: PortSpec) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        if !core.domains.contains_key(&spec.domain) {
            return Err(SwitchError::NoDomain(spec.domain));
        }
        core.check_tables(&spec)?;
        let port = core.port(id).ok_or(SwitchError::NoPort(id))?;
        if port.spec == spec {
            return Ok(());
        }
        let before = port.spec.domain;
        if before != spec.domain {
            core.domains.get_mut(&before).map(|domain| domain.ports.remove(&id));
            core.domains.get_mut(&spec.domain).map(|domain| domain.ports.insert(id));
        }
        let program = Program::build(&spec.program, &spec.name, &mut core.registry);
        if let Some(slot) = core.ports.get_mut(id.0 as usize) {
            *slot = Some(Port { spec, program });
        }
        core.registry.tidy();
        self.touch(id);
        Ok(())
    }

    /// Has the flows of a port decided anew, as where they can be put has changed.
    pub fn refresh_port(&self, id: PortId) {
        let _core = self.core();
        self.touch(id);
    }

    /// Removes a port with its connections.
    pub fn remove_port(&self, id: PortId) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let port = core.ports.get_mut(id.0 as usize).and_then(Option::take).ok_or(SwitchError::NoPort(id))?;
        // The number will be given to another port, which must not receive what this one did.
        for domain in core.domains.values_mut() {
            domain.ports.remove(&id);
            domain.listed.remove(&id);
            domain.visited.remove(&id);
        }
        let own: Vec<_> =
            core.connections.iter().filter(|(_, connection)| connection.ports.contains(&id)).map(|(number, _)| number).collect();
        own.into_iter().for_each(|number| core.end(number, &self.flows));
        core.affinities.forget(id);
        drop(port);
        core.registry.tidy();
        self.touch(id);
        Ok(())
    }

    /// Adds a domain.
    pub fn add_domain(&self, spec: DomainSpec) -> DomainId {
        let core = &mut *self.core();
        let id = DomainId(core.number());
        core.domains.insert(id, Domain::new(spec));
        id
    }

    /// Changes how a domain treats what is not unicast IP.
    pub fn change_domain(&self, id: DomainId, spec: DomainSpec) -> Result<(), SwitchError> {
        self.core().domains.get_mut(&id).ok_or(SwitchError::NoDomain(id))?.spec = spec;
        Ok(())
    }

    /// Removes a domain. Ports that are still in it forward nothing any more.
    pub fn remove_domain(&self, id: DomainId) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let domain = core.domains.remove(&id).ok_or(SwitchError::NoDomain(id))?;
        self.touch_domain(&domain, true);
        self.touch_uplinks(core, !domain.speakers().is_empty());
        drop(domain);
        core.registry.tidy();
        Ok(())
    }

    /// Says whether a port gets what goes to groups of receivers, in a domain where only listed ports do.
    pub fn list_port(&self, id: DomainId, port: PortId, listed: bool) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let domain = core.domains.get_mut(&id).ok_or(SwitchError::NoDomain(id))?;
        match listed {
            true => domain.listed.insert(port),
            false => domain.listed.remove(&port),
        };
        Ok(())
    }

    /// Adds rules to a domain, or replaces those of the same name.
    pub fn put_rules(&self, id: DomainId, rules: impl IntoIterator<Item = (Stage, RuleSpec)>) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let domain = core.domains.get_mut(&id).ok_or(SwitchError::NoDomain(id))?;
        let (mut changed, speakers) = (false, domain.speakers());
        for (stage, rule) in rules {
            changed |= domain.put(stage, rule, &mut core.registry);
        }
        self.touch_domain(domain, changed);
        let spoken = domain.speakers() != speakers;
        self.touch_uplinks(core, spoken);
        Ok(())
    }

    /// Removes rules from a domain by name; what is not there is passed over.
    pub fn remove_rules<'a>(&self, id: DomainId, rules: impl IntoIterator<Item = (Stage, &'a str)>) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let domain = core.domains.get_mut(&id).ok_or(SwitchError::NoDomain(id))?;
        let (mut changed, speakers) = (false, domain.speakers());
        for (stage, name) in rules {
            changed |= domain.remove(stage, name);
        }
        self.touch_domain(domain, changed);
        let spoken = domain.speakers() != speakers;
        self.touch_uplinks(core, spoken);
        Ok(())
    }

    /// Adds a table without rules. Layers may name it from now on.
    pub fn add_table(&self, name: &str) -> TableId {
        let core = &mut *self.core();
        let id = TableId(core.number());
        core.tables.insert(id, SharedTable::new(name));
        id
    }

    /// Adds rules to a table, or replaces those of the same name.
    pub fn put_table_rules(&self, id: TableId, rules: impl IntoIterator<Item = RuleSpec>) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let table = core.tables.get_mut(&id).ok_or(SwitchError::NoTable(id))?;
        let mut changed = false;
        for rule in rules {
            changed |= table.put(rule, &mut core.registry);
        }
        self.touch_table(core, id, changed);
        Ok(())
    }

    /// Removes rules from a table by name; what is not there is passed over.
    pub fn remove_table_rules<'a>(&self, id: TableId, rules: impl IntoIterator<Item = &'a str>) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let table = core.tables.get_mut(&id).ok_or(SwitchError::NoTable(id))?;
        let mut changed = false;
        for name in rules {
            changed |= table.group.remove(name);
        }
        self.touch_table(core, id, changed);
        Ok(())
    }

    /// Removes a table. Layers that still name it find nothing there.
    pub fn remove_table(&self, id: TableId) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        core.tables.remove(&id).ok_or(SwitchError::NoTable(id))?;
        core.registry.tidy();
        self.touch_table(core, id, true);
        Ok(())
    }

    /// Adds an underlay.
    pub fn add_underlay(&self, spec: UnderlaySpec) -> UnderlayId {
        let core = &mut *self.core();
        let id = UnderlayId(core.number());
        core.underlays.insert(id, Underlay { spec, ..Underlay::default() });
        id
    }

    /// Changes an underlay. Known neighbours stay.
    pub fn change_underlay(&self, id: UnderlayId, spec: UnderlaySpec) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let underlay = core.underlays.get_mut(&id).ok_or(SwitchError::NoUnderlay(id))?;
        let uplinks = [underlay.spec.uplink, spec.uplink];
        underlay.spec = spec;
        uplinks.iter().for_each(|uplink| self.touch_underlay(core, *uplink));
        Ok(())
    }

    /// Removes an underlay.
    pub fn remove_underlay(&self, id: UnderlayId) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let underlay = core.underlays.remove(&id).ok_or(SwitchError::NoUnderlay(id))?;
        self.touch_underlay(core, underlay.spec.uplink);
        Ok(())
    }

    /// Says what the hardware address of a neighbour is, or that it is not known any more.
    pub fn set_neighbour(&self, id: UnderlayId, address: Ip, mac: Option<MacAddress>) -> Result<(), SwitchError> {
        let core = &mut *self.core();
        let underlay = core.underlays.get_mut(&id).ok_or(SwitchError::NoUnderlay(id))?;
        let before = match mac {
            Some(mac) => underlay.neighbours.insert(address, mac),
            None => underlay.neighbours.remove(&address),
        };
        // Flows exist only towards neighbours that were known.
        if before.is_some() && before != mac {
            self.touch(underlay.spec.uplink);
        }
        Ok(())
    }

    /// Adds a pool of ports for translation.
    pub fn add_pool(&self, spec: NatPoolSpec) -> PoolId {
        let core = &mut *self.core();
        let id = PoolId(core.number());
        core.pools.insert(id, NatPool::new(spec));
        id
    }

    /// Changes a pool. Connections keep the ports they have.
    pub fn change_pool(&self, id: PoolId, spec: NatPoolSpec) -> Result<(), SwitchError> {
        self.core().pools.get_mut(&id).ok_or(SwitchError::NoPool(id))?.change(spec);
        Ok(())
    }

    /// Removes a pool.
    pub fn remove_pool(&self, id: PoolId) -> Result<(), SwitchError> {
        self.core().pools.remove(&id).map(drop).ok_or(SwitchError::NoPool(id))
    }

    fn touch_domain(&self, domain: &Domain, changed: bool) {
        if changed {
            domain.ports.union(&domain.visited).for_each(|port| self.touch(*port));
        }
    }

    /// Moves on the uplinks: which packets would pass for those of a tunnel has changed.
    fn touch_uplinks(&self, core: &Core, changed: bool) {
        for (number, port) in core.ports.iter().enumerate().filter(|_| changed) {
            if port.as_ref().is_some_and(|port| port.spec.kind == PortKind::Uplink) {
                self.touch(PortId(number as u32));
            }
        }
    }

    /// Moves on the ports whose programs ask a table. There are few ports where there are many rules, so looking at all is cheap.
    fn touch_table(&self, core: &Core, id: TableId, changed: bool) {
        if !changed {
            return;
        }
        for (number, port) in core.ports.iter().enumerate() {
            if port.as_ref().is_some_and(|port| port.program.asks(id)) {
                self.touch(PortId(number as u32));
            }
        }
    }

    /// Moves on what an underlay sends to: its uplink, and ports of this node that have addresses of its network.
    fn touch_underlay(&self, core: &Core, uplink: PortId) {
        self.touch(uplink);
        if let Some(domain) = core.port(uplink).and_then(|port| core.domains.get(&port.spec.domain)) {
            domain.visited.iter().for_each(|port| self.touch(*port));
        }
    }

    /// Moves the generation of a port on.
    fn touch(&self, id: PortId) {
        if let Some(cell) = self.flows.cells.get(id.0 as usize) {
            let generation = cell.generation.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
            if let Some(offload) = &self.flows.offload {
                offload.set_generation(id, generation);
            }
        }
    }
}
