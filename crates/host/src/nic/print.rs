//! A line for each frame that passes a NIC.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use wire::{Checksum, Encapsulation, Frame, Headers, Kind};

use super::{Deliver, Nic, Receiver, Sender};

/// Where lines go.
pub type Output = Arc<dyn Fn(fmt::Arguments<'_>) + Send + Sync>;

/// Lines go to the log, at level debug, with the target `transom::nic`.
pub fn to_log() -> Output {
    Arc::new(|line| tracing::debug!(target: "transom::nic", "{line}"))
}

/// Lines go to a writer. What it does not take is lost; a NIC does not stop for it.
pub fn to_writer(writer: impl Write + Send + 'static) -> Output {
    let writer = Mutex::new(writer);
    Arc::new(move |line| {
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        _ = writeln!(writer, "{line}");
    })
}

/// Prints every frame of a NIC, with its name and `<` for what it received, `>` for what it is to send.
pub fn wrap(nic: Nic, name: &str, output: Output) -> Nic {
    let name: Arc<str> = name.into();
    Nic {
        receiver: Box::new(PrintReceiver { inner: nic.receiver, name: name.clone(), output: output.clone() }),
        sender: Arc::new(PrintSender { inner: nic.sender, name, output }),
    }
}

struct PrintReceiver {
    inner: Box<dyn Receiver>,
    name: Arc<str>,
    output: Output,
}

impl Receiver for PrintReceiver {
    fn receive(&mut self, budget: usize, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let Self { inner, name, output } = self;
        inner.receive(budget, &mut |frame, encapsulation| {
            output(format_args!("{name} < {}", Line { frame, encapsulation }));
            deliver(frame, encapsulation);
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }
}

struct PrintSender {
    inner: Arc<dyn Sender>,
    name: Arc<str>,
    output: Output,
}

impl Sender for PrintSender {
    fn send(&self, frame: &mut Frame, encapsulation: Option<&Encapsulation>) -> io::Result<()> {
        (self.output)(format_args!("{} > {}", self.name, Line { frame, encapsulation }));
        self.inner.send(frame, encapsulation)
    }
}

/// A frame in one line.
struct Line<'a> {
    frame: &'a Frame,
    encapsulation: Option<&'a Encapsulation>,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.frame.len())?;
        match Headers::parse(self.frame.bytes()) {
            Ok(headers) => write_headers(f, &headers)?,
            Err(reason) => write!(f, " [{reason}]")?,
        }
        let offload = self.frame.offload;
        if let Some(segmentation) = offload.segmentation {
            write!(f, ", to be cut at {}", segmentation.size)?;
        }
        if let Checksum::Partial { .. } = offload.checksum {
            f.write_str(", checksum open")?;
        }
        match self.encapsulation {
            Some(Encapsulation { kind, vni, local, remote, port }) => write!(f, ", {kind} {vni} {local} with {remote} port {port}"),
            None => Ok(()),
        }
    }
}

fn write_headers(f: &mut fmt::Formatter<'_>, headers: &Headers) -> fmt::Result {
    write!(f, " {} > {}", headers.source_mac, headers.destination_mac)?;
    if let Some(vlan) = headers.vlan {
        write!(f, " VLAN {vlan}")?;
    }
    match headers.kind {
        Kind::Ip => write!(f, " {}", headers.id),
        Kind::IcmpError => write!(f, " error {}", headers.id),
        Kind::Neighbour { request: true } => write!(f, " who has {}, asks {}", headers.id.destination, headers.id.source),
        Kind::Neighbour { request: false } => write!(f, " {} is here", headers.id.source),
        Kind::Router => write!(f, " router {}", headers.id.source),
        Kind::Other => write!(f, " type {:#06x}", headers.ether_type),
    }
}
