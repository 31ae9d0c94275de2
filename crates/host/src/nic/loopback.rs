//! A NIC that receives what it sends.

use std::io;
use std::sync::Arc;

use super::queue::Queue;
use super::{Nic, pipe};

/// A NIC whose wire comes back to it and holds `capacity` frames.
pub fn new(capacity: usize) -> io::Result<Nic> {
    let queue = Arc::new(Queue::new(capacity)?);
    Ok(pipe::end(queue.clone(), queue))
}
