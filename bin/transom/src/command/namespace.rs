//! Namespaces as people see them, and the endpoints that come and go in them.

use hcn::api::Kind;
use hcn::modify::{MemberSettings, ModifyRequest, RequestType};
use hcn::namespace::{Namespace, ResourceType};
use hcn::{Field, Guid};

use super::Context;
use super::endpoint::addresses;
use super::object::{Noun, report_modified};
use crate::cli::Membership;
use crate::describe::Description;
use crate::exit::Failure;
use crate::output::Cell;
use crate::world::{World, resolve};

impl Noun for Namespace {
    const WORDS: (&'static str, &'static str) = ("namespace", "namespaces");

    fn id(&self) -> Guid {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn header(wide: bool) -> Vec<&'static str> {
        let mut header = vec!["TYPE", "COMPARTMENT", "ENDPOINTS", "CONTAINERS"];
        if wide {
            header.extend(["NAME", "OWNER"]);
        }
        header
    }

    fn row(&self, world: &World<'_>, wide: bool) -> Result<Vec<Cell>, Failure> {
        let mut endpoints = Vec::new();
        for id in self.endpoints() {
            let id = id?;
            endpoints.push(if wide { id.to_string() } else { world.short(Kind::Endpoint, id)? });
        }
        let mut row: Vec<Cell> = vec![
            self.namespace_type.to_string().into(),
            self.compartment_id.to_string().into(),
            endpoints.join(",").into(),
            self.containers().map(|id| container(id, wide)).collect::<Vec<_>>().join(",").into(),
        ];
        if wide {
            row.push(self.name.as_str().into());
            row.push(self.owner.as_str().into());
        }
        Ok(row)
    }

    fn describe(&self, world: &World<'_>) -> Result<Description, Failure> {
        let compartment = match self.compartment_guid.is_nil() {
            true => self.compartment_id.to_string(),
            false => format!("{} ({})", self.compartment_id, self.compartment_guid),
        };
        let mut description = Description::default();
        description.line("ID", self.id.to_string()).line_if("Name", self.name.as_str());
        description.line("Type", self.namespace_type.to_string()).line("Compartment", compartment);
        let mut endpoints = Vec::new();
        for id in self.endpoints() {
            endpoints.push(member(world, id?)?);
        }
        description.list("Endpoints", endpoints).list("Containers", self.containers().map(str::to_owned).collect());
        description.rest(&self.owner, self.version, &self.health, &self.extra);
        Ok(description)
    }
}

/// Container ids have 64 digits, of which people use twelve.
fn container(id: &str, wide: bool) -> String {
    match wide {
        true => id.to_owned(),
        false => id.chars().take(12).collect(),
    }
}

/// An endpoint on one line: id, name, addresses.
pub(crate) fn member(world: &World<'_>, id: Guid) -> Result<String, Failure> {
    Ok(match world.endpoint(id)? {
        Some(endpoint) => format!("{id}  {}  {}", endpoint.name, addresses(&endpoint).join(", ")),
        None => format!("{id}  (gone)"),
    })
}

/// Puts an endpoint into a namespace.
pub(crate) fn attach(context: &Context, who: &Membership) -> Result<(), Failure> {
    change(context, who, RequestType::Add)
}

/// Takes an endpoint out of a namespace.
pub(crate) fn detach(context: &Context, who: &Membership) -> Result<(), Failure> {
    change(context, who, RequestType::Remove)
}

fn change(context: &Context, who: &Membership, request_type: RequestType) -> Result<(), Failure> {
    let hcn = context.hcn.as_ref();
    let namespace = resolve(hcn, Kind::Namespace, &who.namespace)?;
    let endpoint = resolve(hcn, Kind::Endpoint, &who.endpoint)?;
    let request = ModifyRequest {
        resource_type: ResourceType::Endpoint.write(),
        request_type: Some(request_type.clone()),
        settings: MemberSettings { endpoint_id: endpoint, ..MemberSettings::default() }.write(),
        ..ModifyRequest::default()
    };
    hcn.modify(Kind::Namespace, namespace, &hcn::print(&request))?;
    if !context.output.is_for_people() {
        return report_modified::<Namespace>(context, namespace);
    }
    let done = if request_type == RequestType::Add { "attached endpoint" } else { "detached endpoint" };
    let word = if request_type == RequestType::Add { "to" } else { "from" };
    context.output.line(&format!("{done} {endpoint} {word} namespace {namespace}"))
}
