//! CNI plugins as runtimes start them: the real program under a plugin's name, Linux namespaces by path, real daemons.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hcn::HcnExt;
use hcn::endpoint::Endpoint;
use hcn::namespace::Namespace;
use serde_json::{Value, json};

use crate::harness::document::{network, subnet};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Place, World, exchange, pings, run, serve, tcp};
use crate::overlay::Overlay;
use crate::program::program;

/// A first packet that is lost costs a client a second.
const AT_ONCE: Duration = Duration::from_millis(900);

/// A network configuration on a node, and the pods on it.
pub(crate) struct Runtime<'a> {
    pub(crate) node: &'a Node,
    pub(crate) config: Value,
}

/// A container.
pub(crate) struct Container {
    pub(crate) place: Place,
    id: String,
    pub(crate) result: Value,
}

impl Container {
    pub(crate) fn address(&self, v4: bool) -> IpAddr {
        let addresses = self.result["ips"].as_array().into_iter().flatten().filter_map(|ip| ip["address"].as_str());
        let address = addresses.filter_map(|address| address.split('/').next()).find(|address| address.contains('.') == v4);
        address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no such address: {}", self.result))
    }
}

fn netns(id: &str) -> String {
    format!("/run/netns/{id}")
}

impl<'a> Runtime<'a> {
    /// With a plugin on a network, and addresses of host-local.
    fn new(node: &'a Node, plugin: &str, network: &str) -> Self {
        let n = node.number;
        let range = |subnet: String, start: String| json!([{ "subnet": subnet, "rangeStart": start }]);
        let ranges =
            [range(format!("10.244.{n}.0/24"), format!("10.244.{n}.10")), range(format!("fd00:244:{n}::/64"), format!("fd00:244:{n}::10"))];
        let ipam = json!({ "type": "host-local", "dataDir": node.file("addresses"), "ranges": ranges });
        let config = json!({ "cniVersion": "1.1.0", "name": network, "type": plugin, "apiVersion": 2, "ipam": ipam });
        Self { node, config }
    }

    /// Starts the plugin, and answers whether it succeeded and what it printed.
    pub(crate) fn call(&self, command: &str, id: &str, config: &Value) -> (bool, Value) {
        let plugin = self.plugin();
        let start = || {
            let mut child = Command::new(&plugin)
                .env("CNI_COMMAND", command)
                .env("CNI_CONTAINERID", id)
                .env("CNI_NETNS", netns(id))
                .env("CNI_IFNAME", "eth0")
                .env("CNI_PATH", "/nowhere")
                .env("TRANSOM_HNSD", self.node.file("hnsd.sock"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(config.to_string().as_bytes()))?;
            child.wait_with_output()
        };
        let output = self.node.run(start).expect("the plugin starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let document = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")) };
        (output.status.success(), document)
    }

    /// The program under the name of the plugin.
    fn plugin(&self) -> PathBuf {
        let plugin = Path::new("/run/plugins").join(self.config["type"].as_str().expect("a plugin"));
        if !plugin.exists() {
            fs::create_dir_all("/run/plugins").expect("a directory for plugins");
            std::os::unix::fs::symlink(program(), &plugin).expect("a link");
        }
        plugin
    }

    pub(crate) fn add(&self, id: &str) -> Container {
        let place = Place::make(Path::new("/run/netns"), id);
        serve::start(&place);
        let (succeeded, result) = self.call("ADD", id, &self.config);
        assert!(succeeded, "{id}: {result}");
        Container { place, id: id.to_owned(), result }
    }

    pub(crate) fn check(&self, container: &Container) -> Result<(), String> {
        let mut config = self.config.clone();
        config["prevResult"] = container.result.clone();
        match self.call("CHECK", &container.id, &config) {
            (true, _) => Ok(()),
            (false, error) => Err(error["msg"].as_str().unwrap_or_default().to_owned()),
        }
    }

    pub(crate) fn del(&self, id: &str) {
        let (succeeded, error) = self.call("DEL", id, &self.config);
        assert!(succeeded, "{id}: {error}");
    }

    fn leases(&self) -> BTreeSet<IpAddr> {
        let directory = self.node.file("addresses").join(self.config["name"].as_str().expect("a name"));
        let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
    }

    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        self.node.client.objects(&[]).expect("the endpoints")
    }

    /// The ports of the switch that belong to endpoints of the network.
    fn ports(&self) -> Vec<String> {
        let suffix = format!("_{}", self.config["name"].as_str().expect("a name"));
        let rows = self.node.look("/ports");
        let names = rows.as_array().into_iter().flatten().filter_map(|row| row["Name"].as_str());
        names.filter(|name| name.ends_with(&suffix)).map(str::to_owned).collect()
    }

    fn assert_empty(&self) {
        assert_eq!(self.endpoints(), []);
        let namespaces: Vec<Namespace> = self.node.client.objects(&[]).expect("the namespaces");
        assert_eq!(namespaces, []);
        assert_eq!(self.leases(), BTreeSet::new());
        assert_eq!(self.ports(), Vec::<String>::new());
    }
}

/// A connection right after ADD, whose first packet must pass.
fn connects_at_once(from: &Container, to: &Container) {
    for v4 in [true, false] {
        let address = SocketAddr::new(to.address(v4), PORT);
        let start = Instant::now();
        from.place.run(|| TcpStream::connect(address)).unwrap_or_else(|error| panic!("{} to {address}: {error}", from.id));
        assert!(start.elapsed() < AT_ONCE, "{} to {address}: the first packet was lost", from.id);
    }
}

fn meet(one: &Container, two: &Container) {
    for v4 in [true, false] {
        pings(&one.place, two.address(v4));
        assert_eq!(tcp(&one.place, two.address(v4)).ip(), one.address(v4));
    }
}

/// A bridge with the gateway that win-bridge gives to containers.
fn bridge(world: &World) {
    let prefixes = ["10.244.1.0/24", "fd00:244:1::/64"];
    world.route_to(world.one(), &prefixes);
    let subnets = [subnet(prefixes[0], "10.244.1.2"), subnet(prefixes[1], "fd00:244:1::2")];
    world.one().network(&network("pods", "L2Bridge", &subnets, &[]));
}

#[test]
fn pods_of_a_bridge_talk_at_once_and_leave_nothing() {
    run("cni::pods_of_a_bridge_talk_at_once_and_leave_nothing", || {
        let world = World::new(1);
        bridge(&world);
        let runtime = Runtime::new(world.one(), "win-bridge", "pods");
        let one = runtime.add("one");
        let two = runtime.add("two");
        connects_at_once(&two, &one);
        meet(&one, &two);
        assert_eq!(two.result["interfaces"][0]["name"], "eth0");
        assert_eq!(two.result["interfaces"][0]["mac"], two.place.link("eth0").mac.to_string().replace('-', ":").to_lowercase());
        assert_eq!(one.address(true).to_string(), "10.244.1.10");
        assert_eq!((runtime.leases().len(), runtime.ports().len()), (4, 2));
        for container in [&one, &two] {
            assert_eq!(runtime.check(container), Ok(()));
            assert_eq!(runtime.call("ADD", &container.id, &runtime.config), (true, container.result.clone()), "again");
        }
        runtime.del("one");
        assert!(one.place.find_link("eth0").is_none(), "the NIC is gone");
        assert!(runtime.check(&one).is_err_and(|error| error.contains("it is gone")));
        assert_eq!(runtime.check(&two), Ok(()));
        // A pod whose namespace is gone is deleted all the same.
        drop(two.place);
        host::namespace::delete(Path::new("/run/netns/two")).expect("the namespace goes");
        runtime.del("two");
        runtime.assert_empty();
        runtime.del("two");
    });
}

#[test]
fn pods_of_an_overlay_talk_between_nodes_and_leave_nothing() {
    run("cni::pods_of_an_overlay_talk_between_nodes_and_leave_nothing", || {
        let world = World::new(2);
        Overlay::default().on_both(&world);
        let runtimes = [world.one(), world.two()].map(|node| Runtime::new(node, "win-overlay", "vxlan0"));
        let one = runtimes[0].add("one");
        let far = runtimes[1].add("far");
        connects_at_once(&far, &one);
        let two = runtimes[0].add("two");
        connects_at_once(&two, &far);
        for (from, to) in [(&one, &two), (&one, &far), (&far, &two)] {
            meet(from, to);
        }
        assert_eq!(one.place.link("eth0").mac.to_string().to_lowercase(), "0e-2a-0a-f4-01-0a");
        for container in [&one, &two] {
            assert_eq!(runtimes[0].check(container), Ok(()));
            runtimes[0].del(&container.id);
        }
        runtimes[1].del("far");
        runtimes.iter().for_each(Runtime::assert_empty);
    });
}

#[test]
fn check_sees_what_became_of_the_nic() {
    run("cni::check_sees_what_became_of_the_nic", || {
        let world = World::new(1);
        bridge(&world);
        let runtime = Runtime::new(world.one(), "win-bridge", "pods");
        let pod = runtime.add("pod");
        let found = |expected: &str| {
            let error = runtime.check(&pod).expect_err("CHECK finds it");
            assert!(error.contains(expected), "{expected}: {error}");
        };
        pod.place.ip("route del default via 10.244.1.2");
        found("the NIC eth0 has no default route by 10.244.1.2");
        pod.place.ip("route add default via 10.244.1.2");
        assert_eq!(runtime.check(&pod), Ok(()));
        pod.place.ip("addr add 10.244.1.99/24 dev eth0");
        assert_eq!(runtime.check(&pod), Ok(()), "what a container does besides is its own business");
        pod.place.ip("addr del 10.244.1.10/24 dev eth0");
        found("the NIC eth0 has no address 10.244.1.10");
        pod.place.ip("link set eth0 down");
        found("the NIC eth0 is down");
        pod.place.ip("link set eth0 name other");
        found("there is no NIC eth0");
        runtime.del(&pod.id);
        runtime.assert_empty();
    });
}

#[test]
fn without_daemons_add_is_to_be_tried_again_and_leaves_nothing() {
    run("cni::without_daemons_add_is_to_be_tried_again_and_leaves_nothing", || {
        let mut world = World::new(1);
        bridge(&world);
        let refused = |world: &World| {
            let runtime = Runtime::new(world.one(), "win-bridge", "pods");
            let (succeeded, error) = runtime.call("ADD", "pod", &runtime.config);
            assert!(!succeeded && error["code"] == 11, "{error}");
            assert!(error["details"].as_str().is_some_and(|details| !details.is_empty()), "{error}");
            assert_eq!(runtime.leases(), BTreeSet::new());
            let (succeeded, error) = runtime.call("STATUS", "pod", &runtime.config);
            (succeeded, error["code"].clone())
        };
        let place = Place::make(Path::new("/run/netns"), "pod");
        world.nodes[0].stop_hnsd();
        assert_eq!(refused(&world), (false, json!(50)));
        world.nodes[0].start_hnsd(&[]);
        // hnsd keeps what it is told while the switch is away, but a pod cannot wait for that.
        world.nodes[0].vswitchd.take().expect("vswitchd runs").kill();
        assert_eq!(refused(&world), (false, json!(50)));
        world.nodes[0].start_vswitchd();
        let runtime = Runtime::new(world.one(), "win-bridge", "pods");
        assert_eq!(runtime.endpoints(), []);
        crate::harness::eventually("the switch has its network again", || runtime.call("ADD", "pod", &runtime.config).0);
        assert!(place.find_link("eth0").is_some_and(|link| link.up));
        runtime.del("pod");
        runtime.assert_empty();
    });
}

#[test]
fn hnsd_killed_in_the_middle_leaves_what_is_taken_up() {
    run("cni::hnsd_killed_in_the_middle_leaves_what_is_taken_up", || {
        const PODS: usize = 8;
        let mut world = World::new(1);
        bridge(&world);
        let ids: Vec<String> = (0..PODS).map(|number| format!("pod{number}")).collect();
        let places: Vec<Place> = ids.iter().map(|id| Place::make(Path::new("/run/netns"), id)).collect();
        for delay_ms in [20, 60, 120] {
            let mut hnsd = world.nodes[0].hnsd.take().expect("hnsd runs");
            let runtime = Runtime::new(world.one(), "win-bridge", "pods");
            runtime.plugin();
            thread::scope(|scope| {
                let calls: Vec<_> = ids.iter().map(|id| scope.spawn(|| runtime.call("ADD", id, &runtime.config))).collect();
                thread::sleep(Duration::from_millis(delay_ms));
                hnsd.kill();
                for call in calls {
                    let (succeeded, error) = call.join().expect("the call ends");
                    assert!(succeeded || error["code"] == 11, "{error}");
                }
            });
            world.nodes[0].start_hnsd(&[]);
            let runtime = Runtime::new(world.one(), "win-bridge", "pods");
            let mut addresses = BTreeSet::new();
            for id in &ids {
                let (succeeded, result) = runtime.call("ADD", id, &runtime.config);
                assert!(succeeded, "{result}");
                let ips = result["ips"].as_array().cloned().unwrap_or_default();
                addresses.extend(ips.iter().map(|ip| ip["address"].to_string()));
            }
            assert_eq!(addresses.len(), 2 * PODS, "every address once");
            assert_eq!((runtime.leases().len(), runtime.endpoints().len()), (2 * PODS, PODS));
            pings(&places[0], places[PODS - 1].addresses("eth0")[0]);
            ids.iter().for_each(|id| runtime.del(id));
            runtime.assert_empty();
        }
        assert_eq!(world.one().client.objects::<hcn::network::Network>(&[]).map(|networks| networks.len()), Ok(1));
    });
}

#[test]
fn a_pod_behind_nat_gets_out_and_its_port_is_reached() {
    run("cni::a_pod_behind_nat_gets_out_and_its_port_is_reached", || {
        let world = World::new(1);
        let mut runtime = Runtime::new(world.one(), "nat", "behind");
        runtime.config["ipam"] = json!({ "subnet": "172.20.0.0/24" });
        runtime.config["runtimeConfig"] = json!({ "portMappings": [{ "hostPort": 8080, "containerPort": PORT, "protocol": "tcp" }] });
        let pod = runtime.add("pod");
        assert_eq!(pod.result["ips"], json!([{ "interface": 0, "address": "172.20.0.2/24", "gateway": "172.20.0.1" }]));
        pings(&pod.place, OUTSIDE[0]);
        assert_eq!(tcp(&pod.place, OUTSIDE[0]).ip(), world.one().v4());
        exchange(&world.outside, SocketAddr::new(world.one().v4(), 8080), 1 << 20);
        assert_eq!(runtime.check(&pod), Ok(()));
        runtime.del("pod");
        runtime.assert_empty();
    });
}

/// The kernel takes its time to free a NIC, and the next one must not have to wait for that.
#[test]
fn a_container_gets_its_nic_again_at_once() {
    run("cni::a_container_gets_its_nic_again_at_once", || {
        let world = World::new(1);
        bridge(&world);
        let runtime = Runtime::new(world.one(), "win-bridge", "pods");
        let peer = runtime.add("peer");
        let pod = runtime.add("pod");
        for _ in 0..10 {
            runtime.del("pod");
            assert!(pod.place.find_link("eth0").is_none(), "the name is free");
            let (succeeded, result) = runtime.call("ADD", "pod", &runtime.config);
            assert!(succeeded, "{result}");
            let again = Container { place: pod.place.hold(), id: "pod".to_owned(), result };
            connects_at_once(&again, &peer);
        }
        ["pod", "peer"].into_iter().for_each(|id| runtime.del(id));
        runtime.assert_empty();
        let start = Instant::now();
        while pod.place.netlink().links().expect("the links").iter().any(|link| link.name != "lo") {
            assert!(start.elapsed() < Duration::from_secs(5), "the kernel has freed them");
            thread::sleep(Duration::from_millis(10));
        }
    });
}

#[test]
fn garbage_is_collected_with_its_nics() {
    run("cni::garbage_is_collected_with_its_nics", || {
        let world = World::new(1);
        bridge(&world);
        let runtime = Runtime::new(world.one(), "win-bridge", "pods");
        let [one, two] = ["one", "two"].map(|id| runtime.add(id));
        let mut config = runtime.config.clone();
        config["cni.dev/valid-attachments"] = json!([{ "containerID": "two", "ifname": "eth0" }]);
        assert_eq!(runtime.call("GC", "", &config), (true, Value::Null));
        assert!(one.place.find_link("eth0").is_none(), "the NIC is gone");
        assert_eq!(runtime.check(&two), Ok(()));
        assert_eq!((runtime.leases().len(), runtime.endpoints().len()), (2, 1));
        config["cni.dev/valid-attachments"] = json!([]);
        assert_eq!(runtime.call("GC", "", &config), (true, Value::Null));
        runtime.assert_empty();
    });
}
