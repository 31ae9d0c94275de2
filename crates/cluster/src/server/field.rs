//! What is wrong with a field, in the words of Kubernetes.

mod rules;

use std::fmt;

use serde_json::{Value, json};

pub(crate) use rules::PROTOCOLS;

/// The kinds of mistakes that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mistake {
    Required,
    Invalid,
    NotFound,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
}

impl Mistake {
    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotFound => "Not found",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    fn shows_value(self) -> bool {
        matches!(self, Self::Invalid | Self::NotFound | Self::NotSupported | Self::Duplicate)
    }
}

/// A mistake in one field.
#[derive(Clone, Debug)]
pub(crate) struct FieldError {
    field: String,
    mistake: Mistake,
    value: Value,
    detail: String,
}

impl FieldError {
    fn body(&self) -> String {
        let mut text = self.mistake.words().to_owned();
        if self.mistake.shows_value() {
            text += &format!(": {}", self.value);
        }
        if !self.detail.is_empty() {
            text += &format!(": {}", self.detail);
        }
        text
    }

    /// The entry in a `Status`.
    pub(crate) fn cause(&self) -> Value {
        json!({"reason": self.mistake.reason(), "message": self.body(), "field": self.field})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// The mistakes of one document.
#[derive(Debug, Default)]
pub(crate) struct Errors(pub(crate) Vec<FieldError>);

impl Errors {
    fn push(&mut self, mistake: Mistake, field: impl Into<String>, value: Value, detail: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), mistake, value, detail: detail.into() });
    }

    pub(crate) fn required(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.push(Mistake::Required, field, Value::Null, detail);
    }

    pub(crate) fn invalid(&mut self, field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(Mistake::Invalid, field, value.into(), detail);
    }

    pub(crate) fn not_found(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.push(Mistake::NotFound, field, value.into(), "");
    }

    pub(crate) fn duplicate(&mut self, field: impl Into<String>, value: impl Into<Value>) {
        self.push(Mistake::Duplicate, field, value.into(), "");
    }

    /// A duplicate that needs a word about what has to be unique.
    pub(crate) fn duplicate_because(&mut self, field: impl Into<String>, value: impl Into<Value>, detail: &str) {
        self.push(Mistake::Duplicate, field, value.into(), detail);
    }

    pub(crate) fn forbidden(&mut self, field: impl Into<String>, detail: impl Into<String>) {
        self.push(Mistake::Forbidden, field, Value::Null, detail);
    }

    pub(crate) fn too_long(&mut self, field: impl Into<String>, bytes: usize) {
        self.push(Mistake::TooLong, field, Value::Null, format!("may not be more than {bytes} bytes"));
    }

    pub(crate) fn too_many(&mut self, field: impl Into<String>, given: usize, most: usize) {
        self.push(Mistake::TooMany, field, Value::Null, format!("{given}: must have at most {most} items"));
    }

    /// Objects to a value that is none of those supported. An absent one is left to defaults.
    pub(crate) fn one_of(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        if !value.is_null() && !value.as_str().is_some_and(|text| supported.contains(&text)) {
            self.not_supported(field, value.clone(), supported);
        }
    }

    pub(crate) fn not_supported(&mut self, field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        self.push(Mistake::NotSupported, field, value.into(), format!("supported values: {}", list.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_read_as_the_original_says_them() {
        let mut errors = Errors::default();
        errors.required("spec.containers", "");
        errors.invalid("metadata.name", "A b", "no");
        errors.one_of("spec.type", &json!("X"), &["A", "B"]);
        errors.invalid("spec.replicas", -1, "must be greater than or equal to 0");
        let texts: Vec<String> = errors.0.iter().map(FieldError::to_string).collect();
        assert_eq!(texts[0], "spec.containers: Required value");
        assert_eq!(texts[1], r#"metadata.name: Invalid value: "A b": no"#);
        assert_eq!(texts[2], r#"spec.type: Unsupported value: "X": supported values: "A", "B""#);
        assert_eq!(texts[3], "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
    }
}
