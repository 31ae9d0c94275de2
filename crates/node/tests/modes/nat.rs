//! NAT: a switch of its own, translated by the node, with ports mapped inwards and names at the gateway.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hcn::{Guid, Hcn, Kind};
use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, policy, subnet};
use crate::harness::serve::PORT;
use crate::harness::world::OUTSIDE;
use crate::harness::{MEGABYTES, MOMENT, Node, Place, Pod, World, eventually, exchange, pings, probe, run, tcp, udp};

/// A network behind NAT.
pub(crate) fn nat(node: &Node) -> Guid {
    let subnets = [subnet("172.20.0.0/24", "172.20.0.1"), subnet("fd00:20::/64", "fd00:20::1")];
    node.network(&network("nat", "NAT", &subnets, &[]))
}

/// A pod of it.
pub(crate) fn pod(node: &Node, network: Guid, number: usize, policies: &[Value]) -> Pod {
    let addresses = [format!("172.20.0.{number}/24"), format!("fd00:20::{number}/64")];
    let document = endpoint(&format!("pod{number}"), &addresses.each_ref().map(String::as_str), &["172.20.0.1", "fd00:20::1"], policies);
    node.pod(network, &document)
}

fn mapping(protocol: u8, external: u16) -> Value {
    policy("PortMapping", json!({ "Protocol": protocol, "InternalPort": PORT, "ExternalPort": external }))
}

fn gateway(v4: bool) -> IpAddr {
    if v4 { "172.20.0.1" } else { "fd00:20::1" }.parse().expect("an address")
}

#[test]
fn pods_reach_each_other_the_node_and_the_outside() {
    run("nat::pods_reach_each_other_the_node_and_the_outside", || {
        let world = World::new(2);
        let network = nat(world.one());
        let (one, two) = (pod(world.one(), network, 11, &[]), pod(world.one(), network, 12, &[]));
        for (at, own) in [one.v4(), one.v6()].into_iter().enumerate() {
            let v4 = at == 0;
            let (node, other) = (world.one().address_like(v4), world.two().address_like(v4));
            pings(&one, two.addresses[at]);
            assert_eq!(tcp(&one, two.addresses[at]).ip(), own);
            assert_eq!(udp(&one, two.addresses[at], 9000).ip(), own);
            pings(&one, gateway(v4));
            pings(&one, node);
            assert_eq!(tcp(world.one(), own).ip(), gateway(v4));
            pings(&one, OUTSIDE[at]);
            assert_eq!(tcp(&one, OUTSIDE[at]).ip(), node);
            assert_eq!(udp(&one, OUTSIDE[at], 9000).ip(), node);
            assert_eq!(tcp(&one, other).ip(), node);
        }
    });
}

#[test]
fn mapped_ports_lead_in_from_everywhere() {
    run("nat::mapped_ports_lead_in_from_everywhere", || {
        let world = World::new(1);
        let network = nat(world.one());
        let one = pod(world.one(), network, 11, &[mapping(6, 8080), mapping(17, 8080)]);
        let two = pod(world.one(), network, 12, &[mapping(6, 8081)]);
        for outside in OUTSIDE {
            let mapped = SocketAddr::new(world.one().address_like(outside.is_ipv4()), 8080);
            assert_eq!(exchange(&world.outside, mapped, MEGABYTES).ip(), outside, "the pod sees who asks");
            assert_eq!(probe::try_udp(&world.outside, mapped, 5000).map(|seen| seen.ip()), Some(outside));
            exchange(world.one(), mapped, MEGABYTES);
            exchange(&two, mapped, MEGABYTES);
            exchange(&one, SocketAddr::new(mapped.ip(), 8081), MEGABYTES);
        }
        let mapped = SocketAddr::new(world.one().v4(), 8080);
        world.one().client.delete(Kind::Endpoint, one.endpoint).expect("the endpoint goes");
        let open = || world.outside.run(|| TcpStream::connect_timeout(&mapped, MOMENT).is_ok());
        eventually("the port is closed with its pod", || !open());
    });
}

#[test]
fn names_are_answered_at_the_gateway() {
    run("nat::names_are_answered_at_the_gateway", || {
        let world = World::new(1);
        serve_names(&world.outside);
        use_names_of(&format!("{}", OUTSIDE[0]));
        let pod = pod(world.one(), nat(world.one()), 11, &[]);
        for v4 in [true, false] {
            let server = SocketAddr::new(gateway(v4), 53);
            eventually("an answer over UDP", || ask_udp(&pod, server).as_deref() == Some(ANSWER));
            eventually("an answer over TCP", || ask_tcp(&pod, server).as_deref() == Some(ANSWER));
        }
    });
}

const QUESTION: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03web\x04test\x00\x00\x01\x00\x01";
const ANSWER: &[u8] = b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03web\x04test\x00\x00\x01\x00\x01\
    \xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01";

/// A server that knows one name.
fn serve_names(place: &Place) {
    let (udp, tcp) = place.run(|| (UdpSocket::bind("0.0.0.0:53"), TcpListener::bind("0.0.0.0:53")));
    let (udp, tcp) = (udp.expect("a UDP socket"), tcp.expect("a TCP socket"));
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, asker)) = udp.recv_from(&mut question) {
            if question[..length] == *QUESTION {
                _ = udp.send_to(ANSWER, asker);
            }
        }
    });
    thread::spawn(move || {
        for mut stream in tcp.incoming().map_while(Result::ok) {
            let mut question = [0; 2 + QUESTION.len()];
            if stream.read_exact(&mut question).is_ok() && question[2..] == *QUESTION {
                _ = stream.write_all(&[&(ANSWER.len() as u16).to_be_bytes(), ANSWER].concat());
            }
        }
    });
}

/// Makes a server the one of this test's file system.
fn use_names_of(server: &str) {
    let (file, place) = (Path::new("/run/resolv.conf"), PathBuf::from("/etc/resolv.conf"));
    fs::write(file, format!("nameserver {server}\n")).expect("a file");
    // Where it is a link, what it leads to may have been hidden with the rest of /run.
    if let Ok(target) = fs::read_link(&place)
        && !place.exists()
    {
        let target = Path::new("/etc").join(target);
        fs::create_dir_all(target.parent().expect("a directory")).and_then(|()| fs::write(&target, "")).expect("a place to mount on");
    }
    mount(Some(file), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("the file in its place");
}

fn ask_udp(from: &Place, server: SocketAddr) -> Option<Vec<u8>> {
    let socket = from.run(|| probe::socket_like(server)).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.send(QUESTION).ok()?;
    let mut answer = vec![0; 512];
    let length = socket.recv(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}

fn ask_tcp(from: &Place, server: SocketAddr) -> Option<Vec<u8>> {
    let mut stream = from.run(|| TcpStream::connect_timeout(&server, Duration::from_secs(1))).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(&[&(QUESTION.len() as u16).to_be_bytes(), QUESTION].concat()).ok()?;
    let mut answer = vec![0; 2 + ANSWER.len()];
    stream.read_exact(&mut answer).ok()?;
    Some(answer.split_off(2))
}
