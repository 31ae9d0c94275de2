//! Values that come in: strings and GUIDs.

use hcn::Guid;
use hcn::error::{Error, Result, detail};

use crate::call::null_pointer;

/// The longest string read, in UTF-16 units. Settings of this size are no settings, but a missing NUL.
const TEXT_MAX: usize = 64 * 1024 * 1024;

/// A GUID as Windows lays it out in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGuid {
    data1: u32,
    data2: u16,
    data3: u16,
    data4: [u8; 8],
}

impl RawGuid {
    /// Reads a GUID; NULL is an error.
    ///
    /// # Safety
    ///
    /// `pointer` is NULL or points at a GUID.
    pub unsafe fn read(parameter: &str, pointer: *const RawGuid) -> Result<Guid> {
        if pointer.is_null() {
            return Err(null_pointer(parameter));
        }
        // SAFETY: promised by the caller; C callers need not align.
        let raw = unsafe { pointer.read_unaligned() };
        Ok(Guid::from_fields(raw.data1, raw.data2, raw.data3, &raw.data4))
    }
}

impl From<Guid> for RawGuid {
    fn from(guid: Guid) -> Self {
        let (data1, data2, data3, data4) = guid.as_fields();
        Self { data1, data2, data3, data4: *data4 }
    }
}

/// Reads a string that may be NULL.
///
/// # Safety
///
/// `pointer` is NULL or points at a NUL-terminated string.
pub unsafe fn optional_text(parameter: &str, pointer: *const u16) -> Result<Option<String>> {
    if pointer.is_null() {
        return Ok(None);
    }
    let mut units = Vec::new();
    loop {
        // SAFETY: no NUL was met before this unit, so the caller's promise covers it.
        match unsafe { pointer.add(units.len()).read_unaligned() } {
            0 => break,
            unit => units.push(unit),
        }
        if units.len() > TEXT_MAX {
            return Err(Error::InvalidParameter(detail(format!("{parameter} is longer than {TEXT_MAX} characters"))));
        }
    }
    let text = String::from_utf16(&units).map_err(|_| Error::InvalidParameter(detail(format!("{parameter} is not UTF-16"))))?;
    Ok(Some(text))
}

/// Reads a string; NULL is an error.
///
/// # Safety
///
/// As for [`optional_text`].
pub unsafe fn required_text(parameter: &str, pointer: *const u16) -> Result<String> {
    // SAFETY: promised by the caller.
    unsafe { optional_text(parameter, pointer) }?.ok_or_else(|| null_pointer(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;

    #[test]
    fn a_guid_in_memory_and_back() {
        let guid = hcn::parse_guid("5f0b1190-63be-4e0c-b974-bd0f55675a42").unwrap();
        let raw = RawGuid::from(guid);
        assert_eq!((raw.data1, raw.data2, raw.data4[7]), (0x5f0b_1190, 0x63be, 0x42));
        // SAFETY: a local variable.
        assert_eq!(unsafe { RawGuid::read("Id", &raw) }, Ok(guid));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { RawGuid::read("Id", std::ptr::null()) }.unwrap_err().hresult(), 0x8000_4003);
    }

    #[test]
    fn strings_cross_whole() {
        for value in ["", "{}", "ünïcode 🌍"] {
            let text = memory::text(value).unwrap();
            // SAFETY: the string was just made.
            assert_eq!(unsafe { memory::take_text(text) }, value);
        }
    }

    #[test]
    fn half_a_character_is_an_error() {
        // SAFETY: the array ends with NUL.
        let error = unsafe { required_text("Settings", [0xD800u16, 0].as_ptr()) }.unwrap_err();
        assert_eq!(error.hresult(), 0x8007_0057);
    }
}
