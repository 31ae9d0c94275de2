//! State files that cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hcn::{Hcn, Kind};

use crate::documents::{self, NETWORK};
use crate::hnsd::{Hnsd, Place};

/// Where the format number stands.
const FORMAT: std::ops::Range<usize> = 12..16;

/// A place with a state in which something was done, and the bytes of it.
fn with_state() -> (Place, Vec<u8>) {
    let (place, hnsd) = Hnsd::with_network();
    for number in 0..5 {
        hnsd.create(Kind::Endpoint, &documents::endpoint(&format!("pod{number}")));
    }
    assert!(hnsd.stop("TERM").success());
    let bytes = fs::read(place.journal()).unwrap();
    (place, bytes)
}

/// Starts hnsd, which must refuse and leave the file alone. Returns what it said.
#[track_caller]
fn refused(place: &Place, options: &[&str]) -> String {
    let before = fs::read(place.journal()).unwrap();
    let (code, said) = place.refuses(&mut place.command(options));
    assert_ne!(code, 0, "{said}");
    assert!(said.contains(&place.journal().display().to_string()), "{said}");
    assert!(fs::read(place.journal()).unwrap() == before, "the file was left as it is");
    assert!(!place.home.socket().exists());
    said
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let (place, bytes) = with_state();
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        bytes
    };
    let damages = [Vec::new(), bytes[..7].to_vec(), b"{\"Version\": 3}, or so it says".to_vec(), flipped(3), flipped(20), flipped(100)];
    for damage in damages {
        fs::write(place.journal(), &damage).unwrap();
        let said = refused(&place, &[]);
        assert!(said.contains("--set-aside-unreadable-state"), "{said}");
    }
    // Nothing was lost by all this.
    fs::write(place.journal(), &bytes).unwrap();
    assert_eq!(place.start(&[]).client().enumerate(Kind::Endpoint, "").unwrap().len(), 5);
}

#[test]
fn a_damaged_file_is_kept_when_it_is_set_aside() {
    let (place, mut bytes) = with_state();
    bytes[100] ^= 1;
    for number in 1..3 {
        fs::write(place.journal(), &bytes).unwrap();
        let hnsd = place.start(&["--set-aside-unreadable-state"]);
        assert!(hnsd.client().enumerate(Kind::Network, "").unwrap().is_empty());
        let aside = place.path(&format!("state/hns.journal.unreadable-{number}"));
        assert!(fs::read(&aside).unwrap() == bytes);
        assert!(place.home.last_words().contains(&aside.display().to_string()), "{}", place.home.last_words());
        hnsd.create(Kind::Network, &documents::network());
        hnsd.kill();
    }
    assert_eq!(place.start(&[]).client().enumerate(Kind::Network, "").unwrap(), [NETWORK]);
}

#[test]
fn setting_aside_does_nothing_to_a_file_that_can_be_read() {
    let (place, _) = with_state();
    let hnsd = place.start(&["--set-aside-unreadable-state"]);
    assert_eq!(hnsd.client().enumerate(Kind::Endpoint, "").unwrap().len(), 5);
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let (place, mut bytes) = with_state();
    bytes[FORMAT].copy_from_slice(&7_u32.to_le_bytes());
    fs::write(place.journal(), &bytes).unwrap();
    for options in [&[][..], &["--set-aside-unreadable-state"]] {
        let said = refused(&place, options);
        assert!(said.contains("format 7"), "{said}");
    }
}

#[test]
fn a_change_that_was_cut_off_is_dropped() {
    let (place, bytes) = with_state();
    fs::write(place.journal(), &bytes[..bytes.len() - 3]).unwrap();
    let hnsd = place.start(&[]);
    assert_eq!(hnsd.client().enumerate(Kind::Endpoint, "").unwrap().len(), 4);
}

#[test]
fn the_state_is_for_its_owner() {
    let (place, _) = with_state();
    assert_eq!(fs::metadata(place.journal()).unwrap().permissions().mode() & 0o777, 0o600);
}
