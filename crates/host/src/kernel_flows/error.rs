//! Why flows cannot be in the kernel.

use std::fmt;
use std::io;

/// Why flows cannot be in the kernel.
#[derive(Debug)]
pub struct KernelFlowsError {
    doing: String,
    cause: String,
    remedy: Option<&'static str>,
}

impl KernelFlowsError {
    pub(super) fn new(doing: impl Into<String>, cause: &(dyn std::error::Error + 'static)) -> Self {
        Self { doing: doing.into(), remedy: remedy(cause), cause: chain(cause) }
    }

    /// With a cause and what helps in words.
    pub(super) fn because(doing: impl Into<String>, cause: impl Into<String>, remedy: &'static str) -> Self {
        Self { doing: doing.into(), cause: cause.into(), remedy: Some(remedy) }
    }
}

impl fmt::Display for KernelFlowsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.cause)?;
        self.remedy.map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl std::error::Error for KernelFlowsError {}

/// An error with all its causes, of which the innermost says the most.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error).chain(causes).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The operating system's own number of an error, wherever in its causes that is.
pub(super) fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.filter_map(|cause| cause.downcast_ref::<io::Error>()).find_map(io::Error::raw_os_error)
}

fn remedy(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    match errno(error)? {
        libc::EPERM | libc::EACCES => {
            Some("it takes CAP_BPF and CAP_NET_ADMIN on the machine itself, which root has outside of user namespaces")
        }
        libc::ENOSYS | libc::EINVAL => Some("the kernel lacks what it takes; Linux 6.1 has it"),
        libc::E2BIG | libc::ENOMEM | libc::ENOSPC => Some("a limit of the kernel is reached: its memory, or how much a map may hold"),
        _ => None,
    }
}
