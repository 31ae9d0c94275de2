//! A disk that is full.

use std::fs;
use std::process::Command;

use hcn::{Error, Guid, Hcn, Kind};

use crate::documents;
use crate::hnsd::{Hnsd, Place};
use crate::request::Request;

const DISK_FULL: u64 = 0x8007_0070;

/// Starts an hnsd whose files cannot become larger than some blocks of 512 bytes.
fn start_limited(place: &Place, blocks: usize) -> Hnsd {
    let command = place.command(&[]);
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    let mut limited = Command::new("sh");
    limited.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    place.start_as(&mut limited)
}

/// Makes endpoints until there is no room for one more.
fn fill(hnsd: &Hnsd) -> Vec<Guid> {
    let (client, mut made) = (hnsd.client(), Vec::new());
    loop {
        match client.create(Kind::Endpoint, None, None, &documents::endpoint("pod").to_string()) {
            Ok(id) => made.push(id),
            Err(Error::DiskFull(_)) => return made,
            Err(error) => panic!("after {} endpoints: {error}", made.len()),
        }
        assert!(made.len() < 1000, "the limit is not in force");
    }
}

#[test]
fn changes_fail_reads_go_on_and_nothing_acknowledged_is_lost() {
    let place = Place::new();
    let hnsd = start_limited(&place, 64);
    hnsd.create(Kind::Network, &documents::network());
    let mut made = fill(&hnsd);
    assert!(made.len() > 3, "some fit: {made:?}");
    let (before, length) = (hnsd.everything(), fs::metadata(place.journal()).unwrap().len());
    for _ in 0..3 {
        let record = hnsd.ask(&Request::post("/v2/endpoints", documents::endpoint("pod").to_string())).refused(507, DISK_FULL);
        assert!(record["Remedy"].as_str().unwrap().contains("room"), "{record}");
    }
    assert_eq!(hnsd.everything(), before);
    assert_eq!(fs::metadata(place.journal()).unwrap().len(), length, "no half of a change stays behind");
    assert!(hnsd.stop("TERM").success());

    let again = place.start(&[]);
    made.push(again.create(Kind::Endpoint, &documents::endpoint("one more")));
    let mut there = again.client().enumerate(Kind::Endpoint, "").unwrap();
    there.sort();
    made.sort();
    assert_eq!(there, made);
}

#[test]
fn a_killed_one_with_a_full_disk_comes_back() {
    let place = Place::new();
    let hnsd = start_limited(&place, 64);
    hnsd.create(Kind::Network, &documents::network());
    let mut made = fill(&hnsd);
    hnsd.kill();
    let mut there = start_limited(&place, 64).client().enumerate(Kind::Endpoint, "").unwrap();
    there.sort();
    made.sort();
    assert_eq!(there, made);
}
