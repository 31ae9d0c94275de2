//! Guest network services: kept and told of, for clients that follow their state.

use hcn::api::Kind;
use hcn::base::SchemaVersion;
use hcn::error::{Error, Result, detail};
use hcn::event;
use hcn::guest_network_service::{GuestNetworkService, GuestState};
use hcn::modify::{ModifyRequest, RequestType};
use hcn::{Field, Guid, Path};
use serde_json::Value;

use crate::operation::{Draft, id_taken, unsupported};
use crate::record::{Inside, Record};

/// Makes a guest network service.
pub(crate) fn create(draft: &mut Draft<'_>, mut service: GuestNetworkService, id: Option<Guid>) -> Result<Guid> {
    service.id = draft.new_id(service.id, id);
    if draft.state.guest_network_services.contains(service.id) {
        return Err(id_taken(Kind::GuestNetworkService, service.id));
    }
    if service.schema_version.major < 2 {
        service.schema_version = SchemaVersion::v2();
    }
    service.state = GuestState::Created;
    service.version = draft.world.build.version_number();
    let id = service.id;
    draft.insert(service, Inside::default());
    Ok(id)
}

fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<GuestNetworkService>> {
    let record = draft.state.guest_network_services.get(id).map(|record| Record::clone(record));
    record.ok_or_else(|| Kind::GuestNetworkService.not_found(id))
}

/// Changes the state of a guest network service.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, request: &ModifyRequest) -> Result<()> {
    let mut record = get(draft, id)?;
    let is_state = matches!(&request.resource_type, Value::String(name) if name.eq_ignore_ascii_case("State"));
    if !is_state || request.request_type != Some(RequestType::Update) {
        return Err(unsupported("this is not a request that a guest network service knows", "use Update of State"));
    }
    let wanted = request.settings.get("State").cloned().unwrap_or_default();
    let state = GuestState::read(wanted, &Path::Root.key("Settings").key("State"))?;
    if !state.is_known() {
        let cause = format!("{state} is no state");
        return Err(Error::InvalidParameter(detail(cause).field("Settings.State").remedy("use a state such as Synchronized")));
    }
    record.document.state = state;
    draft.note(Kind::GuestNetworkService, event::Change::StateChanged, &record.document);
    draft.update(record);
    Ok(())
}

/// Deletes a guest network service.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let record = get(draft, id)?;
    draft.remove(&record.document);
    Ok(())
}
