//! TAP devices.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::nic::tap::{Tap, TapOptions};
use host::nic::{Nic, NicError};
use wire::{Checksum, Frame, Headers, SegmentationKind};

use crate::cable::{Cable, collect, expect, until};
use crate::packet::{THEIRS, icmp_echo, ipv4};
use crate::space::{Space, isolated};
use crate::stream;

/// A TAP device of a namespace with an address, up.
pub(crate) fn tap(space: &Space, name: &str, address: &str) -> Nic {
    let tap = space.run(|| Tap::open(name, TapOptions::default())).expect("a TAP device");
    space.ip(&format!("address add {address} dev {name} nodad"));
    space.ip(&format!("link set {name} mtu 1430 up"));
    tap.nic()
}

fn failure(name: &str) -> NicError {
    Tap::open(name, TapOptions::default()).expect_err("the name is refused")
}

#[test]
fn the_kernel_answers_a_ping() {
    isolated("tap::the_kernel_answers_a_ping", true, || {
        let space = Space::new();
        let mut nic = tap(&space, "pod", "10.1.0.1/24");
        space.ip("link set pod address 02:00:00:00:00:02");
        space.ip("neigh add 10.1.0.2 lladdr 02:00:00:00:00:01 dev pod");
        let request = ipv4(THEIRS, 1, ["10.1.0.2", "10.1.0.1"], 0, &icmp_echo(8, b"are you there?"));
        nic.sender.send(&mut Frame::from_bytes(&request), None).unwrap();
        let (reply, _) = expect(nic.receiver.as_mut(), |frame| frame.bytes().get(23) == Some(&1));
        assert_eq!(reply.bytes()[34], 0, "an echo reply");
        assert!(reply.bytes().ends_with(b"are you there?"));
    });
}

#[test]
fn a_datagram_comes_back() {
    isolated("tap::a_datagram_comes_back", true, || {
        let space = Space::new();
        let mut nic = tap(&space, "pod", "10.1.0.1/24");
        space.ip("neigh add 10.1.0.2 lladdr 02:00:00:00:00:01 dev pod");
        let socket = space.run(|| UdpSocket::bind("10.1.0.1:5000")).unwrap();
        socket.send_to(b"hello", "10.1.0.2:7").unwrap();
        let (mut frame, _) = expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"hello"));
        assert_eq!(frame.offload.checksum, Checksum::Partial { start: 34, field: 6 });
        // The sums stay right when both ends change places.
        let bytes = frame.bytes_mut();
        swap(bytes, 0, 6, 6);
        swap(bytes, 26, 30, 4);
        swap(bytes, 34, 36, 2);
        nic.sender.send(&mut frame, None).unwrap();
        let mut answer = [0; 16];
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(socket.recv(&mut answer).unwrap(), 5);
        assert_eq!(&answer[..5], b"hello");
    });
}

fn swap(bytes: &mut [u8], one: usize, other: usize, length: usize) {
    let (left, right) = bytes.split_at_mut(other);
    left[one..one + length].swap_with_slice(&mut right[..length]);
}

#[test]
fn a_stream_crosses_in_large_frames() {
    isolated("tap::a_stream_crosses_in_large_frames", true, || {
        let (one, other) = (Space::new(), Space::new());
        let cable = Cable::new(tap(&one, "pod1", "10.1.0.1/24"), tap(&other, "pod2", "10.1.0.2/24"));
        stream::exchange(&one, &other, "10.1.0.2:80".parse().unwrap());
        for largest in &cable.seen.largest {
            assert!(largest.load(Ordering::Relaxed) > 30_000, "segmentation was left to us: {}", largest.load(Ordering::Relaxed));
        }
    });
}

#[test]
fn a_train_of_datagrams_crosses_whole() {
    isolated("tap::a_train_of_datagrams_crosses_whole", true, || {
        let (one, other) = (Space::new(), Space::new());
        let cable = Cable::new(tap(&one, "pod1", "10.1.0.1/24"), tap(&other, "pod2", "10.1.0.2/24"));
        stream::train(&one, "10.1.0.1:0", &other, "10.1.0.2:7");
        // Kernels before 6.2 cut it themselves.
        println!("the largest frame had {} bytes", cable.seen.largest[0].load(Ordering::Relaxed));
    });
}

#[test]
fn a_stream_crosses_over_ipv6() {
    isolated("tap::a_stream_crosses_over_ipv6", true, || {
        let (one, other) = (Space::new(), Space::new());
        let cable = Cable::new(tap(&one, "pod1", "fd01::1/64"), tap(&other, "pod2", "fd01::2/64"));
        stream::exchange(&one, &other, "[fd01::2]:80".parse().unwrap());
        assert!(cable.seen.largest[0].load(Ordering::Relaxed) > 30_000);
    });
}

#[test]
fn a_super_frame_says_how_it_is_to_be_cut() {
    isolated("tap::a_super_frame_says_how_it_is_to_be_cut", true, || {
        let (one, other) = (Space::new(), Space::new());
        let (mut near, far) = (tap(&one, "pod1", "10.1.0.1/24"), tap(&other, "pod2", "10.1.0.2/24"));
        let far_sender = far.sender.clone();
        let far_receiver = far.receiver;
        let mut large = None;
        let watched = host::nic::pipe::pair(4096).unwrap();
        let _cable = Cable::new(watched.0, Nic { receiver: far_receiver, sender: far_sender });
        std::thread::scope(|scope| {
            let exchange = scope.spawn(|| stream::exchange(&one, &other, "10.1.0.2:80".parse().unwrap()));
            let mut back = watched.1;
            while !exchange.is_finished() {
                let sent = near.receiver.receive(64, &mut |frame, _| {
                    if frame.len() > 1500 && large.is_none() {
                        large = Some(frame.clone());
                    }
                    _ = back.sender.send(frame, None);
                });
                let returned = back.receiver.receive(64, &mut |frame, _| _ = near.sender.send(frame, None));
                if sent.unwrap() + returned.unwrap() == 0 {
                    crate::cable::wait(&[near.receiver.as_ref(), back.receiver.as_ref()], Duration::from_millis(5));
                }
            }
        });
        let large = large.expect("a frame of more than 1500 bytes");
        let headers = Headers::parse(large.bytes()).unwrap();
        headers.check_offload(&large).unwrap();
        let segmentation = large.offload.segmentation.unwrap();
        assert!(matches!(segmentation.kind, SegmentationKind::Tcp4 { .. }));
        assert!((1000..1450).contains(&segmentation.size), "{segmentation:?}");
    });
}

#[test]
fn a_device_that_is_down_delivers_nothing_and_takes_nothing() {
    isolated("tap::a_device_that_is_down_delivers_nothing_and_takes_nothing", true, || {
        let space = Space::new();
        let tap = space.run(|| Tap::open("pod", TapOptions::default())).unwrap();
        let mut nic = tap.nic();
        assert_eq!(nic.receiver.receive(8, &mut |_, _| panic!("nothing was sent")).unwrap(), 0);
        let error = nic.sender.send(&mut Frame::from_bytes(&[0; 60]), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        space.ip("link set pod up");
        collect(nic.receiver.as_mut(), Duration::from_millis(50));
        space.ip("link set pod down");
        until("what came before is read", || nic.receiver.receive(8, &mut |_, _| {}).unwrap() == 0);
    });
}

#[test]
fn a_device_that_is_removed_is_an_error() {
    isolated("tap::a_device_that_is_removed_is_an_error", true, || {
        let space = Space::new();
        let mut nic = tap(&space, "pod", "10.1.0.1/24");
        space.ip("link delete pod");
        let received = (0..100).find_map(|_| nic.receiver.receive(8, &mut |_, _| {}).err()).expect("an error");
        assert!(received.to_string().starts_with("pod is gone"), "{received}");
        let sent = nic.sender.send(&mut Frame::from_bytes(&[0; 60]), None).unwrap_err();
        assert!(sent.to_string().starts_with("pod is gone"), "{sent}");
    });
}

#[test]
fn a_persistent_device_stays_until_told_otherwise() {
    isolated("tap::a_persistent_device_stays_until_told_otherwise", true, || {
        let space = Space::new();
        let exists = || space.run(|| nix::net::if_::if_nametoindex("pod").is_ok());
        drop(space.run(|| Tap::open("pod", TapOptions { persistent: true })).unwrap());
        assert!(exists());
        let again = space.run(|| Tap::open("pod", TapOptions::default())).unwrap();
        let error = space.run(|| failure("pod"));
        assert!(error.to_string().starts_with("pod: could not attach the TAP device: "), "{error}");
        assert!(error.to_string().ends_with("another process has it open: stop that one, or choose another name"), "{error}");
        again.set_persistent(false).unwrap();
        drop(again);
        // A process that another test is just starting may hold it for an instant.
        until("the device is gone", || !exists());
    });
}

#[test]
fn a_free_number_is_found() {
    isolated("tap::a_free_number_is_found", true, || {
        let space = Space::new();
        let open = || space.run(|| Tap::open("pod%d", TapOptions::default())).unwrap();
        let (first, second) = (open(), open());
        assert_eq!([first.name(), second.name()], ["pod0", "pod1"]);
    });
}

#[test]
fn names_that_no_adapter_can_have() {
    let error = failure("a-name-of-16-byt");
    assert!(error.to_string().contains("a-name-of-16-byt"), "{error}");
    assert!(error.to_string().ends_with("names of adapters have 15 bytes at most"), "{error}");
    for name in ["", "a/b", "a b", "a\0"] {
        assert_eq!(failure(name).cause.kind(), std::io::ErrorKind::InvalidInput, "{name:?}");
    }
}

#[test]
fn a_name_that_another_kind_of_adapter_has() {
    isolated("tap::a_name_that_another_kind_of_adapter_has", true, || {
        let error = Space::new().run(|| failure("lo"));
        assert!(error.to_string().contains("be no TAP device"), "{error}");
    });
}
