//! A TAP device: a network adapter whose wire ends in this process.
//!
//! The kernel leaves checksums and segmentation to us, so that a read takes up to 64 KB of a TCP stream at once. The
//! device may be moved to another network namespace while it is open.

// The device is set up by ioctl; every use says why it is sound.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint, c_ulong};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use wire::{Encapsulation, Frame, Ip, Malformed, virtio};

use super::{Deliver, Nic, NicError, Receiver, Sender, vanished, vnet};

const DEVICE: &str = "/dev/net/tun";

/// The longest name of an adapter.
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

const CHECKSUM: c_uint = 0x01;
const TCP4: c_uint = 0x02;
const TCP6: c_uint = 0x04;
const TCP_ECN: c_uint = 0x08;
// Since Linux 6.2, and there only both together.
const UDP: c_uint = 0x20 | 0x40;

/// What the kernel is asked to leave to us; the first that it knows is taken.
const OFFLOADS: [c_uint; 5] =
    [CHECKSUM | TCP4 | TCP6 | TCP_ECN | UDP, CHECKSUM | TCP4 | TCP6 | TCP_ECN, CHECKSUM | TCP4 | TCP6, CHECKSUM | TCP4, CHECKSUM];

/// How a TAP device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapOptions {
    /// Whether the device stays when nobody has it open.
    pub persistent: bool,
}

/// An open TAP device.
#[derive(Clone, Debug)]
pub struct Tap {
    device: Arc<File>,
    name: String,
}

impl Tap {
    /// Opens the device of this name in the thread's network namespace, and makes it if it is not there. A `%d` in the
    /// name is replaced by the first free number.
    pub fn open(name: &str, options: TapOptions) -> Result<Self, NicError> {
        let failed = |action, error| explain(NicError::new(name, action, error));
        let mut request = request_for(name)?;
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let device = device.map_err(|error| failed("open /dev/net/tun", error))?;
        // SAFETY: the request is a valid `ifreq`, which the call reads and writes the name of.
        let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
        check(made).map_err(|error| failed("attach the TAP device", error))?;
        let tap = Self { device: Arc::new(device), name: name_of(&request) };
        tap.set_header_length().map_err(|error| failed("set the length of the header", error))?;
        tap.set_offloads().map_err(|error| failed("switch offloads on", error))?;
        if options.persistent {
            tap.set_persistent(true).map_err(|error| failed("make the device persistent", error))?;
        }
        Ok(tap)
    }

    /// The name it has, or had when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether somebody else has this handle too. The device is closed with the last one.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.device) > 1
    }

    /// Says whether the device stays when nobody has it open.
    pub fn set_persistent(&self, persistent: bool) -> io::Result<()> {
        // SAFETY: the call takes a number, and no pointer.
        check(unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETPERSIST as _, c_ulong::from(persistent)) })
    }

    /// The receiving half of a tunnel whose end is a device of the kernel: before each frame stands what that has popped, as
    /// `bpf/flows.bpf.c` writes it. `outer` is of this end, with nothing of the other.
    pub fn popped_receiver(&self, outer: Encapsulation) -> Box<dyn Receiver> {
        Box::new(TapReceiver { tap: self.clone(), frame: Frame::default(), popped: Some(outer) })
    }

    /// The device as a NIC. There should be one only, as each frame arrives at one receiver.
    pub fn nic(&self) -> Nic {
        Nic { receiver: Box::new(TapReceiver { tap: self.clone(), frame: Frame::default(), popped: None }), sender: Arc::new(self.clone()) }
    }

    fn set_header_length(&self) -> io::Result<()> {
        let length = virtio::LENGTH as c_int;
        // SAFETY: the call reads one int.
        check(unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const length) })
    }

    fn set_offloads(&self) -> io::Result<()> {
        let mut result = Ok(());
        for offloads in OFFLOADS {
            // SAFETY: the call takes a number, and no pointer.
            result = check(unsafe { libc::ioctl(self.device.as_raw_fd(), libc::TUNSETOFFLOAD as _, c_ulong::from(offloads)) });
            match &result {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                _ => break,
            }
        }
        result
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn request_for(name: &str) -> Result<libc::ifreq, NicError> {
    let invalid = |remedy| NicError::new(name, "use that as a name", io::ErrorKind::InvalidInput).remedy(remedy);
    if name.len() > NAME_MAX {
        return Err(invalid("names of adapters have 15 bytes at most"));
    }
    if name.is_empty() || name.bytes().any(|byte| byte == b'/' || byte == 0 || byte.is_ascii_whitespace()) {
        return Err(invalid("names of adapters have one byte at least, and neither slashes nor spaces"));
    }
    // SAFETY: an `ifreq` is numbers and unions of numbers, of which zeros are valid values.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    Ok(request)
}

fn name_of(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.map(|byte| byte as u8);
    CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
}

fn explain(error: NicError) -> NicError {
    match error.cause.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            error.remedy("load the kernel module `tun`, or give the container the device /dev/net/tun")
        }
        Some(libc::EPERM | libc::EACCES) => error.remedy("run as root, or with the capability CAP_NET_ADMIN"),
        Some(libc::EBUSY) => error.remedy("another process has it open: stop that one, or choose another name"),
        Some(libc::EINVAL) => error.remedy("an adapter of that name may exist and be no TAP device: choose another name"),
        _ => error,
    }
}

struct TapReceiver {
    tap: Tap,
    frame: Frame,
    /// This end of a tunnel, if a device of the kernel has popped what is read.
    popped: Option<Encapsulation>,
}

/// What stands before a frame that was popped: the virtual network, the family, and the address of the other end.
const POPPED: usize = 24;

/// Takes what was popped off a frame.
fn take_popped(frame: &mut Frame, outer: Encapsulation) -> Result<Encapsulation, Malformed> {
    let Some([v0, v1, v2, v3, f0, f1, f2, f3, address @ ..]) = frame.bytes().first_chunk::<POPPED>().copied() else {
        return Err(Malformed::Truncated);
    };
    let remote = match u32::from_ne_bytes([f0, f1, f2, f3]) {
        0 => Ip(u128::from_be_bytes(address)),
        _ => Ip::v4(u32::from_be_bytes([address[0], address[1], address[2], address[3]])),
    };
    frame.pull(POPPED)?;
    Ok(Encapsulation { vni: u32::from_ne_bytes([v0, v1, v2, v3]), remote, ..outer })
}

impl Receiver for TapReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let mut delivered = 0;
        for _ in 0..budget {
            let length = match self.tap.device.as_ref().read(self.frame.receive_area(virtio::LENGTH)) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The device is down.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => break,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EBADFD | libc::EFAULT)) => return Err(vanished(&self.tap.name)),
                Err(error) => return Err(error),
            };
            if vnet::received(&mut self.frame, virtio::LENGTH, length).is_err() {
                continue;
            }
            match self.popped.map(|outer| take_popped(&mut self.frame, outer)) {
                None => deliver(&mut self.frame, None),
                Some(Ok(outer)) => deliver(&mut self.frame, Some(&outer)),
                Some(Err(_)) => continue,
            }
            delivered += 1;
        }
        Ok(delivered)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tap.device.as_fd())
    }
}

impl Sender for Tap {
    fn send(&self, frame: &mut Frame, _: Option<&Encapsulation>) -> io::Result<()> {
        match vnet::write(&self.device, virtio::LENGTH, frame) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(io::Error::from_raw_os_error(libc::ENETDOWN)),
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Err(vanished(&self.name)),
            result => result,
        }
    }
}
