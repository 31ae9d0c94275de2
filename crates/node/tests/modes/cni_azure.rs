//! azure-vnet with addresses that a host agent lists over HTTP: pods of the cloud's own network, with real packets.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use hcn::HcnExt;
use hcn::network::{Network, NetworkType};
use serde_json::{Value, json};

use crate::cni::Runtime;
use crate::harness::world::OUTSIDE;
use crate::harness::{Node, Sniffer, World, pings, run, tcp};
use crate::l2tunnel::with_fabric;

/// A host agent on the node that lists a subnet of its `eth0`, with the node's own address first. It ends with the test.
fn host_agent(node: &Node, subnet: &str, addresses: &[&str]) -> String {
    let address = |(index, address): (usize, &&str)| format!(r#"<IPAddress Address="{address}" IsPrimary="{}"/>"#, index == 0);
    let addresses: String = addresses.iter().enumerate().map(address).collect();
    let mac = node.mac().to_string().replace(['-', ':'], "");
    let body = format!(
        r#"<Interfaces><Interface MacAddress="{mac}" IsPrimary="true"><IPSubnet Prefix="{subnet}">{addresses}</IPSubnet></Interface></Interfaces>"#
    );
    let listener = node.run(|| TcpListener::bind("127.0.0.1:0")).expect("a port for the host agent");
    let url = format!("http://{}/machine/plugins?comp=nmagent&type=getinterfaceinfov1", listener.local_addr().expect("its address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    url
}

fn runtime<'a>(node: &'a Node, mode: &str, url: &str) -> Runtime<'a> {
    let ipam = json!({ "type": "azure-vnet-ipam", "url": url, "stateDir": node.file("azure") });
    Runtime { node, config: json!({ "cniVersion": "1.1.0", "name": "azure", "type": "azure-vnet", "mode": mode, "ipam": ipam }) }
}

impl Runtime<'_> {
    /// How many addresses azure-vnet-ipam has given out.
    fn taken(&self) -> usize {
        let text = fs::read_to_string(self.node.file("azure").join("azure-vnet-ipam.json")).expect("the state");
        text.matches("\"InUse\": true").count()
    }

    fn networks(&self) -> Vec<Network> {
        self.node.client.objects(&[]).expect("the networks")
    }
}

#[test]
fn pods_have_addresses_of_the_underlay_and_leave_nothing() {
    run("cni_azure::pods_have_addresses_of_the_underlay_and_leave_nothing", || {
        let world = World::new(1);
        let node = world.one();
        world.underlay.ip("addr add 10.240.0.1/24 dev br0");
        node.ip("addr add 10.240.0.4/24 dev eth0");
        let url = host_agent(node, "10.240.0.0/24", &["10.240.0.4", "10.240.0.5", "10.240.0.6", "10.240.0.7"]);
        let runtime = runtime(node, "bridge", &url);
        assert_eq!(runtime.call("STATUS", "", &runtime.config), (true, Value::Null));
        assert_eq!(runtime.networks(), [], "STATUS makes nothing");

        let [one, two] = ["one", "two"].map(|id| runtime.add(id));
        assert_eq!([&one, &two].map(|pod| pod.address(true).to_string()), ["10.240.0.5", "10.240.0.6"]);
        assert_eq!(runtime.networks().iter().map(|network| &network.network_type).collect::<Vec<_>>(), [&NetworkType::L2Bridge]);
        for (from, to) in [(&one, &two), (&two, &one)] {
            pings(&from.place, to.address(true));
            assert_eq!(tcp(&from.place, to.address(true)).ip(), from.address(true));
        }
        // To the rest of the world a pod is a machine like any other.
        pings(&one.place, "10.240.0.1".parse::<std::net::IpAddr>().expect("an address"));
        assert_eq!(tcp(&one.place, OUTSIDE[0]).ip(), one.address(true));
        assert_eq!(tcp(&world.outside, two.address(true)).ip(), OUTSIDE[0]);
        pings(node, one.address(true));

        for pod in [&one, &two] {
            assert_eq!(runtime.check(pod), Ok(()));
        }
        assert_eq!(runtime.call("ADD", "one", &runtime.config), (true, one.result.clone()), "again");
        assert_eq!(runtime.call("STATUS", "", &runtime.config), (true, Value::Null));
        assert_eq!((runtime.taken(), runtime.endpoints().len()), (2, 2));

        let mut gc = runtime.config.clone();
        gc["cni.dev/valid-attachments"] = json!([{ "containerID": "two", "ifname": "eth0" }]);
        assert_eq!(runtime.call("GC", "", &gc), (true, Value::Null));
        assert!(one.place.find_link("eth0").is_none(), "the NIC is gone");
        assert!(runtime.check(&one).is_err_and(|error| error.contains("it is gone")));
        assert_eq!(runtime.check(&two), Ok(()));
        assert_eq!((runtime.taken(), runtime.endpoints().len()), (1, 1));

        // A network that is there is used again, with the addresses that are free again.
        let three = runtime.add("three");
        assert_eq!(three.address(true).to_string(), "10.240.0.5");
        pings(&three.place, two.address(true));
        for id in ["two", "three", "three"] {
            runtime.del(id);
        }
        assert_eq!((runtime.taken(), runtime.endpoints().len(), runtime.networks().len()), (0, 0, 1));
    });
}

#[test]
fn neighbours_of_a_tunnel_meet_in_the_fabric() {
    run("cni_azure::neighbours_of_a_tunnel_meet_in_the_fabric", || {
        let (world, _fabric) = with_fabric(1);
        let node = world.one();
        let url = host_agent(node, "192.168.0.0/24", &["192.168.0.1", "192.168.0.17", "192.168.0.18"]);
        let runtime = runtime(node, "tunnel", &url);
        let [one, two] = ["one", "two"].map(|id| runtime.add(id));
        assert_eq!(runtime.networks().iter().map(|network| &network.network_type).collect::<Vec<_>>(), [&NetworkType::L2Tunnel]);
        let wire = Sniffer::start(&world.underlay);
        pings(&one.place, two.address(true));
        assert_eq!(tcp(&one.place, two.address(true)).ip(), one.address(true));
        let is_theirs = |address| wire.arrived("node1").iter().any(|frame| frame.is_between(address, two.address(true)));
        assert!(is_theirs(one.address(true)), "it goes by the fabric");
        assert_eq!(runtime.check(&two), Ok(()));
        ["one", "two"].iter().for_each(|id| runtime.del(id));
        assert_eq!((runtime.taken(), runtime.endpoints()), (0, Vec::new()));
    });
}
