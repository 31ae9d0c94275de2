//! The server over real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use netexec::connect::{Obstacle, Protocol, connect};
use netexec::{Server, Settings, dial, host_name, serve_hostname};
use serde_json::Value;

fn start() -> Server {
    Server::start(&Settings { udp_port: Some(0), tcp_port: Some(0), ..Settings::default() }).unwrap()
}

fn local(address: SocketAddr) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], address.port()))
}

/// Status line and headers, and body, of the answer to a request, and the address it was sent from.
fn ask(server: &Server, request: &str) -> (String, String, SocketAddr) {
    let mut stream = TcpStream::connect(local(server.http())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned(), stream.local_addr().unwrap())
}

fn get(server: &Server, path: &str) -> String {
    ask(server, &format!("GET {path}")).1
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn who_called_and_who_answers() {
    let server = start();
    assert!(get(&server, "/").starts_with("NOW: 20"));
    assert!(get(&server, "/anything").starts_with("NOW: 20"));
    assert_eq!(get(&server, "/hostname"), host_name());
    assert_eq!(get(&server, "/hostName"), host_name());
    assert_eq!(get(&server, "/serverport"), server.http().port().to_string());
    let (_, body, own) = ask(&server, "GET /clientip");
    assert_eq!(body, own.to_string());
    let (_, body, own) = ask(&server, "GET /who");
    let who = json(&body);
    assert_eq!(who["hostname"], host_name());
    assert_eq!((who["client"]["address"].as_str(), who["client"]["port"].as_u64()), (Some("127.0.0.1"), Some(own.port().into())));
    assert_eq!((who["local"]["address"].as_str(), who["local"]["port"].as_u64()), (Some("127.0.0.1"), Some(server.http().port().into())));
}

#[test]
fn echo_redirect_health_and_upload() {
    let server = start();
    let (head, body, _) = ask(&server, "GET /echo?msg=hello%20world&code=404");
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    assert_eq!(body, "hello world");
    assert!(get(&server, "/echo?msg=x&code=abc").starts_with("argument 'code' must be an integer"));
    let (head, _, _) = ask(&server, "GET /redirect?location=/echo%3Fmsg=foobar&code=307");
    assert!(head.starts_with("HTTP/1.1 307 ") && head.contains("Location: /echo?msg=foobar"), "{head}");
    assert!(ask(&server, "GET /healthz").0.starts_with("HTTP/1.1 200 "));
    assert!(json(&get(&server, "/upload"))["error"].is_string());
    let (head, body, _) = ask(&server, "HEAD /echo?msg=12345");
    assert!(head.contains("Content-Length: 5"), "{head}");
    assert_eq!(body, "");
}

#[test]
#[cfg(unix)]
fn shell_tells_output_and_failure() {
    let server = start();
    assert_eq!(json(&get(&server, "/shell?cmd=echo%20hi")), json(r#"{"output":"hi\n"}"#));
    assert_eq!(json(&get(&server, "/shell?shellCommand=exit+3")), json(r#"{"error":"exit status 3"}"#));
}

#[test]
fn a_connection_stays_open_for_several_requests() {
    let server = start();
    let mut stream = TcpStream::connect(local(server.http())).unwrap();
    write!(stream, "GET /echo?msg=one HTTP/1.1\r\n\r\nGET /echo?msg=two HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\r\n\r\none") && text.ends_with("two"), "{text}");
}

#[test]
fn dial_asks_other_servers() {
    let (server, other) = (start(), start());
    let (http, udp) = (other.http().port(), other.udp().unwrap().port());
    let answer = get(&server, &format!("/dial?host=127.0.0.1&port={http}&request=hostname&tries=3"));
    assert_eq!(json(&answer)["responses"].as_array().unwrap().len(), 3);
    let answer = get(&server, &format!("/dial?host=127.0.0.1&port={udp}&protocol=udp&request=echo%20x"));
    assert_eq!(json(&answer)["responses"][0], "x");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let answer = get(&server, &format!("/dial?host=127.0.0.1&port={closed}&request=hostname"));
    assert!(json(&answer)["errors"][0].is_string(), "{answer}");
    for bad in ["/dial?host=127.0.0.1&port=1", "/dial?request=x&host=a&port=b", "/dial?request=x&tries=y", "/dial?request=x&protocol=sctp"]
    {
        assert!(ask(&server, &format!("GET {bad}")).0.starts_with("HTTP/1.1 400 "), "{bad}");
    }
}

#[test]
fn datagrams_and_streams_are_answered() {
    let server = start();
    let udp = local(server.udp().unwrap());
    assert_eq!(dial::ask_udp("hostname", udp).unwrap(), host_name());
    assert_eq!(dial::ask_udp("echo Hello", udp).unwrap(), "hello");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"clientip", udp).unwrap();
    let mut bytes = [0; 100];
    let count = socket.recv(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes[..count]), socket.local_addr().unwrap().to_string());
    let mut stream = TcpStream::connect(local(server.tcp().unwrap())).unwrap();
    stream.write_all(b"there and back").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "there and back");
}

#[test]
fn an_override_answers_everything() {
    let server = Server::start(&Settings { http_override: Some("/echo?msg=always".into()), ..Settings::default() }).unwrap();
    assert_eq!(get(&server, "/hostname"), "always");
}

#[test]
fn exit_gives_its_code_and_its_time() {
    let server = start();
    assert!(get(&server, "/exit?code=x").starts_with("argument 'code'"));
    assert!(get(&server, "/exit?wait=5").starts_with("argument 'wait'"));
    let address = local(server.http());
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /exit?code=7&wait=200ms&timeout=100ms HTTP/1.1\r\n\r\n").unwrap();
    let begin = Instant::now();
    assert_eq!(server.wait(), 7);
    assert!(begin.elapsed() >= Duration::from_millis(200));
}

#[test]
fn connecting_tells_what_stands_in_the_way() {
    let server = start();
    let long = Some(Duration::from_secs(5));
    assert_eq!(connect(&local(server.http()).to_string(), Protocol::Tcp, long, ""), Ok(()));
    assert_eq!(connect(&local(server.udp().unwrap()).to_string(), Protocol::Udp, long, "hostname"), Ok(()));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(connect(&closed.to_string(), Protocol::Tcp, long, ""), Err(Obstacle::Refused));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    assert_eq!(connect(&target, Protocol::Udp, Some(Duration::from_millis(50)), "x"), Err(Obstacle::Timeout));
    assert!(matches!(connect("no-port", Protocol::Tcp, long, ""), Err(Obstacle::Unknown(_))));
    assert!(matches!(connect("no-such-host.invalid:1", Protocol::Tcp, long, ""), Err(Obstacle::Dns(_))));
}

#[test]
fn the_name_alone_over_both() {
    let mut text = String::new();
    TcpStream::connect(("127.0.0.1", serve_hostname::serve_tcp(0).unwrap())).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, host_name());
    let udp = SocketAddr::from(([127, 0, 0, 1], serve_hostname::serve_udp(0).unwrap()));
    assert_eq!(dial::ask_udp("x", udp).unwrap(), host_name());
}
