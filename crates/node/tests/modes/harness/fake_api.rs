//! An API server that misbehaves, over plain HTTP on the node's own loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Node;

/// How it behaves.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Everything is refused with this code.
    Refuses(u16),
    /// Connections are taken, and nothing is said.
    Silent,
    /// These objects are there, and nothing else.
    Serves(Vec<Collection>),
}

/// The objects of a kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collection {
    /// The end of its path, such as `nodes`.
    pub(crate) name: &'static str,
    /// The version under which they are listed.
    pub(crate) version: &'static str,
    /// The objects.
    pub(crate) items: Vec<Value>,
    /// What a watch says before it ends.
    pub(crate) events: Vec<Value>,
}

/// An event of a watch that says that an object was changed.
pub(crate) fn modified(object: &Value) -> Value {
    json!({ "type": "MODIFIED", "object": object })
}

/// An event of a watch that says that the server has forgotten what came since.
pub(crate) fn expired() -> Value {
    json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" } })
}

/// The server.
pub(crate) struct FakeApi {
    behaviour: Arc<Mutex<Behaviour>>,
    pub(crate) kubeconfig: PathBuf,
}

impl FakeApi {
    pub(crate) fn start(node: &Node, behaviour: Behaviour) -> Self {
        let listener = node.run(|| TcpListener::bind("127.0.0.1:0")).expect("a socket");
        let port = listener.local_addr().expect("its address").port();
        let kubeconfig = node.file("fake-kubeconfig");
        let document = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "fake",
            "clusters": [{ "name": "fake", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
            "contexts": [{ "name": "fake", "context": { "cluster": "fake", "user": "fake" } }],
            "users": [{ "name": "fake", "user": {} }],
        });
        std::fs::write(&kubeconfig, document.to_string()).expect("a kubeconfig");
        let behaviour = Arc::new(Mutex::new(behaviour));
        let shared = behaviour.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                thread::spawn(move || answer(stream, &shared));
            }
        });
        Self { behaviour, kubeconfig }
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("the behaviour") = behaviour;
    }
}

/// Answers one request of a connection, and closes it.
fn answer(stream: TcpStream, behaviour: &Mutex<Behaviour>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let behaviour = behaviour.lock().expect("the behaviour").clone();
    let mut stream = stream;
    match behaviour {
        Behaviour::Silent => thread::sleep(Duration::from_secs(60)),
        Behaviour::Refuses(code) => {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Refused", "message": "go away" });
            respond(&mut stream, code, &status.to_string())?;
        }
        Behaviour::Serves(collections) => serve(&mut stream, &request, collections)?,
    }
    Ok(())
}

fn serve(stream: &mut TcpStream, request: &str, collections: Vec<Collection>) -> std::io::Result<()> {
    let path = request.split([' ', '?']).nth(1).unwrap_or_default();
    let asked = collections.iter().find(|collection| path.rsplit('/').next() == Some(collection.name));
    let Collection { version, items, events, .. } = asked.cloned().unwrap_or(Collection { version: "1", ..Collection::default() });
    if request.contains("watch=") {
        // A moment, so that one watch does not follow another without end.
        thread::sleep(Duration::from_millis(100));
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        return respond(stream, 200, &lines);
    }
    if request.starts_with("GET") {
        let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": items });
        return respond(stream, 200, &list.to_string());
    }
    // Whatever is written is taken, and forgotten.
    let first = collections.first().and_then(|collection| collection.items.first()).cloned();
    respond(stream, 200, &first.unwrap_or_default().to_string())
}

fn respond(stream: &mut TcpStream, code: u16, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
