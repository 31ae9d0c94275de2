//! The options that stand in a URL after the question mark.

use super::field::Errors;
use super::status::{Failure, Result};

/// Decoded options, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| match pair.split_once('=') {
            Some((key, value)) => (decode(key, true), decode(value, true)),
            None => (decode(pair, true), String::new()),
        });
        Self(pairs.collect())
    }

    /// The first value of an option, or an empty one.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// Whether an option is on. As in the original, anything but these two words is, even nothing.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        let value = self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        value.is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// A number, if the option is there.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))),
        }
    }

    /// A resource version, if the option is there.
    pub(crate) fn revision(&self, key: &str) -> Result<Option<u64>> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Failure::bad_request(no_revision(key, text))),
        }
    }

    /// Whether nothing is to happen really. `kind` is what the options of this request are called.
    pub(crate) fn is_dry_run(&self, kind: &str) -> Result<bool> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let mut errors = Errors::default();
                errors.one_of("dryRun", &vec![other].into(), &["All"]);
                Err(Failure::invalid_option(kind, &errors))
            }
        }
    }
}

/// What is said of a resource version that is no number.
pub(crate) fn no_revision(key: &str, text: &str) -> String {
    format!("{key}: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
}

/// Undoes percent encoding. What is no encoding stays as it is.
pub(crate) fn decode(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |byte: u8| (byte as char).to_digit(16);
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if digit(*high).is_some() && digit(*low).is_some() => {
                bytes.push((digit(*high).unwrap_or(0) * 16 + digit(*low).unwrap_or(0)) as u8);
                rest = after;
                continue;
            }
            (b'+', _) if plus_is_space => bytes.push(b' '),
            (other, _) => bytes.push(*other),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_decoded() {
        let query = Query::parse("labelSelector=a%3Db%2C%21c&x=1+2&watch&bad=%zz%4");
        assert_eq!(query.get("labelSelector"), "a=b,!c");
        assert_eq!((query.get("x"), query.get("watch"), query.get("bad")), ("1 2", "", "%zz%4"));
        assert!(query.number("x").is_err() && query.number("none").unwrap().is_none());
    }
}
