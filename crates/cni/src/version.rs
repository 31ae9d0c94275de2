//! The versions of the CNI specification: which there are, and how their texts are read and compared.

use std::fmt;

use crate::error::Error;

/// A version of the specification that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.1.0: ADD and DEL. A configuration that names no version is of this one.
    V0_1_0,
    /// 0.2.0: VERSION.
    V0_2_0,
    /// 0.3.0: results with lists, chains of plugins.
    V0_3_0,
    /// 0.3.1: as 0.3.0.
    V0_3_1,
    /// 0.4.0: CHECK.
    V0_4_0,
    /// 1.0.0: addresses without a family.
    V1_0_0,
    /// 1.1.0: GC and STATUS.
    V1_1_0,
}

impl Version {
    /// All of them, the oldest first.
    pub const ALL: &'static [Self] = &[Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The newest, in which results are made before they are converted.
    pub const LATEST: Self = Self::V1_1_0;

    /// The text that stands in documents.
    pub fn text(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// The version with exactly this text; an empty text is 0.1.0. `1.1` is nobody's version, as for the reference.
    pub fn find(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::V0_1_0),
            text => Self::ALL.iter().copied().find(|version| version.text() == text),
        }
    }

    /// Its number.
    pub fn number(self) -> Number {
        match self {
            Self::V0_1_0 => Number(0, 1, 0),
            Self::V0_2_0 => Number(0, 2, 0),
            Self::V0_3_0 => Number(0, 3, 0),
            Self::V0_3_1 => Number(0, 3, 1),
            Self::V0_4_0 => Number(0, 4, 0),
            Self::V1_0_0 => Number(1, 0, 0),
            Self::V1_1_0 => Number(1, 1, 0),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The number in a version's text, also of versions that we do not speak: major, minor, micro.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub i64, pub i64, pub i64);

impl Number {
    /// Reads one to three whole numbers with dots between; an empty text is 0.1.0.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Ok(Self(0, 1, 0));
        }
        let refuse = |why: String| Error::decoding_failure(format!("cniVersion: {text:?} is no version: {why}"));
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > 3 {
            return Err(refuse("it has more than three parts".to_owned()).details("write one such as 1.1.0"));
        }
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.parse().map_err(|_| refuse(format!("{part:?} is no whole number")).details("write one such as 1.1.0"))?;
        }
        Ok(Self(numbers[0], numbers[1], numbers[2]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_by_their_exact_text() {
        for version in Version::ALL {
            assert_eq!(Version::find(version.text()), Some(*version));
            assert_eq!(Number::parse(version.text()), Ok(version.number()));
        }
        assert_eq!(Version::find(""), Some(Version::V0_1_0));
        for text in ["1.1", "1.1.0 ", "v1.1.0", "2.0.0", "0.3.2"] {
            assert_eq!(Version::find(text), None, "{text}");
        }
    }

    #[test]
    fn the_list_and_the_numbers_are_in_order() {
        assert!(Version::ALL.is_sorted());
        assert!(Version::ALL.iter().map(|version| version.number()).is_sorted());
        assert_eq!(Version::ALL.last(), Some(&Version::LATEST));
    }

    #[test]
    fn numbers_have_one_to_three_parts() {
        assert_eq!(Number::parse(""), Ok(Number(0, 1, 0)));
        assert_eq!(Number::parse("1"), Ok(Number(1, 0, 0)));
        assert_eq!(Number::parse("0.4"), Ok(Number(0, 4, 0)));
        for text in ["1.2.3.4", "one", "1..0", "1.0.x", "99999999999999999999"] {
            assert_eq!(Number::parse(text).unwrap_err().code, 6, "{text}");
        }
    }
}
