//! Quantities of resources, such as `1500m` or `2Gi`: read, compared, and written the shortest way.

use std::fmt;

/// Billionths, the finest there is.
const NANO: i128 = 1_000_000_000;

/// The most that a quantity can be.
const MOST: i128 = i64::MAX as i128 * NANO;

const BINARY: &[&str] = &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: &[&str] = &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// What the suffix of a quantity is a power of, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// A quantity, in the form it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    form: Form,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

const WRONG_FORM: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(WRONG_FORM);
        }
        let (form, base, power) = read_suffix(suffix).ok_or(WRONG_SUFFIX)?;
        let nanos = scale(whole, fraction, base, power).min(MOST);
        Ok(Self { nanos: if text.starts_with('-') { -nanos } else { nanos }, form })
    }

    /// In thousandths, rounded up.
    pub(crate) fn millis(&self) -> i128 {
        let milli = NANO / 1000;
        self.nanos.div_euclid(milli) + i128::from(self.nanos.rem_euclid(milli) > 0)
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }
}

fn read_suffix(suffix: &str) -> Option<(Form, i128, i32)> {
    let at = |list: &[&str]| list.iter().position(|known| *known == suffix).and_then(|at| i32::try_from(at).ok());
    if let Some(power) = at(DECIMAL) {
        return Some((Form::Decimal, 10, (power - 3) * 3));
    }
    if let Some(power) = at(BINARY) {
        return Some((Form::Binary, 1024, power));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Form::Exponent, 10, power))
}

/// The number times a power of the base in billionths. What is finer counts as one more; what is too much stays the most.
fn scale(whole: &str, fraction: &str, base: i128, power: i32) -> i128 {
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    // With as many digits as can be counted with, whatever they are multiplied by.
    let (tens, factor, kept) = match base {
        10 => (power, 1, digits.len().min(36)),
        _ => (0, base.pow(power.unsigned_abs()), digits.len().min(19)),
    };
    let tens = i64::from(tens) + 9 - fraction.len() as i64 + (digits.len() - kept) as i64;
    let mantissa = digits[..kept].parse::<i128>().unwrap_or(0) * factor;
    let shift = 10i128.checked_pow(tens.unsigned_abs().min(99) as u32);
    match (mantissa, tens) {
        (0, _) => 0,
        (_, 0..) => shift.and_then(|shift| mantissa.checked_mul(shift)).unwrap_or(MOST),
        _ => shift.map_or(1, |shift| mantissa / shift + i128::from(mantissa % shift != 0 || kept < digits.len())),
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos / NANO;
        // Little or broken amounts would only be confusing with a binary suffix.
        let is_binary = self.form == Form::Binary && self.is_whole() && whole.abs() >= 1024;
        if is_binary {
            let (number, power) = divide(whole, 1024, BINARY.len() - 1);
            return write!(f, "{number}{}", BINARY[power]);
        }
        let (number, power) = divide(self.nanos, 1000, DECIMAL.len() - 1);
        match self.form {
            _ if number == 0 => f.write_str("0"),
            Form::Exponent if power == 3 => write!(f, "{number}"),
            Form::Exponent => write!(f, "{number}e{}", (power as i64 - 3) * 3),
            _ => write!(f, "{number}{}", DECIMAL[power]),
        }
    }
}

/// Divides as often as nothing remains.
fn divide(mut number: i128, by: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while number != 0 && number % by == 0 && times < most {
        number /= by;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_the_shortest_way() {
        for (given, expected) in [
            ("1000m", "1"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("2000000000", "2G"),
            ("0", "0"),
            ("0Ki", "0"),
            ("1.5Gi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12E-3", "12e-3"),
            ("-1500m", "-1500m"),
            ("0.0000000001", "1n"),
            ("1.", "1"),
            (".5", "500m"),
            ("1.0000000000000000000000000000000000000000Ki", "1Ki"),
            ("123456789012.123456789", "123456789012123456789n"),
            ("8Ei", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(given).unwrap().to_string(), expected, "{given}");
        }
    }

    #[test]
    fn nonsense_is_refused_and_too_much_is_the_most() {
        for text in ["", "a", "1x", "1.2.3", "--1", "1Kib", "1e", "."] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
        for text in ["99999999999999999999999999999999999999999999E", "1e99999999", "0.00000000000000000000000000000000000000000001"] {
            Quantity::parse(text).unwrap();
        }
        assert!(Quantity::parse("1").unwrap() < Quantity::parse("1001m").unwrap());
        assert!(Quantity::parse("1024").unwrap() == Quantity::parse("1Ki").unwrap());
    }
}
