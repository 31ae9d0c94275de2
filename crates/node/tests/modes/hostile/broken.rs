//! Frames that are not right.

use std::thread;
use std::time::Duration;

use super::{Scene, ethernet, frame, scene, send};
use crate::frames::Carries;
use crate::harness::{Sniffer, eventually, run, tcp};

/// Bytes without any order, but the same every time.
pub(super) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// A datagram from the bad pod to another.
fn datagram(scene: &Scene, payload: &[u8]) -> Vec<u8> {
    frame((scene.bad.mac, scene.good.mac), scene.bad.v4(), scene.good.v4(), Carries::Udp(0x1000, 0x2000), payload)
}

#[test]
fn broken_frames_are_dropped_and_counted() {
    run("hostile::broken::broken_frames_are_dropped_and_counted", || {
        let mut scene = scene();
        let (to, from) = (scene.good.mac, scene.bad.mac);
        let whole = datagram(&scene, &[7; 100]);
        let v6 = ethernet(to, from, 0x86dd, &noise(6, 200));
        let cut = |frame: &Vec<u8>| (15..frame.len()).step_by(3).map(|length| frame[..length].to_vec()).collect::<Vec<_>>();
        let mut frames = [cut(&whole), cut(&v6)].concat();
        for kind in [0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x8847, 0x1234] {
            frames.extend((0..200).map(|seed| ethernet(to, from, kind, &noise(seed, 1 + seed as usize * 7))));
        }
        frames.extend((0..200).map(|seed| noise(seed, 60 + seed as usize)));
        let sent = send(&scene.bad, &frames);
        assert!(sent > frames.len() / 2, "the kernel took {sent} of {}", frames.len());
        let counted =
            || scene.world.one().port("pod1-11")["Drops"].as_object().map_or(0, |drops| drops.values().filter_map(|n| n.as_u64()).sum());
        eventually("most of it is counted", || counted() > sent as u64 / 2);
        scene.others_are_fine();
        tcp(&scene.bad, scene.good.v4());
    });
}

#[test]
fn frames_that_are_too_large_are_dropped() {
    run("hostile::broken::frames_that_are_too_large_are_dropped", || {
        let mut scene = scene();
        // The kernel lets a link carry more than the switch has agreed to.
        scene.bad.ip("link set eth0 mtu 9000");
        let frame = datagram(&scene, &[7; 8000]);
        let inside = Sniffer::start(&scene.good);
        send(&scene.bad, &vec![frame; 20]);
        thread::sleep(Duration::from_millis(200));
        assert!(inside.arrived("eth0").iter().all(|frame| frame.bytes.len() <= 1514), "the neighbour got more than its NIC takes");
        scene.others_are_fine();
    });
}
