//! What arrives by one link, read as headers, with the VLAN tags that it has on the wire.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use wire::{Frame, Headers};

use super::Place;

/// A socket by which a place sends and receives frames as they are.
pub(crate) fn raw(place: &Place, link: &str) -> PacketSocket {
    let index = place.link(link).index;
    let options = PacketSocketOptions { promiscuous: true, ..PacketSocketOptions::default() };
    place.run(|| PacketSocket::open(link, index, &options)).expect("a packet socket")
}

/// Sends a frame by a link of a place.
pub(crate) fn send(place: &Place, link: &str, bytes: &[u8]) {
    raw(place, link).nic().sender.send(&mut Frame::from_bytes(bytes), None).expect("the frame is sent");
}

/// Watches a link until it is dropped.
pub(crate) struct Watch {
    seen: Arc<Mutex<Vec<Headers>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch.
    pub(crate) fn start(place: &Place, link: &str) -> Self {
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (mut nic, put, stopped) = (raw(place, link).nic(), seen.clone(), stop.clone());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let received = nic.receiver.receive(64, &mut |frame, _| {
                    put.lock().expect("the headers").extend(Headers::parse(frame.bytes()).ok());
                });
                if received.is_ok_and(|count| count == 0) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        Self { seen, stop, thread: Some(thread) }
    }

    /// What has arrived so far.
    pub(crate) fn seen(&self) -> Vec<Headers> {
        // The thread may be a little behind.
        thread::sleep(Duration::from_millis(50));
        self.seen.lock().expect("the headers").clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        _ = self.thread.take().map(JoinHandle::join);
    }
}
