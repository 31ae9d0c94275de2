//! Ids as v1 writes them: text in upper case, read leniently.

use crate::Guid;
use crate::document::{Path, not_a_guid, parse_guid};
use crate::error::Result;

/// The text of an id; empty for none.
pub(super) fn print(id: Guid) -> String {
    match id.is_nil() {
        true => String::new(),
        false => id.to_string().to_ascii_uppercase(),
    }
}

/// The id in a text: any case, with or without braces, empty for none.
pub(super) fn parse(text: &str, at: &Path<'_>) -> Result<Guid> {
    match text.trim() {
        "" => Ok(Guid::nil()),
        text => parse_guid(text).ok_or_else(|| not_a_guid(text).at(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let id = Guid::from_u128(0xABC);
        let table = [
            ("", Some(Guid::nil())),
            ("00000000-0000-0000-0000-000000000ABC", Some(id)),
            ("00000000-0000-0000-0000-000000000abc", Some(id)),
            ("{00000000-0000-0000-0000-000000000Abc}", Some(id)),
            ("abc", None),
            ("00000000000000000000000000000abc", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text, &Path::Root).ok(), expected, "{text}");
        }
        assert_eq!(print(id), "00000000-0000-0000-0000-000000000ABC");
        assert_eq!(print(Guid::nil()), "");
    }

    #[test]
    fn the_field_is_named() {
        let error = parse("abc", &Path::Root.key("ID")).unwrap_err();
        assert_eq!(error.hresult(), 0x803B_0019);
        assert_eq!(error.detail().field.as_deref(), Some("ID"));
        assert!(error.detail().remedy.is_some());
    }
}
