//! What our DLLs share: how strings, GUIDs, handles and failures cross the C interface, and the way to hnsd.
//!
//! The rules come from how clients are written, and are kept here so that no export can forget one:
//!
//! * out parameters are checked and cleared before anything else, so that no caller frees a stale pointer ([`Out`]);
//! * the error record is written on every call, and is NULL on success ([`call`]);
//! * an HRESULT fills the whole register, zero-extended: PowerShell reads 64 bits ([`HResult`]);
//! * strings that go out come from the COM task allocator, whose memory every caller frees ([`memory`]);
//! * a handle is a number in a table, so that one that is made up or closed is an error and not a crash ([`Table`]);
//! * a panic ends in `E_UNEXPECTED` and never reaches the caller.
//!
//! Only memory and modules are Windows' own; the rest is the same everywhere, and so are the tests.

// Pointers of C callers cannot be had without it; every use says why it is sound.
#![allow(unsafe_code)]

mod call;
mod handle;
pub mod memory;
mod module;
mod service;
#[cfg(feature = "testing")]
pub mod testing;
mod value;

pub use self::call::{HResult, call, null_pointer};
pub use self::handle::{Handle, Table, invalid_handle};
pub use self::memory::Out;
pub use self::module::pin;
pub use self::service::ask;
pub use self::value::{RawGuid, optional_text, required_text};
