//! Open vSwitch with its userspace datapath, on veths; the other switch of this kind.
//!
//! On one node it runs with its userspace TSO, without which large segments would not reach it. Its tunnels take no packets with
//! offloads, so between nodes it runs without, and the pods segment and sum themselves.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host::namespace::Namespace;

use rig::services::with_log;

use super::{INNER_MTU, System, Topology, VNI, make_directory, wait_for};
use crate::links::{self, ip};
use crate::process::{self, Daemon};
use crate::sandbox::DIRECTORY;

/// The schema of its database, where Debian has it.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Sets it up.
pub(crate) fn set_up(topology: Topology) -> Result<System, String> {
    match topology {
        Topology::SameNode => same_node(),
        Topology::TwoNodes => two_nodes(),
        Topology::Service => Err("it has no Services".to_owned()),
    }
}

fn same_node() -> Result<System, String> {
    let node = links::namespace("o-node")?;
    let client = links::pod("o-pod1", "o-node", "10.244.1.11/24", 1500)?;
    let server = links::pod("o-pod2", "o-node", "10.244.1.12/24", 1500)?;
    let switch = Switch::start("o-node", &node, true)?;
    switch.tell("add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 o-pod1 -- add-port br0 o-pod2")?;
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 1, 12), nodes: Vec::new(), daemons: switch.daemons })
}

fn two_nodes() -> Result<System, String> {
    let names = ["o-node1", "o-node2"];
    let namespaces = [links::namespace(names[0])?, links::namespace(names[1])?];
    links::wire([(names[0], None), (names[1], None)])?;
    let (mut pods, mut daemons) = (Vec::new(), Vec::new());
    for (index, (node, namespace)) in names.iter().zip(&namespaces).enumerate() {
        let (number, other, pod) = (index + 1, 2 - index, format!("o-far{}", index + 1));
        pods.push(links::pod(&pod, node, &format!("10.244.0.{number}/24"), INNER_MTU)?);
        links::turn_offloads_off(&pod)?;
        let switch = Switch::start(node, namespace, false)?;
        // Its tunnels find the other node by the routes of a bridge that has the adapter and the address.
        switch.tell("add-br underlay -- set bridge underlay datapath_type=netdev -- add-port underlay eth0")?;
        ip(&format!("-n {node} address add 192.168.0.{number}/24 dev underlay"))?;
        ip(&format!("-n {node} link set dev underlay up"))?;
        let tunnel = format!("set interface tunnel type=vxlan options:remote_ip=192.168.0.{other} options:key={VNI}");
        let ports = format!("add-port br0 {pod} -- add-port br0 tunnel -- {tunnel}");
        switch.tell(&format!("add-br br0 -- set bridge br0 datapath_type=netdev -- {ports}"))?;
        daemons.extend(switch.daemons);
    }
    let [client, server] = <[_; 2]>::try_from(pods).map_err(|_| "two pods were to be made")?;
    let nodes = names.map(str::to_owned).to_vec();
    Ok(System { client, server, address: Ipv4Addr::new(10, 244, 0, 2), nodes, daemons })
}

/// Its two processes on a node, with a database of their own.
struct Switch {
    directory: PathBuf,
    daemons: Vec<Daemon>,
}

impl Switch {
    fn start(name: &str, node: &Namespace, tso: bool) -> Result<Self, String> {
        let directory = Path::new(DIRECTORY).join(name);
        make_directory(&directory)?;
        process::run(Command::new("ovsdb-tool").arg("create").arg(directory.join("conf.db")).arg(SCHEMA))?;
        let mut switch = Self { directory, daemons: Vec::new() };
        let socket = switch.directory.join("db.sock");
        let remote = format!("--remote=punix:{}", socket.display());
        switch.daemon("ovsdb-server", node, &["conf.db", &remote])?;
        wait_for("the socket of ovsdb-server", || socket.exists()).map_err(|error| switch.explained("ovsdb-server", &error))?;
        switch.tell("--no-wait init")?;
        switch.tell(&format!("--no-wait set Open_vSwitch . other_config:userspace-tso-enable={tso}"))?;
        switch.daemon("ovs-vswitchd", node, &[&switch.database()])?;
        Ok(switch)
    }

    fn database(&self) -> String {
        format!("unix:{}", self.directory.join("db.sock").display())
    }

    fn daemon(&mut self, program: &str, node: &Namespace, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new(program);
        command.current_dir(&self.directory).args(arguments).args(["-vconsole:off", "--no-chdir"]);
        for (option, ending) in [("--unixctl", "ctl"), ("--log-file", "log")] {
            command.arg(format!("{option}={}", self.directory.join(format!("{program}.{ending}")).display()));
        }
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(variable, &self.directory);
        }
        self.daemons.push(Daemon::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()), node, None)?);
        Ok(())
    }

    /// Gives it a command of `ovs-vsctl`.
    fn tell(&self, line: &str) -> Result<(), String> {
        let mut command = Command::new("ovs-vsctl");
        command.arg(format!("--db={}", self.database())).arg("--timeout=15").args(line.split_whitespace());
        process::run(&mut command).map(drop).map_err(|error| self.explained("ovs-vswitchd", &error))
    }

    fn explained(&self, program: &str, error: &str) -> String {
        with_log(error, &self.directory.join(format!("{program}.log")))
    }
}
