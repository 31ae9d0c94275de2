//! How an exported function runs and fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hcn::error::{Error, Result, detail};

use crate::memory;

const E_POINTER: u32 = 0x8000_4003;

/// An HRESULT in a full register, its upper half zero: some clients read 64 bits and compare with 0.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HResult(usize);

impl HResult {
    /// Success.
    pub const OK: Self = Self(0);

    /// The code, as Windows writes it.
    pub fn code(self) -> u32 {
        self.0 as u32
    }
}

impl From<&Error> for HResult {
    fn from(error: &Error) -> Self {
        Self(error.hresult() as usize)
    }
}

/// Runs the body of an exported function.
///
/// The string at `record`, if the caller wants one, is NULL after a success and says what failed otherwise;
/// `print` writes it, since HCN and HCS have different forms.
///
/// # Safety
///
/// `record` is NULL or may be written to.
pub unsafe fn call(record: *mut *mut u16, print: fn(&Error) -> String, body: impl FnOnce() -> Result<()>) -> HResult {
    if !record.is_null() {
        // SAFETY: the caller of the export vouches for a pointer that is not NULL.
        unsafe { record.write_unaligned(std::ptr::null_mut()) };
    }
    let Err(error) = no_panic(body) else {
        return HResult::OK;
    };
    // Without memory for the record the code alone has to do.
    if !record.is_null()
        && let Ok(text) = no_panic(|| memory::text(&print(&error)))
    {
        // SAFETY: as above.
        unsafe { record.write_unaligned(text) };
    }
    HResult::from(&error)
}

fn no_panic<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // What a panic leaves half-done is behind locks that are taken over as they are, and each holds whole values.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let cause = format!("the call failed in a way nobody foresaw: {}", what.unwrap_or("no reason given"));
        Err(Error::Unexpected(detail(cause).remedy("please report it")))
    })
}

/// The error for a pointer that must not be NULL.
pub fn null_pointer(parameter: &str) -> Error {
    Error::from_hresult(E_POINTER, detail(format!("{parameter} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(error: &Error) -> String {
        error.record().to_string()
    }

    #[test]
    fn success_clears_the_record() {
        let mut record = std::ptr::dangling_mut();
        // SAFETY: the record is a local variable.
        assert_eq!(unsafe { call(&mut record, print, || Ok(())) }, HResult::OK);
        assert!(record.is_null());
    }

    #[test]
    fn panics_become_codes() {
        let mut record = std::ptr::null_mut();
        // SAFETY: the record is a local variable.
        let code = unsafe { call(&mut record, print, || panic!("on purpose")) };
        assert_eq!(code.0, 0x8000_FFFF);
        // SAFETY: the record was just written.
        assert!(unsafe { memory::take_text(record) }.contains("on purpose"));
    }

    #[test]
    fn records_are_optional() {
        // SAFETY: NULL is allowed.
        let code = unsafe { call(std::ptr::null_mut(), print, || Err(null_pointer("List"))) };
        assert_eq!(code.code(), E_POINTER);
    }
}
