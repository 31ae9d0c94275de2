//! Enums of the outside world, which is newer than we are: names and numbers nobody has told us yet survive.

/// Declares an enum that reads a name (in any case) or a number and keeps what it does not know.
///
/// `text` enums print their name, `number` enums their number: HNS is particular about which field is which.
#[macro_export]
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident as $form:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $number:literal $text:literal $(| $alias:literal)* ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )*
            /// A name this version does not know.
            Other(String),
            /// A number this version does not know.
            OtherNumber(u64),
        }

        impl $name {
            /// Every value this version knows.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value with this name, in any case.
            pub fn from_name(name: &str) -> Self {
                $( if name.eq_ignore_ascii_case($text) $(|| name.eq_ignore_ascii_case($alias))* {
                    return Self::$variant;
                } )*
                Self::Other(name.to_owned())
            }

            /// The value with this number.
            pub fn from_number(number: u64) -> Self {
                match number {
                    $( $number => Self::$variant, )*
                    _ => Self::OtherNumber(number),
                }
            }

            /// The canonical name, where there is one.
            pub fn name(&self) -> Option<&str> {
                match self {
                    $( Self::$variant => Some($text), )*
                    Self::Other(name) => Some(name),
                    Self::OtherNumber(_) => None,
                }
            }

            /// The number, where there is one.
            pub fn number(&self) -> Option<u64> {
                match self {
                    $( Self::$variant => Some($number), )*
                    Self::Other(_) => None,
                    Self::OtherNumber(number) => Some(*number),
                }
            }

            /// Whether this version knows the value.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_) | Self::OtherNumber(_))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from_number(0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match (self.name(), self.number()) {
                    (Some(name), _) => f.write_str(name),
                    (None, number) => write!(f, "{}", number.unwrap_or_default()),
                }
            }
        }

        impl $crate::document::Field for $name {
            fn read(value: serde_json::Value, at: &$crate::document::Path<'_>) -> $crate::error::Result<Self> {
                match &value {
                    serde_json::Value::String(name) => Ok(Self::from_name(name)),
                    serde_json::Value::Number(number) if number.is_u64() => {
                        Ok(Self::from_number(number.as_u64().unwrap_or_default()))
                    }
                    _ => Err($crate::document::wrong_type(at, "a name or a number", &value)),
                }
            }

            fn write(&self) -> serde_json::Value {
                $crate::open_enum!(@write $form self)
            }

            fn is_absent(&self) -> bool {
                *self == Self::default()
            }
        }
    };
    (@write text $self:ident) => {
        match ($self.name(), $self.number()) {
            (Some(name), _) => serde_json::Value::from(name),
            (None, number) => serde_json::Value::from(number),
        }
    };
    (@write number $self:ident) => {
        match ($self.number(), $self.name()) {
            (Some(number), _) => serde_json::Value::from(number),
            (None, name) => serde_json::Value::from(name),
        }
    };
}
