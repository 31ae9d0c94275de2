//! A service that only remembers documents.

use hcn::api::{Events, Object};
use hcn::error::{Error, Result, detail};
use hcn::query::Query;
use hcn::{Guid, Hcn, Kind};
use serde_json::Value;

/// Documents by kind.
#[derive(Default)]
pub(super) struct FakeHcn {
    documents: Vec<(Kind, Value)>,
}

impl FakeHcn {
    /// With one more document.
    pub(super) fn with<T: Object>(mut self, document: Value) -> Self {
        self.documents.push((T::KIND, document));
        self
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = (Guid, &Value)> {
        let of_kind = self.documents.iter().filter(move |(one, _)| *one == kind);
        of_kind.map(|(_, document)| (hcn::parse_guid(document["ID"].as_str().unwrap_or_default()).unwrap_or_default(), document))
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::NotImplemented(detail("the fake only remembers")))
}

impl Hcn for FakeHcn {
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>> {
        let wanted = Query::parse(query)?.filter()?.properties;
        let has = |document: &Value, key: &str, value: &Value| match key {
            "VirtualNetwork" => document.get("HostComputeNetwork") == Some(value),
            key => document.get(key) == Some(value),
        };
        let found = self.of(kind).filter(|(_, document)| wanted.iter().all(|(key, value)| has(document, key, value)));
        Ok(found.map(|(id, _)| id).collect())
    }

    fn query(&self, kind: Kind, id: Guid, _query: &str) -> Result<Value> {
        self.of(kind).find(|(one, _)| *one == id).map(|(_, document)| document.clone()).ok_or_else(|| kind.not_found(id))
    }

    fn create(&self, _kind: Kind, _network: Option<Guid>, _id: Option<Guid>, _settings: &str) -> Result<Guid> {
        unsupported()
    }

    fn modify(&self, _kind: Kind, _id: Guid, _settings: &str) -> Result<()> {
        unsupported()
    }

    fn delete(&self, _kind: Kind, _id: Guid) -> Result<()> {
        unsupported()
    }

    fn call(&self, _method: &str, _path: &str, _request: &str) -> Result<Value> {
        unsupported()
    }

    fn events(&self) -> Result<Events> {
        unsupported()
    }
}
