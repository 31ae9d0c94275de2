//! Endpoints as people see them.

use hcn::Guid;
use hcn::api::Kind;
use hcn::endpoint::{Endpoint, EndpointState};
use serde_json::Value;

use super::object::Noun;
use crate::describe::{self, Description};
use crate::exit::Failure;
use crate::output::{Cell, Tone};
use crate::world::World;

impl Noun for Endpoint {
    const WORDS: (&'static str, &'static str) = ("endpoint", "endpoints");

    fn id(&self) -> Guid {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn header(wide: bool) -> Vec<&'static str> {
        let mut header = vec!["NAME", "NETWORK", "ADDRESS", "MAC", "STATE", "NAMESPACE"];
        if wide {
            header.extend(["FLAGS", "POLICIES"]);
        }
        header
    }

    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure> {
        let namespace = match (self.namespace.is_nil(), wide) {
            (true, _) => String::new(),
            (false, true) => self.namespace.to_string(),
            (false, false) => world.short(Kind::Namespace, self.namespace)?,
        };
        let mut row: Vec<Cell> = vec![
            self.name.as_str().into(),
            world.network_name(self.network)?.into(),
            addresses(self).join(",").into(),
            self.mac_address.as_str().into(),
            Cell::toned(state(self), tone(&self.state)),
            namespace.into(),
        ];
        if wide {
            row.push(self.flags.names().join(",").into());
            row.push(self.policies.iter().map(describe::policy_type).collect::<Vec<_>>().join(",").into());
        }
        Ok(row)
    }

    fn describe(&self, world: &World<'_>) -> Result<Description, Failure> {
        let namespace = if self.namespace.is_nil() { String::new() } else { self.namespace.to_string() };
        let with_length = |address: &hcn::endpoint::IpConfiguration| format!("{}/{}", address.ip_address, address.prefix_length);
        let mut description = Description::default();
        description
            .line("ID", self.id.to_string())
            .line("Name", self.name.as_str())
            .line("Network", format!("{} ({})", world.network_name(self.network)?, self.network))
            .line("Namespace", namespace)
            .line("State", state(self))
            .line("Addresses", self.ip_configurations.iter().map(with_length).collect::<Vec<_>>().join(", "))
            .line("MAC", self.mac_address.as_str())
            .line("Flags", self.flags.names().join(", "));
        description.routes(&self.routes).dns(&self.dns).policies(&self.policies).section("Statistics", statistics(world, self.id));
        description.rest(&self.owner, self.version, &self.health, &self.extra);
        Ok(description)
    }
}

/// The addresses, without prefix lengths.
pub(crate) fn addresses(endpoint: &Endpoint) -> Vec<&str> {
    endpoint.ip_configurations.iter().map(|address| address.ip_address.as_str()).collect()
}

fn state(endpoint: &Endpoint) -> String {
    match endpoint.is_remote() {
        true => format!("{} (remote)", endpoint.state),
        false => endpoint.state.to_string(),
    }
}

fn tone(state: &EndpointState) -> Tone {
    match state {
        EndpointState::Attached | EndpointState::AttachedSharing => Tone::Good,
        EndpointState::Degraded | EndpointState::Destroyed => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// Counters, where the service has them. A description is no place to fail for the want of a number.
fn statistics(world: &World<'_>, id: Guid) -> Description {
    let mut description = Description::default();
    let counters = world.hcn.call("GET", &format!("/endpointstats/{id}"), "").unwrap_or_default();
    for (name, value) in counters.as_object().into_iter().flatten() {
        if let Value::Number(number) = value {
            description.line(name, number.to_string());
        }
    }
    description
}
