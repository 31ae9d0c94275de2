//! The DLL itself as a module of its process.

/// Keeps the DLL in its process for good. To be called before a thread of ours starts: were the DLL unloaded meanwhile,
/// the thread would run on in memory that is gone.
#[cfg(windows)]
pub fn pin() {
    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };
    let mut module = std::ptr::null_mut();
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    // SAFETY: the address is this function's and so lies in the DLL. A failure leaves the DLL as it was, which is all
    // right for every process that does not unload it.
    unsafe { GetModuleHandleExW(flags, pin as *const u16, &mut module) };
}

/// Elsewhere nothing unloads the code.
#[cfg(not(windows))]
pub fn pin() {}
