//! A watch that is open.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tokio::runtime::Runtime;

/// Until an event comes that must come.
const LIMIT: Duration = Duration::from_secs(30);
/// Until we believe that none comes.
const QUIET: Duration = Duration::from_millis(700);

/// Events, one JSON document a line.
pub(crate) struct Watch {
    what: String,
    runtime: &'static Runtime,
    pub(crate) status: u16,
    body: Body,
    read: Vec<u8>,
}

enum Next {
    Event(Value),
    End,
    Quiet,
}

impl Watch {
    pub(super) fn new(what: String, runtime: &'static Runtime, response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        Self { what, runtime, status: head.status.as_u16(), body, read: Vec::new() }
    }

    /// The next event, whatever it is.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (String, Value) {
        match self.wait(LIMIT) {
            Next::Event(mut event) => (event["type"].as_str().unwrap_or_default().to_owned(), event["object"].take()),
            Next::End => panic!("{}: ended", self.what),
            Next::Quiet => panic!("{}: nothing happened", self.what),
        }
    }

    /// The next event, which is of this type and about the object with this name.
    #[track_caller]
    pub(crate) fn expect(&mut self, kind: &str, name: &str) -> Value {
        let (seen, object) = self.next();
        assert_eq!((seen.as_str(), object["metadata"]["name"].as_str().unwrap_or_default()), (kind, name), "{}: {object}", self.what);
        object
    }

    /// Nothing more comes for a while.
    #[track_caller]
    pub(crate) fn is_quiet(&mut self) {
        match self.wait(QUIET) {
            Next::Event(event) => panic!("{}: {event}", self.what),
            Next::End => panic!("{}: ended", self.what),
            Next::Quiet => {}
        }
    }

    /// The server ends the watch.
    #[track_caller]
    pub(crate) fn ends(&mut self) {
        match self.wait(LIMIT) {
            Next::Event(event) => panic!("{}: {event}", self.what),
            Next::End => {}
            Next::Quiet => panic!("{}: goes on", self.what),
        }
    }

    fn wait(&mut self, limit: Duration) -> Next {
        let runtime = self.runtime;
        runtime.block_on(async { tokio::time::timeout(limit, self.read_event()).await }).unwrap_or(Next::Quiet)
    }

    async fn read_event(&mut self) -> Next {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.read.extend(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return Next::End,
            }
        }
    }
}
