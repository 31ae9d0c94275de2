//! Load balancers as people see them.

use hcn::Guid;
use hcn::load_balancer::{LoadBalancer, LoadBalancerPortMapping};

use super::endpoint::addresses;
use super::namespace::member;
use super::object::Noun;
use crate::describe::Description;
use crate::exit::Failure;
use crate::output::Cell;
use crate::world::World;

impl Noun for LoadBalancer {
    const WORDS: (&'static str, &'static str) = ("loadbalancer", "load balancers");

    fn id(&self) -> Guid {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn header(wide: bool) -> Vec<&'static str> {
        let mut header = vec!["VIPS", "PORTS", "BACKENDS", "FLAGS"];
        if wide {
            header.extend(["SOURCE-VIP", "DISTRIBUTION", "NAME"]);
        }
        header
    }

    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure> {
        let ports: Vec<String> = self.port_mappings.iter().map(port).collect();
        let backends = if wide { backends(world, &self.endpoints)? } else { self.endpoints.len().to_string() };
        let mut row: Vec<Cell> = vec![vips(self).into(), ports.join(",").into(), backends.into(), flags(self).join(",").into()];
        if wide {
            row.push(self.source_vip.as_str().into());
            row.push(distributions(self).join(",").into());
            row.push(self.name.as_str().into());
        }
        Ok(row)
    }

    fn describe(&self, world: &World<'_>) -> Result<Description, Failure> {
        let mut description = Description::default();
        description
            .line("ID", self.id.to_string())
            .line_if("Name", self.name.as_str())
            .line("VIPs", vips(self))
            .line("Source VIP", self.source_vip.as_str())
            .line("Flags", self.flags.names().join(", "));
        if !self.network.is_nil() {
            description.line("Network", format!("{} ({})", world.network_name(self.network)?, self.network));
        }
        let ports = self.port_mappings.iter().map(|mapping| {
            let flags = mapping.flags.names().join(", ");
            format!("{}  distribution {}  {flags}", port(mapping), mapping.distribution_type)
        });
        description.list("Ports", ports.collect());
        let backends = self.endpoints.iter().map(|id| member(world, *id)).collect::<Result<Vec<_>, _>>()?;
        description.list("Backends", backends).rest(&self.owner, self.version, &self.health, &self.extra);
        Ok(description)
    }
}

/// Virtual addresses; a load balancer without any serves node ports.
fn vips(balancer: &LoadBalancer) -> String {
    match balancer.frontend_vips.is_empty() {
        true => "<node>".to_owned(),
        false => balancer.frontend_vips.join(","),
    }
}

/// A port mapping, as `TCP 80->8080`.
fn port(mapping: &LoadBalancerPortMapping) -> String {
    format!("{} {}->{}", mapping.protocol, mapping.external_port, mapping.internal_port)
}

/// The addresses of backends, or their ids where they have none.
fn backends(world: &World<'_>, endpoints: &[Guid]) -> Result<String, Failure> {
    let address = |id: &Guid| {
        let endpoint = world.known_endpoint(*id)?;
        let found = endpoint.map(|endpoint| addresses(endpoint).join("+")).filter(|text| !text.is_empty());
        Ok(found.unwrap_or_else(|| id.to_string()))
    };
    Ok(endpoints.iter().map(address).collect::<Result<Vec<String>, Failure>>()?.join(","))
}

/// The names of all flags, of the load balancer and of its ports, each once.
fn flags(balancer: &LoadBalancer) -> Vec<String> {
    let of_ports = balancer.port_mappings.iter().flat_map(|mapping| mapping.flags.names());
    once_each(balancer.flags.names().into_iter().chain(of_ports))
}

fn distributions(balancer: &LoadBalancer) -> Vec<String> {
    once_each(balancer.port_mappings.iter().map(|mapping| mapping.distribution_type.to_string()))
}

fn once_each(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
