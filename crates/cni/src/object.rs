//! One JSON object of a configuration, read by the rules of Go's decoder, which the files out there rely on.
//!
//! Keys match in any case, and the exact spelling is preferred. A key that is missing or `null` is the zero value: the
//! empty text, 0, false, nothing. What nobody asks for is no error. A value of another type is one, code 6, and names
//! the key by its path, as in `ipam.ranges[0][1].subnet`.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// How much of what somebody else wrote is repeated in a message.
const QUOTED: usize = 200;

/// An object and where it stands.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    /// The whole document.
    pub fn root(map: &'a Map<String, Value>) -> Self {
        Self { map, path: String::new() }
    }

    /// The object that a value is.
    pub fn read(value: &'a Value, path: String) -> Result<Self> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            other => Err(wrong_type(&path, "an object", other)),
        }
    }

    /// Where a key of it stands, as text.
    pub fn path(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// All of it, as it was written.
    pub fn map(&self) -> &'a Map<String, Value> {
        self.map
    }

    /// Whether the key is there, be it as `null`.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Any value but `null`.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.find(key).filter(|value| !value.is_null())
    }

    /// The keys that are none of those `known`, as they were written.
    pub fn unknown(&self, known: &[&str]) -> Vec<&'a str> {
        let is_known = |key: &&str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
        self.map.keys().map(String::as_str).filter(|key| !is_known(key)).collect()
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<String> {
        self.value(key).map_or(Ok(String::new()), |value| text(value, &self.path(key)))
    }

    /// True or false.
    pub fn flag(&self, key: &str) -> Result<bool> {
        match self.value(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong_type(&self.path(key), "true or false", other)),
        }
    }

    /// A whole number of some type, such as `u16`.
    pub fn number<T: TryFrom<i64>>(&self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.as_i64().and_then(|number| T::try_from(number).ok());
        number.map(Some).ok_or_else(|| wrong_type(&self.path(key), "a whole number in range", value))
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Vec<String>> {
        let read = |(path, value): (String, &Value)| match value {
            Value::Null => Ok(String::new()),
            value => text(value, &path),
        };
        self.list(key)?.into_iter().map(read).collect()
    }

    /// An object below this one.
    pub fn object(&self, key: &str) -> Result<Option<Object<'a>>> {
        self.value(key).map(|value| Object::read(value, self.path(key))).transpose()
    }

    /// A list of objects.
    pub fn objects(&self, key: &str) -> Result<Vec<Object<'a>>> {
        self.list(key)?.into_iter().map(|(path, value)| Object::read(value, path)).collect()
    }

    /// A list of anything, each with its path.
    pub fn list(&self, key: &str) -> Result<Vec<(String, &'a Value)>> {
        let path = self.path(key);
        self.value(key).map_or(Ok(Vec::new()), |value| list(value, &path))
    }

    /// An IP address; the empty text is none. One that is IPv4 in IPv6's clothes is IPv4, as for Go.
    pub fn address(&self, key: &str) -> Result<Option<IpAddr>> {
        match self.text(key)?.as_str() {
            "" => Ok(None),
            text => address(text, &self.path(key)).map(Some),
        }
    }

    /// An address with the length of its prefix, which keeps its host bits.
    pub fn prefix(&self, key: &str) -> Result<Option<IpNet>> {
        if self.value(key).is_none() {
            return Ok(None);
        }
        let text = self.text(key)?;
        let prefix = text.parse().map_err(|_| {
            Error::decoding_failure(format!("{}: {} is no address with a prefix length", self.path(key), quote(&text)))
                .details("write one such as 10.244.1.0/24 or fd00:1::/64")
        });
        prefix.map(Some)
    }

    fn find(&self, key: &str) -> Option<&'a Value> {
        let any_case = || self.map.iter().rev().find(|(found, _)| found.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        self.map.get(key).or_else(any_case)
    }
}

/// The elements of a list, each with its path.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> Result<Vec<(String, &'a Value)>> {
    match value {
        Value::Array(elements) => Ok(elements.iter().enumerate().map(|(index, value)| (format!("{path}[{index}]"), value)).collect()),
        other => Err(wrong_type(path, "a list", other)),
    }
}

/// The text that a value is.
pub(crate) fn text(value: &Value, path: &str) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong_type(path, "a string", other)),
    }
}

/// Reads an IP address.
pub(crate) fn address(text: &str, path: &str) -> Result<IpAddr> {
    let refused = || Error::decoding_failure(format!("{path}: {} is no IP address", quote(text))).details("write one such as 10.244.1.1");
    text.parse().map(|address: IpAddr| address.to_canonical()).map_err(|_| refused())
}

/// What somebody else wrote, for a message: in quotes, on one line, and not too long.
pub(crate) fn quote(text: &str) -> String {
    let mut shortened: String = text.chars().take(QUOTED).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    format!("{shortened:?}")
}

fn wrong_type(path: &str, expected: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    let place = if path.is_empty() { "the configuration" } else { path };
    Error::decoding_failure(format!("{place}: {expected} is expected, but there is {found}"))
        .details(format!("write {expected} there, or leave the key out"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with<T>(document: Value, read: impl Fn(&Object<'_>) -> T) -> T {
        let Value::Object(map) = document else { panic!("the test needs an object") };
        read(&Object::root(&map))
    }

    #[test]
    fn keys_match_in_any_case_and_exactly_first() {
        assert_eq!(with(json!({"NAME": "a"}), |object| object.text("name")), Ok("a".to_owned()));
        assert_eq!(with(json!({"name": "a", "Name": "b"}), |object| object.text("name")), Ok("a".to_owned()));
        assert_eq!(with(json!({"Name": "b", "nAME": "c"}), |object| object.text("name")), Ok("c".to_owned()));
    }

    #[test]
    fn missing_and_null_are_the_zero_value() {
        for document in [json!({}), json!({"k": null})] {
            with(document, |object| {
                assert_eq!(object.text("k"), Ok(String::new()));
                assert_eq!(object.flag("k"), Ok(false));
                assert_eq!(object.number::<u16>("k"), Ok(None));
                assert_eq!(object.texts("k"), Ok(Vec::new()));
                assert_eq!(object.address("k"), Ok(None));
                assert_eq!(object.prefix("k"), Ok(None));
                assert!(object.object("k").unwrap().is_none());
            });
        }
        assert!(with(json!({"k": null}), |object| object.has("K") && object.value("k").is_none()));
        assert_eq!(with(json!({"k": ["a", null]}), |object| object.texts("k")), Ok(vec!["a".to_owned(), String::new()]));
    }

    #[test]
    fn a_wrong_type_names_its_key() {
        let error = with(json!({"a": {"b": [{"c": 1}]}}), |object| {
            let inner = object.object("a").unwrap().unwrap();
            inner.objects("b").unwrap()[0].text("c").unwrap_err()
        });
        assert_eq!((error.code, error.msg.as_str()), (6, "a.b[0].c: a string is expected, but there is the number 1"));
        for (document, message) in [
            (json!({"k": "1"}), "k: a whole number in range is expected, but there is the string \"1\""),
            (json!({"k": 70000}), "k: a whole number in range is expected, but there is the number 70000"),
            (json!({"k": 1.5}), "k: a whole number in range is expected, but there is the number 1.5"),
        ] {
            assert_eq!(with(document, |object| object.number::<u16>("k").unwrap_err().msg), message);
        }
    }

    #[test]
    fn addresses_are_read_as_go_reads_them() {
        assert_eq!(with(json!({"k": "::ffff:10.0.0.1"}), |object| object.address("k")), Ok(Some("10.0.0.1".parse().unwrap())));
        assert_eq!(with(json!({"k": ""}), |object| object.address("k")), Ok(None));
        assert_eq!(with(json!({"k": "10.0.0.7/8"}), |object| object.prefix("k")), Ok(Some("10.0.0.7/8".parse().unwrap())));
        for text in ["10.0.0.300", "010.0.0.1", "x", "fe80::1%eth0"] {
            assert_eq!(with(json!({"k": text}), |object| object.address("k").unwrap_err().code), 6, "{text}");
        }
        assert_eq!(with(json!({"k": ""}), |object| object.prefix("k").unwrap_err().code), 6);
    }

    #[test]
    fn unknown_keys_can_be_asked_for() {
        assert_eq!(with(json!({"Name": 1, "junk": 2}), |object| object.unknown(&["name"]).join(",")), "junk");
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(quote("a\nb"), "\"a\\nb\"");
        assert!(quote(&"x".repeat(1000)).len() < 220);
    }
}
