//! vmcompute.dll: the older interface of HNS, and as much of HCS as network plugins call, answered by our hnsd.
//!
//! * [`hns`][]: `HNSCall`;
//! * [`hcs`]: compute systems, which to us are the containers that hnsd knows.
//!
//! # Safety
//!
//! Every export takes raw pointers from C and holds its caller to the same: a pointer in is NULL or points at a
//! NUL-terminated UTF-16 string; a pointer out is NULL or may be written to; handles may be any number.

// Exports and raw pointers are what a DLL consists of; the promises above are the callers'.
#![allow(unsafe_code, clippy::missing_safety_doc)]
// Microsoft chose the names.
#![allow(non_snake_case)]

pub mod hcs;
pub mod hns;
#[cfg(test)]
mod tests;
