//! Times as Go programs write them: `1.5s`, `300ms`, `1h2m`.

use std::time::Duration;

/// Reads one; nothing if the text is none. A bare `0` is the only number without a unit.
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(after.len());
        let seconds = number.parse::<f64>().ok()? * seconds_of(&after[..unit])?;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &after[unit..];
    }
    Some(total)
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_go() {
        let cases = [
            ("0", Some(0)),
            ("300ms", Some(300)),
            ("1.5s", Some(1500)),
            ("1m2s", Some(62_000)),
            ("5", None),
            ("", None),
            ("-1s", None),
            ("s", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }
}
