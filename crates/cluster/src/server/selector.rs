//! Selectors: which objects of a list or a watch a client wants.

mod parser;

use std::fmt;

use serde_json::Value;

use super::document::{list, text, texts};
use super::field::Errors;
use super::name::label_value;
use super::resource::Resource;
use super::status::{Failure, Result};
use super::store::{Labels, Stored};
use parser::Parser;

/// What a requirement asks of a label.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|listed| listed == value);
        let compared = || Some((value?.parse::<i64>().ok()?, self.values.first()?.parse::<i64>().ok()?));
        match self.operator {
            Operator::In => value.is_some_and(is_listed),
            Operator::NotIn => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compared().is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => compared().is_some_and(|(value, bound)| value < bound),
        }
    }
}

/// A selector of labels. The empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Reads the form of URLs, such as `app=web,tier in (a,b),!old`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let parser = Parser { rest: text.trim() };
        parser.requirements().map(Self).map_err(Failure::bad_request)
    }

    /// The selector of a document, with `matchLabels` and `matchExpressions`. What cannot be read selects nothing.
    pub(crate) fn of_document(selector: &Value) -> Self {
        let equal = texts(selector, "/matchLabels").map(|(key, value)| equals(key, value));
        let expressions = list(selector, "/matchExpressions").iter().map(|expression| Requirement {
            key: text(expression, "/key").to_owned(),
            operator: operator(text(expression, "/operator")).unwrap_or(Operator::In),
            values: list(expression, "/values").iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
        });
        Self(equal.chain(expressions).collect())
    }

    /// The selector of a Service: a map of labels.
    pub(crate) fn of_map(selector: &Value) -> Self {
        Self(texts(selector, "").map(|(key, value)| equals(key, value)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }

    /// Whether the labels in a document's metadata match.
    pub(crate) fn matches_document(&self, document: &Value) -> bool {
        let labels = &document["metadata"]["labels"];
        self.0.iter().all(|requirement| requirement.matches(labels[&requirement.key].as_str()))
    }

    /// Objects to a selector in a document that makes no sense.
    pub(crate) fn validate(selector: &Value, path: &str, errors: &mut Errors) {
        for (key, value) in texts(selector, "/matchLabels") {
            errors.qualified(format!("{path}.matchLabels"), key);
            errors.name(format!("{path}.matchLabels"), value, label_value);
        }
        for (index, expression) in list(selector, "/matchExpressions").iter().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            let values = list(expression, "/values");
            match operator(text(expression, "/operator")) {
                Some(Operator::In | Operator::NotIn) if values.is_empty() => {
                    errors.required(format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'");
                }
                Some(Operator::Exists | Operator::DoesNotExist) if !values.is_empty() => {
                    errors.forbidden(format!("{path}.values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
                }
                Some(_) => {}
                None => errors.invalid(format!("{path}.operator"), expression["operator"].clone(), "not a valid selector operator"),
            }
            errors.qualified(format!("{path}.key"), text(expression, "/key"));
        }
    }
}

fn equals(key: &str, value: &str) -> Requirement {
    Requirement { key: key.to_owned(), operator: Operator::In, values: vec![value.to_owned()] }
}

fn operator(name: &str) -> Option<Operator> {
    match name {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        _ => None,
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            let (key, values) = (&requirement.key, requirement.values.join(","));
            match requirement.operator {
                Operator::In if requirement.values.len() == 1 => write!(f, "{key}={values}")?,
                Operator::In => write!(f, "{key} in ({values})")?,
                Operator::NotIn if requirement.values.len() == 1 => write!(f, "{key}!={values}")?,
                Operator::NotIn => write!(f, "{key} notin ({values})")?,
                Operator::Exists => write!(f, "{key}")?,
                Operator::DoesNotExist => write!(f, "!{key}")?,
                Operator::GreaterThan => write!(f, "{key}>{values}")?,
                Operator::LessThan => write!(f, "{key}<{values}")?,
            }
        }
        Ok(())
    }
}

/// A selector of fields: some must have a value, some must not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldSelector(Vec<(String, bool, String)>);

impl FieldSelector {
    /// Reads the form of URLs, such as `spec.nodeName=a,status.phase!=Failed`.
    pub(crate) fn parse(text: &str, resource: &Resource) -> Result<Self> {
        let mut terms = Vec::new();
        for term in split_escaped(text) {
            let (field, equal, value) =
                split_term(&term).ok_or_else(|| Failure::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'")))?;
            let known = field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced);
            if !known && !resource.field_names.contains(&field) {
                // Kinds that have no fields of their own say what all have.
                return Err(Failure::bad_request(match resource.field_names.is_empty() {
                    true => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
                    false => format!("field label not supported: {field}"),
                }));
            }
            terms.push((field.to_owned(), equal, value));
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn matches(&self, stored: &Stored) -> bool {
        self.0.iter().all(|(field, equal, wanted)| {
            let value = match field.as_str() {
                "metadata.name" => &*stored.key.name,
                "metadata.namespace" => &*stored.key.namespace,
                other => stored.fields.iter().find(|(name, _)| *name == other).map_or("", |(_, value)| value),
            };
            (value == wanted) == *equal
        })
    }
}

/// Splits at commas that no backslash protects. Empty terms say nothing.
fn split_escaped(text: &str) -> Vec<String> {
    let (mut terms, mut term, mut escaped) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            ',' if !escaped => terms.push(std::mem::take(&mut term)),
            _ => term.push(character),
        }
        escaped = character == '\\' && !escaped;
    }
    terms.push(term);
    terms.retain(|term| !term.is_empty());
    terms
}

fn split_term(term: &str) -> Option<(&str, bool, String)> {
    let signs = [("!=", false), ("==", true), ("=", true)];
    let (at, sign, equal) = signs.iter().filter_map(|(sign, equal)| Some((term.find(sign)?, *sign, *equal))).min_by_key(|found| found.0)?;
    let (field, value) = (term.get(..at)?, term.get(at + sign.len()..)?);
    Some((field, equal, value.replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\")))
}

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        self.labels.matches(&stored.labels) && self.fields.matches(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().copied().collect()
    }

    #[test]
    fn labels_are_selected() {
        let web = labels(&[("app", "web"), ("n", "5")]);
        for (text, expected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("app=web", true),
            ("app==db", false),
            ("app!=db,x!=y", true),
            ("app in (db, web)", true),
            ("app notin (web)", false),
            ("x notin (y)", true),
            ("n>4,n<6", true),
            ("app = web , !x", true),
            ("app=", false),
        ] {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&web), expected, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["=", "a in", "a in (", "a=b c", "a,,b", "é=1", "a=é", "a=b,", "a>b", "a in (x", "(", "!!a", "a b"] {
            assert_eq!(LabelSelector::parse(text).unwrap_err().code, 400, "{text}");
        }
    }

    #[test]
    fn fields_are_split_with_care() {
        assert_eq!(split_escaped(r"a=b\,c,d=e"), [r"a=b\,c", "d=e"]);
        assert_eq!(split_term("a!=b"), Some(("a", false, "b".into())));
        assert_eq!(split_term("a==b"), Some(("a", true, "b".into())));
        assert_eq!(split_term("é"), None);
    }
}
