//! A real runtime: containerd starts processes in pods on our networks, which then talk to each other.
//!
//! `ctr` is what calls the plugins, from `/opt/cni/bin` with the list in `/etc/cni/net.d`. Both directories, and all that containerd
//! keeps, are in file systems of the test. The image is one program, busybox, and comes from no registry.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use hcn::HcnExt;
use hcn::endpoint::Endpoint;
use nix::mount::{MsFlags, mount};
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::alone;
use crate::audit::{Audit, Live};
use crate::fleet;
use crate::harness::document::{network, overlay_subnet, policy, remote_subnet, subnet};
use crate::harness::sandbox::{missing, path, run_with_own_processes};
use crate::harness::{Node, World, eventually};
use crate::plugin::Plugin;
use crate::program::program;

/// Where containerd keeps everything.
const HOME: &str = "/run/containerd-of-test";

/// The one program of the image, statically linked.
const BUSYBOX: &str = "/bin/busybox";

/// What the image is called.
const IMAGE: &str = "localhost/transom/pod:1";

/// The namespace of containerd, which is in front of the ids that plugins see.
const NAMESPACE: &str = "transom-test";

/// The port that pods answer at with their names.
const PORT: u16 = 8080;

/// Whatever keeps the test from being run here.
fn obstacle() -> Option<String> {
    if !geteuid().is_root() {
        return Some("runc makes control groups, which takes root outside of user namespaces".to_owned());
    }
    // A busybox that needs libraries has none in the image.
    let needs = Command::new("ldd").arg(BUSYBOX).output().is_ok_and(|output| output.status.success());
    let busybox = (needs || !Path::new(BUSYBOX).exists()).then(|| format!("{BUSYBOX} is not that of the package busybox-static"));
    ["containerd", "ctr", "runc"].iter().find_map(|program| missing(program)).or(busybox)
}

/// containerd, ended when dropped.
struct Containerd(Child);

impl Drop for Containerd {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
        // runc removes the groups of containers, but not the one around them.
        cgroups().iter().for_each(|group| _ = fs::remove_dir(group));
    }
}

impl Containerd {
    fn start() -> Self {
        fs::create_dir_all(HOME).expect("a directory for containerd");
        fs::write(file("config.toml"), config()).expect("a configuration");
        let log = fs::File::create(file("log")).expect("a log");
        let mut command = Command::new("containerd");
        command.args(["--config", &file("config.toml")]).env("PATH", path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let containerd = Self(command.spawn().expect("containerd starts"));
        eventually("containerd answers", || ask("version").is_ok());
        containerd
    }
}

/// Everything below our directory, and nothing of Kubernetes, which would look for networks itself.
fn config() -> String {
    format!(
        "version = 2\nroot = \"{HOME}/root\"\nstate = \"{HOME}/state\"\n\
         disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = \"{HOME}/containerd.sock\"\n"
    )
}

fn file(name: &str) -> String {
    format!("{HOME}/{name}")
}

/// The groups of processes that are named after our namespace, in each of the hierarchies there may be.
fn cgroups() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    hierarchies.chain([root.to_owned()]).map(|hierarchy| hierarchy.join(NAMESPACE)).filter(|group| group.exists()).collect()
}

/// A call of `ctr`, which does not take for ever.
fn ctr<'a>(words: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["120", "ctr", "--address", &file("containerd.sock"), "--namespace", NAMESPACE]).args(words);
    command.env("PATH", path()).stdin(Stdio::null());
    command
}

/// Runs `ctr` with these words, and gives what it prints.
fn ask(words: &str) -> Result<String, String> {
    let output = ctr(words.split_whitespace()).output().expect("ctr starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(format!("ctr {words}: {text}")) }
}

/// Runs `ctr`, which must succeed.
fn must(words: &str) -> String {
    ask(words).unwrap_or_else(|error| panic!("{error}\n{}", fs::read_to_string(file("log")).unwrap_or_default()))
}

/// Makes an image of busybox and gives it to containerd: a layer, a configuration and a list of both, in one archive.
fn import_image() {
    let root = file("rootfs");
    fs::create_dir_all(format!("{root}/bin")).expect("a directory for the image");
    fs::copy(BUSYBOX, format!("{root}/bin/busybox")).expect("busybox");
    for name in ["sh", "ping", "wget", "httpd", "mkdir", "echo"] {
        symlink("busybox", format!("{root}/bin/{name}")).expect("a name of busybox");
    }
    fs::create_dir_all(file("image")).expect("a directory for the archive");
    shell(&format!("tar -C {root} -cf {HOME}/image/layer.tar bin"));
    let sum = shell(&format!("sha256sum {HOME}/image/layer.tar"));
    let layer = format!("sha256:{}", sum.split_whitespace().next().unwrap_or_default());
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": { "Env": ["PATH=/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
    });
    let manifest = json!([{ "Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"] }]);
    for (name, document) in [("config.json", config), ("manifest.json", manifest)] {
        fs::write(file(&format!("image/{name}")), document.to_string()).expect("a document of the image");
    }
    shell(&format!("tar -C {HOME}/image -cf {HOME}/image.tar manifest.json config.json layer.tar"));
    must(&format!("images import --snapshotter native {HOME}/image.tar"));
}

/// Runs a command, which must succeed, and gives what it prints.
fn shell(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pod of containerd, and the `ctr` that has started it and waits for its end.
struct Pod<'a> {
    node: &'a Node,
    config: &'a Value,
    name: &'a str,
    ctr: Child,
}

impl<'a> Pod<'a> {
    /// Starts a container that answers with its name. When it runs, its network is there.
    fn start(node: &'a Node, config: &'a Value, name: &'a str) -> Self {
        install_list(config);
        let script = format!("mkdir /www; echo {name} > /www/index.html; exec httpd -f -p {PORT} -h /www");
        let words = ["run", "--rm", "--cni", "--snapshotter", "native", IMAGE, name, "/bin/sh", "-c", &script];
        let log = fs::File::create(file(name)).expect("a log");
        let mut ctr = ctr(words).env("TRANSOM_HNSD", node.file("hnsd.sock")).stdout(Stdio::null()).stderr(log).spawn().expect("ctr starts");
        eventually(&format!("{name} runs"), || {
            let ended = ctr.try_wait().expect("ctr is ours");
            assert_eq!(ended, None, "{}", fs::read_to_string(file(name)).unwrap_or_default());
            ask(&format!("tasks exec --exec-id itself {name} wget -q -O - http://127.0.0.1:{PORT}/")).is_ok()
        });
        Self { node, config, name, ctr }
    }

    /// Its addresses, as HNS knows them.
    fn addresses(&self) -> Vec<IpAddr> {
        let name = format!("{NAMESPACE}-{}_{}", self.name, self.config["name"].as_str().expect("a name"));
        let found: Vec<Endpoint> = self.node.client.objects(&[("Name", &name)]).expect("the endpoints");
        assert_eq!(found.len(), 1, "endpoints called {name}");
        found[0].ip_configurations.iter().map(|ip| ip.ip_address.parse().expect("an address")).collect()
    }

    /// Reaches another pod by ping and by HTTP, at all its addresses.
    fn meets(&self, other: &Self) {
        let exec = |number: usize, line: &str| must(&format!("tasks exec --exec-id {}-{number} {} {line}", other.name, self.name));
        for (number, address) in other.addresses().into_iter().enumerate() {
            exec(2 * number, &format!("ping -c 2 -w 10 {address}"));
            let answer = exec(2 * number + 1, &format!("wget -q -O - http://{}/", std::net::SocketAddr::new(address, PORT)));
            assert_eq!(answer.trim(), other.name);
        }
    }

    /// Kills the process inside. `ctr` then deletes network, task and container.
    fn stop(mut self) {
        must(&format!("tasks kill --signal SIGKILL {}", self.name));
        eventually(&format!("{} is gone", self.name), || self.ctr.try_wait().expect("ctr is ours").is_some());
        assert_eq!(fs::read_to_string(file(self.name)).expect("a log"), "", "{}: ctr has nothing to complain of", self.name);
    }
}

/// Installs the plugins and a list as a person would. ctr takes the first list there is when it starts.
fn install_list(config: &Value) {
    let list = json!({ "cniVersion": "1.0.0", "name": config["name"], "plugins": [config] });
    let from = file("10-pods.conflist");
    fs::write(&from, list.to_string()).expect("a list");
    let mut install = Command::new(program());
    install.args(["cni", "install", "/opt/cni/bin", "--conf", &from, "--conf-dir", "/etc/cni/net.d"]);
    let output = install.output().expect("transom starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// An overlay over two nodes, with what one of them has.
fn overlay(node: &Node, other: usize) {
    let n = node.number;
    let router = |number: usize| format!("00-15-5D-AA-00-0{number}");
    let subnets = [overlay_subnet(&format!("10.244.{n}.0/24"), &format!("10.244.{n}.1"), 4096)];
    let policies = [
        policy("DrMacAddress", json!({ "Address": router(n) })),
        remote_subnet(&format!("10.244.{other}.0/24"), 4096, &format!("192.168.0.{other}"), &router(other)),
    ];
    node.network(&network("vxlan0", "Overlay", &subnets, &policies));
}

/// Directories in which containerd and ctr look are of this test.
fn own_directories() {
    let none: Option<&str> = None;
    for directory in ["/etc", "/opt", "/var/lib"] {
        mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), none).expect("a file system of its own");
    }
}

#[test]
fn pods_of_containerd_talk_and_leave_nothing() {
    if let Some(why) = obstacle() {
        return println!("skipped: {why}");
    }
    let _turn = alone();
    run_with_own_processes("containerd::pods_of_containerd_talk_and_leave_nothing", || {
        own_directories();
        let world = World::new(2);
        let (one, two) = (world.one(), world.two());
        overlay(one, 2);
        overlay(two, 1);
        one.network(&network("pods", "L2Bridge", &[subnet("10.245.1.0/24", "10.245.1.2")], &[]));
        let plugin = |node: &Node, name: &str, network: &str, prefix: String| {
            Plugin::new(fleet::host_local(node, name, network, &[(format!("{prefix}.0/24"), format!("{prefix}.10"))]))
        };
        let bridged = plugin(one, "win-bridge", "pods", "10.245.1".to_owned());
        let [near, far] = [one, two].map(|node| plugin(node, "win-overlay", "vxlan0", format!("10.244.{}", node.number)));
        let (on_one, on_two) = ([near, bridged], [far]);
        let audits = [Audit::new(one, &on_one), Audit::new(two, &on_two)];

        let _containerd = Containerd::start();
        import_image();
        let started = [
            Pod::start(one, &on_one[0].config, "tunnelled-one"),
            Pod::start(one, &on_one[0].config, "tunnelled-two"),
            Pod::start(two, &on_two[0].config, "tunnelled-far"),
            Pod::start(one, &on_one[1].config, "bridged-one"),
            Pod::start(one, &on_one[1].config, "bridged-two"),
        ];
        for (from, to) in [(0, 1), (1, 2), (2, 0), (3, 4), (4, 3)] {
            started[from].meets(&started[to]);
        }
        started.into_iter().for_each(Pod::stop);
        audits.iter().for_each(|audit| audit.expect(&[], &Live::new()));
        assert_eq!(must("tasks list --quiet"), "");
        assert_eq!(must("containers list --quiet"), "");
        assert_eq!(fs::read_dir("/var/lib/cni/results").into_iter().flatten().count(), 0, "the runtime knows nothing of them");
    });
}
