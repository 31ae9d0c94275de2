//! computenetwork.dll: Microsoft's HCN interface, answered by our hnsd.
//!
//! * [`objects`]: the seven operations on each kind of object;
//! * [`endpoint`]: what endpoints have beyond them;
//! * [`callbacks`][]: notifications;
//! * [`ports`]: ports reserved for a guest network service;
//! * [`service`]: the service itself.
//!
//! Names and parameters are Microsoft's. The code also builds for other systems, where its tests run.
//!
//! # Safety
//!
//! Every export takes raw pointers from C and holds its caller to the same: a pointer in is NULL, or points at a
//! NUL-terminated UTF-16 string or a GUID; a pointer out is NULL or may be written to; handles may be any number.

// Exports and raw pointers are what a DLL consists of; the promises above are the callers'.
#![allow(unsafe_code, clippy::missing_safety_doc)]
// Microsoft chose the names.
#![allow(non_snake_case)]

pub mod callbacks;
pub mod endpoint;
pub mod objects;
pub mod ports;
pub mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use abi::{HResult, Handle, Table};
use hcn::error::{Error, Result};
use hcn::{Guid, Kind};

use crate::callbacks::{Registration, Scope};

/// What a handle of this DLL stands for.
#[derive(Clone, Debug)]
enum Entry {
    Object(Kind, Guid),
    Callback(Arc<Registration>),
    Reservation(u64),
    Service,
}

static HANDLES: Table<Entry> = Table::new();

/// The object of a handle.
fn object(handle: Handle, kind: Kind) -> Result<Guid> {
    HANDLES.get(handle, |entry| of_kind(entry, kind))
}

fn of_kind(entry: &Entry, kind: Kind) -> Option<Guid> {
    match entry {
        Entry::Object(found, id) if *found == kind => Some(*id),
        _ => None,
    }
}

fn registration(entry: &Entry, scope: fn(&Scope) -> bool) -> Option<Arc<Registration>> {
    match entry {
        Entry::Callback(registration) if scope(registration.scope()) => Some(registration.clone()),
        _ => None,
    }
}

/// Runs an export that has an error record.
///
/// # Safety
///
/// `record` is NULL or may be written to.
unsafe fn call(record: *mut *mut u16, body: impl FnOnce() -> Result<()>) -> HResult {
    // SAFETY: promised by the caller.
    unsafe { abi::call(record, |error: &Error| error.record().to_string(), body) }
}

/// Runs an export that has none.
fn call_without_record(body: impl FnOnce() -> Result<()>) -> HResult {
    // SAFETY: NULL is allowed.
    unsafe { call(std::ptr::null_mut(), body) }
}
