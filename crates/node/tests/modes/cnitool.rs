//! The reference's own runtime in miniature, `cnitool`, through all its verbs: our plugins as they are installed, real daemons,
//! and pods that talk.

use std::collections::BTreeSet;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hcn::HcnExt;
use hcn::endpoint::Endpoint;
use hcn::namespace::Namespace;
use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};

use crate::harness::document::{network, subnet};
use crate::harness::{Node, Place, World, pings, run, serve, tcp};
use crate::program::program;

/// Where the runtime keeps what ADD answered.
const CACHE: &str = "/var/lib/cni/results";

/// Builds cnitool from its module, or says why it cannot be.
fn build() -> Result<PathBuf, String> {
    let cnitool = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cnitool");
    let mut go = Command::new("go");
    go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop")).env("CGO_ENABLED", "0");
    go.args(["build", "-o"]).arg(&cnitool).arg("github.com/containernetworking/cni/cnitool");
    let output = go.output().map_err(|error| format!("the command go cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(cnitool),
        false => Err(format!("cnitool cannot be built: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// cnitool on a node, with our plugins and a list of ours.
struct Tool<'a> {
    program: PathBuf,
    node: &'a Node,
    plugins: PathBuf,
    lists: PathBuf,
}

impl<'a> Tool<'a> {
    /// Installs the plugins and a list as a person would.
    fn install(program_of_tool: PathBuf, node: &'a Node) -> Self {
        let none: Option<&str> = None;
        mount(Some("tmpfs"), "/var/lib", Some("tmpfs"), MsFlags::empty(), none).expect("a file system for the runtime's cache");
        let (plugins, lists) = (node.file("plugins"), node.file("net.d"));
        let tool = Self { program: program_of_tool, node, plugins, lists };
        tool.write_list(None);
        tool
    }

    /// Installs the plugins and the list, with or without what is valid for GC.
    fn write_list(&self, valid: Option<Value>) {
        let ranges = json!([
            [{ "subnet": "10.244.1.0/24", "rangeStart": "10.244.1.10" }],
            [{ "subnet": "fd00:244:1::/64", "rangeStart": "fd00:244:1::10" }]
        ]);
        let ipam = json!({ "type": "host-local", "dataDir": self.node.file("addresses"), "ranges": ranges });
        let mut plugin = json!({ "type": "win-bridge", "apiVersion": 2, "ipam": ipam });
        if let Some(valid) = valid {
            plugin["cni.dev/valid-attachments"] = valid;
        }
        let list = self.node.file("10-pods.conflist");
        let document = json!({ "cniVersion": "1.1.0", "name": "pods", "plugins": [plugin] });
        fs::write(&list, document.to_string()).expect("a list");
        let mut install = Command::new(program());
        install.args(["cni", "install"]).arg(&self.plugins).arg("--conf").arg(&list).arg("--conf-dir").arg(&self.lists);
        assert!(install.output().expect("transom starts").status.success());
    }

    /// Makes the runtime forget a pod, and gives the id of its container.
    fn forget(&self, pod: &str) -> String {
        let netns = format!("/run/netns/{pod}");
        for file in fs::read_dir(CACHE).expect("the cache").flatten() {
            let known: Value = serde_json::from_slice(&fs::read(file.path()).expect("a result")).expect("a document");
            if known["netns"] == netns.as_str() {
                fs::remove_file(file.path()).expect("it is forgotten");
                return known["containerId"].as_str().expect("an id").to_owned();
            }
        }
        panic!("the runtime does not know {pod}");
    }

    fn call(&self, verb: &str, pod: &str) -> Output {
        let start = || {
            let mut command = Command::new(&self.program);
            command.args([verb, "pods", &format!("/run/netns/{pod}")]);
            command.env("CNI_PATH", &self.plugins).env("NETCONFPATH", &self.lists).env("TRANSOM_HNSD", self.node.file("hnsd.sock"));
            command.output()
        };
        self.node.run(start).expect("cnitool starts")
    }

    /// What a call that must succeed prints.
    fn succeeds(&self, verb: &str, pod: &str) -> String {
        let output = self.call(verb, pod);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{verb} {pod}: {text}");
        text
    }

    /// What a call that must fail complains of.
    fn fails(&self, verb: &str, pod: &str) -> String {
        let output = self.call(verb, pod);
        assert!(!output.status.success(), "{verb} {pod} succeeded");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    fn add(&self, pod: &str) -> (Place, Vec<IpAddr>) {
        let place = Place::make(Path::new("/run/netns"), pod);
        serve::start(&place);
        let result: Value = serde_json::from_str(&self.succeeds("add", pod)).expect("a result");
        let addresses =
            result["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str()?.split('/').next()?.parse().ok());
        (place, addresses.collect())
    }

    /// How many endpoints, namespace objects and addresses there are.
    fn left(&self) -> (usize, usize, usize) {
        let endpoints: Vec<Endpoint> = self.node.client.objects(&[]).expect("the endpoints");
        let namespaces: Vec<Namespace> = self.node.client.objects(&[]).expect("the namespaces");
        let files = fs::read_dir(self.node.file("addresses").join("pods")).into_iter().flatten().flatten();
        let leases: BTreeSet<IpAddr> = files.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
        (endpoints.len(), namespaces.len(), leases.len())
    }
}

#[test]
fn cnitool_goes_through_all_its_verbs() {
    let cnitool = match build() {
        Ok(cnitool) => cnitool,
        Err(why) => return println!("skipped: {why}"),
    };
    run("cnitool::cnitool_goes_through_all_its_verbs", || {
        let world = World::new(1);
        let tool = Tool::install(cnitool, world.one());
        assert!(tool.fails("status", "one").contains("HNS has no network \"pods\""));
        let prefixes = ["10.244.1.0/24", "fd00:244:1::/64"];
        world.route_to(world.one(), &prefixes);
        let subnets = [subnet(prefixes[0], "10.244.1.2"), subnet(prefixes[1], "fd00:244:1::2")];
        world.one().network(&network("pods", "L2Bridge", &subnets, &[]));
        tool.succeeds("status", "one");

        let (one, addresses_of_one) = tool.add("one");
        let (two, addresses_of_two) = tool.add("two");
        assert_eq!((addresses_of_one.len(), addresses_of_two.len()), (2, 2));
        for (from, to) in addresses_of_one.iter().zip(&addresses_of_two) {
            pings(&one, *to);
            pings(&two, *from);
            assert_eq!(tcp(&one, *to).ip(), *from);
        }
        tool.succeeds("check", "one");
        one.ip("link set eth0 down");
        assert!(tool.fails("check", "one").contains("the NIC eth0 is down"));

        tool.succeeds("del", "one");
        assert!(one.find_link("eth0").is_none(), "the NIC is gone");
        assert_eq!(tool.left(), (1, 1, 2));
        tool.succeeds("check", "two");

        // cnitool deletes all that its cache knows, and then does not say what is valid: the plugin removes nothing on that.
        let (three, _) = tool.add("three");
        let forgotten = tool.forget("two");
        assert!(tool.fails("gc", "two").contains("cni.dev/valid-attachments is missing"));
        assert_eq!(tool.left(), (1, 1, 2));
        assert!(three.find_link("eth0").is_none(), "the NIC is gone");

        // With a list that says so, what is valid stays and the rest goes.
        let (four, addresses_of_four) = tool.add("four");
        pings(&two, addresses_of_four[0]);
        tool.forget("four");
        tool.write_list(Some(json!([{ "containerID": forgotten, "ifname": "eth0" }])));
        tool.succeeds("gc", "two");
        assert_eq!(tool.left(), (1, 1, 2));
        assert!(four.find_link("eth0").is_none() && two.find_link("eth0").is_some());
        tool.write_list(Some(json!([])));
        tool.succeeds("gc", "two");
        assert_eq!(tool.left(), (0, 0, 0));
        tool.succeeds("del", "two");
    });
}
