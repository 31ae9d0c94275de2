//! Memory that goes out to callers, who free it with `CoTaskMemFree`.

use std::ffi::c_void;
use std::ptr::NonNull;

use hcn::error::{Error, Result, detail};

use crate::call::null_pointer;

/// A place of the caller for a result, cleared before anything else happens.
#[derive(Debug)]
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// The place at `pointer`, now holding `empty`. NULL is an error that names the parameter.
    ///
    /// # Safety
    ///
    /// `pointer` is NULL or may be written to for as long as the result lives.
    pub unsafe fn new(parameter: &str, pointer: *mut T, empty: T) -> Result<Self> {
        let place = NonNull::new(pointer).ok_or_else(|| null_pointer(parameter))?;
        // SAFETY: promised by the caller; C callers need not align.
        unsafe { place.as_ptr().write_unaligned(empty) };
        Ok(Self(place))
    }

    /// Hands the result out.
    pub fn set(&self, value: T) {
        // SAFETY: promised when the place was taken.
        unsafe { self.0.as_ptr().write_unaligned(value) };
    }
}

impl Out<*mut u16> {
    /// The place for a string. See [`Out::new`].
    ///
    /// # Safety
    ///
    /// As for [`Out::new`].
    pub unsafe fn text(parameter: &str, pointer: *mut *mut u16) -> Result<Self> {
        // SAFETY: promised by the caller.
        unsafe { Self::new(parameter, pointer, std::ptr::null_mut()) }
    }

    /// Hands a string out.
    pub fn set_text(&self, value: &str) -> Result<()> {
        self.set(text(value)?);
        Ok(())
    }
}

/// A NUL-terminated UTF-16 string for the caller to free.
pub fn text(value: &str) -> Result<*mut u16> {
    // A NUL inside JSON text can only stand between tokens or be an error; the first one ends the string either way.
    array(&value.encode_utf16().chain([0]).collect::<Vec<u16>>())
}

/// A copy of some values for the caller to free; NULL if there are none.
pub fn array<T: Copy>(values: &[T]) -> Result<*mut T> {
    if values.is_empty() {
        return Ok(std::ptr::null_mut());
    }
    let bytes = size_of_val(values);
    let memory = allocate(bytes).cast::<T>();
    if memory.is_null() {
        return Err(Error::OutOfMemory(detail(format!("no memory for an answer of {bytes} bytes"))));
    }
    // SAFETY: the block is new, is large enough, and is aligned for any type by its allocator.
    unsafe { memory.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Ok(memory)
}

/// Frees memory that went out.
///
/// # Safety
///
/// `memory` is NULL or came from this module or from the COM task allocator, and is not used any more.
pub unsafe fn free(memory: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { release(memory) };
}

/// Reads a string that went out, and frees it. For callers of such interfaces, among them the tests.
///
/// # Safety
///
/// `text` is NULL or a string that the caller has to free.
pub unsafe fn take_text(text: *mut u16) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    let value = unsafe { crate::optional_text("text", text) };
    // SAFETY: promised by the caller.
    unsafe { free(text.cast()) };
    value.ok().flatten().unwrap_or_default()
}

#[cfg(windows)]
fn allocate(bytes: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { windows_sys::Win32::System::Com::CoTaskMemAlloc(bytes) }
}

#[cfg(windows)]
unsafe fn release(memory: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { windows_sys::Win32::System::Com::CoTaskMemFree(memory) };
}

/// Elsewhere there is no such allocator; the size stands before the block.
#[cfg(not(windows))]
const HEADER: usize = 16;

#[cfg(not(windows))]
fn layout(bytes: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(bytes.checked_add(HEADER)?, HEADER).ok()
}

#[cfg(not(windows))]
fn allocate(bytes: usize) -> *mut c_void {
    let Some(layout) = layout(bytes) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the size is not zero.
    let block = unsafe { std::alloc::alloc(layout) };
    if block.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the block is aligned for and larger than its header.
    unsafe {
        block.cast::<usize>().write(bytes);
        block.add(HEADER).cast()
    }
}

#[cfg(not(windows))]
unsafe fn release(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: promised by the caller, so that the header stands before the block.
    unsafe {
        let block = memory.cast::<u8>().sub(HEADER);
        if let Some(layout) = layout(block.cast::<usize>().read()) {
            std::alloc::dealloc(block, layout);
        }
    }
}
