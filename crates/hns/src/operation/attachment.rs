//! Endpoints on the switch: in namespaces, in containers, in the host, on ports of virtual machines.
//!
//! An endpoint is attached in one of four ways: it is in a namespace (schema 2), or schema 1 calls put it into containers or into
//! the host's compartment, or a modify request gave it a virtual machine's port.

use hcn::api::Kind;
use hcn::endpoint::{Endpoint, EndpointState};
use hcn::error::{Error, Result, detail};
use hcn::modify::PortSettings;
use hcn::namespace::{Resource, ResourceData, ResourceType};
use hcn::v1::attach::{AttachRequest, SystemType};
use hcn::{Field, Guid, event};

use crate::operation::endpoint::{self, is_attached, refuse_remote};
use crate::operation::{Draft, namespace};
use crate::record::Record;

/// Puts an endpoint into a namespace. Doing it twice is no error: agents retry.
pub(crate) fn add_endpoint(draft: &mut Draft<'_>, namespace_id: Guid, endpoint_id: Guid) -> Result<()> {
    let mut space = namespace::get(draft, namespace_id)?;
    let mut record = endpoint::get(draft, endpoint_id)?;
    refuse_remote(&record.document)?;
    if record.document.namespace == namespace_id {
        return Ok(());
    }
    if !record.document.namespace.is_nil() {
        let cause = format!("the endpoint {endpoint_id} is in the namespace {}", record.document.namespace);
        return Err(Error::EndpointNamespaceAlreadyExists(detail(cause).field("EndpointId").remedy("remove it from there first")));
    }
    refuse_attached(&record)?;
    space.document.resources.push(resource(ResourceType::Endpoint, endpoint_id.to_string()));
    namespace::populate(draft, &mut space.document);
    record.document.namespace = namespace_id;
    settle(draft, record);
    draft.update(space);
    Ok(())
}

/// Takes an endpoint out of a namespace.
pub(crate) fn remove_endpoint(draft: &mut Draft<'_>, namespace_id: Guid, endpoint_id: Guid) -> Result<()> {
    let space = namespace::get(draft, namespace_id)?;
    let record = draft.state.endpoints.get(endpoint_id).filter(|record| record.document.namespace == namespace_id).cloned();
    let Some(record) = record else {
        let cause = format!("the endpoint {endpoint_id} is not in the namespace {namespace_id}");
        return Err(Error::NotFound(detail(cause).field("EndpointId").remedy("query the namespace for its resources")));
    };
    remove_resource(draft, space, &endpoint_id.to_string());
    let mut record = Record::clone(&record);
    record.document.namespace = Guid::nil();
    settle(draft, record);
    Ok(())
}

/// Takes an endpoint that is about to go out of its namespace.
pub(crate) fn leave_namespace(draft: &mut Draft<'_>, endpoint: &Endpoint) -> Result<()> {
    if let Some(space) = draft.state.namespaces.get(endpoint.namespace) {
        let space = Record::clone(space);
        remove_resource(draft, space, &endpoint.id.to_string());
    }
    Ok(())
}

fn remove_resource(draft: &mut Draft<'_>, mut space: Record<hcn::namespace::Namespace>, id: &str) {
    let is_it = |resource: &Resource| resource.resource_type == ResourceType::Endpoint && resource.data.id.eq_ignore_ascii_case(id);
    space.document.resources.retain(|resource| !is_it(resource));
    draft.update(space);
}

/// A resource of a namespace.
pub(crate) fn resource(resource_type: ResourceType, id: String) -> Resource {
    Resource { resource_type, data: ResourceData { id, ..ResourceData::default() }, ..Resource::default() }
}

/// What an endpoint's state follows from: everything that holds it on the switch.
fn state_of(record: &Record<Endpoint>) -> EndpointState {
    let inside = &record.inside;
    let held = !record.document.namespace.is_nil() || inside.compartment != 0 || !inside.vm_port.is_null();
    match inside.containers.len() {
        0 if held => EndpointState::Attached,
        0 => EndpointState::Detached,
        1 => EndpointState::Attached,
        _ => EndpointState::AttachedSharing,
    }
}

/// Stores an endpoint that was attached or detached, with the state that follows, and notes whether it gained or lost its port.
pub(crate) fn settle(draft: &mut Draft<'_>, mut record: Record<Endpoint>) {
    let was_attached = is_attached(&record);
    record.document.state = state_of(&record);
    match (was_attached, is_attached(&record)) {
        (false, true) => draft.note(Kind::Endpoint, event::Change::Attached, &record.document),
        (true, false) => draft.note(Kind::Endpoint, event::Change::Detached, &record.document),
        _ => {}
    }
    draft.update(record);
}

fn refuse_attached(record: &Record<Endpoint>) -> Result<()> {
    if !is_attached(record) {
        return Ok(());
    }
    let cause = format!("the endpoint {} is attached", record.document.id);
    Err(Error::EndpointAlreadyAttached(detail(cause).remedy("detach it first")))
}

/// A schema 1 attach: to a container, to the host, or to a virtual machine.
pub(crate) fn attach_v1(draft: &mut Draft<'_>, id: Guid, request: &AttachRequest) -> Result<()> {
    let mut record = endpoint::get(draft, id)?;
    refuse_remote(&record.document)?;
    match system_type(request)? {
        SystemType::Container => {
            if request.container_id.is_empty() {
                return Err(bad_attach("ContainerId", "the container's id is missing", "give the container's id"));
            }
            // Containers can share an endpoint, but only with each other.
            if record.inside.containers.is_empty() || record.inside.containers.contains(&request.container_id) {
                refuse_attached(&record)?;
            }
            record.inside.containers.push(request.container_id.clone());
        }
        SystemType::Host => {
            refuse_attached(&record)?;
            record.inside.compartment = u32::from(request.compartment_id).max(crate::state::HOST_COMPARTMENT);
        }
        SystemType::VirtualMachine => {
            refuse_attached(&record)?;
            record.inside.vm_port = request.write();
        }
        other => return Err(unknown_system(&other)),
    }
    settle(draft, record);
    Ok(())
}

fn system_type(request: &AttachRequest) -> Result<SystemType> {
    request.system_type.clone().ok_or_else(|| bad_attach("SystemType", "the field is missing", "write Container, Host or VirtualMachine"))
}

fn unknown_system(system_type: &SystemType) -> Error {
    bad_attach("SystemType", &format!("{system_type} is no system type"), "write Container, Host or VirtualMachine")
}

fn bad_attach(field: &str, cause: &str, remedy: &str) -> Error {
    Error::InvalidParameter(detail(cause).field(field).remedy(remedy))
}

/// A schema 1 detach. Detaching what is not attached is no error: there is nothing left to do.
pub(crate) fn detach_v1(draft: &mut Draft<'_>, id: Guid, request: &AttachRequest) -> Result<()> {
    let mut record = endpoint::get(draft, id)?;
    refuse_remote(&record.document)?;
    match system_type(request)? {
        SystemType::Container => {
            let before = record.inside.containers.len();
            record.inside.containers.retain(|container| *container != request.container_id);
            if record.inside.containers.len() == before {
                return Ok(());
            }
        }
        SystemType::Host if record.inside.compartment != 0 => record.inside.compartment = 0,
        SystemType::VirtualMachine if !record.inside.vm_port.is_null() => record.inside.vm_port = serde_json::Value::Null,
        SystemType::Host | SystemType::VirtualMachine => return Ok(()),
        other => return Err(unknown_system(&other)),
    }
    settle(draft, record);
    Ok(())
}

/// Puts an endpoint on a port of a virtual machine.
pub(crate) fn attach_vm_port(draft: &mut Draft<'_>, mut record: Record<Endpoint>, port: &PortSettings) -> Result<()> {
    refuse_attached(&record)?;
    record.inside.vm_port = port.write();
    settle(draft, record);
    Ok(())
}

/// Takes an endpoint off its virtual machine's port.
pub(crate) fn detach_vm_port(draft: &mut Draft<'_>, mut record: Record<Endpoint>) -> Result<()> {
    if record.inside.vm_port.is_null() {
        let cause = format!("the endpoint {} has no port of a virtual machine", record.document.id);
        return Err(Error::EndpointNotAttached(detail(cause).remedy("add a port first")));
    }
    record.inside.vm_port = serde_json::Value::Null;
    settle(draft, record);
    Ok(())
}
