//! Compute systems as a lab has them: HCS above, real containers below, the built-in server in them.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hcn::endpoint::Endpoint;
use hcs::network::{SearchList, adapter};
use hcs::process::{ProcessParameters, Streams};
use hcs::registry::{Value, query, tcpip};
use hcs::runtime::Happening;
use hcs::runtime::linux::{Linux, Settings};
use hcs::service::Notification;
use hcs::{Error, Service};
use host::namespace::{self, Namespace};
use host::netlink::Netlink;

use crate::sandbox::{self, DIRECTORY, LONG, program};

const ENDPOINT: &str = r#"{
    "ID": "5f0b1190-63be-4e0c-b974-bd0f55675a42", "Name": "cbr0_web",
    "IpConfigurations": [{"IpAddress": "10.244.1.5", "PrefixLength": 24}],
    "Dns": {"Domain": "cluster.local", "Search": ["shop.svc.cluster.local", "svc.cluster.local"], "ServerList": ["10.96.0.10"]},
    "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}]}"#;

const DOCUMENT: &str = r#"{"Owner": "lab", "SchemaVersion": {"Major": 2, "Minor": 1}, "Container": {
    "GuestOs": {"HostName": "web-0"},
    "Networking": {"Namespace": "9a0bdc6c-0a5c-4a5e-8a43-1b6a1f6f6d01"},
    "MappedDirectories": [{"HostPath": "/mnt/shared", "ContainerPath": "/shared", "ReadOnly": true}]}}"#;

fn netns() -> PathBuf {
    Path::new(DIRECTORY).join("netns")
}

/// A network namespace that can talk to itself.
fn network() -> Namespace {
    let namespace = namespace::create(&netns(), "pod").unwrap();
    Netlink::open_in(&namespace).unwrap().set_up(1).unwrap();
    namespace
}

fn service(heard: &Arc<Mutex<Vec<Notification>>>) -> Service {
    let settings = Settings {
        program: program(),
        directory: Path::new(DIRECTORY).join("containers"),
        hidden: vec![netns()],
        table: None,
        namespaces: Box::new(|_| namespace::open(&netns().join("pod"))),
    };
    let heard = Arc::clone(heard);
    let adapters = Box::new(|_| Ok(vec![adapter(&hcn::parse::<Endpoint>(ENDPOINT)?)]));
    let observer = Arc::new(move |notification| heard.lock().unwrap().push(notification));
    Service::new(Box::new(Linux::new(settings).unwrap()), adapters, SearchList::First, observer)
}

/// Runs a shell's line in a system to its end, and gives its exit code and what it has written.
fn exec(service: &Service, line: &str) -> (i32, String) {
    let (mut reader, output) = std::io::pipe().unwrap();
    let file = |pipe: std::io::PipeWriter| fs::File::from(std::os::fd::OwnedFd::from(pipe));
    let streams = Streams::Given([fs::File::open("/dev/null").unwrap(), file(output.try_clone().unwrap()), file(output)]);
    let pid = service.create_process("web", &ProcessParameters::new(["sh", "-c", line]), streams).unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let code = service.wait_process("web", pid, LONG).unwrap().expect("it ends");
    service.close_process("web", pid).unwrap();
    (code, text)
}

fn get(namespace: &Namespace, path: &str) -> String {
    let answer = namespace.run(|| {
        for _ in 0..500 {
            if let Ok(mut stream) = TcpStream::connect(SocketAddr::from((IpAddr::from([127, 0, 0, 1]), 8080))) {
                write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                return text;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("the server does not listen");
    });
    answer.unwrap().split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_pod_from_its_document_to_its_end() {
    sandbox::run("systems::a_pod_from_its_document_to_its_end", || {
        fs::create_dir(Path::new(DIRECTORY).join("shared")).unwrap();
        fs::write(Path::new(DIRECTORY).join("shared/file"), "mapped").unwrap();
        let (network, heard) = (network(), Arc::default());
        let service = service(&heard);
        service.create("web", DOCUMENT).unwrap();
        assert!(matches!(service.create_process("web", &ProcessParameters::new(["true"]), Streams::Null), Err(Error::InvalidState(_))));
        service.start("web").unwrap();
        let server = ProcessParameters::new([host::container::SELF, "agnhost", "netexec"]);
        let pid = service.create_process("web", &server, Streams::Log).unwrap();
        assert_eq!(get(&network, "/hostname"), "web-0");
        assert!(get(&network, "/clientip").starts_with("127.0.0.1:"));
        let expected = "search shop.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:1 no-tld-query\n";
        assert_eq!(exec(&service, "cat /etc/resolv.conf"), (0, expected.into()));
        assert_eq!(exec(&service, "cat /etc/hostname; grep web-0 /etc/hosts").1, "web-0\n10.244.1.5\tweb-0\n");
        assert_eq!(exec(&service, "cat /shared/file; touch $TMPDIR/x && exit 3"), (3, "mapped".into()));
        let hive = service.registry("web").unwrap();
        assert_eq!(hive.value(tcpip::TCPIP, "Hostname"), Some(&Value::Text("web-0".into())));
        assert!(query::print(&hive, "HKLM").contains("IPAddress    REG_MULTI_SZ    10.244.1.5"));
        service.shutdown("web", LONG).unwrap();
        assert_eq!(service.wait_process("web", pid, LONG).unwrap(), Some(143));
        let log = fs::read_to_string(Path::new(DIRECTORY).join("containers/web/log")).unwrap();
        assert!(log.contains("stderr F Started HTTP server on port 8080"), "{log}");
        service.delete("web").unwrap();
        assert!(!Path::new(DIRECTORY).join("containers/web").exists());
        assert!(heard.lock().unwrap().iter().any(|heard| heard.happening == Happening::Ended));
    });
}

#[test]
fn a_server_that_is_asked_to_exit_tells_its_code() {
    sandbox::run("systems::a_server_that_is_asked_to_exit_tells_its_code", || {
        fs::create_dir(Path::new(DIRECTORY).join("shared")).unwrap();
        let (network, heard) = (network(), Arc::default());
        let service = service(&heard);
        service.create("web", DOCUMENT).unwrap();
        service.start("web").unwrap();
        let server = ProcessParameters::new([host::container::SELF, "netexec", "--udp-port=-1"]);
        let pid = service.create_process("web", &server, Streams::Log).unwrap();
        get(&network, "/healthz");
        let _ = network.run(|| {
            let mut stream = TcpStream::connect("127.0.0.1:8080").unwrap();
            write!(stream, "GET /exit?code=42 HTTP/1.0\r\n\r\n").unwrap();
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(service.wait_process("web", pid, LONG).unwrap(), Some(42));
        // The system goes on without it, as on Windows.
        assert_eq!(exec(&service, "true").0, 0);
        service.terminate("web").unwrap();
        service.delete("web").unwrap();
    });
}
