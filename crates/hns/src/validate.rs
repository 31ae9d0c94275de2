//! Whether a document says something that can be done; each check names the field and the remedy.

pub(crate) mod load_balancer;
pub(crate) mod network;
pub(crate) mod policy;
pub(crate) mod sets;
pub(crate) mod text;
pub(crate) mod truth;
