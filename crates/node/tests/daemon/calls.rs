//! What `curl --unix-socket` gets to see.

use std::io::{Read, Write};

use hcn::Kind;

use crate::documents;
use crate::hnsd::Hnsd;
use crate::request::Request;

#[test]
fn the_older_interface_answers_under_its_own_paths() {
    let (_place, hnsd) = Hnsd::with_network();
    let version = hnsd.get("/globals/version").ok().json();
    assert_eq!(version["Success"], true);
    assert!(version["Output"]["Major"].is_u64() && version["Output"]["Minor"].is_u64(), "{version}");
    let networks = hnsd.get("/networks/").ok().json();
    assert_eq!((networks["Output"][0]["Name"].as_str(), networks["Output"][1].as_str()), (Some("pods"), None), "{networks}");
}

#[test]
fn whether_there_is_a_switch_can_be_asked() {
    let (_place, hnsd) = Hnsd::new();
    let switch = hnsd.get("/v2/switch").ok().json();
    assert_eq!((&switch["MovesPackets"], &switch["Available"]), (&false.into(), &true.into()), "{switch}");
    assert_eq!(hnsd.client().switch_failure(), Ok(None), "there is none that should move packets");
}

#[test]
fn an_object_is_made_found_changed_and_deleted() {
    let (_place, hnsd) = Hnsd::with_network();
    let made = hnsd.ask(&Request::post("/v2/endpoints", documents::endpoint("pod").to_string()));
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["ID"].as_str().unwrap().to_owned();
    let query = "%7B%22SchemaVersion%22%3A%7B%22Major%22%3A2%7D%7D";
    let found = hnsd.get(&format!("/v2/endpoints/{id}?query={query}")).ok().json();
    assert_eq!((found["Name"].as_str(), &found), (Some("pod"), &made.json()));
    let policy = r#"{"Policies":[{"Type":"ACL","Settings":{"Action":"Block","Direction":"In","RuleType":"Switch","Priority":200}}]}"#;
    let change = format!(r#"{{"ResourceType":"Policy","RequestType":"Add","Settings":{policy}}}"#);
    hnsd.ask(&Request::new("PATCH", &format!("/v2/endpoints/{id}")).body(change)).ok();
    hnsd.ask(&Request::new("DELETE", &format!("/v2/endpoints/{id}"))).ok();
    assert_eq!(hnsd.get("/v2/endpoints").ok().body, "[]");
}

#[test]
fn one_connection_carries_many_requests() {
    let (_place, hnsd) = Hnsd::new();
    let mut stream = hnsd.connect();
    let ask =
        "GET /v2/networks HTTP/1.1\r\nHost: hns\r\n\r\n".repeat(9) + "GET /v2/networks HTTP/1.1\r\nHost: hns\r\nConnection: close\r\n\r\n";
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 10, "{answers}");
}

#[test]
fn a_body_may_come_in_chunks() {
    let (_place, hnsd) = Hnsd::new();
    let document = documents::namespace().to_string();
    let (one, two) = document.split_at(7);
    let chunked = format!("{:x}\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len());
    let request = Request::post("/v2/namespaces", chunked).header("Transfer-Encoding", "chunked");
    assert_eq!(hnsd.ask(&request).status, 201);
    hnsd.create(Kind::Namespace, &documents::namespace());
}
