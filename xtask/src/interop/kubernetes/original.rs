//! A cluster's control plane, as small as it can be: etcd, kube-apiserver and kube-controller-manager on loopback.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::make_directory;
use super::control_plane::ControlPlane;

/// From starting to being ready.
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// The addresses of Services.
const SERVICE_CIDRS: &str = "10.96.0.0/16,fd00:10:96::/112";

/// The controllers that are part of what is compared. The others work on kinds that ours does not have, or need nodes that report.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,endpointslice-controller,endpoints-controller,\
    garbage-collector-controller,namespace-controller,serviceaccount-controller";

/// The three processes, ended when dropped.
pub(crate) struct Original {
    directory: PathBuf,
    plane: ControlPlane,
    /// In the order they are to be ended.
    running: Vec<Child>,
}

impl Original {
    /// Starts everything with an empty state, and waits until the server is ready.
    pub(super) fn start(directory: &Path) -> Result<Self, String> {
        let state = directory.join("state");
        // The state of an earlier run would be part of this one.
        let _ = fs::remove_dir_all(&state);
        make_directory(&state)?;
        let [client, peer, secure] = free_ports()?;
        let plane = ControlPlane {
            programs: directory.to_owned(),
            state,
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), secure),
            etcd: [client, peer],
            service_cidrs: SERVICE_CIDRS,
        };
        plane.write_files().map_err(|error| format!("cannot write into {}: {error}", plane.state.display()))?;
        let mut original = Self { directory: directory.to_owned(), plane, running: Vec::new() };
        original.spawn(&mut original.plane.etcd(), "etcd")?;
        make_a_past(client)?;
        original.spawn(&mut original.plane.apiserver(), "kube-apiserver")?;
        original.wait_until_ready()?;
        original.spawn(&mut original.controller_manager(), "kube-controller-manager")?;
        Ok(original)
    }

    /// kube-apiserver and etcd.
    pub(crate) fn processes(&self) -> Vec<u32> {
        // The controllers, which began last, stand first.
        self.running.iter().skip(1).map(Child::id).collect()
    }

    /// The file that tells clients where it is.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig()
    }

    fn controller_manager(&self) -> Command {
        let mut command = Command::new(self.directory.join("kube-controller-manager"));
        command.arg("--kubeconfig").arg(self.kubeconfig()).arg(format!("--controllers={CONTROLLERS}"));
        // As many requests as it likes, so that the tests measure answers and not a limit for busy clusters.
        command.args(["--kube-api-qps=1000", "--kube-api-burst=1000", "--leader-elect=false", "--secure-port=0"]);
        command
    }

    fn spawn(&mut self, command: &mut Command, name: &str) -> Result<(), String> {
        let log = self.directory.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let output = file.try_clone().map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(output).stderr(file).spawn();
        self.running.insert(0, child.map_err(|error| format!("cannot start {name}: {error}"))?);
        Ok(())
    }

    /// Asks with their own client, which knows how to read their kubeconfig.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if self.running.iter_mut().any(|child| !matches!(child.try_wait(), Ok(None))) {
                return Err(format!("etcd or kube-apiserver ended by itself; see the logs in {}", self.directory.display()));
            }
            let mut kubectl = Command::new(self.directory.join("kubectl"));
            kubectl.arg("--kubeconfig").arg(self.kubeconfig()).args(["get", "--raw", "/readyz"]);
            if kubectl.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success()) {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(format!("kube-apiserver did not become ready; see the logs in {}", self.directory.display()))
    }
}

/// Changes a key some times, so that there are versions older than anything the server remembers.
fn make_a_past(etcd: u16) -> Result<(), String> {
    let body = r#"{"key": "dHJhbnNvbQ==", "value": "MQ=="}"#;
    let length = body.len();
    let request = format!("POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    let deadline = Instant::now() + LIMIT;
    let mut left = 3;
    while left > 0 {
        match exchange(etcd, &request) {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => left -= 1,
            _ if Instant::now() > deadline => return Err("etcd did not become ready; see etcd.log".to_owned()),
            _ => thread::sleep(POLL),
        }
    }
    Ok(())
}

fn exchange(port: u16, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Ports that nobody uses now. Somebody may take one before we do, and then the run fails and says so.
fn free_ports() -> Result<[u16; 3], String> {
    let taken = |error: io::Error| format!("no port is free: {error}");
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").map_err(taken)?);
    }
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().map_err(taken)?.port();
    }
    Ok(ports)
}

impl Drop for Original {
    fn drop(&mut self) {
        // Their state is thrown away with them, so there is nothing to end in good order.
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
