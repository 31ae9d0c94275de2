//! HTTP by hand, so that it can also be wrong.

use std::io::{Read, Write};

use serde_json::Value;

/// A request with a connection of its own.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: String,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self { method: method.into(), path: path.into(), headers: String::new(), body: Vec::new() }
    }

    pub(crate) fn post(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", path).body(body)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The bytes of the request. Its length is told unless a header says how the body comes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let told = self.headers.contains("Transfer-Encoding") || self.headers.contains("Content-Length");
        let length = if told { String::new() } else { format!("Content-Length: {}\r\n", self.body.len()) };
        let head = format!("{} {} HTTP/1.1\r\nHost: hns\r\nConnection: close\r\n{length}{}\r\n", self.method, self.path, self.headers);
        [head.into_bytes(), self.body.clone()].concat()
    }

    /// Sends it and reads the answer.
    #[track_caller]
    pub(crate) fn over(&self, mut stream: impl Read + Write) -> Answer {
        stream.write_all(&self.bytes()).unwrap_or_else(|error| panic!("{} {} cannot be sent: {error}", self.method, self.path));
        Answer::read(&mut stream)
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    /// Reads an answer up to the end of the connection.
    #[track_caller]
    pub(crate) fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap_or_else(|error| panic!("no whole answer: {error}"));
        let text = String::from_utf8(bytes).expect("answers are UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.unwrap_or_else(|| panic!("no status in {head:?}")), body: body.to_owned() }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.status < 300, "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// It is a refusal with a well-formed record, which is returned.
    #[track_caller]
    pub(crate) fn record(&self) -> Value {
        let record = self.json();
        let says = |key: &str| record[key].as_str().is_some_and(|text| !text.is_empty());
        assert!(self.status >= 400 && record["Success"] == false && says("Error") && says("Cause"), "{self:?}");
        assert!(record["ErrorCode"].as_u64().is_some_and(|code| code > 0x8000_0000), "{self:?}");
        record
    }

    /// It is a refusal with this status and code.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: u64) -> Value {
        let record = self.record();
        assert_eq!((self.status, record["ErrorCode"].as_u64()), (status, Some(code)), "{self:?}");
        record
    }
}
