//! The documents of the Host Networking Service (HNS), the trait that serves them, and a client.
//!
//! This crate is the waist of transom: agents above it speak these documents through [`Hcn`] and cannot
//! tell whether Microsoft's HNS answers or ours. Everything here is data and conversion; nothing is
//! decided and nothing is stored.
//!
//! * [`network`], [`endpoint`], [`namespace`], [`load_balancer`], [`route`], [`guest_network_service`]: one
//!   object each, in schema version 2.
//! * [`policy`]: what can be hung on them, each with its own settings type.
//! * [`v1`]: the older view of the same objects, and the conversion between the two.
//! * [`query`], [`modify`], [`event`]: how objects are found, changed and followed.
//! * [`profile`]: what each Windows build has of all this.
//! * [`error`]: every failure, with its HRESULT.
//! * [`api`]: the trait [`Hcn`]; [`client`]: its implementation over hnsd's socket.

#[macro_use]
pub mod document;
#[macro_use]
mod open_enum;
#[macro_use]
mod flags;

pub mod api;
pub mod base;
pub mod client;
pub mod endpoint;
pub mod error;
pub mod event;
mod extra;
pub mod guest_network_service;
pub mod load_balancer;
pub mod modify;
pub mod namespace;
pub mod network;
pub mod policy;
pub mod profile;
pub mod query;
pub mod route;
pub mod v1;

pub use api::{Hcn, HcnExt, Kind};
pub use document::{Any, Extra, Field, Path, not_a_guid, parse, parse_guid, parse_value, print};
pub use error::{Error, Result};

/// The identity of an HCN object. Prints in lower case without braces, as v2 documents do.
pub type Guid = uuid::Uuid;
