//! How the kernel backs the memory of this process.

// A C interface cannot be called without it; every use says why it is sound.
#![allow(unsafe_code)]

use std::fs;
use std::io;

/// Mappings smaller than this gain little. Threads' stacks are smaller too.
const LARGE: usize = 4 << 20;

/// Asks for huge pages under every large mapping that this process has now, and answers how many bytes those are.
///
/// Tables that are read at random cost a walk through the page tables for almost every access, and in a virtual machine through
/// two of them. In return a table that holds little takes more memory, as its pages come by two megabytes.
pub fn prefer_huge_pages() -> io::Result<usize> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut bytes = 0;
    for (start, end) in maps.lines().filter_map(anonymous).filter(|(start, end)| end - start >= LARGE) {
        // SAFETY: the advice changes neither what is mapped nor what is in it, whoever has it. Should the mapping be gone by now, the
        // kernel says so.
        if unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) } == -1 {
            return Err(io::Error::last_os_error());
        }
        bytes += end - start;
    }
    Ok(bytes)
}

/// Gives memory back that was freed and is kept for later. After a peak nobody else knows that it is not needed.
pub fn give_back() {
    // SAFETY: it takes no pointers, and may be called at any time by any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The ends of a mapping that is private, writable and of no file.
fn anonymous(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, permissions) = (fields.next()?, fields.next()?);
    if !permissions.starts_with("rw-p") || fields.nth(3).is_some() {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        assert_eq!(anonymous("7f0000000000-7f0000400000 rw-p 00000000 00:00 0 "), Some((0x7f00_0000_0000, 0x7f00_0040_0000)));
        assert_eq!(anonymous("7ffc0000-7ffd0000 rw-p 00000000 00:00 0    [stack]"), None);
        assert_eq!(anonymous("55550000-55560000 r--p 00000000 fe:00 12   /usr/bin/true"), None);
        assert_eq!(anonymous(""), None);
    }

    #[test]
    fn a_large_table_gets_them_and_keeps_what_it_holds() {
        let mut table = vec![0u8; 16 << 20];
        table[5 << 20] = 7;
        // A kernel without huge pages says so, and that is all.
        match prefer_huge_pages() {
            Ok(bytes) => assert!(bytes >= 16 << 20, "{bytes}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}"),
        }
        assert_eq!((table[5 << 20], table[6 << 20]), (7, 0));
    }
}
