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

    /// Options that are decoded already.
    pub(crate) fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The first value of an option, or an empty one.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }

    /// Whether an option is on.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1" | "True" | "TRUE" | "t" | "T")
    }

    /// A number, if the option is there.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Failure::bad_request(format!("{key}: {text:?} is not a number"))),
        }
    }

    /// A resource version, if the option is there.
    pub(crate) fn revision(&self, key: &str) -> Result<Option<u64>> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| Failure::bad_request(format!("invalid resource version {text:?}"))),
        }
    }

    /// Whether nothing is to happen really.
    pub(crate) fn is_dry_run(&self) -> Result<bool> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => {
                let mut errors = Errors::default();
                errors.one_of("dryRun", &vec![other].into(), &["All"]);
                Err(Failure::invalid_option("CreateOptions", &errors))
            }
        }
    }
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
