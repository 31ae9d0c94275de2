//! The links of a fabric: packet sockets, and one thread that serves them all.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use host::netlink::Netlink;
use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use host::nic::{Receiver, Sender};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vfp::{Egress, Instant, PortId, Sink, Switch, UnderlayId};
use wire::{Frame, Ip, MacAddress, arp, neighbour};

use super::Fabric;
use crate::vswitchd::Error;

/// How many frames of one link are taken before the next has its turn.
const BUDGET: usize = 64;

/// How often nodes that have not spoken yet are asked for, and old connections looked for.
const ROUND: Duration = Duration::from_millis(500);

/// How many connections are looked at in one round.
const SWEEP: usize = 16_384;

/// All links.
pub(super) struct Links {
    fabric: Fabric,
    switch: Arc<Switch>,
    receivers: Vec<Box<dyn Receiver>>,
    sink: Outlets,
    known: Vec<Option<MacAddress>>,
    start: Clock,
}

struct Outlets {
    senders: Vec<Arc<dyn Sender>>,
    scratch: Frame,
}

impl Sink for Outlets {
    fn send(&mut self, egress: &Egress, frame: &mut Frame) {
        if let Some(sender) = self.senders.get(egress.port.0 as usize) {
            // A full queue loses the frame, as a link does.
            _ = sender.send(frame, None);
        }
    }

    fn resolve(&mut self, _underlay: UnderlayId, _next_hop: Ip, _port: PortId, _frame: &Frame) {}

    fn scratch(&mut self) -> &mut Frame {
        &mut self.scratch
    }
}

impl Links {
    pub(super) fn open(fabric: Fabric) -> Result<Self, Error> {
        let netlink = Netlink::open()?;
        let (mut receivers, mut senders) = (Vec::new(), Vec::new());
        for link in &fabric.config().links {
            let name = &link.interface;
            let missing = || Error::Message(format!("links: this machine has no network interface {name:?}; see `ip link`"));
            let found = netlink.link_by_name(name)?.ok_or_else(missing)?;
            let options = PacketSocketOptions { promiscuous: true, ..PacketSocketOptions::default() };
            let nic = PacketSocket::open(name, found.index, &options)?.nic();
            receivers.push(nic.receiver);
            senders.push(nic.sender);
        }
        let known = fabric.config().links.iter().map(|link| link.mac).collect();
        let sink = Outlets { senders, scratch: Frame::default() };
        Ok(Self { switch: fabric.switch.clone(), fabric, receivers, sink, known, start: Clock::now() })
    }

    pub(super) fn len(&self) -> usize {
        self.receivers.len()
    }

    /// Serves the links until one of them is gone.
    pub(super) fn run(&mut self) -> Result<(), Error> {
        let mut round: Option<Clock> = None;
        loop {
            if round.is_none_or(|round| round.elapsed() >= ROUND) {
                round = Some(Clock::now());
                self.ask_for_nodes();
                self.switch.sweep(self.now(), SWEEP);
            }
            self.wait()?;
            for number in 0..self.receivers.len() {
                self.serve(number)?;
            }
        }
    }

    fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn wait(&self) -> Result<(), Error> {
        let fds: Vec<_> = self.receivers.iter().filter_map(|receiver| receiver.fd()).collect();
        let mut ready: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut ready, PollTimeout::try_from(ROUND).unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(Error::Io("wait for packets".into(), error.into())),
        }
    }

    fn serve(&mut self, number: usize) -> Result<(), Error> {
        let (now, port) = (self.now(), self.fabric.ports[number]);
        let (switch, sink) = (&self.switch, &mut self.sink);
        let mut speaker = None;
        let served = self.receivers[number].receive(BUDGET, &mut |frame, _| {
            speaker = frame.bytes().get(6..12).and_then(|mac| mac.first_chunk()).copied().map(MacAddress).or(speaker);
            switch.process(now, port, frame, None, sink);
        });
        served.map_err(|error| Error::Io(format!("read from {}", self.fabric.config().links[number].interface), error))?;
        match speaker.filter(|mac| self.known[number] != Some(*mac) && self.fabric.config().links[number].mac.is_none()) {
            Some(mac) => {
                self.known[number] = Some(mac);
                self.fabric.learn(number, mac)
            }
            None => Ok(()),
        }
    }

    /// A node that has not spoken yet is asked for, so that others can be sent to it.
    fn ask_for_nodes(&mut self) {
        let mac = self.fabric.config().mac;
        for (number, link) in self.fabric.config().links.iter().enumerate() {
            let (None, Some(address)) = (self.known[number], link.addresses.first().map(|prefix| prefix.addr())) else { continue };
            let frame = &mut self.sink.scratch;
            match address {
                IpAddr::V4(address) => arp::request(Ip::v4(0), mac, Ip::from(address), frame),
                IpAddr::V6(address) => _ = neighbour::request(link_local(mac), mac, Ip::from(address), frame),
            }
            _ = self.sink.senders[number].send(frame, None);
        }
    }
}

/// The link-local address of a hardware address (RFC 4291, appendix A).
fn link_local(mac: MacAddress) -> Ip {
    let [a, b, c, d, e, f] = mac.0;
    Ip::from(std::net::Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
}
