//! SDN routes: made, changed, deleted.

use std::collections::BTreeSet;

use hcn::api::Kind;
use hcn::base::{Health, SchemaVersion};
use hcn::error::{Error, Result, detail};
use hcn::network::NetworkType;
use hcn::route::SdnRoute;
use hcn::{Field, Guid, Path};

use crate::operation::{Draft, id_taken};
use crate::record::{Inside, Record};
use crate::validate::policy::sdn_route;

/// Reads a route. A request to change one is its whole new document.
pub(crate) fn read(settings: &str) -> Result<SdnRoute> {
    SdnRoute::read(hcn::parse_value(settings)?, &Path::Root)
}

/// Makes a route.
pub(crate) fn create(draft: &mut Draft<'_>, mut route: SdnRoute, id: Option<Guid>) -> Result<Guid> {
    route.id = draft.new_id(route.id, id);
    if draft.state.routes.contains(route.id) {
        return Err(id_taken(Kind::Route, route.id));
    }
    check(draft, &mut route)?;
    let id = route.id;
    draft.insert(route, Inside::default());
    Ok(id)
}

fn check(draft: &Draft<'_>, route: &mut SdnRoute) -> Result<()> {
    route.unify();
    if route.routes.is_empty() {
        let remedy = r#"give at least one, such as {"DestinationPrefix":"10.0.0.0/8","NextHop":"10.0.0.1"}"#;
        return Err(Error::InvalidPolicy(detail("the document has no route").field("Routes").remedy(remedy)));
    }
    for (index, settings) in route.routes.iter_mut().enumerate() {
        sdn_route(settings).map_err(|error| error.within(&format!("Routes[{index}]")))?;
    }
    route.setting = route.routes.clone();
    for (index, id) in route.endpoints.iter().enumerate() {
        check_member(draft, *id).map_err(|error| error.within(&format!("HostComputeEndpoints[{index}]")))?;
    }
    let first = route.endpoints.first().and_then(|id| draft.state.endpoints.get(*id));
    route.network = first.map_or(route.network, |record| record.document.network);
    if route.schema_version.major < 2 {
        route.schema_version = SchemaVersion::v2();
    }
    route.version = draft.world.build.version_number();
    route.health = Health::default();
    route.state = 1;
    Ok(())
}

fn check_member(draft: &Draft<'_>, id: Guid) -> Result<()> {
    let record = draft.state.endpoints.get(id).ok_or_else(|| Kind::Endpoint.not_found(id))?;
    let network = draft.state.networks.get(record.document.network).map(|network| &network.document.network_type);
    match network {
        Some(NetworkType::L2Bridge | NetworkType::L2Tunnel | NetworkType::Overlay) => Ok(()),
        other => {
            let cause = format!("networks of type {} have no SDN routes", other.map(NetworkType::to_string).unwrap_or_default());
            Err(Error::InvalidPolicyType(detail(cause).remedy("use endpoints on L2Bridge, L2Tunnel or Overlay networks")))
        }
    }
}

fn get(draft: &Draft<'_>, id: Guid) -> Result<Record<SdnRoute>> {
    draft.state.routes.get(id).map(|record| Record::clone(record)).ok_or_else(|| Kind::Route.not_found(id))
}

/// Replaces a route by a new document.
pub(crate) fn modify(draft: &mut Draft<'_>, id: Guid, mut wanted: SdnRoute) -> Result<()> {
    let record = get(draft, id)?;
    wanted.id = id;
    if wanted.name.is_empty() {
        wanted.name.clone_from(&record.document.name);
    }
    check(draft, &mut wanted)?;
    draft.update(Record { document: wanted, inside: record.inside });
    Ok(())
}

/// Deletes a route.
pub(crate) fn delete(draft: &mut Draft<'_>, id: Guid) -> Result<()> {
    let record = get(draft, id)?;
    draft.remove(&record.document);
    Ok(())
}

/// Takes a network that is about to go, with its endpoints, out of all routes.
pub(crate) fn forget_network(draft: &mut Draft<'_>, network: Guid, going: &BTreeSet<Guid>) {
    let mut routes: BTreeSet<Guid> = going.iter().flat_map(|endpoint| draft.state.routes_of(*endpoint)).collect();
    routes.extend(draft.state.routes.of_network(network));
    for id in routes {
        if let Ok(mut record) = get(draft, id) {
            record.document.endpoints.retain(|member| !going.contains(member));
            let first = record.document.endpoints.first().and_then(|id| draft.state.endpoints.get(*id));
            record.document.network = first.map_or(Guid::nil(), |endpoint| endpoint.document.network);
            draft.update(record);
        }
    }
}

/// Takes a member that is about to go out of a route.
pub(crate) fn forget_member(draft: &mut Draft<'_>, id: Guid, endpoint: Guid) {
    if let Ok(mut record) = get(draft, id) {
        record.document.endpoints.retain(|member| *member != endpoint);
        draft.update(record);
    }
}
