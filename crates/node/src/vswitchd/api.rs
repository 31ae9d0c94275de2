//! What hnsd and vswitchd say to each other.
//!
//! `docs/reference/vswitchd-api.md` is the contract.

use hcn::Guid;
use hcn::api::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing the switch is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct OrderMessage {
    /// The kind of object: `Network`, `Endpoint`, …
    pub kind: String,
    /// Which one.
    pub id: Guid,
    /// The number of the change that made it so. Absent where the object is to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The interface of the machine that a network is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The document. Absent where the object is to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
}

impl OrderMessage {
    /// Whether it is rules alone, and touches neither NICs nor namespaces.
    pub(super) fn is_quick(&self) -> bool {
        self.kind == Kind::LoadBalancer.name()
    }
}

/// What the switch is told, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ApplyRequest {
    /// The limits of the build that hnsd runs as, by name.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Its defects, by name.
    #[serde(default)]
    pub defects: Vec<String>,
    /// Whether that is all there is: what is not held by now is not going to be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
    /// The orders.
    pub orders: Vec<OrderMessage>,
}

/// What became of each order: nothing if it was done, or why it was not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ApplyResponse {
    /// One entry an order.
    pub failures: Vec<Option<String>>,
}

/// An object that the switch has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HeldObject {
    /// Its kind.
    pub kind: String,
    /// Which one.
    pub id: Guid,
    /// The number of the change that made it so.
    pub revision: u64,
}
