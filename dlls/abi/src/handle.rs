//! Handles: numbers in a table.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hcn::error::{Error, Result, detail};

/// A handle as it crosses the interface.
pub type Handle = *mut c_void;

/// Clients leak handles when something fails between open and close. This is a day of that every 10 ms.
const ENTRIES_MAX: usize = 8 * 1024 * 1024;
const FIRST: usize = 0x1000;
/// Handles of Windows are multiples of four.
const STEP: usize = 4;

/// What handles stand for. A number is never given out twice, so a handle that was closed stays invalid.
#[derive(Debug)]
pub struct Table<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    next: usize,
    entries: BTreeMap<usize, T>,
}

impl<T: Clone> Table<T> {
    /// A table without entries.
    pub const fn new() -> Self {
        Self { inner: Mutex::new(Inner { next: FIRST, entries: BTreeMap::new() }) }
    }

    /// A new handle, never NULL.
    pub fn insert(&self, entry: T) -> Result<Handle> {
        let mut inner = self.lock();
        if inner.entries.len() >= ENTRIES_MAX {
            return Err(Error::OutOfMemory(detail(format!("{ENTRIES_MAX} handles are open")).remedy("close handles after use")));
        }
        let number = inner.next;
        inner.next += STEP;
        inner.entries.insert(number, entry);
        Ok(number as Handle)
    }

    /// What a handle stands for, if `choose` accepts it.
    pub fn get<U>(&self, handle: Handle, choose: impl FnOnce(&T) -> Option<U>) -> Result<U> {
        self.lock().entries.get(&(handle as usize)).and_then(choose).ok_or_else(|| invalid_handle(handle))
    }

    /// Closes a handle, if `choose` accepts what it stands for.
    pub fn remove<U>(&self, handle: Handle, choose: impl FnOnce(&T) -> Option<U>) -> Result<U> {
        let mut inner = self.lock();
        let chosen = inner.entries.get(&(handle as usize)).and_then(choose).ok_or_else(|| invalid_handle(handle))?;
        inner.entries.remove(&(handle as usize));
        Ok(chosen)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The error for a number that is no open handle of the wanted kind.
pub fn invalid_handle(handle: Handle) -> Error {
    let cause = format!("{:#x} is no open handle of this kind", handle as usize);
    Error::InvalidHandle(detail(cause).remedy("open the object, and close it once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_and_made_up_handles_are_errors() {
        let table = Table::new();
        let handle = table.insert("a").unwrap();
        assert_eq!(table.get(handle, |entry| Some(*entry)), Ok("a"));
        assert!(table.get(handle, |_| None::<()>).is_err());
        assert_eq!(table.remove(handle, |entry| Some(*entry)), Ok("a"));
        for bad in [handle, std::ptr::null_mut(), usize::MAX as Handle, 1 as Handle] {
            assert_eq!(table.get(bad, |_| Some(())).unwrap_err().hresult(), 0x8007_0006);
        }
        assert_ne!(table.insert("b").unwrap(), handle);
    }
}
