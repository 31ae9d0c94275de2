//! NICs that lead nowhere, and what wraps them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use host::nic::{Nic, loopback, null, pipe, print};
use wire::{Checksum, Encapsulation, Frame, Offload, Segmentation, SegmentationKind};

use crate::cable::is_readable;
use crate::packet::{THEIRS, ipv4, udp};

fn received(nic: &mut Nic, budget: usize) -> Vec<(Frame, Option<Encapsulation>)> {
    let mut frames = Vec::new();
    let count = nic.receiver.receive(budget, &mut |frame, encapsulation| frames.push((frame.clone(), encapsulation.copied()))).unwrap();
    assert_eq!(count, frames.len());
    frames
}

#[test]
fn a_pipe_keeps_everything_about_a_frame() {
    let (one, mut other) = pipe::pair(4).unwrap();
    let mut frame = Frame::from_bytes(&[5; 3000]);
    frame.offload = Offload {
        checksum: Checksum::Partial { start: 34, field: 16 },
        segmentation: Some(Segmentation { kind: SegmentationKind::Tcp4 { ecn: true }, size: 1448, header_length: 66 }),
    };
    let encapsulation = Encapsulation { vni: 9, port: 4789, ..Encapsulation::default() };
    one.sender.send(&mut frame, Some(&encapsulation)).unwrap();
    let frames = received(&mut other, 8);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].0.bytes(), frame.bytes());
    assert_eq!(frames[0].0.offload, frame.offload);
    assert_eq!(frames[0].1, Some(encapsulation));
}

#[test]
fn a_pipe_is_bounded_and_can_be_waited_on() {
    let (one, mut other) = pipe::pair(2).unwrap();
    assert!(!is_readable(other.receiver.as_ref()));
    for number in 0..2 {
        one.sender.send(&mut Frame::from_bytes(&[number]), None).unwrap();
    }
    let full = one.sender.send(&mut Frame::from_bytes(&[2]), None).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(received(&mut other, 1)[0].0.bytes(), [0]);
    assert!(is_readable(other.receiver.as_ref()));
    assert_eq!(received(&mut other, 9)[0].0.bytes(), [1]);
    assert!(!is_readable(other.receiver.as_ref()));
    assert!(received(&mut other, 9).is_empty());
    other.sender.send(&mut Frame::from_bytes(&[7]), None).unwrap();
    let mut one = one;
    assert_eq!(received(&mut one, 9)[0].0.bytes(), [7], "the other way");
}

#[test]
fn a_loopback_hears_itself_and_null_hears_nothing() {
    let mut loopback = loopback::new(4).unwrap();
    loopback.sender.send(&mut Frame::from_bytes(b"echo"), None).unwrap();
    assert_eq!(received(&mut loopback, 4)[0].0.bytes(), b"echo");
    let mut null = null::new();
    null.sender.send(&mut Frame::from_bytes(b"echo"), None).unwrap();
    assert!(received(&mut null, 4).is_empty());
    assert!(null.receiver.fd().is_none());
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn frames_are_printed_in_a_line_each() {
    let text = Text::default();
    let mut nic = print::wrap(loopback::new(8).unwrap(), "pod1", print::to_writer(text.clone()));
    let datagram = ipv4(THEIRS, 17, ["10.0.0.1", "10.0.0.2"], 0, &udp([5000, 53], b"?"));
    let encapsulation = Encapsulation { vni: 4096, port: 4789, ..Encapsulation::default() };
    nic.sender.send(&mut Frame::from_bytes(&datagram), Some(&encapsulation)).unwrap();
    nic.sender.send(&mut Frame::from_bytes(b"short"), None).unwrap();
    received(&mut nic, 8);
    let text = String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    let outer = ", VXLAN 4096 :: with :: port 4789";
    let datagram = "43 bytes 02-00-00-00-00-01 > 02-00-00-00-00-02 17 10.0.0.1:5000 > 10.0.0.2:53";
    let short = "5 bytes [the frame ends before its headers do]";
    let expected = format!("pod1 > {datagram}{outer}\npod1 > {short}\npod1 < {datagram}{outer}\npod1 < {short}\n");
    assert_eq!(text, expected);
}
