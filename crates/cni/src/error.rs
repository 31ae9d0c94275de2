//! How a call fails: a code of the specification, a message, and details.
//!
//! A constructor stands for a code. The message says what is wrong and names the key, the variable or the path; the
//! details say what to do about it.

use std::fmt;

use serde_json::{Map, Value};

use crate::print;
use crate::version::Version;

/// What a plugin's work gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure as CNI tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code: below 100 those of the specification, above them a plugin's own, 999 for everything else.
    pub code: u64,
    /// What is wrong.
    pub msg: String,
    /// More of it, or what to do about it; may be empty.
    pub details: String,
}

macro_rules! codes {
    ($( $(#[$meta:meta])* $name:ident = $code:literal ),* $(,)?) => {
        impl Error {
            $( $(#[$meta])* #[doc = concat!("\n\nCode ", $code, ".")] pub fn $name(msg: impl Into<String>) -> Self {
                Self::new($code, msg)
            } )*
        }
    };
}

codes! {
    /// The configuration is of a version that the plugin does not speak, or that has no such command.
    incompatible_version = 1,
    /// A key has a value that the plugin cannot serve; the message names both.
    unsupported_field = 2,
    /// The container is not known; the runtime need not clean up.
    unknown_container = 3,
    /// A variable is missing or wrong; the message names it.
    invalid_environment = 4,
    /// Reading or writing failed; the message names the path.
    io_failure = 5,
    /// Something is no JSON, or a key has a value of the wrong type.
    decoding_failure = 6,
    /// The configuration can be read, and asks for something that makes no sense.
    invalid_network_config = 7,
    /// CNI_NETNS is no namespace to put a container's interface into.
    invalid_netns = 8,
    /// It may work later without anybody changing anything.
    try_again_later = 11,
    /// STATUS: ADD would not work now.
    plugin_not_available = 50,
    /// STATUS: ADD would not work now, and containers that are there may lack connectivity.
    limited_connectivity = 51,
    /// Anything else.
    internal = 999,
}

impl Error {
    /// A failure with a code, such as a plugin's own.
    pub fn new(code: u64, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// Says more, usually what to do.
    pub fn details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// Puts what was being done in front of the message.
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.msg = format!("{what}: {}", self.msg);
        self
    }

    /// The document that goes to standard output. The specification wants the version in it; the reference leaves it out.
    pub fn print(&self, version: Version) -> String {
        let mut document = Map::new();
        document.insert("cniVersion".to_owned(), version.text().into());
        document.insert("code".to_owned(), self.code.into());
        document.insert("msg".to_owned(), self.msg.as_str().into());
        if !self.details.is_empty() {
            document.insert("details".to_owned(), self.details.as_str().into());
        }
        print::pretty(&Value::Object(document))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)?;
        match self.details.as_str() {
            "" => Ok(()),
            details => write!(f, "; {details}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_as_the_specification_shows_it() {
        let error = Error::invalid_network_config("ipam.subnet is missing").details("name one");
        let expected = "{\n    \"cniVersion\": \"1.0.0\",\n    \"code\": 7,\n    \"msg\": \"ipam.subnet is missing\",\n    \"details\": \"name one\"\n}";
        assert_eq!(error.print(Version::V1_0_0), expected);
        assert!(!Error::internal("x").print(Version::LATEST).contains("details"));
    }

    #[test]
    fn text_has_message_and_details() {
        assert_eq!(Error::internal("a").to_string(), "a");
        assert_eq!(Error::internal("a").details("b").context("c").to_string(), "c: a; b");
    }
}
