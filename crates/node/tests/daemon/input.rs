//! Everything that should not be sent: each is refused with a record, changes nothing, and hnsd goes on.

use std::io::{Read, Write};
use std::net::Shutdown;

use hcn::{Error, Hcn, Kind};

use crate::documents::{self, NETWORK};
use crate::hnsd::Hnsd;
use crate::request::{Answer, Request};

const INVALID_JSON: u64 = 0x803B_001B;
const INVALID_PARAMETER: u64 = 0x8007_0057;
const TOO_LARGE: u64 = 0x8007_00DF;
const NOT_FOUND: u64 = 0x8007_0490;
const UNSUPPORTED: u64 = 0x803B_0015;

/// More than hnsd reads.
const LARGE: usize = 5 << 20;

fn patch(path: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("PATCH", path).body(body)
}

/// Asks for each, and sees that it is refused and that nothing changes.
#[track_caller]
fn refused(cases: &[(&str, Request, u16, u64)]) {
    let (_place, hnsd) = Hnsd::with_network();
    let before = hnsd.everything();
    for (what, request, status, code) in cases {
        println!("{what}");
        hnsd.ask(request).refused(*status, *code);
        assert_eq!(hnsd.everything(), before, "{what} has changed something");
    }
    hnsd.assert_works();
}

#[test]
fn bodies_that_are_no_documents() {
    let deep = "[".repeat(10_000);
    let deep_value = format!(r#"{{"Name":"x","Type":"NAT","Extra":{}1{}}}"#, "[".repeat(9_999), "]".repeat(9_999));
    let network = format!("/v2/networks/{NETWORK}");
    refused(&[
        ("nothing", Request::post("/v2/networks", ""), 400, INVALID_JSON),
        ("half an object", Request::post("/v2/networks", r#"{"Name":"#), 400, INVALID_JSON),
        ("two objects", Request::post("/v2/networks", "{}{}"), 400, INVALID_JSON),
        ("no JSON", patch(&network, "Name=x"), 400, INVALID_JSON),
        ("no UTF-8", Request::post("/v2/networks", b"{\"Name\":\"\xFF\xFE\"}".as_slice()), 400, INVALID_JSON),
        ("NUL bytes", Request::post("/v2/networks", vec![0; 100]), 400, INVALID_JSON),
        ("a NUL byte in a name", Request::post("/v2/networks", "{\"Name\":\"a\0b\",\"Type\":\"NAT\"}"), 400, INVALID_JSON),
        ("brackets without end", Request::post("/v2/networks", deep.clone()), 400, INVALID_JSON),
        ("a deep document", Request::post("/v2/networks", deep_value), 400, INVALID_JSON),
        ("brackets in a change", patch(&network, deep.clone()), 400, INVALID_JSON),
        ("brackets in an old call", Request::post("/networks", deep), 400, INVALID_JSON),
        ("a huge number", Request::post("/v2/networks", r#"{"Flags":1e99999}"#), 400, INVALID_JSON),
        ("no UTF-8 in an old call", Request::post("/networks", b"\xC0\xAF".as_slice()), 400, INVALID_JSON),
    ]);
}

#[test]
fn values_of_the_wrong_type() {
    let (_place, hnsd) = Hnsd::with_network();
    let before = hnsd.everything();
    for body in ["[]", "7", "null", "\"text\"", r#"{"Name":7}"#, r#"{"Name":"x","Type":[]}"#, r#"{"Name":"x","Type":"NAT","Flags":1e30}"#] {
        for path in ["/v2/networks", "/v2/endpoints", "/v2/loadbalancers", "/v2/routes", "/networks", "/endpoints", "/policylists"] {
            hnsd.ask(&Request::post(path, body)).record();
        }
    }
    assert_eq!(hnsd.everything(), before);
}

#[test]
fn paths_and_methods_that_are_not_there() {
    let network = format!("/v2/networks/{NETWORK}");
    refused(&[
        ("a path nobody has", Request::new("GET", "/nowhere"), 404, NOT_FOUND),
        ("a collection nobody has", Request::new("GET", "/v2/tables"), 404, NOT_FOUND),
        ("a new object in it", Request::post("/v2/tables", "{}"), 404, NOT_FOUND),
        ("too deep a path", Request::new("GET", "/v2/networks/a/b/c"), 404, NOT_FOUND),
        ("a method nobody has", Request::new("BREW", &network), 422, UNSUPPORTED),
        ("a method of another path", Request::new("PUT", "/v2/networks"), 422, UNSUPPORTED),
        ("a method nobody has on an old path", Request::new("PUT", "/networks/"), 422, UNSUPPORTED),
        ("a new event", Request::post("/v2/events", "{}"), 422, UNSUPPORTED),
    ]);
}

#[test]
fn parameters_that_make_no_sense() {
    let (_place, hnsd) = Hnsd::with_network();
    let before = hnsd.everything();
    for (path, code) in [
        ("/v2/networks?query=nonsense", INVALID_JSON),
        ("/v2/networks?query=%7B", INVALID_JSON),
        ("/v2/networks?query=%ZZ", INVALID_JSON),
        ("/v2/networks?query=%", INVALID_JSON),
        ("/v2/networks?query=%FF%FE", INVALID_JSON),
        ("/v2/networks?documents=true&query=%00", INVALID_JSON),
        ("/v2/events?since=yesterday", INVALID_PARAMETER),
        ("/v2/events?since=-1", INVALID_PARAMETER),
        ("/v2/events?since=99999999999999999999", INVALID_PARAMETER),
    ] {
        hnsd.get(path).refused(400, code);
    }
    for path in
        ["/v2/networks/%ZZ", "/v2/networks/%FF", "/v2/%FF", "/v2/networks/%00", "/v2/endpoints/%FF/stats", "/%FF", "/v2/containers/%FF"]
    {
        hnsd.get(path).record();
    }
    let bad_id = Request::post("/v2/namespaces?id=seven", documents::namespace().to_string());
    let field = hnsd.ask(&bad_id).record()["Field"].clone();
    assert_eq!(field, "id");
    assert_eq!(hnsd.everything(), before);
}

#[test]
fn a_body_that_is_too_large() {
    let (_place, hnsd) = Hnsd::with_network();
    let before = hnsd.everything();
    let large = format!(r#"{{"Name":"{}"}}"#, "x".repeat(LARGE));
    for path in ["/v2/networks", "/networks", "/v2/portreservations"] {
        let record = hnsd.ask(&Request::post(path, large.clone())).refused(413, TOO_LARGE);
        assert!(record["Cause"].as_str().unwrap().contains("4194304"), "{record}");
    }
    let error = hnsd.client().create(Kind::Network, None, None, &large).unwrap_err();
    assert!(matches!(error, Error::TooLarge(_)), "{error:?}");
    // However a refusal comes about, whoever sends a large body hears of it.
    hnsd.ask(&Request::post("/v2/tables", large.clone())).record();
    hnsd.ask(&Request::new("PUT", "/v2/networks").body(large)).record();
    assert_eq!(hnsd.everything(), before);
    hnsd.assert_works();
}

#[test]
fn a_body_that_ends_half_way() {
    let (_place, hnsd) = Hnsd::with_network();
    let before = hnsd.everything();
    // Whole documents, of which more was announced.
    let namespace = documents::namespace().to_string();
    let chunk = format!("{:x}\r\n{namespace}\r\n", namespace.len());
    for request in [
        Request::post("/v2/namespaces", namespace.clone()).header("Content-Length", &(namespace.len() + 1).to_string()),
        Request::post("/v2/namespaces", chunk.clone()).header("Transfer-Encoding", "chunked"),
        Request::post("/v2/namespaces", chunk + "ffffffffffffffffff\r\n").header("Transfer-Encoding", "chunked"),
    ] {
        let mut stream = hnsd.connect();
        stream.write_all(&request.bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        Answer::read(&mut stream).refused(400, INVALID_PARAMETER);
        assert_eq!(hnsd.everything(), before);
    }
    hnsd.assert_works();
}

#[test]
fn chunks_that_are_none() {
    let (_place, hnsd) = Hnsd::new();
    let before = hnsd.everything();
    hnsd.ask(&Request::post("/v2/namespaces", "seven\r\n{}\r\n0\r\n\r\n").header("Transfer-Encoding", "chunked")).record();
    assert_eq!(hnsd.everything(), before);
}

#[test]
fn what_is_no_http() {
    let (_place, hnsd) = Hnsd::new();
    let before = hnsd.everything();
    let long_line = [b"GET /".as_slice(), &[b'x'; 100_000], b" HTTP/1.1\r\n\r\n"].concat();
    let long_head = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20], b"\r\n\r\n"].concat();
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03\r\n\r\n";
    let lengths = b"POST /v2/namespaces HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}";
    for garbage in [b"hello, hnsd\r\n\r\n".as_slice(), tls, &[0; 4096], &[0xFF; 4096], lengths, &long_line, &long_head] {
        let mut stream = hnsd.connect();
        // hnsd may hang up before it has read everything.
        let _ = stream.write_all(garbage);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(hnsd.everything(), before);
    hnsd.assert_works();
}

#[test]
fn clients_that_connect_and_say_nothing() {
    let (_place, hnsd) = Hnsd::new();
    let idle: Vec<_> = (0..100).map(|_| hnsd.connect()).collect();
    let mut slow = hnsd.connect();
    let request = Request::post("/v2/namespaces", documents::namespace().to_string()).bytes();
    for byte in &request[..request.len() - 1] {
        slow.write_all(&[*byte]).unwrap();
    }
    hnsd.assert_works();
    // Whoever is slow is served in the end.
    slow.write_all(&request[request.len() - 1..]).unwrap();
    assert_eq!(Answer::read(&mut slow).status, 201);
    drop(idle);
    hnsd.assert_works();
}

#[test]
fn clients_that_hang_up_before_the_answer() {
    let (_place, hnsd) = Hnsd::with_network();
    for _ in 0..50 {
        let mut stream = hnsd.connect();
        stream.write_all(&Request::post("/v2/endpoints", documents::endpoint("gone").to_string()).bytes()).unwrap();
    }
    hnsd.assert_works();
    // Whether each was made or not, it is whole.
    let endpoints = hnsd.client().list(Kind::Endpoint, r#"{"SchemaVersion":{"Major":2}}"#).unwrap();
    assert!(endpoints.len() <= 50 && endpoints.iter().all(|endpoint| endpoint["IpConfigurations"][0]["IpAddress"].is_string()));
}
