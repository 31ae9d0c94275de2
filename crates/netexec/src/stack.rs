//! Threads with small stacks.

use std::io;
use std::thread;

/// A request needs a few buffers and no recursion.
const STACK: usize = 192 << 10;

/// Runs something beside. It ends by itself, or with the process.
pub(crate) fn spawn(name: &str, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(task).map(drop)
}
