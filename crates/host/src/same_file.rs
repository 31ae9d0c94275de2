//! Whether two paths lead to one file.

use std::io;
use std::path::Path;

/// Whether two paths lead to one file, by whatever links. What cannot be looked at is not.
pub fn is_same(one: &Path, other: &Path) -> bool {
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// The device and the number of a file on it.
#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The volume and the number of a file on it.
#[cfg(windows)]
#[allow(unsafe_code)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Storage::FileSystem::{BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle};

    let file = std::fs::File::open(path)?;
    let mut information = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and there is room for the answer.
    match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &mut information) } {
        0 => Err(io::Error::last_os_error()),
        _ => {
            let number = u64::from(information.nFileIndexHigh) << 32 | u64::from(information.nFileIndexLow);
            Ok((u64::from(information.dwVolumeSerialNumber), number))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_the_same_and_copies_are_not() {
        let directory = std::env::temp_dir().join(format!("transom-same-file-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let [file, link, copy, none] = ["file", "link", "copy", "none"].map(|name| directory.join(name));
        std::fs::write(&file, "x").unwrap();
        std::fs::hard_link(&file, &link).unwrap();
        std::fs::copy(&file, &copy).unwrap();
        let found = [&file, &link, &copy, &none].map(|path| is_same(&file, path));
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(found, [true, true, false, false]);
    }
}
