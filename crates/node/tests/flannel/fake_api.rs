//! An API server that misbehaves, over plain HTTP on the node's own loopback.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::Node;

/// How it behaves.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Everything is refused with this code.
    Refuses(u16),
    /// Connections are taken, and nothing is said.
    Silent,
    /// These Nodes are listed, under this version. A watch says each of the events and ends.
    Serves { version: &'static str, nodes: Vec<Value>, events: Vec<Value> },
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
        Behaviour::Serves { events, .. } if request.contains("watch=") => {
            // A moment, so that one watch does not follow another without end.
            thread::sleep(Duration::from_millis(100));
            let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
            respond(&mut stream, 200, &lines)?;
        }
        Behaviour::Serves { version, nodes, .. } if request.starts_with("GET") => {
            let list = json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": version }, "items": nodes });
            respond(&mut stream, 200, &list.to_string())?;
        }
        // Whatever is written is taken, and forgotten.
        Behaviour::Serves { nodes, .. } => respond(&mut stream, 200, &nodes.first().cloned().unwrap_or_default().to_string())?,
    }
    Ok(())
}

fn respond(stream: &mut TcpStream, code: u16, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
