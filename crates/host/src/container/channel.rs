//! Messages with open files, over a socket: four bytes of length, which carry the files, then JSON.

// A received descriptor is a bare number; the use says why it is sound to own it.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The environment of a pod in a large cluster is long, but not that long.
const MESSAGE_LIMIT: usize = 16 << 20;

/// The other end is a program of ours; if it does not answer for this long, it never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// One end.
#[derive(Debug)]
pub(super) struct Channel {
    stream: UnixStream,
}

impl Channel {
    /// Both ends.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (near, far) = UnixStream::pair()?;
        near.set_read_timeout(Some(PATIENCE))?;
        near.set_write_timeout(Some(PATIENCE))?;
        Ok((Self { stream: near }, far.into()))
    }

    /// Sends a message and files.
    pub(super) fn send(&self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
        let numbers: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let rights = if numbers.is_empty() { &[][..] } else { &rights[..] };
        sendmsg::<()>(self.stream.as_raw_fd(), &[IoSlice::new(&length)], rights, MsgFlags::MSG_NOSIGNAL, None)?;
        (&self.stream).write_all(&body)
    }

    /// The next message and its files; nothing when the other end is closed.
    pub(super) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let Some((length, files)) = self.receive_length()? else {
            return Ok(None);
        };
        if length > MESSAGE_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes is none of ours")));
        }
        let mut body = vec![0; length];
        (&self.stream).read_exact(&mut body)?;
        Ok(Some((serde_json::from_slice(&body)?, files)))
    }

    fn receive_length(&self) -> io::Result<Option<(usize, Vec<OwnedFd>)>> {
        let mut length = [0; 4];
        let mut space = nix::cmsg_space!([RawFd; 4]);
        let mut slices = [IoSliceMut::new(&mut length)];
        let received =
            recvmsg::<()>(self.stream.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL)?;
        let (bytes, mut files) = (received.bytes, Vec::new());
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = message {
                // SAFETY: the kernel made these descriptors for this message just now, and nobody else knows of them.
                files.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
            }
        }
        match bytes {
            0 => Ok(None),
            4 => Ok(Some((u32::from_be_bytes(length) as usize, files))),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl From<OwnedFd> for Channel {
    fn from(end: OwnedFd) -> Self {
        Self { stream: end.into() }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn messages_come_with_their_files_until_the_end_is_closed() {
        let (near, far) = Channel::pair().unwrap();
        let far = Channel::from(far);
        let file = File::open("/dev/null").unwrap();
        near.send(&"one", &[]).unwrap();
        near.send(&"x".repeat(100_000), &[file.as_fd(), file.as_fd()]).unwrap();
        drop(near);
        let (text, files): (String, _) = far.receive().unwrap().unwrap();
        assert_eq!((text.as_str(), files.len()), ("one", 0));
        let (text, files): (String, _) = far.receive().unwrap().unwrap();
        assert_eq!((text.len(), files.len()), (100_000, 2));
        assert!(far.receive::<String>().unwrap().is_none());
    }
}
