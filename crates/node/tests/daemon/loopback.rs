//! The loopback port and its token.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use hcn::client::{Address, Client};
use hcn::{Hcn, Kind};

use crate::documents;
use crate::hnsd::{Hnsd, Place};
use crate::request::Request;

const ACCESS_DENIED: u64 = 0x8007_0005;
const TOO_LARGE: u64 = 0x8007_00DF;

/// Starts an hnsd with a loopback port, and gives its token too.
fn start() -> (Place, Hnsd, String) {
    let place = Place::new();
    let (port, token) = (place.path("port"), place.path("token"));
    let mut command = place.command(&["--listen", "127.0.0.1:0"]);
    let hnsd = place.start_as(command.arg("--port-file").arg(port).arg("--token-file").arg(&token));
    let token = fs::read_to_string(token).unwrap().trim().to_owned();
    (place, hnsd, token)
}

#[test]
fn the_right_token_opens() {
    let (place, hnsd, token) = start();
    let request = Request::new("GET", "/healthz").header("Authorization", &format!("Bearer {token}"));
    request.over(hnsd.connect_tcp()).ok();
    let client = Client::new(Address::Tcp { address: ([127, 0, 0, 1], hnsd.port()).into(), token });
    client.create(Kind::Namespace, None, None, &documents::namespace().to_string()).unwrap();
    assert_eq!(hnsd.client().enumerate(Kind::Namespace, "").unwrap().len(), 1);
    assert_eq!(fs::metadata(place.path("token")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_token_that_is_there_is_kept() {
    let place = Place::new();
    let token = || fs::read_to_string(place.path("state/token")).unwrap();
    place.start(&["--listen", "127.0.0.1:0"]).kill();
    let first = token();
    place.start(&["--listen", "127.0.0.1:0"]).kill();
    assert_eq!(token(), first);
}

#[test]
fn nothing_opens_without_the_right_token() {
    let (_place, hnsd, token) = start();
    let (one_off, basic) = (format!("Bearer {}", &token[1..]), format!("Basic {token}"));
    let wrong: [Option<&str>; 5] = [None, Some("Bearer"), Some("Bearer guessed"), Some(&one_off), Some(&basic)];
    for given in wrong {
        for request in [Request::new("GET", "/healthz"), Request::post("/v2/namespaces", "{}"), Request::new("GET", "/nowhere")] {
            let request = given.into_iter().fold(request, |request, given| request.header("Authorization", given));
            let record = request.over(hnsd.connect_tcp()).refused(401, ACCESS_DENIED);
            assert_eq!(record["Field"], "Authorization", "{given:?}");
        }
    }
    assert!(hnsd.client().enumerate(Kind::Namespace, "").unwrap().is_empty());
}

#[test]
fn a_large_body_without_a_token_is_refused_all_the_same() {
    let (_place, hnsd, _token) = start();
    for length in [1 << 20, 5 << 20] {
        Request::post("/v2/networks", vec![b' '; length]).over(hnsd.connect_tcp()).refused(401, ACCESS_DENIED);
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let (_place, hnsd, token) = start();
    let request = Request::post("/v2/networks", vec![b' '; 5 << 20]).header("Authorization", &format!("Bearer {token}"));
    request.over(hnsd.connect_tcp()).refused(413, TOO_LARGE);
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let place = Place::new();
    let token = place.path("token");
    for (text, mode) in [("0123456789abcdef0123456789abcdef", 0o644), ("short", 0o600)] {
        fs::write(&token, text).unwrap();
        fs::set_permissions(&token, Permissions::from_mode(mode)).unwrap();
        let mut command = place.command(&["--listen", "127.0.0.1:0"]);
        let (code, said) = place.refuses(command.arg("--token-file").arg(&token));
        assert_ne!(code, 0);
        assert!(said.contains(&token.display().to_string()) && said.contains("delete it"), "{said}");
        assert_eq!(fs::read_to_string(&token).unwrap(), text);
        assert!(!place.home.socket().exists());
    }
}

#[test]
fn other_machines_are_not_listened_to() {
    let place = Place::new();
    for address in ["0.0.0.0:1", "[::]:0", "192.0.2.1:7777"] {
        let (code, said) = place.refuses(&mut place.command(&["--listen", address]));
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("loopback"), "{said}");
    }
}
