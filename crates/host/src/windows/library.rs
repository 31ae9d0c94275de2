//! A DLL of the system, bound late.

use std::ffi::{CString, c_void};
use std::io;

use hcn::error::{Error, Result, detail};
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW};

use super::text::wide;

/// A loaded DLL. It stays loaded for the life of the process, as its functions may be anywhere.
#[derive(Clone, Debug)]
pub(super) struct Library {
    name: &'static str,
    /// The module's handle, which is an address and as such no thread's own.
    module: usize,
}

impl Library {
    /// Loads a DLL from the system's directory, and from nowhere else.
    pub(super) fn load(name: &'static str) -> Result<Self> {
        let file = wide(name);
        // SAFETY: the name ends with NUL and outlives the call.
        let module = unsafe { LoadLibraryExW(file.as_ptr(), std::ptr::null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
        if module.is_null() {
            let cause = format!("{name} cannot be loaded: {}", io::Error::last_os_error());
            let remedy = "install the Containers feature; under Wine, copy the DLLs of `cargo xtask dist` into system32";
            return Err(Error::ServiceUnavailable(detail(cause).remedy(remedy)));
        }
        Ok(Self { name, module: module as usize })
    }

    /// A function by its name.
    ///
    /// # Safety
    ///
    /// `F` is the type of a function pointer with the parameters and the result of that function.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<usize>(), "a function is a pointer") };
        let missing = || {
            let remedy = "update Windows, or do without what needs it";
            Error::NotImplemented(detail(format!("{} has no function {name}", self.name)).remedy(remedy))
        };
        let symbol = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the module is loaded and stays so; the name ends with NUL.
        let function = unsafe { GetProcAddress(self.module as *mut c_void, symbol.as_ptr().cast()) }.ok_or_else(missing)?;
        // SAFETY: promised by the caller, and of one size as checked above.
        Ok(unsafe { std::mem::transmute_copy(&function) })
    }
}
