//! A node: a namespace with an adapter, and the daemons that run in it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::{fs, thread};

use hcn::client::{Address, Client};
use hcn::endpoint::Endpoint;
use hcn::{Guid, Hcn, HcnExt, Kind};
use host::namespace;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::{Value, json};
use wire::MacAddress;

use super::{PATIENCE, Place, agent, document, serve};
use crate::program::program;

/// A running daemon. Dropping it kills it.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Makes it hang: connections to it are made, and nobody answers.
    pub(crate) fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(self.0.id().cast_signed()), signal).expect("the daemon is there");
    }

    /// Asks it to stop, as a service manager does, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let status = self.0.wait().expect("the daemon is ours");
        // A program of Windows knows no SIGTERM, and ends by it.
        assert!(status.success() || agent::are_windows_programs(), "the daemon ended with {status}");
    }

    fn ready(&mut self) -> bool {
        let Some(output) = self.0.stdout.take() else { return false };
        let (sender, receiver) = mpsc::channel();
        // It reads on after the line, so that the daemon never writes into a closed pipe.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok).filter(|line| line.starts_with("ready")) {
                _ = sender.send(line);
            }
        });
        receiver.recv_timeout(PATIENCE * 2).is_ok()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A node and its daemons.
pub(crate) struct Node {
    place: Place,
    pub(crate) number: usize,
    pub(crate) client: Client,
    pub(crate) vswitchd: Option<Daemon>,
    pub(crate) hnsd: Option<Daemon>,
}

impl Deref for Node {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Node {
    /// A node on which nothing runs.
    pub(crate) fn new(place: Place, number: usize) -> Self {
        let home = home(number);
        fs::create_dir_all(&home).expect("a directory for the node");
        Self { place, number, client: Client::new(Address::Unix(home.join("hnsd.sock"))), vswitchd: None, hnsd: None }
    }

    /// Its address of a family.
    pub(crate) fn address_like(&self, v4: bool) -> IpAddr {
        match v4 {
            true => self.v4(),
            false => self.v6(),
        }
    }

    /// Its IPv4 address.
    pub(crate) fn v4(&self) -> IpAddr {
        Ipv4Addr::new(192, 168, 0, self.number as u8).into()
    }

    /// Its IPv6 address.
    pub(crate) fn v6(&self) -> IpAddr {
        Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, self.number as u16).into()
    }

    /// The hardware address of its adapter.
    pub(crate) fn mac(&self) -> MacAddress {
        self.link("eth0").mac
    }

    /// A file of the node.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        home(self.number).join(name)
    }

    /// Starts the switch.
    pub(crate) fn start_vswitchd(&mut self) {
        self.start_vswitchd_with(&[]);
    }

    /// Starts the switch with further arguments, such as how much it may hold.
    pub(crate) fn start_vswitchd_with(&mut self, more: &[&str]) {
        let mut arguments = self.vswitchd_arguments();
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        self.vswitchd = Some(self.daemon("vswitchd", &arguments));
    }

    /// What the switch is started with.
    pub(crate) fn vswitchd_arguments(&self) -> Vec<String> {
        let path = |name: &str| self.file(name).display().to_string();
        ["--socket", &path("vswitchd.sock"), "--namespace-dir", &path("namespaces"), "--log-level", "debug"].map(str::to_owned).to_vec()
    }

    /// Starts the service with further arguments, such as a profile.
    pub(crate) fn start_hnsd(&mut self, more: &[&str]) {
        self.hnsd = Some(self.new_hnsd(more));
    }

    /// The same for somebody else to hold, who starts and kills it while others use the node.
    pub(crate) fn new_hnsd(&self, more: &[&str]) -> Daemon {
        let path = |name: &str| self.file(name).display().to_string();
        let mut arguments: Vec<String> =
            ["--socket", &path("hnsd.sock"), "--state-dir", &path("state"), "--listen", agent::LISTEN].map(str::to_owned).to_vec();
        if !more.contains(&"--switch") {
            arguments.extend(["--switch".to_owned(), path("vswitchd.sock")]);
        }
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        self.daemon("hnsd", &arguments)
    }

    /// Stops the service properly, to be started again in another way.
    pub(crate) fn stop_hnsd(&mut self) {
        self.hnsd.take().expect("hnsd runs").stop();
    }

    fn daemon(&self, role: &str, arguments: &[String]) -> Daemon {
        self.daemon_at(self, role, arguments)
    }

    /// Starts a role of the command elsewhere, with the node's files, and waits until it is ready.
    pub(crate) fn daemon_at(&self, place: &Place, role: &str, arguments: &[String]) -> Daemon {
        let mut daemon = self.start(place, Command::new(program()), role, arguments, &format!("{role}.log"));
        if !daemon.ready() {
            panic!("{role} did not become ready; it said:\n{}", self.log(role));
        }
        daemon
    }

    /// Starts an agent of the node, and waits until it is ready.
    pub(crate) fn agent(&self, role: &str, arguments: &[String]) -> Daemon {
        let mut daemon = self.spawn_agent(role, arguments);
        if !daemon.ready() {
            panic!("{role} did not become ready; it said:\n{}", self.log(role));
        }
        daemon
    }

    /// Starts an agent of the node without waiting for it.
    pub(crate) fn spawn_agent(&self, role: &str, arguments: &[String]) -> Daemon {
        let (command, service) = agent::command(self);
        self.start(self, command, role, &[&service, arguments].concat(), &format!("{role}.log"))
    }

    /// Starts a role of the command without waiting for it.
    pub(crate) fn spawn(&self, role: &str, arguments: &[String], log: &str) -> Daemon {
        self.start(self, Command::new(program()), role, arguments, log)
    }

    /// The same, for a process that may do nothing to the node's network.
    pub(crate) fn spawn_powerless(&self, role: &str, arguments: &[String], log: &str) -> Daemon {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user"]).arg(program());
        self.start(self, command, role, arguments, log)
    }

    /// Starts somebody else's program elsewhere, with what it says in a file of the node.
    pub(crate) fn launch(&self, place: &Place, mut command: Command, name: &str) -> Daemon {
        let log = self.open_log(&format!("{name}.log"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the log once more")).stderr(log);
        spawn(place, &mut command, name)
    }

    /// Starts a role by a command that has yet to be told which, and does not wait for it.
    pub(crate) fn start(&self, place: &Place, mut command: Command, role: &str, arguments: &[String], log: &str) -> Daemon {
        command.arg(role).args(arguments).env_remove("TRANSOM_LOG").env_remove("TRANSOM_VSWITCHD").env_remove("TRANSOM_STATE_DIR");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(self.open_log(log));
        spawn(place, &mut command, role)
    }

    fn open_log(&self, name: &str) -> File {
        File::options().create(true).append(true).open(self.file(name)).expect("a log")
    }

    /// Runs the command to its end in the node, and answers whether it succeeded and what it said.
    pub(crate) fn transom(&self, arguments: &[String]) -> (Option<i32>, String) {
        let output = self.run(|| Command::new(program()).args(arguments).env_remove("TRANSOM_LOG").output()).expect("the command");
        (output.status.code(), format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    }

    /// What a daemon has logged.
    pub(crate) fn log(&self, role: &str) -> String {
        fs::read_to_string(self.file(&format!("{role}.log"))).unwrap_or_default()
    }

    /// Makes a network.
    pub(crate) fn network(&self, document: &Value) -> Guid {
        self.client
            .create(Kind::Network, None, None, &document.to_string())
            .unwrap_or_else(|error| panic!("{} makes the network {document}: {error}", self.name))
    }

    /// Makes an endpoint.
    pub(crate) fn endpoint(&self, network: Guid, document: &Value) -> Guid {
        self.client
            .create(Kind::Endpoint, Some(network), None, &document.to_string())
            .unwrap_or_else(|error| panic!("{} makes the endpoint {document}: {error}", self.name))
    }

    /// Makes an endpoint and a namespace and puts the one into the other.
    pub(crate) fn pod(&self, network: Guid, document: &Value) -> Pod {
        let endpoint = self.endpoint(network, document);
        let namespace = json!({ "Type": "Host", "SchemaVersion": document::schema() });
        let namespace = self.client.create(Kind::Namespace, None, None, &namespace.to_string()).expect("a namespace");
        self.attach(namespace, endpoint);
        let made: Endpoint = self.client.object(endpoint).expect("the endpoint");
        let path = self.file("namespaces").join(namespace.to_string());
        let opened = namespace::open(&path).unwrap_or_else(|error| panic!("{error}\n{}", self.log("vswitchd")));
        let place = Place::at(&made.name, opened);
        serve::start(&place);
        let addresses = made.ip_configurations.iter().map(|ip| ip.ip_address.parse().expect("an address")).collect();
        let mac = made.mac_address.parse().expect("a hardware address");
        Pod { place, endpoint, namespace, addresses, mac }
    }

    /// Deletes a pod, with its namespace.
    pub(crate) fn delete_pod(&self, pod: &Pod) {
        self.client.delete(Kind::Endpoint, pod.endpoint).expect("the endpoint goes");
        self.client.delete(Kind::Namespace, pod.namespace).expect("the namespace goes");
    }

    /// The network of a pod.
    pub(crate) fn network_of(&self, pod: &Pod) -> Guid {
        let endpoint: Endpoint = self.client.object(pod.endpoint).expect("the endpoint");
        endpoint.network
    }

    /// Puts an endpoint into a namespace.
    pub(crate) fn attach(&self, namespace: Guid, endpoint: Guid) {
        let request = json!({ "ResourceType": "Endpoint", "RequestType": "Add", "Settings": { "EndpointId": endpoint.to_string() } });
        self.client.modify(Kind::Namespace, namespace, &request.to_string()).expect("the endpoint in its namespace");
    }

    /// Makes a load balancer.
    pub(crate) fn load_balancer(&self, document: &Value) -> Guid {
        self.client
            .create(Kind::LoadBalancer, None, None, &document.to_string())
            .unwrap_or_else(|error| panic!("{} makes the load balancer {document}: {error}", self.name))
    }

    /// Changes an endpoint.
    pub(crate) fn modify_endpoint(&self, endpoint: Guid, request: &Value) {
        let changed = self.client.modify(Kind::Endpoint, endpoint, &request.to_string());
        changed.unwrap_or_else(|error| panic!("{} changes the endpoint by {request}: {error}", self.name));
    }

    /// What the switch shows under a path, such as `/ports`.
    pub(crate) fn look(&self, path: &str) -> Value {
        let client = Client::new(Address::Unix(self.file("vswitchd.sock")));
        client.request("GET", path, "").unwrap_or_else(|error| panic!("{}: {path}: {error}", self.name))
    }

    /// The row of a port of the switch.
    pub(crate) fn port(&self, name: &str) -> Value {
        let rows = self.look("/ports");
        let row = rows.as_array().into_iter().flatten().find(|row| row["Name"] == name);
        row.cloned().unwrap_or_else(|| panic!("no port is called {name}: {rows}"))
    }

    /// How often the switch dropped something that a port sent, for a reason.
    pub(crate) fn drops(&self, port: &str, reason: &str) -> u64 {
        self.port(port)["Drops"][reason].as_u64().unwrap_or(0)
    }

    /// How often the switch dropped something for a reason, over all ports, as `transom vfp counters` tells it.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.look("/counters")["Drops"][reason].as_u64().unwrap_or(0)
    }

    /// Prints what can be known of the node.
    pub(crate) fn describe(&self) {
        let socket = self.file("vswitchd.sock").display().to_string();
        for view in [["port", "list"].as_slice(), &["flow", "list"], &["counters"]] {
            let mut arguments = vec!["vfp".to_owned()];
            arguments.extend(view.iter().map(|&word| word.to_owned()));
            arguments.extend(["--vswitchd".to_owned(), socket.clone()]);
            println!("--- {}: {}\n{}", self.name, arguments[..arguments.len() - 2].join(" "), self.transom(&arguments).1);
        }
        for view in ["addr", "route", "-6 route", "neigh"] {
            println!("--- {}: ip {view}\n{}", self.name, self.command("ip", view).1);
        }
        for role in ["vswitchd", "hnsd", "fabric", "flanneld", "kube-proxy"] {
            println!("--- {}: log of {role}\n{}", self.name, self.log(role));
        }
    }
}

fn spawn(place: &Place, command: &mut Command, name: &str) -> Daemon {
    let child = place.run(|| command.spawn());
    Daemon(child.unwrap_or_else(|error| panic!("{name} cannot be started: {error}")))
}

fn home(number: usize) -> PathBuf {
    PathBuf::from(format!("/run/home{number}"))
}

/// A pod: a namespace with one endpoint.
pub(crate) struct Pod {
    place: Place,
    pub(crate) endpoint: Guid,
    pub(crate) namespace: Guid,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) mac: MacAddress,
}

impl Deref for Pod {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl Pod {
    /// Its IPv4 address.
    pub(crate) fn v4(&self) -> IpAddr {
        *self.addresses.iter().find(|address| address.is_ipv4()).expect("an IPv4 address")
    }

    /// Its IPv6 address.
    pub(crate) fn v6(&self) -> IpAddr {
        *self.addresses.iter().find(|address| address.is_ipv6()).expect("an IPv6 address")
    }
}
