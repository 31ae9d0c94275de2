//! Strings of the C interface.

use windows_sys::Win32::System::Com::CoTaskMemFree;
use windows_sys::core::PWSTR;

/// A NUL-terminated UTF-16 string to pass in.
pub(super) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// A string that the service returned, freed when dropped.
#[derive(Debug)]
pub(super) struct Returned(PWSTR);

impl Default for Returned {
    fn default() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl Returned {
    /// Where the service puts the string.
    pub(super) fn place(&mut self) -> *mut PWSTR {
        &mut self.0
    }

    /// The string; empty if none was returned.
    pub(super) fn read(&self) -> String {
        // SAFETY: the service returns NULL or a NUL-terminated string, which is ours until dropped.
        unsafe { read(self.0) }
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        // SAFETY: NULL, or a string that the interface leaves to its caller to free.
        unsafe { CoTaskMemFree(self.0.cast()) };
    }
}

/// Reads a string; NULL is empty.
///
/// # Safety
///
/// `text` is NULL or points at a NUL-terminated string.
pub(super) unsafe fn read(text: *const u16) -> String {
    if text.is_null() {
        return String::new();
    }
    let mut length = 0;
    // SAFETY: promised by the caller, up to the NUL.
    while unsafe { text.add(length).read() } != 0 {
        length += 1;
    }
    // SAFETY: all units before the NUL were just read.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, length) })
}
