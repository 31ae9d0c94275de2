//! What tables and descriptions need to know beyond the object itself: names and short ids of others.

use std::cell::OnceCell;
use std::collections::HashMap;

use hcn::api::Kind;
use hcn::endpoint::Endpoint;
use hcn::network::Network;
use hcn::query::Query;
use hcn::{Guid, Hcn, HcnExt};

use crate::exit::{Exit, Failure};

/// Everything there is, asked for once and only if needed.
pub(crate) struct World<'a> {
    /// The service.
    pub(crate) hcn: &'a dyn Hcn,
    names: OnceCell<HashMap<Guid, String>>,
    endpoints: OnceCell<HashMap<Guid, Endpoint>>,
    ids: [OnceCell<Vec<Guid>>; Kind::ALL.len()],
}

impl<'a> World<'a> {
    /// The world as the service knows it.
    pub(crate) fn new(hcn: &'a dyn Hcn) -> Self {
        Self { hcn, names: OnceCell::new(), endpoints: OnceCell::new(), ids: Default::default() }
    }

    /// The name of a network; its id if it has none or is gone.
    pub(crate) fn network_name(&self, id: Guid) -> Result<String, Failure> {
        let names = cached(&self.names, || {
            let networks = self.hcn.objects::<Network>(&[])?;
            Ok(networks.into_iter().map(|network| (network.id, network.name)).collect())
        })?;
        match names.get(&id).filter(|name| !name.is_empty()) {
            Some(name) => Ok(name.clone()),
            None => self.short(Kind::Network, id),
        }
    }

    /// An endpoint among all others. Right where many are needed; for one or two, see [`World::endpoint`].
    pub(crate) fn known_endpoint(&self, id: Guid) -> Result<Option<&Endpoint>, Failure> {
        let endpoints = cached(&self.endpoints, || {
            let endpoints = self.hcn.objects::<Endpoint>(&[])?;
            Ok(endpoints.into_iter().map(|endpoint| (endpoint.id, endpoint)).collect())
        })?;
        Ok(endpoints.get(&id))
    }

    /// An endpoint; nothing if it is gone.
    pub(crate) fn endpoint(&self, id: Guid) -> Result<Option<Endpoint>, Failure> {
        match self.hcn.object(id).map_err(Failure::from) {
            Ok(endpoint) => Ok(Some(endpoint)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The ids of a network's endpoints.
    pub(crate) fn endpoints_of(&self, network: Guid) -> Result<Vec<Guid>, Failure> {
        let query = Query::v2(&[("VirtualNetwork", &network.to_string())]);
        Ok(self.hcn.enumerate(Kind::Endpoint, &hcn::print(&query))?)
    }

    /// As much of an id as tells it from all others of its kind, so that it can be copied into the next command.
    pub(crate) fn short(&self, kind: Kind, id: Guid) -> Result<String, Failure> {
        let position = Kind::ALL.iter().position(|one| *one == kind).unwrap_or_default();
        let ids = cached(&self.ids[position], || {
            let mut ids = self.hcn.enumerate(kind, &hcn::print(&Query::v2(&[])))?;
            ids.sort_unstable();
            Ok(ids)
        })?;
        Ok(shorten(id, ids))
    }
}

fn cached<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Failure>) -> Result<&T, Failure> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = make()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

/// The shortest run of whole groups of an id that no other of the sorted ids begins with.
fn shorten(id: Guid, sorted: &[Guid]) -> String {
    const ENDS_OF_GROUPS: [usize; 4] = [8, 13, 18, 23];
    let text = id.to_string();
    let below = sorted.partition_point(|other| *other < id);
    let above = sorted[below..].iter().position(|other| *other != id).map(|offset| below + offset);
    let neighbours = [below.checked_sub(1), above].into_iter().flatten().map(|index| sorted[index].to_string());
    let shared = neighbours.map(|other| common_prefix(&text, &other)).max().unwrap_or(0);
    let length = ENDS_OF_GROUPS.into_iter().find(|length| *length > shared).unwrap_or(text.len());
    text[..length].to_owned()
}

fn common_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// Finds the object that a person means. That several match is the command line's fault, not the service's.
pub(crate) fn resolve(hcn: &dyn Hcn, kind: Kind, reference: &str) -> Result<Guid, Failure> {
    hcn.resolve(kind, reference).map_err(|error| match error {
        hcn::Error::InvalidParameter(_) | hcn::Error::GuidConversionFailure(_) => Failure::from(error).exit(Exit::Usage),
        error => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let id = |text: &str| hcn::parse_guid(text).unwrap();
        let mut ids = vec![
            id("3d5a2f0e-0000-4000-8000-000000000001"),
            id("3d5a2f0e-0001-4000-8000-000000000001"),
            id("77e1c2d4-0000-4000-8000-000000000003"),
            id("aaaaaaaa-0000-4000-8000-000000000003"),
            id("aaaaaaaa-0000-4000-8000-000000000004"),
        ];
        ids.sort_unstable();
        let short: Vec<String> = ids.iter().map(|id| shorten(*id, &ids)).collect();
        let whole = ["aaaaaaaa-0000-4000-8000-000000000003", "aaaaaaaa-0000-4000-8000-000000000004"];
        assert_eq!(short, ["3d5a2f0e-0000", "3d5a2f0e-0001", "77e1c2d4", whole[0], whole[1]]);
        assert_eq!(shorten(Guid::nil(), &ids), "00000000");
    }
}
