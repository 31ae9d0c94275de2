//! Load balancers: made, changed, deleted.

use std::collections::BTreeSet;

use hcn::api::Kind;
use hcn::base::{Health, SchemaVersion};
use hcn::endpoint::{Endpoint, EndpointState};
use hcn::error::{Error, Result, detail};
use hcn::load_balancer::LoadBalancer;
use hcn::modify::{MemberSettings, ModifyRequest, RequestType};
use hcn::network::NetworkType;
use hcn::{Field, Guid, Path};
use serde_json::Value;

use crate::operation::{Draft, id_taken, unsupported};
use crate::profile::{Defect, Feature};
use crate::record::{Inside, Record};
use crate::state::{Frontend, frontends_of};
use crate::validate;

/// Makes a load balancer.
pub(crate) fn create(draft: &mut Draft<'_>, mut balancer: LoadBalancer, id: Option<Guid>) -> Result<Guid> {
    balancer.id = draft.new_id(balancer.id, id);
    if draft.state.load_balancers.contains(balancer.id) {
        return Err(id_taken(Kind::LoadBalancer, balancer.id));
    }
    check(draft, &mut balancer, &[])?;
    complete(draft, &mut balancer);
    let id = balancer.id;
    draft.insert(balancer, Inside::default());
    Ok(id)
}

/// Checks a load balancer against everything else. Backends that it has already may have lost their port since.
fn check(draft: &Draft<'_>, balancer: &mut LoadBalancer, before: &[Guid]) -> Result<()> {
    validate::load_balancer::check(balancer, &draft.world.build)?;
    let (before, mut seen) = (BTreeSet::from_iter(before), BTreeSet::new());
    for (index, id) in balancer.endpoints.iter().enumerate() {
        check_backend(draft, *id, before.contains(id), seen.insert(*id))
            .map_err(|error| error.within(&format!("HostComputeEndpoints[{index}]")))?;
    }
    for frontend in frontends_of(balancer) {
        check_frontend(draft, balancer.id, &frontend)?;
    }
    balancer.network = network_of(draft, balancer);
    Ok(())
}

/// All backends are on one network in practice; the load balancer shows the first one's.
fn network_of(draft: &Draft<'_>, balancer: &LoadBalancer) -> Guid {
    let first = balancer.endpoints.first().and_then(|id| draft.state.endpoints.get(*id));
    first.map_or(balancer.network, |record| record.document.network)
}

fn check_backend(draft: &Draft<'_>, id: Guid, was_there: bool, is_first: bool) -> Result<()> {
    if !is_first {
        return Err(Error::InvalidParameter(detail(format!("the endpoint {id} is named twice")).remedy("name each backend once")));
    }
    let record = draft.state.endpoints.get(id).ok_or_else(|| Kind::Endpoint.not_found(id))?;
    if was_there || has_port(draft, &record.document) {
        return Ok(());
    }
    let cause = format!("the endpoint {id} has no port on the switch");
    Err(Error::PortNotFound(detail(cause).remedy("attach the endpoint to a namespace first")))
}

/// Whether packets can reach a backend. Remote endpoints need no port, and overlay networks make one in advance.
fn has_port(draft: &Draft<'_>, endpoint: &Endpoint) -> bool {
    let network = draft.state.networks.get(endpoint.network).map(|record| &record.document.network_type);
    match endpoint.state {
        _ if endpoint.is_remote() => true,
        EndpointState::Created => !matches!(network, Some(NetworkType::L2Bridge | NetworkType::L2Tunnel)),
        EndpointState::Detached => false,
        _ => true,
    }
}

fn check_frontend(draft: &Draft<'_>, balancer: Guid, frontend: &Frontend) -> Result<()> {
    let address = frontend.address.map_or_else(|| "every address of the host".to_owned(), |address| address.to_string());
    let taken = |who: String| {
        let cause = format!("port {} of protocol {} on {address} belongs to {who}", frontend.port, frontend.protocol);
        Err(Error::PortAlreadyExists(detail(cause).field("PortMappings").remedy("choose another port or address, or delete the other one")))
    };
    if let Some(owner) = draft.state.frontend_owner(frontend).filter(|owner| *owner != balancer) {
        return taken(format!("the load balancer {owner}"));
    }
    if let Some(owner) = draft.state.host_port_in_front(frontend) {
        return taken(format!("the endpoint {owner}"));
    }
    let is_node_port = frontend.address.is_none() && draft.state.frontend_owner(frontend).is_none();
    let protocol = u8::try_from(frontend.protocol).unwrap_or_default();
    if is_node_port && draft.world.machine.port_in_use(protocol, frontend.port) {
        return taken("a socket of the host".to_owned());
    }
    Ok(())
}

fn complete(draft: &Draft<'_>, balancer: &mut LoadBalancer) {
    if balancer.schema_version.major < 2 {
        balancer.schema_version = SchemaVersion::v2();
    }
    balancer.health = Health::default();
    balancer.version = draft.world.build.version_number();
    balancer.state = 1;
}

fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<LoadBalancer>> {
    draft.state.load_balancers.get(id).map(|record| Record::clone(record)).ok_or_else(|| Kind::LoadBalancer.not_found(id))
}

/// What a caller sent to change a load balancer: its whole new document, or one backend more or less.
pub(crate) enum Change {
    Whole(Box<LoadBalancer>),
    Member(Box<ModifyRequest>),
}

/// Reads what a caller sent.
pub(crate) fn read_change(settings: &str) -> Result<Change> {
    let value = hcn::parse_value(settings)?;
    let is_request = value.as_object().is_some_and(|map| map.keys().any(|key| key.eq_ignore_ascii_case("RequestType")));
    match is_request {
        true => Ok(Change::Member(Box::new(ModifyRequest::read(value, &Path::Root)?))),
        false => Ok(Change::Whole(Box::new(LoadBalancer::read(value, &Path::Root)?))),
    }
}

/// Changes a load balancer in place.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, change: Change) -> Result<()> {
    let record = get(draft, id)?;
    if !draft.world.build.has(Feature::ModifyLoadBalancer) {
        let cause = format!("{} cannot change a load balancer in place", draft.world.build.profile.windows);
        return Err(Error::NotImplemented(detail(cause).remedy("delete it and make it anew, or use --with modify-load-balancer")));
    }
    let mut wanted = match change {
        Change::Whole(wanted) => *wanted,
        Change::Member(request) => with_member(&record.document, &request)?,
    };
    if !wanted.id.is_nil() && wanted.id != id {
        let cause = format!("the document has the id {}, but it was sent to {id}", wanted.id);
        return Err(Error::InvalidParameter(detail(cause).field("ID").remedy("leave the id out")));
    }
    keep_identity(&mut wanted, &record.document);
    check(draft, &mut wanted, &record.document.endpoints)?;
    complete(draft, &mut wanted);
    if draft.world.build.defective(Defect::LoadBalancerModifyIneffective) {
        return Ok(());
    }
    draft.update(Record { document: wanted, inside: record.inside });
    Ok(())
}

/// What a whole document that leaves it out does not change.
fn keep_identity(wanted: &mut LoadBalancer, old: &LoadBalancer) {
    wanted.id = old.id;
    wanted.network = old.network;
    if wanted.name.is_empty() {
        wanted.name.clone_from(&old.name);
    }
    if wanted.owner.is_empty() {
        wanted.owner.clone_from(&old.owner);
    }
}

fn with_member(old: &LoadBalancer, request: &ModifyRequest) -> Result<LoadBalancer> {
    let is_endpoint = match &request.resource_type {
        Value::String(name) => name.eq_ignore_ascii_case("Endpoint"),
        _ => false,
    };
    let member = MemberSettings::read(request.settings.clone(), &Path::Root.key("Settings"))?;
    let mut wanted = old.clone();
    match &request.request_type {
        Some(RequestType::Add) if is_endpoint => wanted.endpoints.push(member.endpoint_id),
        Some(RequestType::Remove) if is_endpoint => {
            let before = wanted.endpoints.len();
            wanted.endpoints.retain(|endpoint| *endpoint != member.endpoint_id);
            if wanted.endpoints.len() == before {
                return Err(Kind::Endpoint.not_found(member.endpoint_id).within("Settings.EndpointId"));
            }
        }
        _ => {
            return Err(unsupported(
                "this is not a request that a load balancer knows",
                "send its whole document, or Add or Remove of Endpoint",
            ));
        }
    }
    Ok(wanted)
}

/// Deletes a load balancer.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let record = get(draft, id)?;
    draft.remove(&record.document);
    Ok(())
}

/// Takes a network that is about to go, with its endpoints, out of all load balancers.
pub(crate) fn forget_network(draft: &mut Draft<'_>, network: Guid, going: &BTreeSet<Guid>) {
    let mut balancers: BTreeSet<Guid> = going.iter().flat_map(|endpoint| draft.state.balancers_of(*endpoint)).collect();
    balancers.extend(draft.state.load_balancers.of_network(network));
    for id in balancers {
        if let Ok(mut record) = get(draft, id) {
            record.document.endpoints.retain(|backend| !going.contains(backend));
            record.document.network = Guid::nil();
            record.document.network = network_of(draft, &record.document);
            draft.update(record);
        }
    }
}

/// Takes a backend that is about to go out of a load balancer.
pub(crate) fn forget_backend(draft: &mut Draft<'_>, id: Guid, endpoint: Guid) {
    if let Ok(mut record) = get(draft, id) {
        record.document.endpoints.retain(|backend| *backend != endpoint);
        draft.update(record);
    }
}
