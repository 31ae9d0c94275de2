//! Peers that are not ours: a node made of the kernel's own bridge and VXLAN device, and a protocol analyser that reads what is on the wire.

use std::net::IpAddr;
use std::path::Path;
use std::thread;

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::analyser::{Capture, make_real};
use crate::harness::document::{outbound_nat, outbound_nat_v6, remote_subnet};
use crate::harness::ping::ping_sized;
use crate::harness::probe::{ask, socket_like};
use crate::harness::sandbox::missing;
use crate::harness::world::OUTSIDE;
use crate::harness::{MEGABYTES, MOMENT, Node, Place, Pod, Sniffer, World, eventually, exchange, pings, run, serve, tcp, udp};
use crate::overlay::{Overlay, VNI, router_mac};

/// The addresses of the kernel's pod.
const KERNEL_POD: [&str; 2] = ["10.244.2.11", "fd00:244:2::11"];

/// A world whose first node is ours, and whose second is made of the kernel's own devices, as flannel makes it on Linux.
fn mixed_world() -> (World, Pod, Place) {
    let mut world = World::bare(2);
    world.nodes[0].start_vswitchd();
    world.nodes[0].start_hnsd(&[]);
    let overlay = Overlay::default();
    let network = overlay.on(world.one(), 2);
    let policies: Vec<Value> = vec![outbound_nat(&["10.244.0.0/16"]), outbound_nat_v6(&["fd00:244::/32"])];
    let ours = overlay.pod(world.one(), network, 11, &policies);
    let theirs = kernel_node(world.two());
    (world, ours, theirs)
}

/// The kernel's own overlay on a node, and a pod on it.
fn kernel_node(node: &Node) -> Place {
    let (own, other) = (router_mac(2).replace('-', ":"), router_mac(1).replace('-', ":"));
    node.ip(&format!("link add vxlan0 address {own} type vxlan id {VNI} dstport 4789 local 192.168.0.2 dev eth0 nolearning"));
    node.ip("link add cni0 type bridge");
    for (key, value) in [("ipv4.ip_forward", "1"), ("ipv6.conf.all.forwarding", "1")] {
        node.run(|| host::sysctl::Key::global(key).write(value)).expect("the node routes");
    }
    for (device, addresses) in [("vxlan0", ["10.244.2.0/32", "fd00:244:2::/128"]), ("cni0", ["10.244.2.1/24", "fd00:244:2::1/64"])] {
        node.ip(&format!("addr add {} dev {device}", addresses[0]));
        node.ip(&format!("addr add {} dev {device} nodad", addresses[1]));
        node.ip(&format!("link set {device} up"));
    }
    node.ip(&format!("link set vxlan0 address {own}"));
    node.command("bridge", &format!("fdb append {other} dev vxlan0 dst 192.168.0.1"));
    kernel_neighbours(node);
    for (subnet, router) in [("10.244.1.0/24", "10.244.1.0"), ("fd00:244:1::/64", "fd00:244:1::")] {
        node.ip(&format!("route add {subnet} via {router} dev vxlan0 onlink"));
    }
    kernel_pod(node)
}

/// Tells the kernel the hardware address of our router, which it forgets with every address of its own.
fn kernel_neighbours(node: &Node) {
    for router in ["10.244.1.0", "fd00:244:1::"] {
        node.ip(&format!("neigh replace {router} lladdr {} dev vxlan0 nud permanent", router_mac(1).replace('-', ":")));
    }
}

fn kernel_pod(node: &Node) -> Place {
    let pod = Place::make(Path::new("/run/places"), "kernel-pod");
    node.netlink().create_veth("pod0", "peer0").expect("a cable");
    node.netlink().move_to(node.link("peer0").index, &pod.namespace).expect("its other end");
    node.ip("link set pod0 master cni0 up");
    pod.ip("link set peer0 name eth0");
    pod.ip("link set eth0 up mtu 1450");
    pod.ip("addr add 10.244.2.11/24 dev eth0");
    pod.ip("addr add fd00:244:2::11/64 dev eth0 nodad");
    pod.ip("route add default via 10.244.2.1");
    pod.ip("route add default via fd00:244:2::1");
    serve::start(&pod);
    pod
}

fn kernel_pod_address(at: usize) -> IpAddr {
    KERNEL_POD[at].parse().expect("an address")
}

#[test]
fn the_kernels_own_overlay_and_ours_are_one() {
    if let Some(why) = missing("bridge") {
        return println!("skipped: {why}");
    }
    run("linux::the_kernels_own_overlay_and_ours_are_one", || {
        let (_world, ours, theirs) = mixed_world();
        for (at, own) in [ours.v4(), ours.v6()].into_iter().enumerate() {
            let other = kernel_pod_address(at);
            pings(&ours, other);
            pings(&theirs, own);
            ping_sized(&ours, other, 4000);
            assert_eq!(tcp(&ours, other).ip(), own);
            assert_eq!(tcp(&theirs, own).ip(), other);
            for size in [0, 1400, 9000] {
                assert_eq!(udp(&ours, other, size).ip(), own, "{size} bytes");
                assert_eq!(udp(&theirs, own, size).ip(), other, "{size} bytes");
            }
        }
    });
}

#[test]
fn a_peer_whose_router_gets_another_hardware_address_is_followed() {
    if let Some(why) = missing("bridge") {
        return println!("skipped: {why}");
    }
    run("linux::a_peer_whose_router_gets_another_hardware_address_is_followed", || {
        let (world, ours, theirs) = mixed_world();
        let (node, network) = (world.one(), world.one().network_of(&ours));
        // Conversations that begin on the wire, and one that begins here.
        let to_us = [ours.v4(), ours.v6()].map(|own| theirs.run(|| socket_like((own, serve::PORT).into())).expect("a socket"));
        let to_them = ours.run(|| socket_like((kernel_pod_address(0), serve::PORT).into())).expect("a socket");
        let goes_on = |when: &str| {
            for (socket, name) in [(&to_us[0], "IPv4 to us"), (&to_us[1], "IPv6 to us"), (&to_them, "to them")] {
                assert!(ask(socket, 100).is_some(), "{name} {when}");
            }
        };
        goes_on("at first");
        let other = "00-15-5D-AA-00-99";
        world.two().ip(&format!("link set vxlan0 address {}", other.replace('-', ":")));
        kernel_neighbours(world.two());
        for (request, mac) in [("Remove", router_mac(2)), ("Add", other.to_owned())] {
            let policies = ["10.244.2.0/24", "fd00:244:2::/64"].map(|prefix| remote_subnet(prefix, VNI, "192.168.0.2", &mac));
            let request = json!({ "ResourceType": "Policy", "RequestType": request, "Settings": { "Policies": policies } });
            node.client.modify(Kind::Network, network, &request.to_string()).expect("the way to the peer");
        }
        goes_on("with the new address");
    });
}

#[test]
fn nothing_on_the_wire_is_malformed() {
    if let Some(why) = ["bridge", "tshark", "ethtool"].into_iter().find_map(missing) {
        return println!("skipped: {why}");
    }
    run("linux::nothing_on_the_wire_is_malformed", || {
        let (world, ours, theirs) = mixed_world();
        for place in [&**world.one(), world.two(), &world.outside] {
            make_real(place);
        }
        let wire = Sniffer::start(&world.underlay);
        for (at, own) in [ours.v4(), ours.v6()].into_iter().enumerate() {
            let (other, port) = (kernel_pod_address(at), serve::PORT);
            pings(&ours, other);
            exchange(&ours, (other, port).into(), MEGABYTES / 16);
            exchange(&theirs, (own, port).into(), MEGABYTES / 16);
            udp(&ours, other, 9000);
            pings(&ours, OUTSIDE[at]);
            exchange(&ours, (OUTSIDE[at], port).into(), MEGABYTES / 16);
            udp(&ours, OUTSIDE[at], 9000);
        }
        let frames = wire.arrived("node1");
        assert!(frames.iter().any(|frame| frame.vni() == Some(VNI)), "no tunnel was seen");
        assert!(frames.iter().any(|frame| frame.is_between(world.one().v4(), OUTSIDE[0])), "no translation was seen");
        let capture = Capture::of(&world.underlay, "wire", &frames);
        assert!(!capture.fields("vxlan&&tcp", &["tcp.checksum.status"]).is_empty(), "the analyser looks into tunnels");
        assert_eq!(capture.complaints(), "", "of {} frames", frames.len());
    });
}

#[test]
fn a_capture_of_the_switch_says_what_became_of_each_packet() {
    if let Some(why) = ["bridge", "tshark"].into_iter().find_map(missing) {
        return println!("skipped: {why}");
    }
    run("linux::a_capture_of_the_switch_says_what_became_of_each_packet", || {
        let (world, ours, _theirs) = mixed_world();
        let (file, socket) = (world.one().file("switch.pcapng"), world.one().file("vswitchd.sock"));
        let words = ["capture", "--write", &file.display().to_string(), "--vswitchd", &socket.display().to_string()].map(str::to_owned);
        let mut capture = world.one().spawn("vfp", &words, "capture.log");
        eventually("the capture has begun", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        pings(&ours, kernel_pod_address(0));
        pings(&ours, OUTSIDE[0]);
        udp(&ours, kernel_pod_address(1), 100);
        thread::sleep(MOMENT);
        capture.kill();
        let arguments = format!("-r {} -T fields -e ip.src -e ip.dst -e frame.comment", file.display());
        let (succeeded, text) = world.underlay.command("tshark", &arguments);
        assert!(succeeded, "{text}");
        let says = |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(says(&["10.244.1.11", "10.244.2.11", "VXLAN 4096 towards 192.168.0.2"]), "{text}");
        assert!(says(&["10.244.1.11", "203.0.113.9", "to port"]), "{text}");
        assert!(says(&["192.168.0.1", "203.0.113.9"]), "what is translated is there as it leaves: {text}");
    });
}
