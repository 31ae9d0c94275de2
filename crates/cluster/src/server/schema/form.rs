//! The forms that texts in documents have: bytes, moments and quantities. Each is put in the form the original writes.

use base64::DecodeError;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use crate::server::document::timestamp;

/// Bits that are left over do not matter to the original.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// What stands for what in a moment, in the order of reading, with the number of digits.
const DATE: &[(&str, usize)] =
    &[("2006", 4), ("-", 0), ("01", 2), ("-", 0), ("02", 2), ("T", 0), ("15", 2), (":", 0), ("04", 2), (":", 0), ("05", 2)];

const ZONE: &str = "Z07:00";

/// Checks bytes in base64.
pub(super) fn bytes(text: &str) -> Result<(), String> {
    let whole = text.len() - text.len() % 4;
    match LENIENT.decode(text.replace(['\r', '\n'], "")) {
        Ok(_) => Ok(()),
        Err(DecodeError::InvalidByte(at, _)) => Err(format!("illegal base64 data at input byte {at}")),
        Err(_) => Err(format!("illegal base64 data at input byte {whole}")),
    }
}

/// A moment in UTC, in whole seconds or, if it is fine, in millionths, which then must be there.
pub(super) fn moment(text: &str, is_fine: bool) -> Result<String, String> {
    let fraction = if is_fine { ".000000" } else { "" };
    let layout = format!("2006-01-02T15:04:05{fraction}{ZONE}");
    let cannot = |rest: &str, element: &str| format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}");
    let mut rest = text;
    for (element, digits) in DATE {
        rest = read(rest, element, *digits).ok_or_else(|| cannot(rest, element))?;
    }
    rest = match (rest.strip_prefix('.'), is_fine) {
        (Some(after), true) => read(after, "", 6).filter(|after| !after.starts_with(is_digit)).ok_or_else(|| cannot(rest, fraction))?,
        (None, true) => return Err(cannot(rest, fraction)),
        (Some(after), false) => after.trim_start_matches(is_digit),
        (None, false) => rest,
    };
    let parsed = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| cannot(rest, ZONE))?.to_offset(UtcOffset::UTC);
    let whole = timestamp(parsed);
    Ok(match is_fine {
        true => format!("{}.{:06}Z", whole.trim_end_matches('Z'), parsed.microsecond()),
        false => whole,
    })
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

/// What follows a sign, or a number of digits.
fn read<'a>(text: &'a str, sign: &str, digits: usize) -> Option<&'a str> {
    match digits {
        0 => text.strip_prefix(sign),
        _ => text.get(..digits).filter(|number| number.chars().all(is_digit)).and_then(|_| text.get(digits..)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_checked() {
        assert!(bytes("eA==").is_ok() && bytes("eB==").is_ok() && bytes("").is_ok() && bytes("ZGF0\nYQ==").is_ok());
        assert_eq!(bytes("!").unwrap_err(), "illegal base64 data at input byte 0");
        assert_eq!(bytes("ab!d").unwrap_err(), "illegal base64 data at input byte 2");
        assert!(bytes("é").is_err() && bytes("a").is_err());
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment("2026-01-02T05:04:05.123456+02:00", true).unwrap(), "2026-01-02T03:04:05.123456Z");
        assert_eq!(moment("2026-01-02T05:04:05.9+02:00", false).unwrap(), "2026-01-02T03:04:05Z");
        for text in ["", "é", "2026", "2026-13-01T00:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05.1234567Z"] {
            assert!(moment(text, true).is_err(), "{text}");
        }
        let cause = moment("2026-01-02 03:04:05Z", false).unwrap_err();
        assert_eq!(cause, r#"parsing time "2026-01-02 03:04:05Z" as "2006-01-02T15:04:05Z07:00": cannot parse " 03:04:05Z" as "T""#);
    }
}
