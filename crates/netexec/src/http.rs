//! Reading requests and writing answers: as much of HTTP/1.1 as tests use.

use std::io::{self, Read, Write};

/// A request's head longer than this is refused.
const HEAD_LIMIT: usize = 16 << 10;

/// A body longer than this is refused.
const BODY_LIMIT: u64 = 16 << 20;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// Parameters of the query, and of a form in the body, in order.
    pub parameters: Vec<(String, String)>,
    /// Whether the connection stays open after the answer.
    pub keep_alive: bool,
    /// The headers but for `Host`, by names as Go writes them, in order.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// A request for a path and a query.
    pub fn get(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self { method: "GET".into(), path: decode(path, false), parameters: parameters(query), ..Self::default() }
    }

    /// The first parameter of this name; empty if there is none.
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers besides the length of the body.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl Answer {
    /// A body with this status.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// A body that is fine.
    pub fn text(body: impl Into<String>) -> Self {
        Self::new(200, body)
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Writes it.
    pub fn write(&self, keep_alive: bool, has_body: bool, to: &mut impl Write) -> io::Result<()> {
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            // What a caller gives must not become a header of its own.
            let value: String = value.chars().filter(|character| !character.is_control()).collect();
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let connection = if keep_alive { "keep-alive" } else { "close" };
        text.push_str(&format!("Content-Length: {}\r\nConnection: {connection}\r\n\r\n", self.body.len()));
        if has_body {
            text.push_str(&self.body);
        }
        to.write_all(text.as_bytes())
    }
}

/// The name of a status; those that nobody asks for have none.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        301 => "Moved Permanently",
        302 => "Found",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        412 => "Precondition Failed",
        417 => "Expectation Failed",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

/// Reads the next request of a connection; nothing when it was closed.
pub fn read(from: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    loop {
        if let Some((length, head)) = parse(buffer)? {
            buffer.drain(..length);
            let body = read_body(&head, from, buffer)?;
            return Ok(Some(head.into_request(&body)));
        }
        if buffer.len() > HEAD_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        let mut bytes = [0; 2048];
        match from.read(&mut bytes)? {
            0 => return Ok(None),
            count => buffer.extend_from_slice(&bytes[..count]),
        }
    }
}

struct Head {
    headers: Vec<(String, String)>,
    method: String,
    target: String,
    keep_alive: bool,
    body_length: u64,
    has_form: bool,
}

impl Head {
    fn into_request(self, body: &[u8]) -> Request {
        let mut request = Request { method: self.method, keep_alive: self.keep_alive, headers: self.headers, ..Request::get(&self.target) };
        if self.has_form {
            let form = parameters(&String::from_utf8_lossy(body));
            // A form goes before the query, as in Go.
            request.parameters.splice(0..0, form);
        }
        request
    }
}

fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Head)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let header = |name: &str| {
        let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map_or(String::new(), |header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    let connection = header("connection");
    let keep_alive = if request.version == Some(0) { connection == "keep-alive" } else { connection != "close" };
    Ok(Some((
        length,
        Head {
            headers: headers_of(request.headers),
            method: request.method.unwrap_or_default().to_owned(),
            target: request.path.unwrap_or("/").to_owned(),
            keep_alive,
            body_length: header("content-length").parse().unwrap_or(0),
            has_form: header("content-type").starts_with("application/x-www-form-urlencoded"),
        },
    )))
}

fn headers_of(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let others = headers.iter().filter(|header| !header.name.eq_ignore_ascii_case("host"));
    others.map(|header| (canonical(header.name), String::from_utf8_lossy(header.value).into_owned())).collect()
}

/// The name of a header as Go writes it: a large letter at the beginning and behind each hyphen.
pub fn canonical(name: &str) -> String {
    let word =
        |word: &str| word.get(..1).map_or(String::new(), str::to_ascii_uppercase) + &word.get(1..).unwrap_or_default().to_ascii_lowercase();
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

fn read_body(head: &Head, from: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    if head.body_length > BODY_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is too long"));
    }
    let length = usize::try_from(head.body_length).unwrap_or(usize::MAX);
    let mut body: Vec<u8> = buffer.drain(..length.min(buffer.len())).collect();
    let there = body.len();
    body.resize(length, 0);
    from.read_exact(&mut body[there..])?;
    Ok(body)
}

fn parameters(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(|(name, value)| (decode(name, true), decode(value, true))).collect()
}

/// Puts characters in place of their codes. What is no code is left as it is.
fn decode(text: &str, is_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code =
            after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = after;
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            (b'+', _) if is_query => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> Vec<Request> {
        let (mut from, mut buffer, mut requests) = (text.as_bytes(), Vec::new(), Vec::new());
        while let Some(request) = read(&mut from, &mut buffer).unwrap() {
            requests.push(request);
        }
        requests
    }

    #[test]
    fn requests_follow_each_other() {
        let text = "GET /echo?msg=a+b%26c&x HTTP/1.1\r\nHost: a\r\n\r\nPOST /echo?msg=query HTTP/1.1\r\nContent-Length: 8\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\nmsg=form";
        let requests = read_all(text);
        assert_eq!(requests.len(), 2);
        assert_eq!((requests[0].path.as_str(), requests[0].parameter("msg"), requests[0].keep_alive), ("/echo", "a b&c", true));
        assert_eq!((requests[1].method.as_str(), requests[1].parameter("msg"), requests[1].keep_alive), ("POST", "form", false));
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        assert!(read(&mut "\0\u{1}\r\n\r\n".as_bytes(), &mut Vec::new()).is_err());
        assert!(read(&mut "GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".as_bytes(), &mut Vec::new()).is_err());
        assert!(read(&mut "x".repeat(20_000).as_bytes(), &mut Vec::new()).is_err());
        assert_eq!(decode("%zz%4", true), "%zz%4");
    }

    #[test]
    fn an_answer_cannot_be_given_headers() {
        let mut text = Vec::new();
        Answer::new(302, "").header("Location", "/x\r\nEvil: 1").write(false, true, &mut text).unwrap();
        assert!(!String::from_utf8(text).unwrap().contains("\r\nEvil"));
    }
}
