//! Queries: which objects, and in which shape.

use serde_json::{Map, Value};

use crate::base::SchemaVersion;
use crate::document::{Path, object, parse, parse_value, take};
use crate::error::{Error, Result, detail};

flags! {
    /// How much an answer says.
    pub struct QueryFlags {
        /// Internals too.
        DETAILED = 1 "Detailed",
    }
}

document! {
    /// A query, as HostComputeQuery. `Filter` is JSON inside a string.
    pub struct Query {
        "SchemaVersion" schema_version: Option<SchemaVersion>,
        "Flags" flags: QueryFlags,
        "Filter" filter: String,
    }
}

impl Query {
    /// Reads a query. Callers may pass nothing at all.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        parse(text)
    }

    /// A query in schema 2 for objects with these properties.
    pub fn v2(filter: &[(&str, &str)]) -> Self {
        let filter: Map<String, Value> = filter.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        let filter = if filter.is_empty() { String::new() } else { Value::Object(filter).to_string() };
        Self { schema_version: Some(SchemaVersion::v2()), filter, ..Self::default() }
    }

    /// Whether the answer is wanted in schema 2; without a version HNS answers in schema 1.
    pub fn wants_v2(&self) -> bool {
        self.schema_version.as_ref().is_some_and(|version| version.major >= 2)
    }

    /// The filter, taken apart.
    pub fn filter(&self) -> Result<Filter> {
        if self.filter.trim().is_empty() {
            return Ok(Filter::default());
        }
        let path = Path::Root.key("Filter");
        let value = parse_value(&self.filter).map_err(|error| {
            let cause = format!("the filter is no JSON: {}", error.detail().cause);
            Error::InvalidJson(detail(cause).at(&path).remedy(r#"write JSON inside the string, such as "{\"Name\":\"cbr0\"}""#))
        })?;
        Ok(Filter { properties: object(value, &path)? })
    }
}

/// The properties an object must have to be listed; all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Property names and wanted values.
    pub properties: Map<String, Value>,
}

impl Filter {
    /// Takes out the wanted value of a property, whatever the spelling of its name.
    pub fn take(&mut self, names: &[&str]) -> Option<Value> {
        take(&mut self.properties, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_means_everything_in_schema_one() {
        let query = Query::parse("").unwrap();
        assert!(!query.wants_v2());
        assert_eq!(query.filter().unwrap(), Filter::default());
    }

    #[test]
    fn hcsshims_form() {
        let query = Query::parse(r#"{"SchemaVersion":{"Major":2,"Minor":0},"Filter":"{\"Name\":\"cbr0\"}"}"#).unwrap();
        assert!(query.wants_v2());
        assert_eq!(query.filter().unwrap().take(&["name"]), Some(Value::from("cbr0")));
        assert_eq!(query, Query::v2(&[("Name", "cbr0")]));
    }

    #[test]
    fn a_broken_filter_is_named() {
        let error = Query::parse(r#"{"Filter":"{"}"#).unwrap().filter().unwrap_err();
        assert_eq!(error.hresult(), 0x803B_001B);
        assert_eq!(error.detail().field.as_deref(), Some("Filter"));
    }
}
