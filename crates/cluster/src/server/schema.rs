//! The fields of every kind: what they are called, what they hold, and their numbers in protobuf.
//!
//! `schema/fields.txt` is the table. `cargo xtask schema` reads it from the tags of the types in `k8s.io/api` and
//! `k8s.io/apimachinery` v0.37.1: a line with a name begins a message, and each line under it is a field with its number, its name in JSON, its
//! type, and when it is there: `always`, `maybe` (not while it is zero), `pointer` (whenever it was set, zero or not) or
//! `inline` (its fields stand in the outer message).

mod conform;
mod form;
mod original;
pub(crate) mod protobuf;
mod settle;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::resource::{Resource, stored_as};

pub(crate) use conform::{conform, kind_of, unknown};
pub(crate) use original::as_original;
pub(crate) use settle::settle;

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    Text,
    Integer,
    Bool,
    Bytes,
    /// A moment, in whole seconds or finer.
    Time {
        is_fine: bool,
    },
    Quantity,
    IntegerOrText,
    /// Any JSON.
    Any,
    Message(&'static str),
    List(Box<Type>),
    Map(Box<Type>),
}

/// When a field is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Presence {
    Always,
    Maybe,
    Pointer,
    Inline,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) holds: Type,
    pub(crate) presence: Presence,
}

static MESSAGES: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| read(include_str!("schema/fields.txt")));

/// The fields of a message; none of one that is not known.
pub(crate) fn fields(message: &str) -> &'static [Field] {
    MESSAGES.get(message).map(Vec::as_slice).unwrap_or_default()
}

/// All messages, by name.
pub(crate) fn messages() -> impl Iterator<Item = (&'static str, &'static [Field])> {
    MESSAGES.iter().map(|(name, fields)| (*name, fields.as_slice()))
}

/// The message of a resource.
pub(crate) fn message_of(resource: &Resource) -> String {
    message(resource.group, resource.kind)
}

/// The message as which a resource is stored.
pub(crate) fn stored_message_of(resource: &Resource) -> String {
    message_of(stored_as(resource.storage).unwrap_or(resource))
}

/// The message of a kind in a group.
fn message(group: &str, kind: &str) -> String {
    let group = match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("{group}.{kind}")
}

fn read(table: &'static str) -> HashMap<&'static str, Vec<Field>> {
    let mut messages: HashMap<&'static str, Vec<Field>> = HashMap::new();
    let mut current = "";
    for line in table.lines() {
        match line.strip_prefix(' ') {
            None => current = line,
            Some(line) => messages.entry(current).or_default().extend(read_field(line)),
        }
    }
    messages
}

fn read_field(line: &'static str) -> Option<Field> {
    let mut words = line.split(' ');
    Some(Field {
        number: words.next()?.parse().ok()?,
        name: words.next()?,
        holds: read_type(words.next()?),
        presence: match words.next()? {
            "always" => Presence::Always,
            "maybe" => Presence::Maybe,
            "pointer" => Presence::Pointer,
            "inline" => Presence::Inline,
            _ => return None,
        },
    })
}

fn read_type(text: &'static str) -> Type {
    if let Some(item) = text.strip_prefix("[]") {
        return Type::List(Box::new(read_type(item)));
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Type::Map(Box::new(read_type(value)));
    }
    match text {
        "string" => Type::Text,
        "int" => Type::Integer,
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "time" => Type::Time { is_fine: false },
        "microtime" => Type::Time { is_fine: true },
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntegerOrText,
        "fields" | "raw" => Type::Any,
        message => Type::Message(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::resource::ALL;

    #[test]
    fn every_resource_has_a_message_and_every_message_is_there() {
        for resource in ALL {
            assert!(!fields(&message_of(resource)).is_empty(), "{}", resource.kind);
        }
        for (name, all) in messages() {
            for field in all {
                let mut holds = &field.holds;
                while let Type::List(inner) | Type::Map(inner) = holds {
                    holds = inner;
                }
                if let Type::Message(message) = holds {
                    assert!(MESSAGES.contains_key(message) || *message == "meta.Duration", "{name}.{}: {message}", field.name);
                }
            }
        }
    }
}
