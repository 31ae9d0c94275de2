//! bcryptprimitives.dll: `ProcessPrng` for a Wine that has no such DLL (before version 9).
//!
//! Go's runtime and Rust's standard library take their random numbers from this function and do not start without it.
//! For the same reason this DLL must not contain the standard library. A DLL without it can only be built with panics that
//! abort, which a package cannot ask for; so it goes without when built that way, as `cargo xtask dist` does, and is an
//! ordinary crate in every other build.

#![cfg_attr(all(windows, panic = "abort", not(test)), no_std)]
// The one call into Windows, and the caller's buffer it fills.
#![allow(unsafe_code)]
// Microsoft chose the name.
#![allow(non_snake_case)]

#[cfg(windows)]
#[link(name = "advapi32")]
unsafe extern "system" {
    /// `RtlGenRandom`, under the name it is exported by.
    fn SystemFunction036(buffer: *mut u8, length: u32) -> u8;
}

/// Fills a buffer with random bytes. Always answers TRUE: on failure the process ends, since callers rely on it.
///
/// # Safety
///
/// `buffer` points at `length` bytes that may be written to.
#[cfg(windows)]
#[unsafe(no_mangle)]
pub unsafe extern "system" fn ProcessPrng(buffer: *mut u8, length: usize) -> i32 {
    let mut done = 0;
    while done < length {
        let count = u32::try_from(length - done).unwrap_or(u32::MAX);
        // SAFETY: the rest of the caller's buffer, which is at least `count` bytes.
        let filled = unsafe { SystemFunction036(buffer.add(done), count) };
        if filled == 0 {
            abort();
        }
        done += count as usize;
    }
    1
}

#[cfg(all(windows, panic = "abort", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}

#[cfg(windows)]
fn abort() -> ! {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn ExitProcess(code: u32) -> !;
    }
    // SAFETY: ends the process, whatever its state.
    unsafe { ExitProcess(STATUS_UNSUCCESSFUL) }
}

#[cfg(windows)]
const STATUS_UNSUCCESSFUL: u32 = 0xC000_0001;
