//! Tunnels over UDP, between two of ours and with the kernel's own.

use std::collections::HashSet;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::nic::packet_socket::{PacketSocket, PacketSocketOptions};
use host::nic::udp_tunnel::{UdpTunnel, UdpTunnelOptions};
use wire::{Encapsulation, Frame, Headers, Ip, TunnelKind};

use crate::cable::{Cable, End, collect, expect};
use crate::packet::{DO_NOT_FRAGMENT, THEIRS, ipv4, send_train, udp};
use crate::space::{Space, isolated, joined};
use crate::stream;
use crate::tap::tap;

const PORT: u16 = 4789;
const VNI: u32 = 4096;

/// Two nodes with an underlay of both families.
fn nodes() -> (Space, Space) {
    let (one, other) = joined();
    for (space, adapter, host) in [(&one, "left", 1), (&other, "right", 2)] {
        space.ip(&format!("address add 10.3.0.{host}/24 dev {adapter}"));
        space.ip(&format!("address add fd03::{host}/64 dev {adapter} nodad"));
    }
    (one, other)
}

fn open(space: &Space, kind: TunnelKind, local: &str) -> UdpTunnel {
    let options = UdpTunnelOptions::new(kind, local.parse().unwrap(), PORT);
    space.run(|| UdpTunnel::open(&options)).expect("a tunnel")
}

fn to(kind: TunnelKind, local: &str, remote: &str) -> Encapsulation {
    let ip = |text: &str| Ip::from(text.parse::<IpAddr>().unwrap());
    Encapsulation { kind, vni: VNI, local: ip(local), remote: ip(remote), port: PORT }
}

fn end(space: &Space, kind: TunnelKind, local: &str, remote: &str) -> End {
    End { nic: open(space, kind, local).into_nic(), encapsulation: Some(to(kind, local, remote)) }
}

/// Data between two pods on two nodes.
fn exchange(kind: TunnelKind, [here, there]: [&str; 2], prepare: fn(&Space, &Space)) -> [Cable; 2] {
    let (one, other) = nodes();
    prepare(&one, &other);
    let (near, far) = (Space::new(), Space::new());
    let cables = [
        Cable::new(tap(&near, "pod", "10.9.0.1/24"), end(&one, kind, here, there)),
        Cable::new(tap(&far, "pod", "10.9.0.2/24"), end(&other, kind, there, here)),
    ];
    near.ip("address add fd09::1/64 dev pod nodad");
    far.ip("address add fd09::2/64 dev pod nodad");
    stream::exchange(&near, &far, "10.9.0.2:80".parse().unwrap());
    stream::exchange(&near, &far, "[fd09::2]:80".parse().unwrap());
    stream::train(&near, "10.9.0.1:0", &far, "10.9.0.2:7");
    stream::train(&near, "[fd09::1]:0", &far, "[fd09::2]:7");
    for cable in &cables {
        assert!(cable.seen.largest[0].load(Ordering::Relaxed) > 30_000, "the pod sends large frames");
    }
    cables
}

fn as_it_is(_: &Space, _: &Space) {}

#[test]
fn a_stream_crosses_vxlan() {
    isolated("udp_tunnel::a_stream_crosses_vxlan", true, || {
        for cable in exchange(TunnelKind::Vxlan, ["10.3.0.1", "10.3.0.2"], as_it_is) {
            assert!(cable.seen.largest[1].load(Ordering::Relaxed) > 30_000, "trains are joined");
        }
    });
}

#[test]
fn a_stream_crosses_geneve_over_ipv6() {
    isolated("udp_tunnel::a_stream_crosses_geneve_over_ipv6", true, || {
        for cable in exchange(TunnelKind::Geneve, ["fd03::1", "fd03::2"], as_it_is) {
            assert!(cable.seen.largest[1].load(Ordering::Relaxed) > 30_000, "trains are joined");
        }
    });
}

#[test]
fn a_stream_crosses_a_wire_of_single_frames() {
    isolated("udp_tunnel::a_stream_crosses_a_wire_of_single_frames", true, || {
        let single = |one: &Space, other: &Space| {
            one.ip("link set left gso_max_segs 1");
            other.ip("link set right gso_max_segs 1");
        };
        for cable in exchange(TunnelKind::Vxlan, ["10.3.0.1", "10.3.0.2"], single) {
            assert!(cable.seen.largest[1].load(Ordering::Relaxed) > 2000, "frames that arrive one by one are joined");
        }
    });
}

#[test]
fn the_kernels_own_vxlan_understands_us_and_we_it() {
    isolated("udp_tunnel::the_kernels_own_vxlan_understands_us_and_we_it", true, || {
        let (one, other) = nodes();
        other.ip("link add overlay type vxlan id 4096 remote 10.3.0.1 local 10.3.0.2 dstport 4789 dev right");
        other.ip("address add 10.9.0.2/24 dev overlay");
        other.ip("link set overlay up");
        let pod = Space::new();
        let _cable = Cable::new(tap(&pod, "pod", "10.9.0.1/24"), end(&one, TunnelKind::Vxlan, "10.3.0.1", "10.3.0.2"));
        stream::exchange(&pod, &other, "10.9.0.2:80".parse().unwrap());
    });
}

#[test]
fn a_frame_arrives_with_what_was_popped() {
    isolated("udp_tunnel::a_frame_arrives_with_what_was_popped", false, || {
        for (kind, local, remote) in [(TunnelKind::Vxlan, "10.3.0.1", "10.3.0.2"), (TunnelKind::Geneve, "fd03::1", "fd03::2")] {
            let (one, other) = nodes();
            let sender = open(&one, kind, local).into_nic().sender;
            let mut receiver = open(&other, kind, remote).into_nic().receiver;
            let bytes = ipv4(THEIRS, 17, ["10.9.0.1", "10.9.0.2"], 0, &udp([1, 2], b"through the tunnel"));
            sender.send(&mut Frame::from_bytes(&bytes), Some(&to(kind, local, remote))).unwrap();
            let (frame, popped) = expect(receiver.as_mut(), |_| true);
            assert_eq!(frame.bytes(), bytes);
            assert_eq!(popped, Some(to(kind, remote, local)));
            let error = sender.send(&mut Frame::from_bytes(&bytes), None).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "it must be said where to");
        }
    });
}

#[test]
fn datagrams_that_are_none_of_the_tunnels_are_counted() {
    isolated("udp_tunnel::datagrams_that_are_none_of_the_tunnels_are_counted", false, || {
        let (one, other) = nodes();
        let tunnel = open(&other, TunnelKind::Vxlan, "10.3.0.2");
        let malformed = tunnel.malformed();
        let mut receiver = tunnel.into_nic().receiver;
        let socket = one.run(|| UdpSocket::bind("10.3.0.1:0")).unwrap();
        let garbage: [&[u8]; 5] = [b"", b"short", &[0; 100], &[8, 0, 0, 0, 0, 0, 1, 0], &[0xf7; 1400]];
        for datagram in garbage {
            socket.send_to(datagram, "10.3.0.2:4789").unwrap();
        }
        let sound = [&[8, 0, 0, 0, 0, 0, 7, 0][..], b"not much of a frame"].concat();
        socket.send_to(&sound, "10.3.0.2:4789").unwrap();
        let (frame, popped) = expect(receiver.as_mut(), |_| true);
        assert_eq!(frame.bytes(), b"not much of a frame");
        assert_eq!(popped.unwrap().vni, 7);
        assert_eq!(malformed.get(), garbage.len() as u64);
    });
}

#[test]
fn a_train_with_garbage_in_it_loses_only_that() {
    isolated("udp_tunnel::a_train_with_garbage_in_it_loses_only_that", false, || {
        let (one, other) = nodes();
        let tunnel = open(&other, TunnelKind::Vxlan, "10.3.0.2");
        let malformed = tunnel.malformed();
        let mut receiver = tunnel.into_nic().receiver;
        let socket = one.run(|| UdpSocket::bind("10.3.0.1:0")).unwrap();
        let train = [[8, 0, 0, 0, 0, 0, 1, 0, b'a', b'a'], [0; 10], [8, 0, 0, 0, 0, 0, 2, 0, b'b', b'b']].concat();
        let last = [&train[..], &[8, 0, 0]].concat();
        send_train(&socket, &last, 10, "10.3.0.2:4789");
        let frames = collect(receiver.as_mut(), Duration::from_millis(200));
        let frames: Vec<_> = frames.iter().map(Frame::bytes).collect();
        assert_eq!(frames, [b"aa", b"bb"]);
        assert_eq!(malformed.get(), 2);
    });
}

#[test]
fn flows_are_spread_over_transport_ports() {
    isolated("udp_tunnel::flows_are_spread_over_transport_ports", false, || {
        let (one, other) = nodes();
        let sender = open(&one, TunnelKind::Vxlan, "10.3.0.1").into_nic().sender;
        let index = other.index("right");
        let mut watcher = other.run(|| PacketSocket::open("right", index, &PacketSocketOptions::default())).unwrap().nic().receiver;
        let mut source_port = |inner: u16, text: &[u8]| {
            let bytes = ipv4(THEIRS, 17, ["10.9.0.1", "10.9.0.2"], 0, &udp([inner, 2], text));
            sender.send(&mut Frame::from_bytes(&bytes), Some(&to(TunnelKind::Vxlan, "10.3.0.1", "10.3.0.2"))).unwrap();
            let (outer, _) = expect(watcher.as_mut(), |frame| frame.bytes().ends_with(text));
            Headers::parse(outer.bytes()).unwrap().id.source_port
        };
        let ports: HashSet<_> = (0..64).map(|inner| source_port(inner, &inner.to_be_bytes())).collect();
        assert!((4..=8).contains(&ports.len()), "{} ports for 64 flows", ports.len());
        assert_eq!(source_port(9, b"once"), source_port(9, b"more"), "a flow has one port");
    });
}

#[test]
fn what_is_too_large_is_reported_or_sent_in_fragments() {
    isolated("udp_tunnel::what_is_too_large_is_reported_or_sent_in_fragments", false, || {
        let (one, other) = nodes();
        let sender = open(&one, TunnelKind::Vxlan, "10.3.0.1").into_nic().sender;
        let mut receiver = open(&other, TunnelKind::Vxlan, "10.3.0.2").into_nic().receiver;
        let send = |flags| {
            let bytes = ipv4(THEIRS, 17, ["10.9.0.1", "10.9.0.2"], flags, &udp([1, 2], &[3; 1500]));
            sender.send(&mut Frame::from_bytes(&bytes), Some(&to(TunnelKind::Vxlan, "10.3.0.1", "10.3.0.2")))
        };
        assert_eq!(send(DO_NOT_FRAGMENT).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        send(0).unwrap();
        let (frame, _) = expect(receiver.as_mut(), |_| true);
        assert_eq!(frame.len(), 14 + 20 + 8 + 1500);
    });
}

#[test]
fn a_tunnel_stays_on_its_adapter() {
    isolated("udp_tunnel::a_tunnel_stays_on_its_adapter", false, || {
        let (one, other) = nodes();
        // The machine's own route to the other node leads elsewhere.
        one.ip("link add elsewhere type veth peer name nowhere");
        one.ip("link set elsewhere up");
        one.ip("route add 10.3.0.2/32 dev elsewhere");
        let options = |adapter: &str| UdpTunnelOptions {
            adapter: Some(adapter.to_owned()),
            ..UdpTunnelOptions::new(TunnelKind::Vxlan, "10.3.0.1".parse().unwrap(), PORT)
        };
        let sender = one.run(|| UdpTunnel::open(&options("left"))).unwrap().into_nic().sender;
        let mut receiver = open(&other, TunnelKind::Vxlan, "10.3.0.2").into_nic().receiver;
        let bytes = ipv4(THEIRS, 17, ["10.9.0.1", "10.9.0.2"], 0, &udp([1, 2], b"on the right way"));
        sender.send(&mut Frame::from_bytes(&bytes), Some(&to(TunnelKind::Vxlan, "10.3.0.1", "10.3.0.2"))).unwrap();
        expect(receiver.as_mut(), |frame| frame.bytes() == bytes);
        let error = one.run(|| UdpTunnel::open(&options("missing"))).unwrap_err();
        assert!(error.to_string().contains("no such adapter"), "{error}");
    });
}

#[test]
fn errors_say_what_helps() {
    isolated("udp_tunnel::errors_say_what_helps", false, || {
        let (one, _other) = nodes();
        let refused = |kind, local: &str| {
            let options = UdpTunnelOptions::new(kind, local.parse().unwrap(), PORT);
            one.run(|| UdpTunnel::open(&options)).unwrap_err().to_string()
        };
        let _first = open(&one, TunnelKind::Vxlan, "10.3.0.1");
        let error = refused(TunnelKind::Vxlan, "10.3.0.1");
        assert!(error.starts_with("VXLAN on 10.3.0.1:4789: ") && error.contains("has this port"), "{error}");
        let error = refused(TunnelKind::Vxlan, "10.77.0.1");
        assert!(error.ends_with("give the address to an adapter of this machine first"), "{error}");
        assert!(refused(TunnelKind::Stt, "10.3.0.1").contains("STT does not travel in UDP"));
    });
}
