//! What the kernel refused, and whom it refused it to.

use std::fmt;
use std::io;

use netlink_packet_core::{ErrorMessage, NlasIterator, parse_string};
use nix::errno::Errno;

/// The attribute of an error that holds the kernel's own words.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// The length of the request's header, which an error repeats before its attributes.
const REQUEST_HEADER: usize = 16;

/// Why something about a link, an address, a route or a neighbour could not be done.
#[derive(Debug)]
pub struct NetlinkError {
    operation: String,
    cause: io::Error,
    detail: Option<String>,
}

impl NetlinkError {
    /// The operation with its object, such as `add the address 10.0.0.1/8 to link 3`.
    pub fn operation(&self) -> &str {
        &self.operation
    }

    /// The kernel's number for the error, if it is the kernel's.
    pub fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }

    /// Whether the object, or the link it should be on, does not exist.
    pub fn is_missing(&self) -> bool {
        let missing = [libc::ENODEV, libc::ENOENT, libc::ESRCH, libc::EADDRNOTAVAIL];
        self.errno().is_some_and(|errno| missing.contains(&errno))
    }

    /// Whether there is such an object already.
    pub fn is_present(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }
}

impl fmt::Display for NetlinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.operation, self.cause)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        match self.errno().map(Errno::from_raw) {
            Some(Errno::EPERM) => write!(f, "; it takes CAP_NET_ADMIN in the network namespace: run as root"),
            Some(Errno::EOPNOTSUPP) => write!(f, "; the kernel was built without it, or its module cannot be loaded"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for NetlinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A failure that does not yet know what was being done.
#[derive(Debug)]
pub(super) struct Refusal {
    cause: io::Error,
    detail: Option<String>,
}

impl Refusal {
    /// Tells an error from an acknowledgement.
    pub(super) fn check(error: &ErrorMessage) -> Result<(), Self> {
        let Some(code) = error.code else {
            return Ok(());
        };
        let cause = io::Error::from_raw_os_error(code.get().saturating_neg());
        Err(Self { cause, detail: error.header.get(REQUEST_HEADER..).and_then(kernel_words) })
    }

    pub(super) fn of(self, operation: impl Into<String>) -> NetlinkError {
        NetlinkError { operation: operation.into(), cause: self.cause, detail: self.detail }
    }
}

impl From<io::Error> for Refusal {
    fn from(cause: io::Error) -> Self {
        Self { cause, detail: None }
    }
}

fn kernel_words(attributes: &[u8]) -> Option<String> {
    let mut attributes = NlasIterator::new(attributes).map_while(Result::ok);
    attributes.find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG).and_then(|attribute| parse_string(attribute.value()).ok())
}
