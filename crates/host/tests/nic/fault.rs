//! A bad wire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use host::nic::fault::{Clock, FaultOptions, Faults, wrap};
use host::nic::{Nic, loopback, pipe};
use wire::Frame;

use crate::cable::{PATIENCE, is_readable, wait};

/// A clock that the test moves.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn clock(&self) -> Clock {
        let now = self.0.clone();
        Arc::new(move || Duration::from_millis(now.load(Ordering::Relaxed)))
    }

    fn pass(&self, milliseconds: u64) {
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }
}

fn inbound(inbound: Faults, seed: u64, time: &Time) -> Nic {
    let options = FaultOptions { inbound, seed, ..FaultOptions::default() };
    wrap(loopback::new(4096).unwrap(), &options, time.clock()).unwrap()
}

fn send(nic: &Nic, numbers: std::ops::Range<u16>) {
    for number in numbers {
        nic.sender.send(&mut Frame::from_bytes(&number.to_be_bytes()), None).unwrap();
    }
}

fn received(nic: &mut Nic) -> Vec<u16> {
    let mut numbers = Vec::new();
    let deliver = &mut |frame: &mut Frame, _: Option<&_>| numbers.push(u16::from_be_bytes(*frame.bytes().first_chunk().unwrap()));
    nic.receiver.receive(4096, deliver).unwrap();
    numbers
}

#[test]
fn without_faults_nothing_changes() {
    let mut nic = inbound(Faults::default(), 1, &Time::default());
    send(&nic, 0..100);
    assert_eq!(received(&mut nic), (0..100).collect::<Vec<_>>());
}

#[test]
fn loss_and_duplication_come_as_often_as_asked_and_the_same_for_the_same_seed() {
    let faults = Faults { loss: 0.2, duplication: 0.1, ..Faults::default() };
    let run = |seed| {
        let mut nic = inbound(faults, seed, &Time::default());
        send(&nic, 0..1000);
        received(&mut nic)
    };
    let numbers = run(42);
    let mut distinct = numbers.clone();
    distinct.dedup();
    assert!((740..860).contains(&distinct.len()), "{} arrived", distinct.len());
    assert!((50..120).contains(&(numbers.len() - distinct.len())), "{} twice", numbers.len() - distinct.len());
    assert_eq!(run(42), numbers);
    assert_ne!(run(43), numbers);
}

#[test]
fn delayed_frames_come_when_they_are_due_in_their_order() {
    let time = Time::default();
    let mut nic = inbound(Faults { delay: Duration::from_millis(10), ..Faults::default() }, 1, &time);
    send(&nic, 0..3);
    assert!(received(&mut nic).is_empty());
    time.pass(5);
    send(&nic, 3..5);
    assert!(received(&mut nic).is_empty());
    time.pass(5);
    assert_eq!(received(&mut nic), [0, 1, 2]);
    time.pass(5);
    assert_eq!(received(&mut nic), [3, 4]);
}

#[test]
fn frames_held_back_are_overtaken() {
    let time = Time::default();
    let faults = Faults { reordering: 0.3, held_back: Duration::from_millis(1), ..Faults::default() };
    let mut nic = inbound(faults, 7, &time);
    send(&nic, 0..100);
    let first = received(&mut nic);
    time.pass(1);
    let late = received(&mut nic);
    assert!((10..50).contains(&late.len()), "{} were late", late.len());
    let mut all = [first, late].concat();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn sent_frames_are_released_by_the_receiver_when_the_timer_says() {
    let (near, mut far) = pipe::pair(8).unwrap();
    let start = Instant::now();
    let outbound = Faults { delay: Duration::from_millis(20), ..Faults::default() };
    let options = FaultOptions { outbound, ..FaultOptions::default() };
    let mut nic = wrap(near, &options, Arc::new(move || start.elapsed())).unwrap();
    send(&nic, 0..2);
    assert!(!is_readable(nic.receiver.as_ref()) && received(&mut far).is_empty());
    let mut arrived = 0;
    while arrived < 2 {
        assert!(start.elapsed() < PATIENCE, "the frames never came");
        wait(&[nic.receiver.as_ref()], Duration::from_secs(1));
        received(&mut nic);
        arrived += received(&mut far).len();
    }
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(!is_readable(nic.receiver.as_ref()), "the timer rests");
}
