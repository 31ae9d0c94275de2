//! Reading and touching documents without a type: every path may be missing, and nothing panics.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The text at a path, or an empty one.
pub(crate) fn text<'a>(document: &'a Value, path: &str) -> &'a str {
    document.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path.
pub(crate) fn number(document: &Value, path: &str) -> Option<i64> {
    document.pointer(path).and_then(Value::as_i64)
}

/// The list at a path, or an empty one.
pub(crate) fn list<'a>(document: &'a Value, path: &str) -> &'a [Value] {
    document.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The map at a path.
pub(crate) fn map<'a>(document: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    document.pointer(path).and_then(Value::as_object)
}

/// The entries of a map of texts, such as labels.
pub(crate) fn texts<'a>(document: &'a Value, path: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    map(document, path).into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// The map under a key, made if it is missing or something else.
pub(crate) fn child<'a>(document: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let slot = as_map(document).entry(key).or_insert_with(|| Value::Object(Map::new()));
    as_map(slot)
}

/// The document as a map; whatever else it was is dropped.
pub(crate) fn as_map(document: &mut Value) -> &mut Map<String, Value> {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    match document {
        Value::Object(map) => map,
        _ => unreachable!("it was made a map above"),
    }
}

/// The document's metadata.
pub(crate) fn metadata(document: &mut Value) -> &mut Map<String, Value> {
    child(document, "metadata")
}

/// Sets a key that is missing or null.
pub(crate) fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.into(), value.into());
    }
}

/// The maps of a list under a key.
pub(crate) fn items_mut<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A moment as documents have it, in whole seconds.
pub(crate) fn timestamp(moment: OffsetDateTime) -> String {
    moment.replace_nanosecond(0).unwrap_or(moment).format(&Rfc3339).unwrap_or_default()
}

/// Now, as documents have it.
pub(crate) fn now() -> String {
    timestamp(OffsetDateTime::now_utc())
}

/// The moment of a timestamp.
pub(crate) fn moment(stamp: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(stamp, &Rfc3339).ok()
}

/// How long ago a timestamp was, as tables show it.
pub(crate) fn age(stamp: &str) -> String {
    let Some(then) = moment(stamp) else { return "<unknown>".into() };
    duration((OffsetDateTime::now_utc() - then).whole_seconds().max(0))
}

/// A duration in the few letters that tables have room for.
fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |a: i64, unit: &str, b: i64, small: &str| if b == 0 { format!("{a}{unit}") } else { format!("{a}{unit}{b}{small}") };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        _ => pair(days / 365, "y", days % 365, "d"),
    }
}

/// Reads JSON. Also returns the paths of keys that stand twice, of which the last one counts.
pub(crate) fn read_json(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node { path: "", duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, duplicates))
}

/// A place in a document that is being read.
struct Node<'a> {
    path: &'a str,
    duplicates: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match items.next_element_seed(Node { path: &path, duplicates: self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let value = entries.next_value_seed(Node { path: &path, duplicates: self.duplicates })?;
            if map.insert(key, value).is_some() {
                self.duplicates.push(path);
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, _: D) -> Result<Value, D::Error> {
        Err(D::Error::custom("JSON has no such value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_with_their_path() {
        let (value, duplicates) = read_json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(value["a"], 3);
        assert_eq!(duplicates, ["b[0].c", "a"]);
        assert!(read_json(b"{} x").is_err());
    }

    #[test]
    fn ages_are_short() {
        let shown: Vec<String> = [5, 119, 125, 660, 10_800, 10_860, 90_000, 200_000].into_iter().map(duration).collect();
        assert_eq!(shown, ["5s", "119s", "2m5s", "11m", "3h", "3h1m", "25h", "2d7h"]);
    }
}
