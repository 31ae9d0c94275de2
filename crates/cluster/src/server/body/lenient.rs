//! Texts that are JSON but for halves of characters, which the original reads as the sign for something unreadable.

use std::borrow::Cow;

/// The text with U+FFFD for bytes that are no UTF-8 and for escapes that are half of a pair.
pub(super) fn mended(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut whole = String::with_capacity(text.len());
    let mut rest: &str = &text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let (kept, length) = escape_at(escape);
        whole.push_str(&kept);
        rest = escape.get(length..).unwrap_or_default();
    }
    whole + rest
}

/// An escape as it is to stand, and how long it was.
fn escape_at(text: &str) -> (Cow<'_, str>, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (text.get(..12).unwrap_or(text).into(), 12),
        (Some(0xD800..=0xDFFF), _) => ("\\ufffd".into(), 6),
        // Two bytes at least, so that a backslash after a backslash begins nothing.
        _ => {
            let length = 1 + text.chars().nth(1).map_or(0, char::len_utf8);
            (text.get(..length).unwrap_or(text).into(), length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_replaced_and_pairs_are_kept() {
        assert_eq!(mended(br#""\ud800""#), r#""\ufffd""#);
        assert_eq!(mended(br#""\ud83d\ude00 \\ud800 \n""#), r#""\ud83d\ude00 \\ud800 \n""#);
        assert_eq!(mended(br#""\ude00x\"#), r#""\ufffdx\"#);
        assert_eq!(mended(b"\xff"), "\u{fffd}");
    }
}
