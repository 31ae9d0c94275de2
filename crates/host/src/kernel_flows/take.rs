//! Taking an entry out of a map in one step, which the library has for queues only.

// One system call with pointers; it says why it is sound.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::layout::{KernelFlow, KernelKey};

/// `BPF_MAP_LOOKUP_AND_DELETE_ELEM`; for hash tables since Linux 5.14.
const LOOKUP_AND_DELETE: libc::c_long = 21;

/// As the kernel reads it: the first fields of `union bpf_attr` for entries of maps.
#[repr(C)]
struct Attributes {
    map_fd: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Takes a flow out of the map of flows.
pub(super) fn take(map: BorrowedFd<'_>, key: &KernelKey) -> io::Result<KernelFlow> {
    let mut flow = MaybeUninit::<KernelFlow>::zeroed();
    let attributes = Attributes {
        map_fd: map.as_raw_fd().cast_unsigned(),
        unused: 0,
        key: std::ptr::from_ref(key) as u64,
        value: flow.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: key and value are as large as those of the map, whose types they are, and both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, LOOKUP_AND_DELETE, &raw const attributes, size_of::<Attributes>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeros are a flow, and so is what the kernel has written over them.
    Ok(unsafe { flow.assume_init() })
}
