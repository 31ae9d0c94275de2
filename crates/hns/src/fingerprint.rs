//! Policies that were seen before, found without comparing each with each: an endpoint may have hundreds.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};

use hcn::policy::Policy;
use hcn::policy::network::{NetworkPolicyType, SetPolicySettings};
use serde_json::Value;

/// Policies by a number that is the same for equal ones, and for sets with the same id.
#[derive(Default)]
pub(crate) struct Seen {
    numbers: HashMap<u64, Vec<usize>>,
}

impl Seen {
    /// Notes these policies.
    pub(crate) fn of<'a>(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let mut seen = Self::default();
        policies.into_iter().enumerate().for_each(|(index, policy)| seen.note(policy, index));
        seen
    }

    /// Notes one more.
    pub(crate) fn note(&mut self, policy: &Policy, index: usize) {
        self.numbers.entry(number(policy)).or_default().push(index);
    }

    /// Where policies are that may be the same as this one. Others are not.
    pub(crate) fn candidates(&self, policy: &Policy) -> &[usize] {
        self.numbers.get(&number(policy)).map_or(&[], Vec::as_slice)
    }
}

fn number(policy: &Policy) -> u64 {
    let set: Option<SetPolicySettings> = policy.is(&NetworkPolicyType::SetPolicy).then(|| policy.settings().ok()).flatten();
    match set {
        Some(set) => hash(&(0, set.id)),
        None => hash(&(1, of(&policy.policy_type), of(&policy.settings))),
    }
}

fn hash(value: &impl Hash) -> u64 {
    std::hash::BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// The order of keys is no difference between two objects.
fn of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Value::Null => 0.hash(&mut hasher),
        Value::Bool(value) => value.hash(&mut hasher),
        Value::Number(number) => number.hash(&mut hasher),
        Value::String(text) => text.hash(&mut hasher),
        Value::Array(list) => list.iter().for_each(|value| of(value).hash(&mut hasher)),
        Value::Object(object) => {
            object.iter().map(|(key, value)| hash(&(key, of(value)))).fold(0, u64::wrapping_add).hash(&mut hasher);
        }
    }
    hasher.finish()
}
