//! From datagrams to inner frames.
//!
//! Datagrams come one by one or as trains, and often the frames in them continue one another. These are joined, also over
//! several system calls, as long as more is there to read: a pod takes one large frame for little more than a small one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use wire::merge::Train;
use wire::{Encapsulation, Frame, Ip, Malformed, TunnelKind};

use super::super::socket::{self, Message};
use super::super::{Deliver, Receiver};
use super::{MalformedCounter, header, unfinished};

/// Shorter frames wait for nothing: they are seldom part of much data, and often what somebody waits for.
const WORTH_WAITING: usize = 512;

/// The receiving half of a tunnel.
#[derive(Debug)]
pub(super) struct TunnelReceiver {
    socket: OwnedFd,
    kind: TunnelKind,
    local: Ip,
    port: u16,
    /// What is read goes here.
    read: Frame,
    growing: Growing,
    malformed: MalformedCounter,
}

impl TunnelReceiver {
    pub(super) fn new(socket: OwnedFd, kind: TunnelKind, local: Ip, port: u16) -> Self {
        Self { socket, kind, local, port, read: Frame::default(), growing: Growing::default(), malformed: MalformedCounter::default() }
    }

    pub(super) fn malformed(&self) -> MalformedCounter {
        self.malformed.clone()
    }

    /// Takes what was read, and delivers what that completes.
    fn take(&mut self, message: &Message, deliver: &mut Deliver<'_>) -> Result<(), Malformed> {
        if message.truncated {
            return Err(Malformed::Truncated);
        }
        let remote = message.source.map(|source| Ip::from(source.ip())).ok_or(Malformed::SourceAddress)?;
        let outer = Encapsulation { kind: self.kind, vni: 0, local: self.local, remote, port: self.port };
        self.read.received(0, message.length)?;
        match train_size(message) {
            Some(size) if size < message.length => {
                self.take_train(size, outer, deliver);
                Ok(())
            }
            _ => self.take_one(outer, deliver),
        }
    }

    fn take_one(&mut self, outer: Encapsulation, deliver: &mut Deliver<'_>) -> Result<(), Malformed> {
        let (vni, header) = header::read(self.kind, self.read.bytes())?;
        self.read.pull(header)?;
        if self.read.is_empty() {
            return Err(Malformed::Truncated);
        }
        let outer = Encapsulation { vni, ..outer };
        if !self.growing.append(self.read.bytes(), &outer) {
            unfinished::mark(&mut self.read);
            self.growing.begin_with(&mut self.read, outer, deliver);
        }
        Ok(())
    }

    fn take_train(&mut self, size: usize, outer: Encapsulation, deliver: &mut Deliver<'_>) {
        for datagram in self.read.bytes().chunks(size) {
            let Ok((vni, length)) = header::read(self.kind, datagram) else {
                self.malformed.count();
                continue;
            };
            let (inner, outer) = (&datagram[length..], Encapsulation { vni, ..outer });
            if inner.is_empty() {
                self.malformed.count();
            } else if !self.growing.append(inner, &outer) {
                self.growing.begin(inner, outer, deliver);
            }
        }
    }
}

/// The frame that the next one may continue.
#[derive(Debug, Default)]
struct Growing {
    frame: Frame,
    train: Train,
    /// What was popped before the frame; without it, there is none.
    outer: Option<Encapsulation>,
    /// Frames that were delivered since somebody asked.
    delivered: usize,
}

impl Growing {
    /// Adds a frame to this one if it continues it.
    fn append(&mut self, inner: &[u8], outer: &Encapsulation) -> bool {
        self.outer.as_ref() == Some(outer) && self.train.append(&mut self.frame, inner)
    }

    /// Begins anew with these bytes.
    fn begin(&mut self, inner: &[u8], outer: Encapsulation, deliver: &mut Deliver<'_>) {
        self.deliver(deliver);
        self.frame.fill(inner);
        self.outer = Some(outer);
    }

    /// Begins anew with this frame, for which the caller gets another one.
    fn begin_with(&mut self, frame: &mut Frame, outer: Encapsulation, deliver: &mut Deliver<'_>) {
        self.deliver(deliver);
        std::mem::swap(&mut self.frame, frame);
        self.outer = Some(outer);
        if self.frame.len() < WORTH_WAITING {
            self.deliver(deliver);
        }
    }

    /// Delivers the frame, if there is one.
    fn deliver(&mut self, deliver: &mut Deliver<'_>) {
        if let Some(outer) = self.outer.take() {
            self.train.finish(&mut self.frame);
            deliver(&mut self.frame, Some(&outer));
            self.delivered += 1;
        }
    }
}

/// The length of the datagrams that the kernel has put together.
fn train_size(message: &Message) -> Option<usize> {
    let data = message.control(libc::SOL_UDP, libc::UDP_GRO)?;
    // The kernel writes an int, though its documentation says 16 bits.
    let size = match data.first_chunk::<4>() {
        Some(size) => i32::from_ne_bytes(*size),
        None => i32::from(i16::from_ne_bytes(*data.first_chunk::<2>()?)),
    };
    usize::try_from(size).ok().filter(|size| *size > 0)
}

impl Receiver for TunnelReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        self.growing.delivered = 0;
        let mut result = Ok(());
        // Datagrams that are no frames count as well, so that nobody can hold the worker here with them.
        for _ in 0..budget {
            let message = match socket::receive(self.socket.as_fd(), self.read.receive_area(0)) {
                Ok(message) => message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // What was not for this call, or an ICMP message about something sent.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ECONNREFUSED | libc::ENETDOWN)) => continue,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            if self.take(&message, deliver).is_err() {
                self.malformed.count();
            }
            if self.growing.delivered >= budget {
                break;
            }
        }
        self.growing.deliver(deliver);
        result.map(|()| self.growing.delivered)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
