//! A pod: a network namespace, and somebody in it who asks or answers.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use host::namespace::{self, Namespace};
use rig::sandbox::NAMESPACES;

/// Where the answering pod listens.
const PORT: u16 = 7;

/// How long an answer is waited for before it is asked again.
const PAUSE: Duration = Duration::from_millis(1);

/// A pod without an answer after so long has none.
const PATIENCE: Duration = Duration::from_secs(10);

/// A pod. Its namespace goes with the value.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    namespace: Namespace,
}

impl Pod {
    /// A pod without a network yet.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let namespace = namespace::create(Path::new(NAMESPACES), name).map_err(|error| error.to_string())?;
        Ok(Self { name: name.to_owned(), namespace })
    }

    /// Answers everybody from now on.
    pub(crate) fn serve(&self) -> Result<(), String> {
        let socket = self.socket(PORT)?;
        socket.set_read_timeout(None).map_err(|error| error.to_string())?;
        thread::spawn(move || {
            let mut byte = [0; 16];
            while let Ok((length, client)) = socket.recv_from(&mut byte) {
                // A client that went has no route any more.
                _ = socket.send_to(&byte[..length], client);
            }
        });
        Ok(())
    }

    /// Somebody in the pod, ready to ask. Made before there is a network, so that making it does not count.
    pub(crate) fn client(&self) -> Result<Client, String> {
        self.socket(0).map(|socket| Client { socket })
    }

    fn socket(&self, port: u16) -> Result<UdpSocket, String> {
        let bound = self.namespace.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)));
        let socket = bound.and_then(|socket| socket).map_err(|error| format!("cannot make a socket in {}: {error}", self.name))?;
        socket.set_read_timeout(Some(PAUSE)).map_err(|error| error.to_string())?;
        Ok(socket)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let path: PathBuf = Path::new(NAMESPACES).join(&self.name);
        if let Err(error) = namespace::delete(&path) {
            println!("{} stays: {error}", path.display());
        }
    }
}

/// Somebody in a pod who asks.
pub(crate) struct Client {
    socket: UdpSocket,
}

impl Client {
    /// Asks until there is an answer, and tells how long that took.
    pub(crate) fn ask(&self, server: Ipv4Addr) -> Result<Duration, String> {
        let (start, mut byte) = (Instant::now(), [0; 16]);
        while start.elapsed() < PATIENCE {
            let asked = self.socket.send_to(b"?", (server, PORT));
            match asked.and_then(|_| self.socket.recv_from(&mut byte)) {
                Ok(_) => return Ok(start.elapsed()),
                // No route yet, or no answer yet.
                Err(_) => thread::yield_now(),
            }
        }
        Err(format!("{server} does not answer"))
    }
}
