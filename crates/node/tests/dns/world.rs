//! An API server, and dns beside it.

use std::net::SocketAddr;
use std::time::Duration;

use cluster::connect::{Source, connect};
use cluster::server::{Options as ApiOptions, Server};
use dns::{Name, RecordType};
use kube::Client;
use node::dns::{Agent, Options, PodNames, Settings};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) client: Client,
    address: SocketAddr,
    health: SocketAddr,
    _directory: TempDir,
}

impl World {
    pub(crate) async fn start(pods: PodNames) -> Self {
        let directory = TempDir::new().expect("a directory");
        let loopback: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let kubeconfig = directory.path().join("kubeconfig");
        let api = ApiOptions {
            listen: loopback,
            state_dir: directory.path().join("state"),
            kubeconfig: Some(kubeconfig.clone()),
            service_cidrs: vec!["10.96.0.0/16".parse().expect("a range")],
            node_ports: 30000..=32767,
            set_aside_unreadable: false,
        };
        tokio::spawn(Server::start(api).await.expect("an API server").run(std::future::pending()));
        let source = Source::File { path: kubeconfig, context: None };
        let client = connect(&source).await.expect("a client");
        let settings = Settings { domain: Name::from_ascii("cluster.local.").expect("a name"), ttl: 30, pods };
        // Asking ourselves is not done, so that nobody is asked for other names.
        let options = Options { kubeconfig: None, listen: vec![loopback], settings, forward: vec![loopback], health: Some(loopback) };
        let agent = Agent::start(&client, options).await.expect("dns");
        let (address, health) = (agent.addresses()[0], agent.health_address().expect("an address"));
        tokio::spawn(agent.run());
        Self { client, address, health, _directory: directory }
    }

    /// What the records of a name say, or the code.
    pub(crate) async fn ask(&self, question: &str) -> Vec<String> {
        let (name, kind) = question.split_once(' ').expect("a name and a type");
        let (name, kind): (Name, RecordType) = (Name::from_ascii(name).expect("a name"), kind.parse().expect("a type"));
        let address = self.address;
        let asking = tokio::task::spawn_blocking(move || dns::client::ask(address, &name, kind));
        let answer = asking.await.expect("no panic").expect("an answer");
        match answer.answers.is_empty() {
            true => vec![dns::message::code_name(answer.metadata.response_code)],
            false => answer.answers.iter().map(|record| record.data.to_string()).collect(),
        }
    }

    /// What is told over HTTP.
    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.health).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: dns\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    }
}
