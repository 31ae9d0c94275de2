//! What the store keeps of an object: its document, complete, and what no document shows.

use std::sync::Arc;

use hcn::api::{Kind, Object};
use hcn::endpoint::Endpoint;
use hcn::error::{Error, Result, detail};
use hcn::guest_network_service::GuestNetworkService;
use hcn::load_balancer::LoadBalancer;
use hcn::namespace::Namespace;
use hcn::network::Network;
use hcn::route::SdnRoute;
use hcn::{Guid, Path};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What no document shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Inside {
    /// Number of the creation: objects are listed in this order.
    pub sequence: u64,
    /// Number of the last change to any object at that time, so that the switch can tell old from new.
    pub revision: u64,
    /// When the object was last changed, in Windows' ticks.
    pub updated: u64,
    /// The caller's spelling of `Type`, which schema 1 echoes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub type_spelling: String,
    /// The adapter a network is bound to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub adapter: String,
    /// Containers that an endpoint was attached to by schema 1 calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// The compartment a schema 1 host attach put the endpoint into; 0 is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub compartment: u32,
    /// The virtual machine's port a modify request put the endpoint on.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub vm_port: Value,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A stored object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record<T> {
    pub document: T,
    pub inside: Inside,
}

impl<T: Object> Record<T> {
    /// The record as the store has it on disk.
    fn to_json(&self) -> Value {
        json!({"Inside": serde_json::to_value(&self.inside).unwrap_or_default(), "Document": self.document.write()})
    }

    fn from_json(mut value: Value) -> Result<Self> {
        let inside = serde_json::from_value(value["Inside"].take()).map_err(|error| unreadable(&error.to_string()))?;
        Ok(Self { document: T::read(value["Document"].take(), &Path::Root)?, inside })
    }
}

fn unreadable(cause: &str) -> Error {
    Error::Unexpected(detail(format!("a stored object cannot be read: {cause}")))
}

/// A document that the tables can hold: one with an identity and a name.
pub(crate) trait Stored: Object + Clone + Send + Sync + 'static {
    fn id(&self) -> Guid;
    fn name(&self) -> &str;
    /// The network it belongs to, where it belongs to one.
    fn network(&self) -> Guid;
    fn flags(&self) -> u32;
    fn wrap(record: Arc<Record<Self>>) -> AnyRecord;
}

macro_rules! any_record {
    ($( $kind:ident($type:ty) { network: $network:expr, flags: $flags:expr } ),* $(,)?) => {
        /// A stored object of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum AnyRecord { $( $kind(Arc<Record<$type>>), )* }

        impl AnyRecord {
            pub(crate) fn kind(&self) -> Kind {
                match self { $( Self::$kind(_) => Kind::$kind, )* }
            }

            pub(crate) fn id(&self) -> Guid {
                match self { $( Self::$kind(record) => record.document.id, )* }
            }

            pub(crate) fn inside(&self) -> &Inside {
                match self { $( Self::$kind(record) => &record.inside, )* }
            }

            pub(crate) fn document(&self) -> Value {
                use hcn::Field;
                match self { $( Self::$kind(record) => record.document.write(), )* }
            }

            /// The record as the store has it on disk.
            pub(crate) fn to_bytes(&self) -> Vec<u8> {
                let json = match self { $( Self::$kind(record) => record.to_json(), )* };
                json.to_string().into_bytes()
            }

            pub(crate) fn from_bytes(kind: Kind, bytes: &[u8]) -> Result<Self> {
                let value: Value = serde_json::from_slice(bytes).map_err(|error| unreadable(&error.to_string()))?;
                match kind { $( Kind::$kind => Ok(Self::$kind(Arc::new(Record::from_json(value)?))), )* }
            }
        }

        $( impl Stored for $type {
            fn id(&self) -> Guid {
                self.id
            }

            fn name(&self) -> &str {
                &self.name
            }

            fn network(&self) -> Guid {
                let network: fn(&Self) -> Guid = $network;
                network(self)
            }

            fn flags(&self) -> u32 {
                let flags: fn(&Self) -> u32 = $flags;
                flags(self)
            }

            fn wrap(record: Arc<Record<Self>>) -> AnyRecord {
                AnyRecord::$kind(record)
            }
        } )*
    };
}

any_record! {
    Network(Network) { network: |_| Guid::nil(), flags: |network| network.flags.0 },
    Endpoint(Endpoint) { network: |endpoint| endpoint.network, flags: |endpoint| endpoint.flags.0 },
    Namespace(Namespace) { network: |_| Guid::nil(), flags: |_| 0 },
    LoadBalancer(LoadBalancer) { network: |balancer| balancer.network, flags: |balancer| balancer.flags.0 },
    Route(SdnRoute) { network: |route| route.network, flags: |_| 0 },
    GuestNetworkService(GuestNetworkService) { network: |_| Guid::nil(), flags: |service| service.flags.0 },
}
