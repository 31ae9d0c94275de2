//! The waist: what agents ask of an HNS, whichever it is.

use serde_json::Value;

use crate::document::{Field, Path, not_a_guid, parse_guid};
use crate::endpoint::Endpoint;
use crate::error::{Error, Result, detail};
use crate::event::Event;
use crate::load_balancer::LoadBalancer;
use crate::namespace::Namespace;
use crate::network::Network;
use crate::query::Query;
use crate::route::SdnRoute;
use crate::{Guid, document};

/// The kinds of objects an HNS keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A network.
    Network,
    /// An endpoint.
    Endpoint,
    /// A namespace.
    Namespace,
    /// A load balancer.
    LoadBalancer,
    /// An SDN route.
    Route,
    /// A guest network service.
    GuestNetworkService,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 6] = [Kind::Network, Kind::Endpoint, Kind::Namespace, Kind::LoadBalancer, Kind::Route, Kind::GuestNetworkService];

    /// The name, in the singular.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Network => "Network",
            Kind::Endpoint => "Endpoint",
            Kind::Namespace => "Namespace",
            Kind::LoadBalancer => "LoadBalancer",
            Kind::Route => "Route",
            Kind::GuestNetworkService => "GuestNetworkService",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The collection's segment in URLs, such as `networks`.
    pub fn collection(self) -> &'static str {
        match self {
            Kind::Network => "networks",
            Kind::Endpoint => "endpoints",
            Kind::Namespace => "namespaces",
            Kind::LoadBalancer => "loadbalancers",
            Kind::Route => "routes",
            Kind::GuestNetworkService => "guestnetworkservices",
        }
    }

    /// The kind with this collection.
    pub fn from_collection(segment: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.collection() == segment)
    }

    /// The error for an id that no object of this kind has.
    ///
    /// Networks and endpoints have codes of their own; for all others Windows says "Element not found", which is
    /// the only one that clients take for "not found".
    pub fn not_found(self, id: Guid) -> Error {
        let noun = self.collection().trim_end_matches('s');
        let detail = detail(format!("no {noun} has the id {id}")).remedy(format!("list the {} to see which there are", self.collection()));
        match self {
            Kind::Network => Error::NetworkNotFound(detail),
            Kind::Endpoint => Error::EndpointNotFound(detail),
            _ => Error::NotFound(detail),
        }
    }
}

/// Events as they come, until the service stops or the stream is dropped.
pub type Events = Box<dyn Iterator<Item = Result<Event>> + Send>;

/// An HNS: Microsoft's, ours in this process, or ours behind a socket.
///
/// The methods are those of the C interface, and so block. Settings and queries are passed as text because that
/// is what the interface takes, and what is wrong with the text is for the service to say.
pub trait Hcn: Send + Sync {
    /// The ids of all objects that a query asks for.
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>>;

    /// Makes an object and returns its id: the one in the settings, else `id`, else a new one.
    /// `network` is for endpoints; without it the settings name the network.
    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Guid>;

    /// The document of an object.
    fn query(&self, kind: Kind, id: Guid, query: &str) -> Result<Value>;

    /// Changes an object.
    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()>;

    /// Deletes an object.
    fn delete(&self, kind: Kind, id: Guid) -> Result<()>;

    /// A call of the older interface (`HNSCall`). Answers what stands in `Output`.
    fn call(&self, method: &str, path: &str, request: &str) -> Result<Value>;

    /// Follows the service's events from now on.
    fn events(&self) -> Result<Events>;

    /// Makes an object and answers its document, in schema 2.
    fn create_document(&self, kind: Kind, settings: &str) -> Result<Value> {
        let id = self.create(kind, None, None, settings)?;
        self.query(kind, id, &document::print(&Query::v2(&[])))
    }

    /// Returns when everything is done that the service was asked for before, also by callers that have died since. Who takes up
    /// what a dead caller left must wait for this, or sees what is about to change. A service that answers in order has nothing
    /// to do.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// The documents of all objects that a query asks for. An object that goes meanwhile is left out.
    fn list(&self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        let gone = kind.not_found(Guid::nil()).hresult();
        let mut documents = Vec::new();
        for id in self.enumerate(kind, query)? {
            match self.query(kind, id, query) {
                Ok(document) => documents.push(document),
                Err(error) if error.hresult() == gone => {}
                Err(error) => return Err(error),
            }
        }
        Ok(documents)
    }
}

/// A document with a kind, so that the typed calls of [`HcnExt`] know where it belongs.
pub trait Object: Field {
    /// Its kind.
    const KIND: Kind;
}

macro_rules! objects {
    ($($type:ty = $kind:ident),* $(,)?) => {$(
        impl Object for $type {
            const KIND: Kind = Kind::$kind;
        }
    )*};
}

objects! {
    Network = Network,
    Endpoint = Endpoint,
    Namespace = Namespace,
    LoadBalancer = LoadBalancer,
    SdnRoute = Route,
    crate::guest_network_service::GuestNetworkService = GuestNetworkService,
}

/// [`Hcn`] with typed documents, in schema 2.
pub trait HcnExt: Hcn {
    /// Makes an object and reads back what became of it.
    fn create_object<T: Object>(&self, document: &T) -> Result<T> {
        T::read(self.create_document(T::KIND, &document::print(document))?, &Path::Root)
    }

    /// The object with this id.
    fn object<T: Object>(&self, id: Guid) -> Result<T> {
        T::read(self.query(T::KIND, id, &document::print(&Query::v2(&[])))?, &Path::Root)
    }

    /// All objects with these properties.
    fn objects<T: Object>(&self, filter: &[(&str, &str)]) -> Result<Vec<T>> {
        let documents = self.list(T::KIND, &document::print(&Query::v2(filter)))?;
        documents.into_iter().map(|document| T::read(document, &Path::Root)).collect()
    }

    /// The object that a person means: by id, by an unambiguous beginning of one, or by name.
    fn resolve(&self, kind: Kind, reference: &str) -> Result<Guid> {
        if let Some(id) = parse_guid(reference) {
            return Ok(id);
        }
        let named = self.enumerate(kind, &document::print(&Query::v2(&[("Name", reference)])))?;
        let matches = match named.is_empty() {
            false => named,
            true => self.with_prefix(kind, reference)?,
        };
        match matches[..] {
            [id] => Ok(id),
            [] => Err(nothing_matches(kind, reference)),
            _ => Err(ambiguous(kind, reference, &matches)),
        }
    }

    /// The ids that begin with a text.
    fn with_prefix(&self, kind: Kind, prefix: &str) -> Result<Vec<Guid>> {
        let prefix = prefix.to_ascii_lowercase();
        let all = self.enumerate(kind, &document::print(&Query::v2(&[])))?;
        Ok(all.into_iter().filter(|id| !prefix.is_empty() && id.to_string().starts_with(&prefix)).collect())
    }
}

impl<T: Hcn + ?Sized> HcnExt for T {}

fn nothing_matches(kind: Kind, reference: &str) -> Error {
    if reference.is_empty() {
        return not_a_guid(reference);
    }
    let code = kind.not_found(Guid::nil()).hresult();
    let cause = format!("no {} has the name or id {reference:?}", kind.collection().trim_end_matches('s'));
    Error::from_hresult(code, detail(cause).remedy(format!("list the {} to see which there are", kind.collection())))
}

fn ambiguous(kind: Kind, reference: &str, matches: &[Guid]) -> Error {
    let some: Vec<String> = matches.iter().take(5).map(Guid::to_string).collect();
    let cause = format!("{} {} match {reference:?}, among them {}", matches.len(), kind.collection(), some.join(", "));
    Error::InvalidParameter(detail(cause).remedy("give more of the id"))
}
