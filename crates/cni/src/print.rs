//! JSON as Go prints it, since what we print is compared and parsed as if a Go program had printed it.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Four blanks for each level, no line break at the end, and the characters escaped that Go escapes for the sake of HTML.
pub(crate) fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    // Writing a value that is already in memory into memory cannot fail.
    let written = value.serialize(&mut serializer);
    debug_assert!(written.is_ok());
    escape(&String::from_utf8_lossy(&bytes))
}

/// On one line.
pub(crate) fn compact(value: &Value) -> String {
    escape(&value.to_string())
}

/// These characters can only stand inside strings, so that the text as a whole may be replaced.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printed_as_go_does() {
        assert_eq!(
            pretty(&json!({"a": [], "b": {}, "c": [1, "x<y>&"]})),
            "{\n    \"a\": [],\n    \"b\": {},\n    \"c\": [\n        1,\n        \"x\\u003cy\\u003e\\u0026\"\n    ]\n}"
        );
    }
}
