//! Every failure of the service: one enum that knows its code, Microsoft's sentence for it, and what to do.
//!
//! `vmcompute.dll`, through which container runtimes call, has these codes as `0xC037…`; `computecore.dll` has the same as
//! `0x8037…`. The older one is meant here, as runtimes compare with it, but for the process that has ended, which
//! they compare in the newer form.

use std::fmt;
use std::io;

use serde_json::{Value, json};

pub use hcn::error::{Detail, detail};

/// The result of an HCS operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! errors {
    ($( $variant:ident = $code:literal $name:literal $sentence:literal ),* $(,)?) => {
        /// A failure of an HCS operation.
        ///
        /// A variant is one code; the [`Detail`] says what is special about this failure. Variants are called after
        /// Microsoft's names for the codes.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Error {
            $( #[doc = concat!("`", $name, "`: ", $sentence)] $variant(Box<Detail>), )*
        }

        impl Error {
            /// Name, code and sentence of every failure.
            pub const ALL: &'static [(&'static str, u32, &'static str)] = &[$(($name, $code, $sentence)),*];

            /// The code that a Windows program sees.
            pub fn hresult(&self) -> u32 {
                match self {
                    $( Self::$variant(_) => $code, )*
                }
            }

            /// Microsoft's name of the code.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $name, )*
                }
            }

            /// Microsoft's English sentence for the code.
            pub fn sentence(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $sentence, )*
                }
            }

            /// What is special about this failure.
            pub fn detail(&self) -> &Detail {
                match self {
                    $( Self::$variant(detail) => detail, )*
                }
            }
        }
    };
}

errors! {
    InvalidState = 0xC037_0105 "HCS_E_INVALID_STATE" "The requested virtual machine or container operation is not valid in the current state.",
    UnexpectedExit = 0xC037_0106 "HCS_E_UNEXPECTED_EXIT" "The virtual machine or container exited unexpectedly.",
    Terminated = 0xC037_0107 "HCS_E_TERMINATED" "The virtual machine or container was forcefully exited.",
    InvalidJson = 0xC037_010D "HCS_E_INVALID_JSON" "The virtual machine or container JSON document is invalid.",
    NotFound = 0xC037_010E "HCS_E_SYSTEM_NOT_FOUND" "A virtual machine or container with the specified identifier does not exist.",
    AlreadyExists = 0xC037_010F "HCS_E_SYSTEM_ALREADY_EXISTS" "A virtual machine or container with the specified identifier already exists.",
    AlreadyStopped = 0xC037_0110 "HCS_E_SYSTEM_ALREADY_STOPPED" "The virtual machine or container with the specified identifier is not running.",
    OperationTimeout = 0xC037_0118 "HCS_E_OPERATION_TIMEOUT" "The operation timed out.",
    ProcessAlreadyStopped = 0x8037_011F "HCS_E_PROCESS_ALREADY_STOPPED" "The process has already exited.",
    ProcessNotFound = 0x8007_0490 "ERROR_NOT_FOUND" "Element not found.",
    FileNotFound = 0x8007_0002 "ERROR_FILE_NOT_FOUND" "The system cannot find the file specified.",
    AccessDenied = 0x8007_0005 "E_ACCESSDENIED" "Access is denied.",
    OutOfMemory = 0x8007_000E "E_OUTOFMEMORY" "Not enough memory resources are available to complete this operation.",
    NotSupported = 0x8007_0032 "ERROR_NOT_SUPPORTED" "The request is not supported.",
    Failed = 0x8000_4005 "E_FAIL" "Unspecified error",
}

impl Error {
    /// The result document that HCS hands to Windows programs, as JSON.
    pub fn record(&self) -> Value {
        json!({"Error": self.hresult().cast_signed(), "ErrorMessage": self.to_string()})
    }

    /// A failure of the system, while something was done.
    pub fn of_system(operation: &str, error: &io::Error) -> Self {
        let detail = detail(format!("could not {operation}: {error}"));
        match error.kind() {
            io::ErrorKind::NotFound => Self::FileNotFound(detail),
            io::ErrorKind::PermissionDenied => Self::AccessDenied(detail),
            io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull => Self::OutOfMemory(detail),
            io::ErrorKind::TimedOut => Self::OperationTimeout(detail),
            io::ErrorKind::BrokenPipe => Self::AlreadyStopped(detail),
            _ => Self::Failed(detail),
        }
    }
}

/// A document that is none is no document for HCS either; what HNS says of a network is passed on in its words.
impl From<hcn::Error> for Error {
    fn from(error: hcn::Error) -> Self {
        let detail = Box::new(error.detail().clone());
        match error {
            hcn::Error::InvalidJson(_) | hcn::Error::GuidConversionFailure(_) => Self::InvalidJson(detail),
            hcn::Error::AccessDenied(_) => Self::AccessDenied(detail),
            other => Self::Failed(self::detail(format!("HNS says: {other}"))),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.detail();
        if let Some(field) = &detail.field {
            write!(f, "{field}: ")?;
        }
        match detail.cause.as_str() {
            "" => f.write_str(self.sentence().trim_end_matches('.'))?,
            cause => f.write_str(cause)?,
        }
        write!(f, " ({}, 0x{:08X})", self.name(), self.hresult())?;
        match &detail.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_what_runtimes_read() {
        let error = Error::NotFound(detail("no system is called web"));
        assert_eq!(error.record()["Error"], 0xC037_010E_u32.cast_signed());
        assert_eq!(error.to_string(), "no system is called web (HCS_E_SYSTEM_NOT_FOUND, 0xC037010E)");
    }

    #[test]
    fn every_code_is_listed_once() {
        let mut codes: Vec<u32> = Error::ALL.iter().map(|(_, code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Error::ALL.len());
    }
}
