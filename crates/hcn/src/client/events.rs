//! The stream of events: one line of JSON each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::http::{Body, Connection, Failure, Stream};
use crate::error::{Error, Result, detail};
use crate::event::{Change, Event};

/// An event is a few hundred bytes; a line without end must not fill the memory.
const LINE_MAX: usize = 1024 * 1024;

/// Events as they come. Ends after the event that says the service stops; ends with an error if the connection just goes.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
    body: Body,
    pending: Vec<u8>,
    ended: bool,
    stopper: Stopper,
}

/// Ends an [`EventStream`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stream: Arc<Stream>,
    stopped: Arc<AtomicBool>,
}

impl Stopper {
    /// Ends the stream: its iterator gives nothing more, and whoever waits on it is woken.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        // A connection that is gone already has nothing to end.
        let _ = self.stream.shut_down();
    }

    /// Whether the stream was ended this way.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl EventStream {
    pub(super) fn new(connection: Connection, body: Body) -> io::Result<Self> {
        let stopper = Stopper { stream: Arc::new(connection.stream()?), stopped: Arc::default() };
        Ok(Self { connection, body, pending: Vec::new(), ended: false, stopper })
    }

    /// A way to end this stream from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// The next line that is not blank. Blank lines only show that the service is there.
    fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return String::from_utf8(line).map_err(|_| Failure::Broken("the event is not UTF-8".into()));
            }
            if self.pending.len() > LINE_MAX {
                return Err(Failure::Broken("the event has no end".into()));
            }
            if !self.connection.read_some(&mut self.body, &mut self.pending)? {
                return Err(Failure::NoAnswer(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

impl Iterator for EventStream {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        if self.ended || self.stopper.is_stopped() {
            return None;
        }
        let event = self.line().map_err(ended).and_then(|line| Event::from_json(&line));
        if self.stopper.is_stopped() {
            return None;
        }
        self.ended = !matches!(&event, Ok(event) if event.change != Change::Disconnected);
        Some(event)
    }
}

fn ended(failure: Failure) -> Error {
    let why = match failure {
        Failure::NotSent(error) | Failure::NoAnswer(error) => error.to_string(),
        Failure::Broken(what) => what,
    };
    Error::ServiceUnavailable(detail(format!("the stream of events ended: {why}")).remedy("follow the events anew once hnsd is back"))
}
