//! The CNI plugin `flannel` on what flanneld has made, as a runtime starts it.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};

use crate::agent::{Flanneld, host_gw, vxlan};
use crate::harness::agent as agent_program;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, World, pings, run, serve, tcp};
use crate::hns::cluster_of;
use crate::program::program;

/// A container and its address.
struct Container {
    place: Place,
    address: IpAddr,
}

/// Has the plugin put a container on a network, by way of another plugin.
fn add(node: &Node, network: &str, delegate: &str) -> Container {
    let id = format!("{}-{network}", node.name);
    let place = Place::make(Path::new("/run/netns"), &id);
    serve::start(&place);
    let config = json!({
        "cniVersion": "1.0.0", "name": network, "type": "flannel", "subnetFile": node.file("subnet.env"), "dataDir": node.file("flannel"),
        "delegate": { "type": delegate, "apiVersion": 2, "policies": [exceptions()] },
    });
    let plugin = Path::new("/run/plugins/flannel");
    if !plugin.exists() {
        fs::create_dir_all("/run/plugins").expect("a directory for plugins");
        std::os::unix::fs::symlink(program(), plugin).expect("a link");
    }
    let start = || {
        let mut command = Command::new(plugin);
        command.env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", &id).env("CNI_NETNS", format!("/run/netns/{id}"));
        command.env("CNI_IFNAME", "eth0").env("CNI_PATH", "/nowhere").env("TRANSOM_HNSD", node.file("hnsd.sock"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(config.to_string().as_bytes()))?;
        child.wait_with_output()
    };
    let attempt = || -> Result<Value, String> {
        let output = node.run(start).expect("the plugin starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(serde_json::from_str(&text).expect("a result")) } else { Err(text) }
    };
    // With gateways the first address that host-local gives out is that of the node's own endpoint. Runtimes try again.
    let result = attempt().or_else(|_| attempt()).unwrap_or_else(|error| panic!("{error}"));
    let address = result["ips"][0]["address"].as_str().and_then(|text| text.split('/').next()).and_then(|text| text.parse().ok());
    Container { place, address: address.unwrap_or_else(|| panic!("no address: {result}")) }
}

/// What people write beside the plugin: pods keep their address within the pods' network.
fn exceptions() -> Value {
    json!({ "name": "EndpointPolicy", "value": { "Type": "OutBoundNAT", "Settings": { "Exceptions": ["10.244.0.0/16"] } } })
}

fn containers_meet(test: &str, conf: fn() -> Value, network: &str, delegate: &str) {
    run(test, || {
        // Addresses are given out in a directory that nobody can choose for this plugin.
        let none: Option<&str> = None;
        mount(Some("tmpfs"), "/var/lib", Some("tmpfs"), MsFlags::empty(), none).expect("a file system of our own");
        let world = World::new(2);
        let cluster = cluster_of(&world, false);
        let agents: Vec<Flanneld> =
            world.nodes.iter().map(|node| Flanneld::spawn(node, &cluster, "windows", &conf(), &["--ip-masq"])).collect();
        agents.iter().for_each(Flanneld::wait);
        let (one, two) = (add(world.one(), network, delegate), add(world.two(), network, delegate));
        for (from, to) in [(&one, &two), (&two, &one)] {
            pings(&from.place, to.address);
            assert_eq!(tcp(&from.place, to.address).ip(), from.address);
        }
        pings(&one.place, OUTSIDE[0]);
        assert_eq!(tcp(&one.place, OUTSIDE[0]).ip(), world.one().v4(), "what leaves has the node's address");
    });
}

#[test]
fn win_overlay_on_tunnels() {
    containers_meet("cni::win_overlay_on_tunnels", vxlan, "vxlan0", "win-overlay");
}

#[test]
fn win_bridge_on_gateways() {
    if let Some(why) = agent_program::cannot_route() {
        return println!("{why}");
    }
    containers_meet("cni::win_bridge_on_gateways", host_gw, "cbr0", "win-bridge");
}
