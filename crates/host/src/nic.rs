//! NICs: where frames come into the switch and leave it.
//!
//! A NIC has two halves. The receiving half belongs to one worker, which reads it in turn with others and otherwise
//! waits on its file descriptor. The sending half is shared by all workers. Neither waits: a NIC that cannot take a
//! frame now loses it, as a wire does.
//!
//! [`tap`], [`packet_socket`] and [`udp_tunnel`] lead out of the process; [`pipe`], [`loopback`] and [`null`] do not.
//! [`fault`] and [`print`](mod@print) wrap any of them.

pub mod fault;
pub mod loopback;
pub mod null;
pub mod packet_socket;
pub mod pipe;
pub mod print;
mod queue;
mod socket;
pub mod tap;
pub mod udp_tunnel;
mod vnet;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use wire::{Encapsulation, Frame};

/// Gets each frame that a NIC received. A tunnel also says what it has popped. The frame is the caller's to change until
/// it returns; then the NIC uses the buffer again.
pub type Deliver<'a> = dyn FnMut(&mut Frame, Option<&Encapsulation>) + 'a;

/// The receiving half of a NIC: owned by one worker.
pub trait Receiver: Send {
    /// Reads what is there without waiting, and answers how many frames were delivered. 0 says that nothing is there,
    /// or that what was there was no frame.
    ///
    /// No more is read once `budget` frames were delivered. What the kernel hands over in one piece, as a train of
    /// datagrams, is delivered whole, so that it may be a few more.
    ///
    /// # Errors
    ///
    /// The NIC is gone. One that is down only delivers nothing.
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize>;

    /// What to wait on for reading; `None` if there is never anything to wait for.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// The sending half of a NIC: any worker may send, and needs no lock for it.
pub trait Sender: Send + Sync {
    /// Sends one frame now or loses it. Bytes before the frame are overwritten, and its checksum may be completed.
    /// Tunnels need an encapsulation; other NICs ignore it.
    ///
    /// # Errors
    ///
    /// The frame is lost. `WouldBlock` or ENOBUFS: the NIC's queue is full. ENETDOWN: the NIC is down. EMSGSIZE: the
    /// frame is larger than what the NIC carries. `InvalidData`: the frame contradicts what it asks to be done.
    fn send(&self, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()>;
}

/// A NIC.
pub struct Nic {
    /// The half that receives.
    pub receiver: Box<dyn Receiver>,
    /// The half that sends.
    pub sender: Arc<dyn Sender>,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("fd", &self.receiver.fd()).finish_non_exhaustive()
    }
}

/// Why a NIC cannot be had.
#[derive(Debug)]
pub struct NicError {
    /// Which one.
    pub nic: String,
    /// What was tried.
    pub action: &'static str,
    /// What the operating system said.
    pub cause: io::Error,
    /// What helps, if that is known.
    pub remedy: Option<&'static str>,
}

impl NicError {
    fn new(nic: &str, action: &'static str, cause: impl Into<io::Error>) -> Self {
        Self { nic: nic.to_owned(), action, cause: cause.into(), remedy: None }
    }

    fn remedy(self, remedy: &'static str) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

impl fmt::Display for NicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nic, action, cause, remedy } = self;
        write!(f, "{nic}: could not {action}: {cause}")?;
        match remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NicError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A NIC that somebody removed while it was in use.
fn vanished(nic: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{nic} is gone; it was removed while in use"))
}
