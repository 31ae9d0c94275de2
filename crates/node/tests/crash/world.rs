//! Everything the service holds, and what must be true of it whoever made it.

use std::collections::{BTreeMap, BTreeSet};

use hcn::query::Query;
use hcn::{Guid, Hcn, Kind};
use serde_json::Value;

use crate::client::is_expected;
use crate::model::{KINDS, Key, guid, guids, members};

/// All documents, in schema 2.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) documents: BTreeMap<Key, Value>,
}

impl World {
    /// Reads everything.
    pub(crate) fn read(hcn: &dyn Hcn) -> Result<Self, String> {
        let query = hcn::print(&Query::v2(&[]));
        let mut world = Self::default();
        for kind in KINDS {
            let ids: BTreeSet<Guid> = hcn.enumerate(kind, &query).map_err(|error| error.to_string())?.into_iter().collect();
            for document in hcn.list(kind, &query).map_err(|error| error.to_string())? {
                let id = guid(&document["ID"]).ok_or_else(|| format!("a {} without an id: {document}", kind.name()))?;
                world.documents.insert((kind, id), document);
            }
            let listed: BTreeSet<Guid> = world.of_kind(kind).map(|(id, _)| id).collect();
            if ids != listed {
                return Err(format!("enumerating gives the {} {ids:?}, listing {listed:?}", kind.collection()));
            }
        }
        Ok(world)
    }

    /// Nothing refers to what is not there, both sides of a relation agree, and nothing unique is there twice.
    pub(crate) fn check(&self, clients: u64) -> Result<(), String> {
        self.check_makers(clients)?;
        self.check_references()?;
        self.check_namespaces()?;
        self.check_addresses()?;
        self.check_frontends()
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (Guid, &Value)> {
        self.documents.iter().filter(move |((found, _), _)| *found == kind).map(|((_, id), document)| (*id, document))
    }

    fn check_makers(&self, clients: u64) -> Result<(), String> {
        let stray = self.documents.iter().find(|((kind, id), document)| !is_expected(*kind, *id, document, clients));
        stray.map_or(Ok(()), |((kind, _), document)| Err(format!("nobody made this {}: {document}", kind.name())))
    }

    fn check_references(&self) -> Result<(), String> {
        for ((kind, id), document) in &self.documents {
            let network = guid(&document["HostComputeNetwork"]).map(|network| (Kind::Network, network));
            let endpoints = guids(&document["HostComputeEndpoints"]).into_iter().map(|endpoint| (Kind::Endpoint, endpoint));
            if let Some((missing, other)) = network.into_iter().chain(endpoints).find(|key| !self.documents.contains_key(key)) {
                return Err(format!("{} {id} refers to the {} {other}, which is not there", kind.name(), missing.name()));
            }
            if *kind == Kind::Endpoint && network.is_none() {
                return Err(format!("the endpoint {id} has no network"));
            }
        }
        Ok(())
    }

    /// An endpoint names a namespace exactly if the namespace lists it.
    fn check_namespaces(&self) -> Result<(), String> {
        let named: BTreeSet<(Guid, Guid)> = self
            .of_kind(Kind::Endpoint)
            .filter_map(|(endpoint, document)| Some((guid(&document["HostComputeNamespace"])?, endpoint)))
            .collect();
        let listed: BTreeSet<(Guid, Guid)> = self
            .of_kind(Kind::Namespace)
            .flat_map(|(namespace, document)| members(document).into_iter().map(move |endpoint| (namespace, endpoint)))
            .collect();
        match named.symmetric_difference(&listed).next() {
            None => Ok(()),
            Some(pair @ (namespace, endpoint)) => {
                let (yes, no) = match named.contains(pair) {
                    true => ("the endpoint", "the namespace"),
                    false => ("the namespace", "the endpoint"),
                };
                Err(format!("{yes} says that {endpoint} is in {namespace}, and {no} does not"))
            }
        }
    }

    fn check_addresses(&self) -> Result<(), String> {
        let mut seen: BTreeMap<(Guid, String), Guid> = BTreeMap::new();
        for (id, document) in self.of_kind(Kind::Endpoint) {
            let network = guid(&document["HostComputeNetwork"]).unwrap_or_default();
            let configurations = document["IpConfigurations"].as_array().map(Vec::as_slice).unwrap_or_default();
            if configurations.is_empty() {
                return Err(format!("the endpoint {id} has no address"));
            }
            let ip = configurations.iter().filter_map(|configuration| configuration["IpAddress"].as_str());
            let mac = document["MacAddress"].as_str();
            for address in ip.chain(mac) {
                if let Some(other) = seen.insert((network, address.to_owned()), id) {
                    return Err(format!("the endpoints {other} and {id} of the network {network} both have {address}"));
                }
            }
        }
        Ok(())
    }

    fn check_frontends(&self) -> Result<(), String> {
        let mut seen = BTreeMap::new();
        for (id, document) in self.of_kind(Kind::LoadBalancer) {
            let frontend = format!("{}:{}", document["FrontendVIPs"][0], document["PortMappings"][0]["ExternalPort"]);
            if let Some(other) = seen.insert(frontend.clone(), id) {
                return Err(format!("the load balancers {other} and {id} both have {frontend}"));
            }
        }
        Ok(())
    }
}
