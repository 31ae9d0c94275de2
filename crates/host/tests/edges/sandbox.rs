//! A process of its own for each test, in namespaces of its own: whatever the test does to its network, nobody else notices.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use host::namespace::{self, Namespace};
use host::netlink::{Address, Link, Netlink};
use nix::mount::{MsFlags, mount};
use nix::unistd::geteuid;

/// Set in the process inside.
const INSIDE: &str = "TRANSOM_EDGES_INSIDE";

/// Where named namespaces are made. A file system of its own, which goes with the sandbox.
pub(crate) const DIRECTORY: &str = "/mnt/netns";

/// Runs `body`, which is that of the test called `test`, in a sandbox.
pub(crate) fn run(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        mount(Some("tmpfs"), "/mnt", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        let netlink = Netlink::open().unwrap();
        netlink.set_up(1).unwrap();
        return body();
    }
    match unshare().arg("true").output() {
        Err(error) => return println!("skipped: the command unshare cannot be run: {error}"),
        Ok(output) if !output.status.success() => {
            return println!("skipped: no namespaces here: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(_) => {}
    }
    let exe = std::env::current_exe().unwrap();
    let output = unshare().arg(exe).args([test, "--exact", "--nocapture", "--test-threads=1"]).env(INSIDE, "1").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "no test is called {test}");
    print!("{text}");
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net"]);
    if !geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// A named namespace with its loopback up.
pub(crate) fn namespace(name: &str) -> (Namespace, Netlink) {
    let namespace = namespace::create(Path::new(DIRECTORY), name).unwrap();
    let netlink = Netlink::open_in(&namespace).unwrap();
    netlink.set_up(1).unwrap();
    (namespace, netlink)
}

/// A link that exists.
pub(crate) fn link(netlink: &Netlink, name: &str) -> Link {
    netlink.link_by_name(name).unwrap().unwrap_or_else(|| panic!("there is no link {name}"))
}

/// Gives a link addresses and sets it up.
pub(crate) fn equip(netlink: &Netlink, name: &str, addresses: &[&str]) -> u32 {
    let index = link(netlink, name).index;
    netlink.set_up(index).unwrap();
    for address in addresses {
        let address = Address { protocol: 0, ..Address::new(address.parse().unwrap()) };
        netlink.add_address(index, &address).unwrap();
    }
    index
}

/// A cable from the calling namespace to another, with the ends `name` and `peer`.
pub(crate) fn connect(here: &Netlink, name: &str, there: &Namespace, peer: &str) {
    here.create_veth(name, peer).unwrap();
    here.move_to(link(here, peer).index, there).unwrap();
}

/// Polls until something holds; networks need a moment.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to this: {what}");
}

/// A server in a namespace that sends everything back, for as long as the sandbox lives.
pub(crate) fn echo_server(namespace: &Namespace, address: SocketAddr) {
    let listener = namespace.run(|| TcpListener::bind(address)).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
}

/// Opens a connection, from the calling thread's namespace.
pub(crate) fn dial(address: impl Into<SocketAddr>) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address.into(), Duration::from_secs(5)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// Sends `length` bytes through a connection to an echo server and expects them back.
pub(crate) fn echo(stream: &mut TcpStream, length: usize) {
    let sent: Vec<u8> = (0..length).map(|position| (position % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&sent).unwrap());
        let mut received = vec![0; length];
        stream.read_exact(&mut received).unwrap();
        assert!(received == sent, "what came back is not what was sent");
    });
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
