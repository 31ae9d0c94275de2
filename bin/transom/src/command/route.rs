//! SDN routes as people see them.

use hcn::api::Kind;
use hcn::base::Health;
use hcn::policy::endpoint::SdnRouteSettings;
use hcn::route::SdnRoute;
use hcn::{Field, Guid};

use super::namespace::member;
use super::object::Noun;
use crate::describe::Description;
use crate::exit::Failure;
use crate::output::Cell;
use crate::world::World;

impl Noun for SdnRoute {
    const WORDS: (&'static str, &'static str) = ("route", "routes");

    fn id(&self) -> Guid {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn header(wide: bool) -> Vec<&'static str> {
        let mut header = vec!["DESTINATION", "NEXTHOP", "ENDPOINTS"];
        if wide {
            header.extend(["ENCAP", "NAME"]);
        }
        header
    }

    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure> {
        let short = |id: &Guid| if wide { Ok(id.to_string()) } else { world.short(Kind::Endpoint, *id) };
        let endpoints = self.endpoints.iter().map(short).collect::<Result<Vec<_>, Failure>>()?;
        let each = |of: fn(&SdnRouteSettings) -> String| entries(self).iter().map(of).collect::<Vec<_>>().join(",");
        let mut row: Vec<Cell> = vec![
            each(|entry| entry.destination_prefix.clone()).into(),
            each(|entry| entry.next_hop.clone()).into(),
            endpoints.join(",").into(),
        ];
        if wide {
            row.push(each(|entry| yes_or_no(entry.need_encap).to_owned()).into());
            row.push(self.name.as_str().into());
        }
        Ok(row)
    }

    fn describe(&self, world: &World<'_>) -> Result<Description, Failure> {
        let mut description = Description::default();
        description.line("ID", self.id.to_string()).line_if("Name", self.name.as_str());
        if !self.network.is_nil() {
            description.line("Network", format!("{} ({})", world.network_name(self.network)?, self.network));
        }
        let routes = entries(self).iter().map(|entry| {
            let encapsulated = if entry.need_encap { " encapsulated" } else { "" };
            format!("{} via {}{encapsulated}", entry.destination_prefix, entry.next_hop)
        });
        description.list("Routes", routes.collect());
        let endpoints = self.endpoints.iter().map(|id| member(world, *id)).collect::<Result<Vec<_>, _>>()?;
        // The document type has no health, so it is among the fields that are only carried along.
        let mut extra = self.extra.clone();
        let health = extra.shift_remove("Health").map(|health| Health::read(health, &hcn::Path::Root)).transpose()?;
        description.list("Endpoints", endpoints).rest(&self.owner, self.version, &health.unwrap_or_default(), &extra);
        Ok(description)
    }
}

/// The list has two names, and a service may print either.
fn entries(route: &SdnRoute) -> &[SdnRouteSettings] {
    if route.routes.is_empty() { &route.setting } else { &route.routes }
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}
