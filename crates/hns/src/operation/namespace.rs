//! Namespaces: made, filled, emptied, deleted.

use hcn::api::Kind;
use hcn::base::Health;
use hcn::error::{Error, Result, detail};
use hcn::modify::{MemberSettings, ModifyRequest, RequestType};
use hcn::namespace::{Namespace, NamespaceType, Resource, ResourceType};
use hcn::{Field, Guid, Path};

use crate::operation::policy::modify_request;
use crate::operation::{Draft, attachment, endpoint, id_taken, unsupported};
use crate::record::{Inside, Record};
use crate::state::HOST_COMPARTMENT;

/// Makes a namespace. The compartment is the service's choice, whatever number was asked for.
pub(crate) fn create(draft: &mut Draft<'_>, mut namespace: Namespace, id: Option<Guid>) -> Result<Guid> {
    namespace.id = draft.new_id(namespace.id, id);
    if draft.state.namespaces.contains(namespace.id) {
        return Err(id_taken(Kind::Namespace, namespace.id));
    }
    check_type(draft, &namespace)?;
    let resources = std::mem::take(&mut namespace.resources);
    namespace.health = Health::default();
    namespace.version = draft.world.build.version_number();
    namespace.state = 1;
    namespace.compartment_guid = Guid::new_v4();
    namespace.compartment_id = 0;
    if namespace.namespace_type == NamespaceType::HostDefault {
        namespace.compartment_id = HOST_COMPARTMENT;
    } else if namespace.create_with_compartment {
        populate(draft, &mut namespace);
    }
    let id = namespace.id;
    draft.insert(namespace, Inside::default());
    for (index, resource) in resources.iter().enumerate() {
        add_resource(draft, id, resource).map_err(|error| error.within(&format!("Resources[{index}]")))?;
    }
    Ok(id)
}

fn check_type(draft: &Draft<'_>, namespace: &Namespace) -> Result<()> {
    if !namespace.namespace_type.is_known() {
        let cause = format!("{} is no namespace type", namespace.namespace_type);
        return Err(Error::InvalidParameter(detail(cause).field("Type").remedy("use Host, HostDefault, Guest or GuestDefault")));
    }
    let same = |record: &&std::sync::Arc<Record<Namespace>>| record.document.namespace_type == namespace.namespace_type;
    let existing = draft.state.namespaces.iter().find(same).filter(|_| namespace.namespace_type == NamespaceType::HostDefault);
    match existing {
        None => Ok(()),
        Some(record) => {
            let cause = format!("the namespace {} is the host's default already", record.document.id);
            Err(Error::DefaultNamespaceExists(detail(cause).field("Type").remedy("use the one that exists, or create one of type Host")))
        }
    }
}

/// Gives a namespace its compartment, the first time something needs it.
pub(crate) fn populate(draft: &mut Draft<'_>, namespace: &mut Namespace) {
    if namespace.compartment_id == 0 {
        namespace.compartment_id = draft.state.next_compartment;
        draft.state.next_compartment += 1;
    }
}

/// The namespace with this id, for a change.
pub(crate) fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<Namespace>> {
    draft.state.namespaces.get(id).map(|record| Record::clone(record)).ok_or_else(|| Kind::Namespace.not_found(id))
}

/// Changes a namespace.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, request: ModifyRequest) -> Result<()> {
    get(draft, id)?;
    let (resource, request_type): (ResourceType, RequestType) = modify_request(&request)?;
    let member = MemberSettings::read(request.settings, &Path::Root.key("Settings"))?;
    let missing =
        |field: &str| Error::InvalidParameter(detail("the field is missing").field(format!("Settings.{field}")).remedy("give the id"));
    match (&resource, &request_type) {
        (ResourceType::Endpoint, _) if member.endpoint_id.is_nil() => Err(missing("EndpointId")),
        (ResourceType::Container, _) if member.container_id.is_empty() => Err(missing("ContainerId")),
        (ResourceType::Endpoint, RequestType::Add) => attachment::add_endpoint(draft, id, member.endpoint_id),
        (ResourceType::Endpoint, RequestType::Remove) => attachment::remove_endpoint(draft, id, member.endpoint_id),
        (ResourceType::Container, RequestType::Add) => add_container(draft, id, &member.container_id),
        (ResourceType::Container, RequestType::Remove) => remove_container(draft, id, &member.container_id),
        _ => {
            let cause = format!("{request_type} of {resource} is not a request that a namespace knows");
            Err(unsupported(cause, "use Add or Remove of Endpoint or Container"))
        }
    }
}

/// Puts a resource in, as schema 1 calls name it.
pub(crate) fn add_resource(draft: &mut Draft<'_>, id: Guid, resource: &Resource) -> Result<()> {
    match resource.resource_type {
        ResourceType::Endpoint => attachment::add_endpoint(draft, id, endpoint_id(resource)?),
        ResourceType::Container => add_container(draft, id, &resource.data.id),
        _ => Err(unknown_resource(resource)),
    }
}

/// Takes a resource out, as schema 1 calls name it.
pub(crate) fn remove_resource(draft: &mut Draft<'_>, id: Guid, resource: &Resource) -> Result<()> {
    match resource.resource_type {
        ResourceType::Endpoint => attachment::remove_endpoint(draft, id, endpoint_id(resource)?),
        ResourceType::Container => remove_container(draft, id, &resource.data.id),
        _ => Err(unknown_resource(resource)),
    }
}

fn endpoint_id(resource: &Resource) -> Result<Guid> {
    hcn::parse_guid(&resource.data.id).ok_or_else(|| hcn::not_a_guid(&resource.data.id).at(&Path::Root.key("Data").key("Id")))
}

fn unknown_resource(resource: &Resource) -> Error {
    let cause = format!("{} is nothing a namespace can hold", resource.resource_type);
    Error::InvalidParameter(detail(cause).field("Type").remedy("write Endpoint or Container"))
}

fn add_container(draft: &mut Draft<'_>, id: Guid, container: &str) -> Result<()> {
    let mut record = get(draft, id)?;
    if record.document.containers().any(|known| known == container) {
        return Ok(());
    }
    record.document.resources.push(attachment::resource(ResourceType::Container, container.to_owned()));
    populate(draft, &mut record.document);
    draft.update(record);
    Ok(())
}

fn remove_container(draft: &mut Draft<'_>, id: Guid, container: &str) -> Result<()> {
    let mut record = get(draft, id)?;
    let before = record.document.resources.len();
    let is_it = |resource: &Resource| resource.resource_type == ResourceType::Container && resource.data.id == container;
    record.document.resources.retain(|resource| !is_it(resource));
    if record.document.resources.len() == before {
        let cause = format!("the container {container:?} is not in the namespace {id}");
        return Err(Error::NotFound(detail(cause).field("ContainerId").remedy("query the namespace for its resources")));
    }
    draft.update(record);
    Ok(())
}

/// Deletes a namespace. Its endpoints are detached; a container that is still in it keeps it.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let record = get(draft, id)?;
    if let Some(container) = record.document.containers().next() {
        let cause = format!("the container {container:?} is in the namespace");
        return Err(Error::RequestUnsupported(detail(cause).remedy("stop the container, or remove it from the namespace, first")));
    }
    let endpoints: Vec<Guid> = record.document.endpoints().filter_map(Result::ok).collect();
    for endpoint in endpoints {
        if let Ok(mut member) = endpoint::get(draft, endpoint) {
            member.document.namespace = Guid::nil();
            attachment::settle(draft, member);
        }
    }
    draft.remove(&record.document);
    Ok(())
}
