//! [`Hcn`] over hnsd's socket: a blocking HTTP/1.1 client.
//!
//! The HTTP is our own (`http`, over `httparse`) and not `ureq`'s. hnsd's first home is a Unix socket, and `ureq`
//! reaches one only through its `unversioned` module, which may change with any release. We also need three things it
//! does not give: to know whether a request that failed had left at all, so that a change is never made twice; to
//! stop a stream of events from another thread; and one write and one read a call, since a node makes thousands. Over a
//! Unix socket to a server that does nothing, a call takes 27 µs this way, and 55 µs with `ureq`.
//!
//! Connections are made when they are needed, kept and used again. A connection that hnsd closed meanwhile (it was
//! restarted) is replaced without the caller noticing, where that cannot repeat a change. Connecting takes five seconds
//! at most; an answer may take as long as it likes, as in the interface this client serves.

mod address;
mod events;
mod http;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

pub use self::address::Address;
#[cfg(unix)]
pub use self::address::{default_socket, default_state_directory};
pub use self::events::{EventStream, Stopper};
use self::http::{Answer, Connection, Failure};
use crate::api::{Events, Hcn, Kind};
use crate::document::{parse_guid, shorten};
use crate::error::{Error, Result, detail};
use crate::{Guid, not_a_guid};

/// Connections kept for later. More than this are only open while that many calls are under way at once.
const IDLE_MAX: usize = 64;

/// A client of hnsd. Cheap to make, connects when first used, and may be shared between threads.
#[derive(Debug)]
pub struct Client {
    address: Address,
    /// The head's lines that are the same for every request.
    head: String,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client of the hnsd at an address.
    pub fn new(address: Address) -> Self {
        let mut head = String::from("Host: hns\r\nContent-Type: application/json\r\n");
        match &address {
            #[cfg(unix)]
            Address::Unix(_) => {}
            Address::Tcp { token, .. } => {
                // Whatever the file held, a token must not end the line it stands in.
                let token: String = token.chars().filter(char::is_ascii_graphic).collect();
                head += &format!("Authorization: Bearer {token}\r\n");
            }
        }
        Self { address, head, idle: Mutex::default() }
    }

    /// Where this client looks for hnsd.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// One request, and its answer as JSON. The path is taken as it is, up to bytes that no request line may hold;
    /// an empty body means none.
    pub fn request(&self, method: &str, path_and_query: &str, body: &str) -> Result<Value> {
        let request = self.encode(method, path_and_query, body)?;
        let answer = self.exchange(method == "GET", &request)?;
        let body = std::str::from_utf8(&answer.body).map_err(|_| nonsense("the answer is not UTF-8"))?;
        if answer.status >= 400 {
            return Err(refusal(answer.status, body));
        }
        serde_json::from_str(body).map_err(|error| nonsense(&format!("the answer is no JSON: {error}")))
    }

    /// Counters of an endpoint.
    pub fn stats(&self, id: Guid) -> Result<Value> {
        self.request("GET", &format!("/v2/endpoints/{id}/stats"), "")
    }

    /// Addresses of an endpoint.
    pub fn addresses(&self, id: Guid) -> Result<Value> {
        self.request("GET", &format!("/v2/endpoints/{id}/addresses"), "")
    }

    /// Whether the service knows a container by this name.
    pub fn container_exists(&self, id: &str) -> Result<bool> {
        match self.request("GET", &format!("/v2/containers/{}", percent_encode(id)), "") {
            Ok(_) => Ok(true),
            Err(Error::ComputeSystemNotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Major and minor version of the service, which decide what clients think it can do.
    pub fn version(&self) -> Result<(u32, u32)> {
        let version = self.call("GET", "/globals/version", "")?;
        let number = |key: &str| version.get(key).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
        number("Major").zip(number("Minor")).ok_or_else(|| nonsense("the answer has no version"))
    }

    /// Why the switch does not do what documents ask for; nothing if it does, or if there is none that should.
    pub fn switch_failure(&self) -> Result<Option<String>> {
        let switch = match self.request("GET", "/v2/switch", "") {
            Ok(switch) => switch,
            // An hnsd from before this question.
            Err(Error::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is = |key: &str| switch.get(key).and_then(Value::as_bool);
        let cause = || switch.get("Cause").and_then(Value::as_str).unwrap_or("it does not say why").to_owned();
        Ok((is("MovesPackets") == Some(true) && is("Available") == Some(false)).then(cause))
    }

    /// Follows the service's events: those after number `since`, if they are still kept, else those from now on.
    pub fn events_since(&self, since: Option<u64>) -> Result<EventStream> {
        let path = since.map_or("/v2/events".to_owned(), |since| format!("/v2/events?since={since}"));
        let request = self.encode("GET", &path, "")?;
        // A stream keeps its connection for itself, so the pool has nothing to give and nothing to get.
        let mut connection = self.connect()?;
        let (status, body) = connection.begin(&request).map_err(|failure| self.failed(failure))?;
        if status < 400 {
            return EventStream::new(connection, body).map_err(|error| self.failed(Failure::NoAnswer(error)));
        }
        let body = connection.read_all(body).map_err(|failure| self.failed(failure))?;
        Err(refusal(status, &String::from_utf8_lossy(&body)))
    }

    fn encode(&self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            let cause = format!("{:?} is no method", shorten(method));
            return Err(Error::InvalidParameter(detail(cause).remedy("use GET, POST, PATCH or DELETE")));
        }
        let mut request = Vec::with_capacity(method.len() + path.len() + self.head.len() + body.len() + 64);
        request.extend_from_slice(method.as_bytes());
        request.push(b' ');
        if !path.starts_with('/') {
            request.push(b'/');
        }
        for byte in path.bytes() {
            match byte {
                0x21..=0x7E => request.push(byte),
                _ => request.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            }
        }
        request.extend_from_slice(b" HTTP/1.1\r\n");
        request.extend_from_slice(self.head.as_bytes());
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body.as_bytes());
        Ok(request)
    }

    fn exchange(&self, repeatable: bool, request: &[u8]) -> Result<Answer> {
        if let Some(mut connection) = self.take_idle() {
            match connection.exchange(request) {
                Err(Failure::NotSent(_)) => {}
                Err(Failure::NoAnswer(_)) if repeatable => {}
                outcome => return self.finish(connection, outcome),
            }
        }
        let mut connection = self.connect()?;
        let outcome = connection.exchange(request);
        self.finish(connection, outcome)
    }

    fn finish(&self, connection: Connection, outcome: Result<Answer, Failure>) -> Result<Answer> {
        let answer = outcome.map_err(|failure| self.failed(failure))?;
        if answer.keep_alive {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        Ok(answer)
    }

    /// The connection used last, as the others are more likely to have been given up by the other side.
    fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.address).map_err(|error| {
            let cause = format!("hnsd does not answer at {}: {error}", self.address);
            Error::ServiceUnavailable(detail(cause).remedy(self.address.remedy()))
        })
    }

    fn failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::NotSent(error) | Failure::NoAnswer(error) => {
                let cause = format!("hnsd at {} hung up without an answer: {error}", self.address);
                Error::ServiceUnavailable(detail(cause).remedy("see whether the call took effect before repeating it"))
            }
            Failure::Broken(what) => nonsense(&format!("{what}, at {}", self.address)),
        }
    }

    fn collection(&self, kind: Kind, documents: bool, query: &str) -> Result<Vec<Value>> {
        let mut path = format!("/v2/{}", kind.collection());
        let mut parameters = Parameters::of(&mut path);
        if documents {
            parameters.add("documents", "true");
        }
        parameters.add("query", query);
        match self.request("GET", &path, "")? {
            Value::Array(elements) => Ok(elements),
            _ => Err(nonsense("the answer is no array")),
        }
    }
}

/// The id of a new object.
fn id_of(document: &Value) -> Result<Guid> {
    let id = document.get("ID").and_then(Value::as_str).unwrap_or_default();
    parse_guid(id).ok_or_else(|| nonsense("the new object has no ID"))
}

impl Hcn for Client {
    fn enumerate(&self, kind: Kind, query: &str) -> Result<Vec<Guid>> {
        let ids = self.collection(kind, false, query)?;
        let id = |value: Value| value.as_str().and_then(parse_guid).ok_or_else(|| not_a_guid(&value.to_string()));
        ids.into_iter().map(id).collect()
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> Result<Guid> {
        let mut path = format!("/v2/{}", kind.collection());
        let mut parameters = Parameters::of(&mut path);
        parameters.add_id("id", id);
        parameters.add_id("network", network);
        id_of(&self.request("POST", &path, settings)?)
    }

    /// hnsd answers with the document at once.
    fn create_document(&self, kind: Kind, settings: &str) -> Result<Value> {
        let document = self.request("POST", &format!("/v2/{}", kind.collection()), settings)?;
        match document.as_object().is_some_and(|fields| fields.len() > 1) {
            true => Ok(document),
            // An id alone is all that there is of an object that has gone meanwhile.
            false => Err(kind.not_found(id_of(&document)?)),
        }
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> Result<Value> {
        let mut path = format!("/v2/{}/{id}", kind.collection());
        Parameters::of(&mut path).add("query", query);
        self.request("GET", &path, "")
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> Result<()> {
        self.request("PATCH", &format!("/v2/{}/{id}", kind.collection()), settings).map(drop)
    }

    fn delete(&self, kind: Kind, id: Guid) -> Result<()> {
        self.request("DELETE", &format!("/v2/{}/{id}", kind.collection()), "").map(drop)
    }

    fn call(&self, method: &str, path: &str, request: &str) -> Result<Value> {
        let mut answer = self.request(method, path, request)?;
        // Old services refuse with a record in an answer that is otherwise a success.
        match Error::from_record(&answer) {
            Some(error) => Err(error),
            None => Ok(answer.get_mut("Output").map_or(Value::Null, Value::take)),
        }
    }

    fn events(&self) -> Result<Events> {
        Ok(Box::new(self.events_since(None)?))
    }

    fn settle(&self) -> Result<()> {
        match self.request("GET", "/v2/settled", "") {
            // A service from before there was such a thing.
            Err(Error::NotFound(_)) => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn list(&self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        self.collection(kind, true, query)
    }
}

/// The parameters of a path, after the question mark. What is empty is left out.
struct Parameters<'a> {
    path: &'a mut String,
    separator: char,
}

impl<'a> Parameters<'a> {
    fn of(path: &'a mut String) -> Self {
        Self { path, separator: '?' }
    }

    fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.path.push(self.separator);
        self.separator = '&';
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&percent_encode(value));
    }

    fn add_id(&mut self, name: &str, id: Option<Guid>) {
        if let Some(id) = id {
            self.add(name, &id.to_string());
        }
    }
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            // Writing into a string cannot fail.
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

/// The error of an answer with a status of failure. Ours come with a record; something between us may send none.
fn refusal(status: u16, body: &str) -> Error {
    let record = serde_json::from_str(body).ok().and_then(|record| Error::from_record(&record));
    record.unwrap_or_else(|| {
        let cause = detail(format!("the answer has the status {status} and says {:?}", shorten(body)));
        match status {
            401 | 403 => Error::AccessDenied(cause.remedy("use the token that this hnsd wrote into its token file")),
            502..=504 => Error::ServiceUnavailable(cause),
            _ => Error::Unexpected(cause.remedy("see whether it is hnsd that listens there")),
        }
    })
}

fn nonsense(cause: &str) -> Error {
    Error::Unexpected(detail(cause).remedy("see whether it is hnsd that listens there, and of the same version"))
}
