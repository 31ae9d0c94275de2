//! How a JSON document becomes a typed value and back.
//!
//! Real clients are Go and PowerShell programs, and HNS itself is lenient in particular ways, so plain
//! derived deserialization is not enough: keys match without regard to case (an exact match wins), `null`
//! means absent, unknown keys survive, default values are omitted on output, and an error names the field
//! it is about. [`document!`](crate::document!) declares a struct once and gives it all of that.

use serde_json::{Map, Value};

use crate::Guid;
use crate::error::{Error, Result, detail};

pub use crate::extra::Extra;

/// Where in a document a value stands; prints as `Ipams[0].Subnets[1].IpAddressPrefix`.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The document itself.
    Root,
    /// A property of an object.
    Key(&'a Path<'a>, &'a str),
    /// An element of an array.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The path of a property below this one.
    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path::Key(self, name)
    }

    /// The path of an element below this one.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, name) => f.write_str(name),
            Path::Key(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value that can stand in a document.
pub trait Field: Sized + Default {
    /// Reads the value found at `at`. `null` never gets here: it means absent.
    fn read(value: Value, at: &Path<'_>) -> Result<Self>;

    /// The value as HNS prints it.
    fn write(&self) -> Value;

    /// Whether the value is its default and therefore left out on output.
    fn is_absent(&self) -> bool;
}

/// Reads a whole document from text.
pub fn parse<T: Field>(text: &str) -> Result<T> {
    T::read(parse_value(text)?, &Path::Root)
}

/// Prints a document as one line of JSON.
pub fn print<T: Field>(document: &T) -> String {
    document.write().to_string()
}

/// Reads text as JSON of any shape.
pub fn parse_value(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| {
        Error::InvalidJson(detail(format!("the text is no JSON document: {error}")).remedy("send one JSON object, in UTF-8"))
    })
}

/// Takes a value as an object. For [`document!`](crate::document!).
#[doc(hidden)]
pub fn object(value: Value, at: &Path<'_>) -> Result<Map<String, Value>> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(wrong_type(at, "an object", &other)),
    }
}

/// Takes the value of a property out of an object: the exact spelling if it is there, else any spelling.
#[doc(hidden)]
pub fn take(map: &mut Map<String, Value>, names: &[&str]) -> Option<Value> {
    if map.is_empty() {
        return None;
    }
    let exact = names.iter().find_map(|name| map.shift_remove(*name));
    let is_meant = |key: &String| names.iter().any(|name| key.eq_ignore_ascii_case(name));
    let mut found = None;
    if map.keys().any(is_meant) {
        // One pass, however many spellings there are: the document may be hostile.
        map.retain(|key, value| {
            let is_meant = is_meant(key);
            if is_meant {
                found = Some(value.take());
            }
            !is_meant
        });
    }
    exact.or(found).filter(|value| !value.is_null())
}

/// The error for a value of the wrong type. For the macros.
#[doc(hidden)]
pub fn wrong_type(at: &Path<'_>, expected: &str, found: &Value) -> Error {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", shorten(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Error::InvalidJson(
        detail(format!("{expected} is expected, but the document has {found}"))
            .at(at)
            .remedy(format!("write {expected} there, or leave the field out")),
    )
}

pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 80;
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    text.chars().take(LIMIT).chain(['…']).collect()
}

impl Field for String {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(wrong_type(at, "a string", &other)),
        }
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Field for bool {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        value.as_bool().ok_or_else(|| wrong_type(at, "true or false", &value))
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }

    fn is_absent(&self) -> bool {
        !*self
    }
}

macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn read(value: Value, at: &Path<'_>) -> Result<Self> {
                value
                    .as_u64()
                    .and_then(|number| number.try_into().ok())
                    .ok_or_else(|| wrong_type(at, &format!("a whole number from 0 to {}", <$number>::MAX), &value))
            }

            fn write(&self) -> Value {
                Value::from(*self)
            }

            fn is_absent(&self) -> bool {
                *self == 0
            }
        }
    )*};
}

number_fields!(u8, u16, u32, u64);

impl Field for Value {
    fn read(value: Value, _at: &Path<'_>) -> Result<Self> {
        Ok(value)
    }

    fn write(&self) -> Value {
        self.clone()
    }

    fn is_absent(&self) -> bool {
        self.is_null()
    }
}

/// JSON of any shape. Few documents have any, so what is not there takes one word.
pub type Any = Option<Box<Value>>;

impl<T: Field> Field for Box<T> {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        T::read(value, at).map(Box::new)
    }

    fn write(&self) -> Value {
        T::write(self)
    }

    fn is_absent(&self) -> bool {
        T::is_absent(self)
    }
}

/// Some value, or nothing. A value that is there is printed even when it is its type's default.
impl<T: Field> Field for Option<T> {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        T::read(value, at).map(Some)
    }

    fn write(&self) -> Value {
        self.as_ref().map_or(Value::Null, Field::write)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        let Value::Array(elements) = value else {
            return Err(wrong_type(at, "an array", &value));
        };
        let read = |(index, element): (usize, Value)| match element {
            Value::Null => Ok(T::default()),
            element => T::read(element, &at.index(index)),
        };
        elements.into_iter().enumerate().map(read).collect()
    }

    fn write(&self) -> Value {
        Value::Array(self.iter().map(Field::write).collect())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A GUID. The empty text and the zero GUID mean "none", as clients send both.
impl Field for Guid {
    fn read(value: Value, at: &Path<'_>) -> Result<Self> {
        let text = String::read(value, at)?;
        if text.is_empty() {
            return Ok(Guid::nil());
        }
        parse_guid(&text).ok_or_else(|| not_a_guid(&text).at(at))
    }

    fn write(&self) -> Value {
        Value::String(self.to_string())
    }

    fn is_absent(&self) -> bool {
        self.is_nil()
    }
}

/// Reads the two spellings of a GUID that Windows programs use: bare and in braces.
pub fn parse_guid(text: &str) -> Option<Guid> {
    let bare = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    (bare.len() == 36).then(|| Guid::try_parse(bare).ok()).flatten()
}

/// The error for a text that should have been a GUID.
pub fn not_a_guid(text: &str) -> Error {
    Error::GuidConversionFailure(
        detail(format!("{:?} is no GUID", shorten(text))).remedy("write 36 characters such as 5f0b1190-63be-4e0c-b974-bd0f55675a42"),
    )
}

/// Declares a document: a struct whose fields carry their JSON names.
///
/// `"Name" | "Alias" field: Type` reads any of the names and prints the first; `=> always` prints the field even
/// when it has its default value. The struct gets one more field, `extra`, for what it does not know.
#[macro_export]
macro_rules! document {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* $key:literal $(| $alias:literal)* $field:ident : $type:ty $(=> $always:ident)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* #[doc = concat!("`", $key, "`")] pub $field: $type, )*
            /// Fields this version does not know; they survive a round trip.
            pub extra: $crate::document::Extra,
        }

        impl $name {
            /// The JSON names of all fields this version knows.
            pub const FIELDS: &'static [&'static str] = &[$($key),*];
        }

        impl $crate::document::Field for $name {
            #[allow(unused_mut, clippy::needless_update)]
            fn read(value: serde_json::Value, at: &$crate::document::Path<'_>) -> $crate::error::Result<Self> {
                let mut document = Self { extra: $crate::document::object(value, at)?.into(), ..Self::default() };
                $( if let Some(value) = $crate::document::take(&mut document.extra, &[$key $(, $alias)*]) {
                    document.$field = $crate::document::Field::read(value, &at.key($key))?;
                } )*
                document.extra.shrink();
                Ok(document)
            }

            fn write(&self) -> serde_json::Value {
                let mut map = serde_json::Map::new();
                $( if $crate::document!(@always $($always)?) || !$crate::document::Field::is_absent(&self.$field) {
                    map.insert($key.to_owned(), $crate::document::Field::write(&self.$field));
                } )*
                for (key, value) in &self.extra {
                    map.entry(key.clone()).or_insert_with(|| value.clone());
                }
                serde_json::Value::Object(map)
            }

            fn is_absent(&self) -> bool {
                *self == Self::default()
            }
        }
    };
    (@always always) => { true };
    (@always) => { false };
}
