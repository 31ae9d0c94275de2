//! A NIC with no wire: it takes every frame and never receives one.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use wire::{Encapsulation, Frame};

use super::{Deliver, Nic, Receiver, Sender};

/// A NIC with no wire.
pub fn new() -> Nic {
    Nic { receiver: Box::new(Null), sender: Arc::new(Null) }
}

struct Null;

impl Receiver for Null {
    fn receive(&mut self, _: usize, _: &mut Deliver<'_>) -> io::Result<usize> {
        Ok(0)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl Sender for Null {
    fn send(&self, _: &mut Frame, _: Option<&Encapsulation>) -> io::Result<()> {
        Ok(())
    }
}
