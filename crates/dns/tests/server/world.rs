//! A server with a cluster behind it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dns::facts::{Backend, Kind, ServiceFacts, SliceFacts};
use dns::forward::Forwarder;
use dns::server::{CurrentZone, Responder, Server};
use dns::zone::{PodNames, Settings, Sources, Zone};
use dns::{Name, RecordType};
use hickory_proto::op::Message;
use tokio::runtime::Runtime;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A server of a test; it ends with it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) responder: Arc<Responder>,
    _runtime: Runtime,
}

impl World {
    /// A server of a domain that forwards to others.
    pub(crate) fn start(zone: Zone, forward: Vec<SocketAddr>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let current: CurrentZone = Arc::new(ArcSwap::from_pointee(zone));
        let responder = Arc::new(Responder::new(current, Forwarder::new(forward)));
        let mut server = Server::new(responder.clone());
        let address = runtime.block_on(async {
            server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
            server.addresses()[0]
        });
        runtime.spawn(server.run());
        Self { address, responder, _runtime: runtime }
    }

    /// Asks as any client does.
    pub(crate) fn ask(&self, name: &str, kind: RecordType) -> Message {
        dns::client::ask(self.address, &Name::from_ascii(name).expect("a name"), kind).expect("an answer")
    }

    /// Sends bytes as a datagram, and takes what comes.
    pub(crate) fn datagram(&self, bytes: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.send_to(bytes, self.address).expect("sent");
        let mut buffer = vec![0; usize::from(u16::MAX)];
        let length = socket.recv(&mut buffer).expect("an answer");
        buffer[..length].to_vec()
    }

    /// A connection to the server.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }
}

/// Sends a message over a connection, and reads the next.
pub(crate) fn talk(stream: &mut TcpStream, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("a short message").to_be_bytes();
    stream.write_all(&[&length[..], bytes].concat()).expect("sent");
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).expect("a message");
    answer
}

pub(crate) fn settings(domain: &str) -> Settings {
    Settings { domain: Name::from_ascii(domain).expect("a name"), ttl: 30, pods: PodNames::Insecure }
}

/// A zone with Services in the Kubernetes namespace `shop`: one with an address, a headless one with many backends, and one that is elsewhere.
pub(crate) fn zone(domain: &str, backends: u8) -> Zone {
    let service = |name: &str, kind: Kind| ServiceFacts {
        namespace: "shop".into(),
        name: name.into(),
        kind,
        publishes_not_ready: false,
        ports: vec![],
    };
    let outside = Name::from_ascii("web.shop.svc.outside.example.").expect("a name");
    let services = vec![
        service("web", Kind::Virtual(vec![IpAddr::from([10, 96, 0, 7])])),
        service("many", Kind::Headless),
        service("away", Kind::External(outside)),
    ];
    let backend = |number: u8| Backend { addresses: vec![IpAddr::from([10, 244, 1, number])], hostname: None, is_ready: true };
    let slice =
        SliceFacts { namespace: "shop".into(), service: "many".into(), backends: (0..backends).map(backend).collect(), ports: Vec::new() };
    Zone::new(settings(domain), Sources { services, slices: vec![slice], pods: Vec::new() }, 1)
}
