//! Services by the kernel: two pods behind frontends, and clients that are a pod, the node and somebody outside.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use host::namespace::Namespace;
use host::netlink::{Hop, Netlink, Route};
use host::nftables::services::{Affinity, Frontend, Pool, Services, Way};
use host::sysctl::Key;

use crate::sandbox::{self, connect, equip, ip};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The virtual addresses, whose port is always 80.
const VIPS: [&str; 2] = ["10.96.0.1", "fd00:96::1"];

/// A node between somebody outside and two pods, each with a subnet of its own.
struct World {
    outside: Namespace,
    pods: [Namespace; 2],
}

fn world() -> World {
    let here = Netlink::open().unwrap();
    for key in ["ipv4.ip_forward", "ipv6.conf.all.forwarding"] {
        Key::global(key).write("1").unwrap();
    }
    let outside = neighbour(&here, "outside", ["192.0.2.1/24", "2001:db8::1/64"], ["192.0.2.2/24", "2001:db8::2/64"]);
    let pods = [1, 2].map(|number| {
        let addresses = |last: u8| [format!("10.1.{number}.{last}/24"), format!("fd00:1:{number}::{last}/64")];
        let (near, far) = (addresses(1), addresses(2));
        let pod = neighbour(&here, &format!("pod{number}"), near.each_ref().map(String::as_str), far.each_ref().map(String::as_str));
        far.iter().for_each(|address| serve(&pod, number, SocketAddr::new(ip(address.split('/').next().unwrap()), 8080)));
        pod
    });
    // The node asks somebody whom it has a way to: a virtual address is nowhere.
    let index = sandbox::link(&here, "outside").index;
    for (destination, gateway) in [("0.0.0.0/0", "192.0.2.2"), ("::/0", "2001:db8::2")] {
        let hop = Hop { index, gateway: Some(ip(gateway)), ..Hop::default() };
        here.prepend_route(&Route::new(destination.parse().unwrap(), hop, 0)).unwrap();
    }
    let world = World { outside, pods };
    // Neighbours take a moment to find each other.
    let servers = ["10.1.1.2:8080", "10.1.2.2:8080", "[fd00:1:1::2]:8080", "[fd00:1:2::2]:8080"].map(|text| text.parse().unwrap());
    for place in [&world.outside, &world.pods[0], &world.pods[1]] {
        let all = || servers.iter().all(|server| meet(*server).is_ok());
        sandbox::eventually("everybody reaches the pods", || place.run(all).unwrap());
    }
    world
}

/// A namespace on a cable to the node, which is its way to everybody.
fn neighbour(here: &Netlink, name: &str, near: [&str; 2], far: [&str; 2]) -> Namespace {
    let (namespace, netlink) = sandbox::namespace(name);
    connect(here, name, &namespace, "nic");
    equip(here, name, &near);
    let index = equip(&netlink, "nic", &far);
    for (destination, gateway) in ["0.0.0.0/0", "::/0"].into_iter().zip(near) {
        let hop = Hop { index, gateway: gateway.split('/').next().map(ip), ..Hop::default() };
        netlink.prepend_route(&Route::new(destination.parse().unwrap(), hop, 0)).unwrap();
    }
    namespace
}

/// A server that says its number and whom it sees, over TCP and UDP.
fn serve(namespace: &Namespace, number: u8, address: SocketAddr) {
    let (listener, socket) = namespace.run(|| (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap())).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let client = stream.peer_addr().unwrap().ip();
            thread::spawn(move || {
                let mut byte = [0; 1];
                while stream.read_exact(&mut byte).is_ok() && writeln!(stream, "{number} {client}").is_ok() {}
            });
        }
    });
    thread::spawn(move || {
        while let Ok((_, client)) = socket.recv_from(&mut [0; 16]) {
            _ = socket.send_to(format!("{number} {}\n", client.ip()).as_bytes(), client);
        }
    });
}

/// Who answered, and whom they saw.
type Met = (u8, IpAddr);

fn read(answer: &str) -> Met {
    let (number, client) = answer.trim_end().split_once(' ').unwrap();
    (number.parse().unwrap(), client.parse().unwrap())
}

fn ask(stream: &mut TcpStream) -> Met {
    stream.write_all(b"?").unwrap();
    let (mut answer, mut buffer) = (String::new(), [0; 64]);
    while !answer.ends_with('\n') {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "the server hung up");
        answer.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    read(&answer)
}

fn dial(address: SocketAddr) -> Result<TcpStream, ErrorKind> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).map_err(|error| error.kind())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    Ok(stream)
}

fn meet(address: SocketAddr) -> Result<Met, ErrorKind> {
    dial(address).map(|mut stream| ask(&mut stream))
}

fn meet_udp(address: SocketAddr) -> Result<Met, ErrorKind> {
    let own: IpAddr = if address.is_ipv4() { ip("0.0.0.0") } else { ip("::") };
    let socket = UdpSocket::bind((own, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut buffer = [0; 64];
    let asked = socket.connect(address).and_then(|()| socket.send(b"?")).and_then(|_| socket.recv(&mut buffer));
    asked.map(|length| read(std::str::from_utf8(&buffer[..length]).unwrap())).map_err(|error| error.kind())
}

/// Everybody who answers over TCP. A client of UDP may have a port again, and an earlier conversation would go on.
fn everybody_new(address: SocketAddr) -> BTreeSet<u8> {
    (0..16).map(|_| meet(address).unwrap_or_else(|error| panic!("{address}: {error}")).0).collect()
}

/// Everybody who answers, and everybody they see.
fn everybody(address: SocketAddr) -> (BTreeSet<u8>, BTreeSet<IpAddr>) {
    let one = |round| if round % 2 == 0 { meet(address) } else { meet_udp(address) };
    (0..32).map(|round| one(round).unwrap_or_else(|error| panic!("{address}: {error}"))).unzip()
}

fn all_of(numbers: &[u8]) -> BTreeSet<u8> {
    numbers.iter().copied().collect()
}

fn vips(port: u16) -> [SocketAddr; 2] {
    VIPS.map(|vip| SocketAddr::new(ip(vip), port))
}

/// A pool for each family of these pods.
fn pools(numbers: &[u8], affinity: Option<Affinity>) -> Vec<Pool> {
    let v4 = numbers.iter().map(|number| format!("10.1.{number}.2:8080").parse().unwrap()).collect();
    let v6 = numbers.iter().map(|number| format!("[fd00:1:{number}::2]:8080").parse().unwrap()).collect();
    [v4, v6].map(|targets| Pool { name: "default/web".into(), targets, affinity }).into()
}

fn to(index: usize, is_hidden: bool) -> Way {
    Way::Pool { index, is_hidden }
}

fn frontend(address: IpAddr, protocol: u8, port: u16, way: impl Fn(bool) -> Way) -> Frontend {
    let name = "default/web".to_owned();
    let (for_pods, for_node, for_others) = (way(false), way(true), way(true));
    Frontend { name, address, protocol, port, for_pods, for_node, for_others, source_ranges: Vec::new() }
}

/// The virtual addresses and a port of the node, all to the first two pools.
fn services(pools: Vec<Pool>) -> Services {
    let mut frontends = Vec::new();
    for (addresses, index) in [([VIPS[0], "0.0.0.0"], 0), ([VIPS[1], "::"], 1)] {
        for (address, port) in addresses.into_iter().zip([80, 30_080]) {
            frontends.extend([TCP, UDP].map(|protocol| frontend(ip(address), protocol, port, |is_hidden| to(index, is_hidden))));
        }
    }
    let own = ["10.1.1.2", "10.1.2.2", "fd00:1:1::2", "fd00:1:2::2"].map(ip);
    let pods = ["10.1.0.0/16", "fd00:1::/32"].map(|text| text.parse().unwrap());
    Services { pods: pods.into(), pools, frontends, own_backends: own.into() }
}

#[test]
fn everybody_reaches_every_backend_and_pods_keep_their_address() {
    sandbox::run("services::everybody_reaches_every_backend_and_pods_keep_their_address", || {
        let world = world();
        let both = services(pools(&[1, 2], None));
        both.install().unwrap();
        assert!(both.are_installed().unwrap());
        for (vip, node) in vips(80).into_iter().zip(["192.0.2.1", "2001:db8::1"]) {
            for front in [vip, SocketAddr::new(ip(node), 30_080)] {
                let (met, _) = everybody(front);
                assert_eq!(met, all_of(&[1, 2]), "the node at {front}");
                // Whoever is outside comes with the address of the node towards the pod.
                let (met, seen) = world.outside.run(|| everybody(front)).unwrap();
                assert_eq!(met, all_of(&[1, 2]), "from outside at {front}");
                assert!(seen.iter().all(|seen| seen.to_string().ends_with(".1") || seen.to_string().ends_with("::1")), "{seen:?}");
                // A pod keeps its address towards the other, and not towards itself.
                for _ in 0..32 {
                    let (number, seen) = world.pods[0].run(|| meet(front)).unwrap().unwrap();
                    let expected = if number == 1 { "1" } else { "2" };
                    assert!(seen.to_string().ends_with(expected), "pod {number} sees {seen} at {front}");
                }
            }
        }
        assert_eq!(meet("127.0.0.1:30080".parse().unwrap()), Err(ErrorKind::ConnectionRefused), "the loopback is not served");
    });
}

#[test]
fn connections_stay_while_backends_and_services_come_and_go() {
    sandbox::run("services::connections_stay_while_backends_and_services_come_and_go", || {
        let world = world();
        services(pools(&[1], None)).install().unwrap();
        let mut held = vips(80).map(|vip| world.pods[1].run(|| dial(vip).unwrap()).unwrap());
        assert_eq!(held.each_mut().map(|stream| ask(stream).0), [1, 1]);
        services(pools(&[2], None)).install().unwrap();
        for (vip, held) in vips(80).into_iter().zip(&mut held) {
            assert_eq!(everybody_new(vip), all_of(&[2]));
            assert_eq!(ask(held).0, 1);
        }
        let mut refused = services(Vec::new());
        refused.frontends =
            vips(80).into_iter().flat_map(|vip| [TCP, UDP].map(|it| frontend(vip.ip(), it, 80, |_| Way::Refused))).collect();
        refused.install().unwrap();
        for vip in vips(80) {
            for place in [&world.outside, &world.pods[0]] {
                let met = place.run(|| (meet(vip), meet_udp(vip))).unwrap();
                assert_eq!(met, (Err(ErrorKind::ConnectionRefused), Err(ErrorKind::ConnectionRefused)), "{vip}");
            }
            // Of its own programs, those that send datagrams are told that they may not.
            assert_eq!((meet(vip), meet_udp(vip)), (Err(ErrorKind::ConnectionRefused), Err(ErrorKind::PermissionDenied)), "{vip}");
        }
        assert_eq!(held.each_mut().map(|stream| ask(stream).0), [1, 1]);
        Services::default().install().unwrap();
        assert!(Services::default().are_installed().unwrap() && !services(pools(&[1], None)).are_installed().unwrap());
        assert_eq!(held.each_mut().map(|stream| ask(stream).0), [1, 1]);
        assert!(vips(80).into_iter().all(|vip| world.pods[0].run(|| meet(vip)).unwrap().is_err()));
        Services::remove().unwrap();
        assert!(!refused.are_installed().unwrap());
    });
}

#[test]
fn clients_keep_their_backend_for_a_time_and_while_it_is_one() {
    sandbox::run("services::clients_keep_their_backend_for_a_time_and_while_it_is_one", || {
        let world = world();
        let affinity = Some(Affinity { id: 7, seconds: 2 });
        let both = services(pools(&[1, 2], affinity));
        both.install().unwrap();
        for vip in vips(80) {
            let met = world.outside.run(|| everybody_new(vip)).unwrap();
            assert_eq!(met.len(), 1, "{vip}");
            // What is remembered outlives a change of Services, and is shared by all frontends.
            let mut more = both.clone();
            more.pods.push("10.9.0.0/16".parse().unwrap());
            more.install().unwrap();
            let node = if vip.is_ipv4() { "192.0.2.1" } else { "2001:db8::1" };
            assert_eq!(world.outside.run(|| everybody_new(SocketAddr::new(ip(node), 30_080))).unwrap(), met);
            let other = if met.contains(&1) { 2 } else { 1 };
            services(pools(&[other], affinity)).install().unwrap();
            assert_eq!(world.outside.run(|| everybody_new(vip)).unwrap(), all_of(&[other]), "the one it had is gone");
            both.install().unwrap();
            assert_eq!(world.outside.run(|| everybody_new(vip)).unwrap(), all_of(&[other]), "and forgotten");
            let changes = |_| {
                thread::sleep(Duration::from_millis(2300));
                world.outside.run(|| meet(vip)).unwrap().unwrap().0 != other
            };
            assert!((0..12).any(changes), "{vip}: it is remembered for ever");
        }
    });
}

#[test]
fn only_some_sources_may() {
    sandbox::run("services::only_some_sources_may", || {
        let world = world();
        let mut some = services(pools(&[1, 2], None));
        for it in some.frontends.iter_mut().filter(|it| it.port == 80) {
            let ranges: &[&str] =
                if it.address.is_ipv4() { &["10.1.1.0/24", "192.0.2.1/32"] } else { &["fd00:1:1::/64", "2001:db8::1/128"] };
            it.source_ranges = ranges.iter().map(|text| text.parse().unwrap()).collect();
        }
        some.install().unwrap();
        for vip in vips(80) {
            assert!(meet(vip).is_ok(), "the node at {vip}");
            assert!(world.pods[0].run(|| meet(vip)).unwrap().is_ok(), "the pod at {vip}");
            for place in [&world.outside, &world.pods[1]] {
                assert_eq!(place.run(|| meet(vip)).unwrap(), Err(ErrorKind::TimedOut), "{vip}");
            }
        }
    });
}

#[test]
fn thousands_of_services_in_one_batch() {
    sandbox::run("services::thousands_of_services_in_one_batch", || {
        let world = world();
        let mut many = services(pools(&[1, 2], None));
        for number in 0..5000_u16 {
            let [high, low] = number.to_be_bytes();
            let index = many.pools.len();
            many.pools.push(many.pools[0].clone());
            many.frontends.push(frontend(IpAddr::from([10, 97, high, low]), TCP, 80, |is_hidden| to(index, is_hidden)));
        }
        let begin = std::time::Instant::now();
        many.install().unwrap();
        println!("made in {:?}", begin.elapsed());
        many.install().unwrap();
        println!("made twice in {:?}", begin.elapsed());
        let met = world.outside.run(|| meet("10.97.19.0:80".parse().unwrap())).unwrap();
        assert!(met.is_ok(), "{met:?}");
    });
}
