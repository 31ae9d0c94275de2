//! Packet sockets.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use host::nic::packet_socket::{LeftOut, PacketSocket, PacketSocketOptions, Share};
use wire::{Checksum, Encapsulation, Frame, Headers, MacAddress, Offload, Segmentation, SegmentationKind};

use crate::cable::{Cable, collect, expect, is_readable, until};
use crate::packet::{THEIRS, ipv4, send_train, udp};
use crate::space::{Space, isolated, joined};
use crate::stream;
use crate::tap::tap;

fn open(space: &Space, adapter: &str, options: &PacketSocketOptions) -> PacketSocket {
    let index = space.index(adapter);
    space.run(|| PacketSocket::open(adapter, index, options)).expect("a packet socket")
}

fn promiscuous() -> PacketSocketOptions {
    PacketSocketOptions { promiscuous: true, ..PacketSocketOptions::default() }
}

#[test]
fn a_stream_crosses_a_veth_pair_in_large_frames() {
    isolated("packet_socket::a_stream_crosses_a_veth_pair_in_large_frames", true, || {
        let (machine, uplink) = joined();
        let pod = Space::new();
        machine.ip("address add 10.2.0.1/24 dev left");
        machine.ip("address add fd02::1/64 dev left nodad");
        let inside = tap(&pod, "pod", "10.2.0.2/24");
        pod.ip("address add fd02::2/64 dev pod nodad");
        let cable = Cable::new(open(&uplink, "right", &promiscuous()).nic(), inside);
        stream::exchange(&machine, &pod, "10.2.0.2:80".parse().unwrap());
        stream::exchange(&pod, &machine, "[fd02::1]:80".parse().unwrap());
        for largest in &cable.seen.largest {
            assert!(largest.load(Ordering::Relaxed) > 30_000, "{}", largest.load(Ordering::Relaxed));
        }
    });
}

#[test]
fn a_stream_crosses_a_wire_of_single_frames() {
    isolated("packet_socket::a_stream_crosses_a_wire_of_single_frames", true, || {
        let (machine, uplink) = joined();
        let pod = Space::new();
        machine.ip("address add 10.2.0.1/24 dev left");
        // The kernel cuts frames before they leave.
        uplink.ip("link set right gso_max_segs 1");
        machine.ip("link set left gso_max_segs 1");
        let inside = tap(&pod, "pod", "10.2.0.2/24");
        let cable = Cable::new(open(&uplink, "right", &promiscuous()).nic(), inside);
        stream::exchange(&pod, &machine, "10.2.0.1:80".parse().unwrap());
        assert!(cable.seen.largest[1].load(Ordering::Relaxed) > 30_000);
        assert!(cable.seen.largest[0].load(Ordering::Relaxed) <= 1514);
    });
}

#[test]
fn datagrams_of_the_overlay_are_left_out() {
    isolated("packet_socket::datagrams_of_the_overlay_are_left_out", false, || {
        let (machine, node) = joined();
        machine.ip("address add 10.2.0.1/24 dev left");
        machine.ip("address add fd02::1/64 dev left nodad");
        node.ip("address add 10.2.0.2/24 dev right");
        node.ip("address add 10.2.0.3/24 dev right");
        node.ip("address add fd02::2/64 dev right nodad");
        let datagrams: Vec<SocketAddr> = vec!["10.2.0.2:4789".parse().unwrap(), "[fd02::2]:4789".parse().unwrap()];
        let left_out = LeftOut { datagrams: datagrams.clone(), sources: vec![] };
        let socket = open(&node, "right", &PacketSocketOptions { left_out, ..PacketSocketOptions::default() });
        let mut nic = socket.nic();
        let kernel: Vec<_> = datagrams.iter().map(|address| node.run(|| UdpSocket::bind(address)).unwrap()).collect();
        let senders = machine.run(|| [UdpSocket::bind("10.2.0.1:0"), UdpSocket::bind("[fd02::1]:0")]).map(Result::unwrap);
        let send = |to: &str, data: &[u8]| {
            let to: SocketAddr = to.parse().unwrap();
            senders[usize::from(to.is_ipv6())].send_to(data, to).unwrap();
        };
        for to in ["10.2.0.2:4789", "10.2.0.2:4790", "10.2.0.3:4789", "[fd02::2]:4789", "[fd02::2]:4790"] {
            send(to, to.as_bytes());
        }
        let mut seen = Vec::new();
        let saw = |seen: &[Frame], text: &str| seen.iter().any(|frame| frame.bytes().ends_with(text.as_bytes()));
        until("the others arrive", || {
            seen.extend(collect(nic.receiver.as_mut(), Duration::from_millis(50)));
            ["10.2.0.2:4790", "10.2.0.3:4789", "[fd02::2]:4790"].iter().all(|to| saw(&seen, to))
        });
        assert!(!saw(&seen, "10.2.0.2:4789") && !saw(&seen, "[fd02::2]:4789"));
        for (socket, address) in kernel.iter().zip(&datagrams) {
            let mut data = [0; 64];
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let length = socket.recv(&mut data).expect("the kernel delivers it");
            assert_eq!(data[..length], *address.to_string().as_bytes());
        }
        // In fragments it is nobody's yet.
        send("10.2.0.2:4789", &[7; 3000]);
        expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(&[7; 100]));
        socket.leave_out(&LeftOut::default()).unwrap();
        send("10.2.0.2:4789", b"no longer left out");
        expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"no longer left out"));
    });
}

#[test]
fn senders_are_left_out_by_their_address() {
    isolated("packet_socket::senders_are_left_out_by_their_address", false, || {
        let (machine, node) = joined();
        let sender = open(&machine, "left", &PacketSocketOptions::default()).nic().sender;
        let left_out = LeftOut { datagrams: vec![], sources: vec![MacAddress(crate::packet::OURS)] };
        let mut nic = open(&node, "right", &PacketSocketOptions { promiscuous: true, left_out, ..PacketSocketOptions::default() }).nic();
        let mut bytes = ipv4(THEIRS, 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 2], b"from us"));
        sender.send(&mut Frame::from_bytes(&bytes), None).unwrap();
        bytes[11] ^= 8;
        sender.send(&mut Frame::from_bytes(&bytes), None).unwrap();
        let (frame, _) = expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"from us"));
        assert_eq!(frame.bytes(), bytes);
    });
}

#[test]
fn a_tag_that_the_kernel_took_out_is_put_back() {
    isolated("packet_socket::a_tag_that_the_kernel_took_out_is_put_back", false, || {
        let (machine, node) = joined();
        let mut nic = open(&node, "right", &promiscuous()).nic();
        let sender = open(&machine, "left", &PacketSocketOptions::default()).nic().sender;
        let mut bytes = ipv4(THEIRS, 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 4789], b"behind a tag"));
        bytes.splice(12..12, [0x81, 0, 0x60, 7]);
        sender.send(&mut Frame::from_bytes(&bytes), None).unwrap();
        let (frame, _) = expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"behind a tag"));
        assert_eq!(frame.bytes(), bytes);
        let headers = Headers::parse(frame.bytes()).unwrap();
        assert_eq!(headers.vlan, Some(7));
    });
}

#[test]
fn every_vlan_has_a_socket_of_its_own() {
    isolated("packet_socket::every_vlan_has_a_socket_of_its_own", false, || {
        let (machine, node) = joined();
        let of = |share| PacketSocketOptions { share, promiscuous: true, ..PacketSocketOptions::default() };
        let shares = [Share::Untagged, Share::Vlan(100), Share::Vlan(200)];
        let mut whole = open(&node, "right", &of(Share::Whole)).nic();
        let mut receivers = shares.map(|share| open(&node, "right", &of(share)).nic());
        let senders = shares.map(|share| open(&machine, "left", &of(share)).nic().sender);
        let bytes = ipv4(THEIRS, 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 4789], b"in its VLAN"));
        for ((sender, receiver), vlan) in senders.iter().zip(&mut receivers).zip([None, Some(100), Some(200)]) {
            let mut frame = Frame::from_bytes(&bytes);
            sender.send(&mut frame, None).unwrap();
            assert_eq!(frame.bytes(), bytes, "the frame is as it was");
            let (frame, _) = expect(receiver.receiver.as_mut(), |frame| frame.bytes().ends_with(b"in its VLAN"));
            assert_eq!(frame.bytes(), bytes, "{vlan:?}");
            let (frame, _) = expect(whole.receiver.as_mut(), |frame| frame.bytes().ends_with(b"in its VLAN"));
            assert_eq!(Headers::parse(frame.bytes()).unwrap().vlan, vlan);
        }
        for receiver in &mut receivers {
            let mut others = 0;
            let mut count = |frame: &mut Frame, _: Option<&Encapsulation>| others += usize::from(frame.bytes().ends_with(b"in its VLAN"));
            receiver.receiver.receive(64, &mut count).unwrap();
            assert_eq!(others, 0, "nobody has frames of others");
        }
        let mut tagged = bytes.clone();
        tagged.splice(12..12, [0x81, 0, 0, 100]);
        assert!(senders[0].send(&mut Frame::from_bytes(&tagged), None).is_err(), "nobody gets into a VLAN by a tag of one's own");
    });
}

#[test]
fn a_large_frame_crosses_a_vlan_whole_or_in_pieces() {
    isolated("packet_socket::a_large_frame_crosses_a_vlan_whole_or_in_pieces", false, || {
        let (machine, node) = joined();
        let of = |share| PacketSocketOptions { share, promiscuous: true, ..PacketSocketOptions::default() };
        let mut nic = open(&node, "right", &of(Share::Vlan(100))).nic();
        let sender = open(&machine, "left", &of(Share::Vlan(100))).nic().sender;
        let payload: Vec<u8> = (0..2500).map(|number| number as u8).collect();
        for offloaded in [true, false] {
            if !offloaded {
                machine.ip("link set left gso_max_size 1500");
            }
            let bytes = ipv4(THEIRS, 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 4789], &payload));
            let mut frame = Frame::from_bytes(&bytes);
            let segmentation = Segmentation { kind: SegmentationKind::Udp, size: 1000, header_length: 42 };
            frame.offload = Offload { checksum: Checksum::Partial { start: 34, field: 6 }, segmentation: Some(segmentation) };
            // What the checksum is of besides the datagram stands in its field until it is complete.
            let pseudo = wire::checksum::sum(&[&bytes[26..34], &[0, 17], &bytes[38..40]].concat());
            frame.bytes_mut()[40..42].copy_from_slice(&pseudo.to_be_bytes());
            sender.send(&mut frame, None).unwrap();
            let mut arrived = Vec::new();
            until("all of it is there", || {
                nic.receiver
                    .receive(8, &mut |frame, _| {
                        if frame.bytes().len() > 42 && frame.bytes()[23] == 17 && frame.bytes()[36..38] == 4789_u16.to_be_bytes() {
                            arrived.extend_from_slice(&frame.bytes()[42..]);
                        }
                    })
                    .unwrap();
                arrived.len() >= payload.len()
            });
            assert_eq!(arrived, payload);
        }
    });
}

#[test]
fn what_is_inside_a_foreign_tunnel_is_made_whole_or_dropped() {
    isolated("packet_socket::what_is_inside_a_foreign_tunnel_is_made_whole_or_dropped", false, || {
        let (machine, node) = joined();
        machine.ip("address add 10.2.0.1/24 dev left");
        machine.ip("neigh add 10.2.0.2 lladdr 02:00:00:00:00:02 dev left");
        machine.ip("link add overlay type vxlan id 5 remote 10.2.0.2 dstport 4789 local 10.2.0.1 dev left");
        machine.ip("address add 10.9.0.1/24 dev overlay");
        machine.ip("link set overlay up");
        machine.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev overlay");
        let socket = open(&node, "right", &promiscuous());
        let mut nic = socket.nic();
        let sender = machine.run(|| UdpSocket::bind("10.9.0.1:0")).unwrap();
        sender.send_to(b"inside", "10.9.0.2:9").unwrap();
        let (frame, _) = expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"inside"));
        let inner = &frame.bytes()[50..];
        assert!(Headers::parse(frame.bytes()).unwrap().check_offload(&frame).is_ok());
        let packet = etherparse::PacketHeaders::from_ethernet_slice(inner).unwrap();
        let Some(etherparse::TransportHeader::Udp(header)) = packet.transport else { panic!("no UDP inside") };
        let Some(etherparse::NetHeaders::Ipv4(ip, _)) = packet.net else { panic!("no IPv4 inside") };
        assert_eq!(header.checksum, header.calc_checksum_ipv4(&ip, b"inside").unwrap());
        send_train(&sender, &[1; 8000], 1000, "10.9.0.2:9");
        let frames = collect(nic.receiver.as_mut(), Duration::from_millis(200));
        assert!(frames.iter().all(|frame| frame.len() < 5000), "a frame that nobody can cut was delivered");
        assert_eq!(socket.dropped(), 1);
    });
}

#[test]
fn an_adapter_that_is_down_delivers_nothing_and_one_that_is_gone_is_an_error() {
    isolated("packet_socket::an_adapter_that_is_down_delivers_nothing_and_one_that_is_gone_is_an_error", false, || {
        let (machine, node) = joined();
        let mut nic = open(&node, "right", &PacketSocketOptions::default()).nic();
        let sender = open(&machine, "left", &PacketSocketOptions::default()).nic().sender;
        let mut frame = Frame::from_bytes(&ipv4([0xff; 6], 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 2], b"up")));
        sender.send(&mut frame, None).unwrap();
        expect(nic.receiver.as_mut(), |frame| frame.bytes().ends_with(b"up"));
        node.ip("link set right down");
        until("the socket says that something happened", || is_readable(nic.receiver.as_ref()));
        assert_eq!(nic.receiver.receive(8, &mut |_, _| {}).unwrap(), 0);
        let error = nic.sender.send(&mut frame, None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        node.ip("link set right up");
        until("the link works again", || {
            _ = sender.send(&mut frame.clone(), None);
            nic.receiver.receive(8, &mut |_, _| {}).unwrap() > 0
        });
        node.ip("link delete right");
        until("the socket says that something happened", || is_readable(nic.receiver.as_ref()));
        let error = (0..10_000).find_map(|_| nic.receiver.receive(8, &mut |_, _| {}).err()).expect("an error");
        assert!(error.to_string().starts_with("right is gone"), "{error}");
        let error = nic.sender.send(&mut frame, None).unwrap_err();
        assert!(error.to_string().starts_with("right is gone"), "{error}");
    });
}

#[test]
fn an_adapter_that_is_not_there() {
    isolated("packet_socket::an_adapter_that_is_not_there", false, || {
        let error = Space::new().run(|| PacketSocket::open("uplink7", 777, &PacketSocketOptions::default())).unwrap_err();
        assert!(error.to_string().starts_with("uplink7: could not bind to the adapter: "), "{error}");
        assert!(error.to_string().contains("no such adapter"), "{error}");
    });
}

#[test]
fn a_frame_larger_than_the_adapter_takes_is_refused() {
    isolated("packet_socket::a_frame_larger_than_the_adapter_takes_is_refused", false, || {
        let (machine, _node) = joined();
        let nic = open(&machine, "left", &PacketSocketOptions::default()).nic();
        let bytes = ipv4(THEIRS, 17, ["10.2.0.1", "10.2.0.2"], 0, &udp([1, 2], &[0; 1600]));
        let error = nic.sender.send(&mut Frame::from_bytes(&bytes), None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
    });
}
