//! Starting and stopping.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hcn::event::Change;
use hcn::{Hcn, Kind};

use crate::documents;
use crate::hnsd::{Hnsd, PATIENCE, Place};
use crate::request::{Answer, Request};

const MANAGER_STOPPED: u64 = 0x803B_0020;

#[test]
fn it_says_where_it_listens_once_it_does() {
    let (_place, hnsd) = Hnsd::new();
    assert_eq!(hnsd.greeting, format!("ready: hnsd listens on {} as transom", hnsd.socket.display()));
    let health = hnsd.get("/healthz").ok().json();
    assert_eq!((health["Status"].as_str(), health["Profile"].as_str()), (Some("ok"), Some("transom")));
}

#[test]
fn the_service_manager_hears_of_start_and_stop() {
    let place = Place::new();
    let path = place.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hnsd = place.start_as(place.command(&[]).env("NOTIFY_SOCKET", &path));
    assert_eq!(told(&manager), "READY=1");
    hnsd.stop("TERM");
    assert_eq!(told(&manager), "STOPPING=1");
}

fn told(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = manager.recv(&mut buffer).expect("hnsd tells the service manager");
    String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
}

#[test]
fn signals_stop_it_and_what_was_made_is_there_afterwards() {
    let place = Place::new();
    for signal in ["TERM", "INT"] {
        let hnsd = place.start(&[]);
        let made = hnsd.create(Kind::Namespace, &documents::namespace());
        let status = hnsd.stop(signal);
        assert!(status.success(), "SIG{signal}: {status}\n{}", place.home.last_words());
        assert!(!place.home.socket().exists(), "the socket is gone after SIG{signal}");
        let again = place.start(&[]);
        assert!(again.client().enumerate(Kind::Namespace, "").unwrap().contains(&made));
        assert!(again.stop("TERM").success());
    }
}

#[test]
fn followers_are_told_good_bye() {
    let (_place, hnsd) = Hnsd::new();
    let followers: Vec<_> = (0..3).map(|_| hnsd.client().events_since(None).unwrap()).collect();
    assert!(hnsd.stop("TERM").success());
    for mut follower in followers {
        assert_eq!(follower.next().unwrap().unwrap().change, Change::Disconnected);
        assert!(follower.next().is_none());
    }
}

#[test]
fn a_change_that_comes_too_late_is_refused() {
    let (place, hnsd) = Hnsd::new();
    let mut follower = hnsd.client().events_since(None).unwrap();
    let body = documents::namespace().to_string();
    let request = Request::post("/v2/namespaces", body.clone()).header("Expect", "100-continue").bytes();
    let mut late = hnsd.connect();
    late.write_all(&request[..request.len() - body.len()]).unwrap();
    // hnsd waits for the body now, and is to get it only when nothing more is taken.
    let mut go_on = [0; 25];
    late.read_exact(&mut go_on).unwrap();
    assert_eq!(go_on, *b"HTTP/1.1 100 Continue\r\n\r\n");
    hnsd.signal("TERM");
    assert_eq!(follower.next().unwrap().unwrap().change, Change::Disconnected);
    late.write_all(body.as_bytes()).unwrap();
    Answer::read(&mut late).refused(503, MANAGER_STOPPED);
    assert!(hnsd.stop("TERM").success());
    let namespaces = place.start(&[]).client().enumerate(Kind::Namespace, "").unwrap();
    assert!(namespaces.is_empty(), "{namespaces:?}");
}

#[test]
fn changes_under_way_are_finished_or_refused() {
    let (place, hnsd) = Hnsd::new();
    let client = hnsd.client();
    let worker = thread::spawn(move || {
        let mut made = Vec::new();
        loop {
            match client.create(Kind::Namespace, None, None, &documents::namespace().to_string()) {
                Ok(id) => made.push(id),
                Err(error) => return (made, error),
            }
        }
    });
    while hnsd.client().enumerate(Kind::Namespace, "").unwrap().len() < 20 {}
    assert!(hnsd.stop("TERM").success());
    let (made, error) = worker.join().unwrap();
    // A request that was not yet read when the end came finds the connection closed.
    assert!(matches!(error, hcn::Error::ManagerStopped(_) | hcn::Error::ServiceUnavailable(_)), "{error:?}");
    let there = place.start(&[]).client().enumerate(Kind::Namespace, "").unwrap();
    assert!(made.iter().all(|id| there.contains(id)));
    assert!(there.len() <= made.len() + 1, "at most one whose answer was lost");
}

#[test]
fn clients_that_say_nothing_do_not_hold_up_the_end() {
    let (_place, hnsd) = Hnsd::new();
    let mut idle = hnsd.connect();
    let mut half = hnsd.connect();
    half.write_all(b"GET /healthz HT").unwrap();
    hnsd.get("/healthz").ok();
    assert!(hnsd.stop("TERM").success());
    assert_eq!(idle.read(&mut [0; 16]).unwrap_or(0), 0);
}

#[test]
fn standard_output_may_be_closed() {
    let place = Place::new();
    let command = place.command(&[]);
    let mut closed = Command::new("sh");
    closed.args(["-c", "exec \"$@\" 1>&-", "sh"]).arg(command.get_program()).args(command.get_args());
    let mut server = place.home.spawn(&mut closed);
    let mut rest = String::new();
    BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut rest).unwrap();
    assert_eq!(rest, "");
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(place.home.socket()).is_err() {
        assert!(Instant::now() < deadline, "{}", place.home.last_words());
        thread::sleep(Duration::from_millis(5));
    }
    server.kill().unwrap();
}
