//! Two NICs in memory: what one sends the other receives, with what is left to do on it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use wire::{Encapsulation, Frame};

use super::queue::Queue;
use super::{Deliver, Nic, Receiver, Sender};

/// Two NICs joined to each other. Each way holds `capacity` frames.
pub fn pair(capacity: usize) -> io::Result<(Nic, Nic)> {
    let (there, back) = (Arc::new(Queue::new(capacity)?), Arc::new(Queue::new(capacity)?));
    Ok((end(back.clone(), there.clone()), end(there, back)))
}

/// A NIC that receives from one queue and sends to another.
pub(super) fn end(from: Arc<Queue>, to: Arc<Queue>) -> Nic {
    Nic { receiver: Box::new(PipeReceiver { queue: from, frame: Frame::default() }), sender: Arc::new(PipeSender(to)) }
}

struct PipeReceiver {
    queue: Arc<Queue>,
    frame: Frame,
}

impl Receiver for PipeReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        for delivered in 0..budget {
            let Some(encapsulation) = self.queue.pop(&mut self.frame) else {
                return Ok(delivered);
            };
            deliver(&mut self.frame, encapsulation.as_ref());
        }
        Ok(budget)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.fd())
    }
}

struct PipeSender(Arc<Queue>);

impl Sender for PipeSender {
    fn send(&self, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()> {
        self.0.push(frame, encapsulation)
    }
}
