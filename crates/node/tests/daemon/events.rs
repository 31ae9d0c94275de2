//! Following the service.

use std::io::{BufRead, BufReader, Write};
use std::thread;

use hcn::event::Event;
use hcn::{Error, Guid, Hcn, Kind};
use serde_json::Value;

use crate::documents;
use crate::hnsd::Hnsd;

/// As many events as the service keeps.
const KEPT: u64 = 8192;

const GONE: u64 = 0x803B_0031;

/// Reads a line of a body in chunks: each line of ours comes as part of a chunk, and the lines between are HTTP's.
fn next_line(lines: &mut impl Iterator<Item = std::io::Result<String>>) -> String {
    lines.next().expect("there is more").expect("it can be read").trim_end().to_owned()
}

#[test]
fn a_follower_sees_a_blank_line_and_then_what_happens() {
    let (_place, hnsd) = Hnsd::new();
    let mut stream = hnsd.connect();
    stream.write_all(b"GET /v2/events HTTP/1.1\r\nHost: hns\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    let head: Vec<String> = std::iter::from_fn(|| Some(next_line(&mut lines)).filter(|line| !line.is_empty())).collect();
    assert_eq!(head[0], "HTTP/1.1 200 OK");
    assert!(head.iter().any(|line| line == "content-type: application/x-ndjson"), "{head:?}");
    // A chunk of one byte: the blank line.
    assert_eq!([next_line(&mut lines), next_line(&mut lines), next_line(&mut lines)], ["1", "", ""]);
    let id = hnsd.create(Kind::Namespace, &documents::namespace());
    let created = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let created = created.filter(|event| event.is_object()).find(|event| event["Change"] == "Created").unwrap();
    assert_eq!((created["Kind"].as_str(), created["ID"].as_str()), (Some("Namespace"), Some(id.to_string().as_str())));
}

/// The number of the newest event. What the first one's is, is hnsd's own affair.
fn newest(hnsd: &Hnsd) -> u64 {
    hnsd.get("/v2/metrics").ok().json()["Events"].as_u64().unwrap()
}

#[test]
fn a_follower_goes_on_where_it_was() {
    let (_place, hnsd) = Hnsd::new();
    let start = newest(&hnsd);
    let ids: Vec<Guid> = (0..5).map(|_| hnsd.create(Kind::Namespace, &documents::namespace())).collect();
    let after = |number| -> Vec<Event> {
        let events = hnsd.client().events_since(Some(number)).unwrap().map(Result::unwrap);
        events.take_while(|event| event.id != ids[4]).collect()
    };
    let all = after(start);
    let sequences: Vec<u64> = all.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (start + 1..=start + 4).collect::<Vec<_>>());
    assert_eq!(after(start + 3), all[3..]);
}

#[test]
fn events_that_are_not_kept_are_gone() {
    let (_place, hnsd) = Hnsd::new();
    for since in [newest(&hnsd) + 1, u64::MAX] {
        hnsd.get(&format!("/v2/events?since={since}")).refused(410, GONE);
        let error = hnsd.client().events_since(Some(since)).unwrap_err();
        assert!(matches!(error, Error::ObjectUsedAfterUnload(_)), "{error:?}");
    }
}

#[test]
fn events_before_a_restart_are_gone() {
    let (place, hnsd) = Hnsd::new();
    hnsd.create(Kind::Namespace, &documents::namespace());
    let last = newest(&hnsd);
    hnsd.kill();
    let again = place.start(&[]);
    for _ in 0..5 {
        again.create(Kind::Namespace, &documents::namespace());
    }
    again.get(&format!("/v2/events?since={last}")).refused(410, GONE);
}

#[test]
fn a_follower_that_never_reads_holds_up_nobody() {
    let (_place, hnsd) = Hnsd::new();
    let mut sleeper = hnsd.connect();
    sleeper.write_all(b"GET /v2/events HTTP/1.1\r\nHost: hns\r\n\r\n").unwrap();
    let late = hnsd.client().events_since(None).unwrap();
    let start = newest(&hnsd);
    thread::scope(|scope| {
        let hnsd = &hnsd;
        for number in 1..=8 {
            scope.spawn(move || make_and_delete(hnsd, number));
        }
    });
    // Who reads late gets everything in order, or is cut off to list anew; nothing is left out.
    let sequences: Vec<u64> = late.map_while(Result::ok).map(|event| event.sequence).take(100).collect();
    assert_eq!(sequences, (start + 1..=start + 100).collect::<Vec<_>>());
    assert_forgotten(&hnsd, start);
    hnsd.assert_works();
    drop(sleeper);
}

/// Of many events only the last are kept.
fn assert_forgotten(hnsd: &Hnsd, start: u64) {
    let newest = newest(hnsd);
    assert!(newest - start > KEPT, "{} events are too few to forget any", newest - start);
    hnsd.get(&format!("/v2/events?since={start}")).refused(410, GONE);
    hnsd.get(&format!("/v2/events?since={}", newest - KEPT - 1)).refused(410, GONE);
    let first = hnsd.client().events_since(Some(newest - KEPT)).unwrap().next().unwrap().unwrap();
    assert_eq!(first.sequence, newest - KEPT + 1);
}

/// Makes and deletes a network again and again, which is four events each time.
fn make_and_delete(hnsd: &Hnsd, number: u8) {
    let (client, network) = (hnsd.client(), documents::other_network(number).to_string());
    for _ in 0..260 {
        let id = client.create(Kind::Network, None, None, &network).unwrap();
        client.delete(Kind::Network, id).unwrap();
    }
}
