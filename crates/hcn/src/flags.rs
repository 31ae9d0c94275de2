//! Bit masks with names. HNS prints them as numbers; unknown bits survive.

/// Declares a bit mask. It reads a number or a comma-separated list of names, and prints the number.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$bit_meta:meta])* $bit:ident = $value:literal $text:literal $(| $alias:literal)* ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            $( $(#[$bit_meta])* pub const $bit: Self = Self($value); )*

            /// Whether all bits of `other` are set.
            pub fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// These bits and those of `other`.
            pub fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// `other`'s bits set or cleared.
            pub fn set(self, other: Self, on: bool) -> Self {
                if on { self.with(other) } else { Self(self.0 & !other.0) }
            }

            /// The names of the bits that are set; unknown bits as one hexadecimal number.
            pub fn names(self) -> Vec<String> {
                let mut rest = self.0;
                let mut names = Vec::new();
                $( if $value != 0 && self.has(Self::$bit) {
                    rest &= !$value;
                    names.push($text.to_owned());
                } )*
                if rest != 0 {
                    names.push(format!("{rest:#x}"));
                }
                names
            }

            fn bit_of(name: &str) -> Option<u32> {
                $( if name.eq_ignore_ascii_case($text) $(|| name.eq_ignore_ascii_case($alias))* {
                    return Some($value);
                } )*
                name.eq_ignore_ascii_case("None").then_some(0)
            }
        }

        impl $crate::document::Field for $name {
            fn read(value: serde_json::Value, at: &$crate::document::Path<'_>) -> $crate::error::Result<Self> {
                let bits = match &value {
                    serde_json::Value::Number(number) => number.as_u64().and_then(|bits| bits.try_into().ok()),
                    serde_json::Value::String(names) => {
                        names.split(',').map(|name| Self::bit_of(name.trim())).try_fold(0, |all, bit| Some(all | bit?))
                    }
                    _ => None,
                };
                bits.map(Self).ok_or_else(|| {
                    let known = [$($text),*].join(", ");
                    $crate::document::wrong_type(at, &format!("a 32-bit mask or a list of {known}"), &value)
                })
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::from(self.0)
            }

            fn is_absent(&self) -> bool {
                self.0 == 0
            }
        }
    };
}
