//! The older view of the same objects: HNS schema 1, which `HNSCall` and settings without a schema version speak.
//!
//! One file per object, with the document and its conversion to and from schema 2. All conversions are pure and keep
//! to the same rules:
//!
//! * Ids are text, printed in upper case and read leniently: empty is none, braces and any case are fine.
//! * What both views have under different names is converted.
//! * What only one of them has keeps its name in the other: v1's own fields travel in `extra` of the v2 document, v2's
//!   own fields stand in the v1 document under their v2 names. So each view comes back from the other.
//! * Where a v1 field cannot say all of a v2 list (a route with a metric, a third address), the v1 document has the
//!   list too, and the list counts.
//! * What the service fills in by itself, such as `State`, `Version`, `Health` and counts, is dropped on input.

pub mod accelnet;
pub mod attach;
pub mod endpoint;
pub mod namespace;
pub mod network;
pub mod policy;
pub mod policy_list;
pub mod stats;

mod address;
mod dns;
mod homeless;
mod id;
