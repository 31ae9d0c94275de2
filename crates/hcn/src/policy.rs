//! Policies: what can be hung on networks, subnets and endpoints.
//!
//! A policy is a type and its settings. [`Policy`] keeps the settings as they came, so that types nobody has told
//! us about survive; [`network`], [`subnet`] and [`endpoint`] have a settings struct for every type we know.

pub mod acl;
pub mod endpoint;
pub mod network;
pub mod subnet;

use serde_json::Value;

use crate::document::{Field, Path};
use crate::error::Result;

document! {
    /// A policy of any kind: its type and its settings.
    pub struct Policy {
        "Type" policy_type: Value,
        "Settings" | "Data" settings: Value,
    }
}

impl Policy {
    /// A policy made from its settings struct.
    pub fn new(policy_type: &impl Field, settings: &impl Field) -> Self {
        Self { policy_type: policy_type.write(), settings: settings.write(), ..Self::default() }
    }

    /// The type, as the kind of object the policy hangs on understands it.
    pub fn kind<T: Field>(&self) -> Result<T> {
        T::read(self.policy_type.clone(), &Path::Root.key("Type"))
    }

    /// Whether the policy has this type.
    pub fn is<T: Field + PartialEq>(&self, policy_type: &T) -> bool {
        self.kind::<T>().is_ok_and(|found| found == *policy_type)
    }

    /// The settings as a struct. Absent settings read as an empty object.
    pub fn settings<T: Field>(&self) -> Result<T> {
        let settings = match &self.settings {
            Value::Null => Value::Object(Default::default()),
            settings => settings.clone(),
        };
        T::read(settings, &Path::Root.key("Settings"))
    }
}

/// The settings of the first policy with this type.
pub fn find<K: Field + PartialEq, T: Field>(policies: &[Policy], policy_type: &K) -> Option<T> {
    policies.iter().find(|policy| policy.is(policy_type)).and_then(|policy| policy.settings().ok())
}
