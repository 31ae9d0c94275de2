//! The client against a server that follows a script.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::*;
use crate::event::Change;

/// A server with one connection per element; on each it answers as many requests as there are texts, then hangs up.
/// An empty text hangs up instead of answering. The thread returns the requests that came.
fn serve(script: &[&[&str]]) -> (Client, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script: Vec<Vec<String>> = script.iter().map(|answers| answers.iter().map(|answer| (*answer).to_owned()).collect()).collect();
    let server = thread::spawn(move || {
        let connections = script.iter().map(|answers| answer(listener.accept().unwrap().0, answers));
        connections.flatten().collect()
    });
    (Client::new(Address::Tcp { address, token: "secret".into() }), server)
}

fn answer<S: Read + Write>(stream: S, answers: &[String]) -> Vec<String> {
    let mut stream = BufReader::new(stream);
    let mut requests = Vec::new();
    for answer in answers {
        requests.push(read_request(&mut stream));
        if answer.is_empty() {
            break;
        }
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
    }
    requests
}

fn read_request(stream: &mut impl BufRead) -> String {
    let mut request = String::new();
    let mut length = 0;
    loop {
        let start = request.len();
        assert_ne!(stream.read_line(&mut request).unwrap(), 0, "the client hung up");
        let line = &request[start..];
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    request + std::str::from_utf8(&body).unwrap()
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

const ID: &str = "00000000-0000-0000-0000-000000000005";

#[test]
fn calls_share_a_connection() {
    let (first, second) = (ok(&format!("[{ID:?}]")), ok(&format!(r#"[{{"ID":{ID:?}}}]"#)));
    let created =
        format!("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{{\"ID\":\"0\r\n{:x}\r\n{}\"}}\r\n0\r\n\r\n", 37, &ID[1..]);
    let version = ok(r#"{"Success":true,"Output":{"Major":16,"Minor":0}}"#);
    let (client, server) = serve(&[&[&first, &second, &created, &version]]);

    assert_eq!(client.enumerate(Kind::Network, r#"{"Filter":""}"#), Ok(vec![Guid::from_u128(5)]));
    assert_eq!(client.list(Kind::Endpoint, "").unwrap().len(), 1);
    assert_eq!(client.create(Kind::Endpoint, Some(Guid::from_u128(6)), None, "{\"Name\":\"ü\"}"), Ok(Guid::from_u128(5)));
    assert_eq!(client.version(), Ok((16, 0)));

    let requests = server.join().unwrap();
    assert!(requests[0].starts_with("GET /v2/networks?query=%7B%22Filter%22%3A%22%22%7D HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("\r\nAuthorization: Bearer secret\r\n"));
    assert!(requests[1].starts_with("GET /v2/endpoints?documents=true HTTP/1.1\r\n"));
    assert!(requests[2].starts_with("POST /v2/endpoints?network=00000000-0000-0000-0000-000000000006 HTTP/1.1\r\n"));
    assert!(requests[2].ends_with("\r\n\r\n{\"Name\":\"ü\"}"));
}

#[test]
fn a_refusal_keeps_its_record_and_the_connection() {
    let record = r#"{"Success":false,"Error":"Element not found. ","ErrorCode":2147943568,"Cause":"no namespace has it"}"#;
    let refusal = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{record}", record.len());
    let (client, server) = serve(&[&[&refusal, &ok("{}")]]);
    assert_eq!(client.delete(Kind::Namespace, Guid::nil()), Err(Error::NotFound(detail("no namespace has it"))));
    assert_eq!(client.delete(Kind::Namespace, Guid::nil()), Ok(()));
    server.join().unwrap();
}

#[test]
fn refusals_without_a_record_go_by_status() {
    for (status, code) in [(401, 0x8007_0005), (403, 0x8007_0005), (503, 0x8007_06B5), (500, 0x8000_FFFF)] {
        let (client, server) = serve(&[&[&format!("HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno")]]);
        assert_eq!(client.request("GET", "/", "").unwrap_err().hresult(), code, "{status}");
        server.join().unwrap();
    }
}

#[test]
fn a_container_may_be_unknown() {
    let record = r#"{"Success":false,"Error":"","ErrorCode":3224830222}"#;
    let refusal = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{record}", record.len());
    let (client, server) = serve(&[&[&refusal, &ok("{}")]]);
    assert_eq!(client.container_exists("a/b c"), Ok(false));
    assert_eq!(client.container_exists("pod"), Ok(true));
    assert!(server.join().unwrap()[0].starts_with("GET /v2/containers/a%2Fb%20c HTTP/1.1\r\n"));
}

#[test]
fn broken_answers_are_errors() {
    let broken = [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nContent-Len",
        "SSH-2.0-server\r\n",
    ];
    for answer in broken {
        let (client, server) = serve(&[&[answer]]);
        let error = client.request("GET", "/v2/networks", "").unwrap_err();
        assert_eq!(error.hresult(), 0x8000_FFFF, "{answer:?} gave {error}");
        server.join().unwrap();
    }
}

#[test]
fn oversized_heads_are_errors() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(100_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(100));
    for answer in [&endless, &many] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(Address::Tcp { address: listener.local_addr().unwrap(), token: String::new() });
        let answer = answer.clone();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            read_request(&mut BufReader::new(&stream));
            // The client may hang up before all of it is written.
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.read(&mut [0]);
        });
        assert_eq!(client.request("GET", "/", "").unwrap_err().hresult(), 0x8000_FFFF);
        drop(client);
        server.join().unwrap();
    }
}

#[test]
fn an_answer_may_end_with_its_connection() {
    let (client, server) = serve(&[&["HTTP/1.0 200 OK\r\n\r\n{\"Major\":1}"], &[&ok("{}")]]);
    assert_eq!(client.request("GET", "/", "").unwrap()["Major"], 1);
    assert!(client.request("GET", "/", "").is_ok());
    server.join().unwrap();
}

#[test]
fn interim_answers_are_skipped() {
    let (client, server) = serve(&[&[&format!("HTTP/1.1 100 Continue\r\n\r\n{}", ok("{}"))]]);
    assert!(client.request("POST", "/", "{}").is_ok());
    server.join().unwrap();
}

#[test]
fn a_restart_goes_unnoticed() {
    // The rest is long enough for the closed connection to be looked at, and so also a change can be sent anew.
    let (client, server) = serve(&[&[&ok("{}")], &[&ok("{}")]]);
    assert!(client.request("GET", "/", "").is_ok());
    thread::sleep(Duration::from_millis(50));
    assert!(client.request("POST", "/", "{}").is_ok());
    assert_eq!(server.join().unwrap().len(), 2);
}

#[test]
fn only_reading_is_repeated() {
    let (client, server) = serve(&[&[&ok("{}"), ""], &[&ok("{}"), ""]]);
    assert!(client.request("GET", "/1", "").is_ok());
    // hnsd takes the request and goes; on a new connection the same question gets its answer.
    assert!(client.request("GET", "/2", "").is_ok());
    // A change that may have been made is not made again.
    let error = client.request("POST", "/3", "{}").unwrap_err();
    assert_eq!(error.hresult(), 0x8007_06B5);
    let requests = server.join().unwrap();
    let lines: Vec<&str> = requests.iter().filter_map(|request| request.split(" HTTP").next()).collect();
    assert_eq!(lines, ["GET /1", "GET /2", "GET /2", "POST /3"]);
}

#[test]
fn nobody_there() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Client::new(Address::Tcp { address, token: String::new() }).request("GET", "/", "").unwrap_err();
    assert_eq!(error.hresult(), 0x8007_06B5);
    assert!(error.detail().cause.contains(&address.to_string()));
    assert!(error.detail().remedy.as_deref().unwrap_or_default().contains("transom hnsd"));
}

#[test]
fn paths_and_methods_cannot_carry_more_than_themselves() {
    let (client, server) = serve(&[&[&ok("{}")]]);
    assert!(client.request("GET", "networks/a b\r\nX: y", "").is_ok());
    assert!(server.join().unwrap()[0].starts_with("GET /networks/a%20b%0D%0AX:%20y HTTP/1.1\r\n"));
    assert_eq!(client.request("GET / HTTP/1.1\r\n", "/", "").unwrap_err().hresult(), 0x8007_0057);
}

#[test]
fn old_services_refuse_with_success() {
    let (client, server) = serve(&[&[&ok(r#"{"Success":false,"Error":"too old"}"#), &ok(r#"{"Success":true}"#)]]);
    assert!(client.call("GET", "/networks/", "").unwrap_err().to_string().contains("too old"));
    assert_eq!(client.call("GET", "/networks/", ""), Ok(Value::Null));
    server.join().unwrap();
}

/// The head of a stream and some lines, each a chunk of its own.
fn stream(lines: &[&str]) -> String {
    let chunks: String = lines.iter().map(|line| format!("{:x}\r\n{line}\r\n", line.len())).collect();
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
}

const CREATED: &str =
    concat!(r#"{"Sequence":7,"Kind":"Network","Change":"Created","ID":"#, r#""00000000-0000-0000-0000-000000000005","Name":"n"}"#, "\n");

#[test]
fn events_come_line_by_line_and_end_with_the_service() {
    let (half, rest) = CREATED.split_at(20);
    let (client, server) = serve(&[&[&stream(&["\n", half, rest, "{\"Sequence\":8,\"Change\":\"Disconnected\"}\n"])]]);
    let changes: Vec<Change> = client.events_since(Some(6)).unwrap().map(|event| event.unwrap().change).collect();
    assert_eq!(changes, [Change::Created, Change::Disconnected]);
    assert!(server.join().unwrap()[0].starts_with("GET /v2/events?since=6 HTTP/1.1\r\n"));
}

#[test]
fn a_stream_that_just_ends_says_so() {
    let (client, server) = serve(&[&[&stream(&["\n", CREATED])]]);
    let events: Vec<_> = client.events().unwrap().collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].as_ref().unwrap_err().hresult(), 0x8007_06B5);
    server.join().unwrap();
}

#[test]
fn a_stream_may_be_refused_or_broken() {
    let record = r#"{"Success":false,"Error":"","ErrorCode":2147943568}"#;
    let refusal = format!("HTTP/1.1 410 Gone\r\nContent-Length: {}\r\n\r\n{record}", record.len());
    let (client, server) = serve(&[&[&refusal], &[&stream(&["nonsense\n", CREATED])]]);
    assert_eq!(client.events_since(Some(1)).unwrap_err().hresult(), 0x8007_0490);
    let events: Vec<_> = client.events().unwrap().collect();
    assert!(matches!(&events[..], [Err(Error::InvalidJson(_))]), "{events:?}");
    server.join().unwrap();
}

#[test]
fn a_stream_is_stopped_from_outside() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(Address::Tcp { address: listener.local_addr().unwrap(), token: String::new() });
    let server = thread::spawn(move || {
        let mut connection = listener.accept().unwrap().0;
        read_request(&mut BufReader::new(&connection));
        connection.write_all(stream(&["\n"]).as_bytes()).unwrap();
        // Nothing more comes; the client hangs up.
        assert_eq!(connection.read(&mut [0]).unwrap_or(0), 0);
    });
    let events = client.events_since(None).unwrap();
    let stopper = events.stopper();
    let reader = thread::spawn(move || events.count());
    thread::sleep(Duration::from_millis(20));
    stopper.stop();
    assert_eq!(reader.join().unwrap(), 0);
    server.join().unwrap();
}

#[test]
#[cfg(unix)]
fn over_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("transom-client-{}.sock", std::process::id()));
    let client = Client::new(Address::Unix(path.clone()));
    assert_eq!(client.request("GET", "/", "").unwrap_err().hresult(), 0x8007_06B5);
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        let first = answer(listener.accept().unwrap().0, &[ok("{}"), ok("{}")]);
        (first, answer(listener.accept().unwrap().0, &[ok("{}")]))
    });
    for _ in 0..2 {
        assert!(client.request("GET", "/", "").is_ok());
    }
    thread::sleep(Duration::from_millis(50));
    assert!(client.request("POST", "/", "{}").is_ok());
    let (first, second) = server.join().unwrap();
    assert_eq!((first.len(), second.len()), (2, 1));
    assert!(!first[0].contains("Authorization"));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn many_threads_share_a_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(Address::Tcp { address: listener.local_addr().unwrap(), token: String::new() });
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap(), &vec![ok("{}"); 100]));
        }
    });
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..10).for_each(|_| assert!(client.request("POST", "/", "{}").is_ok())));
        }
    });
    assert!(client.idle.lock().unwrap().len() <= 8);
}

#[cfg(unix)]
mod hostile {
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::super::http::{Connection, Stream};
    use super::*;

    /// Pieces of answers, right and wrong, in any order.
    fn answers() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
            Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
            Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
            Just(b"Connection: close\r\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"0\r\n\r\n".to_vec()),
            any::<u64>().prop_map(|length| format!("Content-Length: {length}\r\n").into_bytes()),
            (0u8..20).prop_map(|length| format!("Content-Length: {length}\r\n\r\n").into_bytes()),
            any::<u64>().prop_map(|length| format!("{length:x}\r\n").into_bytes()),
            (0usize..20).prop_map(|length| format!("{length:x}\r\n{}\r\n", "x".repeat(length)).into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..40),
        ];
        proptest::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
    }

    /// A connection on which an answer waits, and its other end, without which no request could be sent.
    fn connection(answer: &[u8]) -> (Connection, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(answer).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        (Connection::over(Stream::Unix(ours)), theirs)
    }

    proptest! {
        #[test]
        fn no_answer_is_fatal(answer in answers()) {
            // Whatever comes of it, it is an answer of at most what was sent, or an error.
            let (mut connection, _theirs) = connection(&answer);
            if let Ok(read) = connection.exchange(b"GET / HTTP/1.1\r\n\r\n") {
                prop_assert!(read.body.len() <= answer.len());
            }
        }

        #[test]
        fn no_stream_is_fatal(answer in answers()) {
            let (mut connection, _theirs) = connection(&answer);
            if let Ok((_, body)) = connection.begin(b"GET / HTTP/1.1\r\n\r\n") {
                let events = EventStream::new(connection, body).unwrap();
                prop_assert!(events.take(answer.len() + 2).count() <= answer.len() + 1);
            }
        }
    }
}
