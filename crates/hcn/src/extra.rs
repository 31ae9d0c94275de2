//! Fields of a document that this version does not know.
//!
//! Nearly every document has none, and documents are many: what is not there takes one word.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use serde_json::{Map, Value};

static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// Unknown fields, kept in their order and printed again.
#[derive(Clone, Debug, Default)]
pub struct Extra(Option<Box<Map<String, Value>>>);

impl Extra {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives back the room of fields that are no longer there.
    #[doc(hidden)]
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.0 = None;
        }
    }
}

impl Deref for Extra {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for Extra {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<Map<String, Value>> for Extra {
    fn from(map: Map<String, Value>) -> Self {
        Self(Some(Box::new(map)).filter(|map| !map.is_empty()))
    }
}

impl From<Extra> for Map<String, Value> {
    fn from(extra: Extra) -> Self {
        extra.0.map(|map| *map).unwrap_or_default()
    }
}

impl FromIterator<(String, Value)> for Extra {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Map::from_iter(fields).into()
    }
}

impl IntoIterator for Extra {
    type Item = (String, Value);
    type IntoIter = serde_json::map::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        Map::from(self).into_iter()
    }
}

impl<'a> IntoIterator for &'a Extra {
    type Item = (&'a String, &'a Value);
    type IntoIter = serde_json::map::Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
