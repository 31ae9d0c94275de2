//! The plugins that are compared, each on a node of its own.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hcn::Kind;
use host::namespace::Namespace;
use rig::sandbox::{DIRECTORY, NAMESPACES};
use rig::services::Services;
use rig::{links, process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::options::Options;
use crate::pod::Pod;

/// The number of what all are compared with.
pub(crate) const REFERENCE: usize = 0;

/// A plugin takes this long at most, with dozens beside it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A plugin on a node.
#[derive(Debug)]
pub(crate) struct Subject {
    /// What it is called in the report.
    pub(crate) name: &'static str,
    node: Namespace,
    /// The directory with the plugin.
    plugins: PathBuf,
    config: Value,
    services: Option<Services>,
    /// Where addresses and documents are kept: on a disk, as on a node.
    _state: TempDir,
    /// A pod that answers, and its address.
    server: Option<(Pod, Ipv4Addr)>,
}

impl Subject {
    /// All of them, what they are compared with first.
    pub(crate) fn set_up(options: &Options) -> Result<Vec<Self>, String> {
        let mut subjects = vec![bridge(options)?, ours(options, Ours::Bridge)?, ours(options, Ours::Overlay)?];
        for subject in &mut subjects {
            let server = Pod::new(&format!("{}-server", subject.name))?;
            let (_, result) = subject.call("ADD", &server.name)?;
            server.serve()?;
            subject.server = Some((server, address(&result)?));
        }
        Ok(subjects)
    }

    /// The address of the pod that answers.
    pub(crate) fn server(&self) -> Option<Ipv4Addr> {
        self.server.as_ref().map(|(_, address)| *address)
    }

    /// Starts the plugin as a runtime does, and answers how long it took and what it said.
    pub(crate) fn call(&self, command: &str, pod: &str) -> Result<(Duration, Value), String> {
        let plugin = self.config["type"].as_str().unwrap_or_default();
        let mut program = Command::new(self.plugins.join(plugin));
        program.env("CNI_COMMAND", command).env("CNI_CONTAINERID", pod).env("CNI_IFNAME", "eth0").env("CNI_PATH", &self.plugins);
        program.env("CNI_NETNS", Path::new(NAMESPACES).join(pod));
        if let Some(services) = &self.services {
            program.env("TRANSOM_HNSD", services.directory.join("hnsd.sock"));
        }
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (input, failed) = (self.config.to_string(), |error: &dyn std::fmt::Display| format!("{plugin}, {command}: {error}"));
        let start = Instant::now();
        let mut child = process::start(&mut program, &self.node, None)?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes())).map_err(|error| failed(&error))?;
        let output = process::finish(child, PATIENCE).map_err(|error| failed(&error))?;
        let took = start.elapsed();
        let result = if output.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(&output) };
        Ok((took, result.map_err(|error| failed(&error))?))
    }
}

/// The first address of a result.
fn address(result: &Value) -> Result<Ipv4Addr, String> {
    let text = result["ips"][0]["address"].as_str().and_then(|address| address.split('/').next());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("the result has no IPv4 address: {result}"))
}

/// A directory on a disk.
fn state() -> Result<TempDir, String> {
    tempfile::tempdir().map_err(|error| format!("cannot make a directory for the state: {error}"))
}

/// Addresses as both sides give them out.
fn ipam(state: &TempDir, gateway: Option<&str>) -> Value {
    let mut range = json!({ "subnet": "10.244.0.0/16", "rangeStart": "10.244.1.0" });
    if let Some(gateway) = gateway {
        range["gateway"] = json!(gateway);
    }
    json!({ "type": "host-local", "dataDir": state.path().join("addresses"), "ranges": [[range]], "routes": [{ "dst": "0.0.0.0/0" }] })
}

fn bridge(options: &Options) -> Result<Subject, String> {
    let program = options.plugins.join("bridge");
    if !program.is_file() {
        return Err(format!(
            "there is no {}; install containernetworking-plugins, or name its directory with --plugins",
            program.display()
        ));
    }
    let (node, state) = (links::namespace("b-node")?, state()?);
    let config = json!({
        "cniVersion": "1.0.0", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": ipam(&state, Some("10.244.0.1")),
    });
    Ok(Subject { name: "bridge", node, plugins: options.plugins.clone(), config, services: None, _state: state, server: None })
}

/// Which of our plugins.
#[derive(Clone, Copy)]
enum Ours {
    Bridge,
    Overlay,
}

fn ours(options: &Options, which: Ours) -> Result<Subject, String> {
    let transom = options.transom.as_deref().ok_or("name the program to measure with --transom; `cargo xtask bench cni` does")?;
    let (name, node, outside) = match which {
        Ours::Bridge => ("win-bridge", "w-node", "w-out"),
        Ours::Overlay => ("win-overlay", "o-node", "o-out"),
    };
    links::namespace(outside)?;
    let (namespace, state) = (links::namespace(node)?, state()?);
    links::wire([(node, Some("192.168.0.1/24")), (outside, Some("192.168.0.254/24"))])?;
    links::ip(&format!("-n {node} route add default via 192.168.0.254"))?;
    let services = Services::start(transom, &state.path().join("services"), &namespace, &options.vswitchd)?;
    services.create(Kind::Network, None, &network(which))?;
    let config = json!({ "cniVersion": "1.0.0", "name": "pods", "type": name, "apiVersion": 2, "ipam": ipam(&state, None) });
    let plugins = plugins(transom, name)?;
    Ok(Subject { name, node: namespace, plugins, config, services: Some(services), _state: state, server: None })
}

/// A directory with our program under the name of a plugin.
fn plugins(transom: &Path, name: &str) -> Result<PathBuf, String> {
    let directory = Path::new(DIRECTORY).join("plugins");
    let linked = fs::create_dir_all(&directory).and_then(|()| symlink(fs::canonicalize(transom)?, directory.join(name)));
    linked.map_err(|error| format!("cannot make {}: {error}", directory.display())).map(|()| directory)
}

fn network(which: Ours) -> Value {
    let (kind, gateway, isolation, policies) = match which {
        Ours::Bridge => ("L2Bridge", "10.244.0.2", json!([]), json!([])),
        Ours::Overlay => {
            let isolation = json!([{ "Type": "VSID", "Settings": { "IsolationId": 4096 } }]);
            ("Overlay", "10.244.0.1", isolation, json!([{ "Type": "DrMacAddress", "Settings": { "Address": "00-15-5D-AA-00-01" } }]))
        }
    };
    let routes = json!([{ "NextHop": gateway, "DestinationPrefix": "0.0.0.0/0" }]);
    json!({
        "Name": "pods",
        "Type": kind,
        "Ipams": [{ "Type": "Static", "Subnets": [{ "IpAddressPrefix": "10.244.0.0/16", "Policies": isolation, "Routes": routes }] }],
        "Policies": policies,
        "SchemaVersion": { "Major": 2, "Minor": 0 },
    })
}
