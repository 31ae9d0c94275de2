//! A stand-in for hnsd, for the tests of the DLLs: it answers what a test tells it to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Once};
use std::thread;

use serde_json::Value;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its body; null if there is none.
    pub body: Value,
}

/// What goes back.
#[derive(Debug)]
pub enum Answer {
    /// A status and a document.
    Document(u16, Value),
    /// Lines as they come, until their sender is gone.
    Lines(std::sync::mpsc::Receiver<String>),
}

/// Starts the stand-in, once per process, and makes it the hnsd of this process.
pub fn serve(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the stand-in has its port");
        let address = listener.local_addr().expect("the stand-in has its port");
        let token = std::env::temp_dir().join(format!("transom-stand-in-{}", std::process::id()));
        std::fs::write(&token, "token").expect("the stand-in has its token");
        // SAFETY: every test comes through here before it makes a call that reads the variables.
        unsafe {
            std::env::set_var("TRANSOM_HNSD", address.to_string());
            std::env::set_var("TRANSOM_TOKEN_FILE", token);
        }
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = answer.clone();
                thread::spawn(move || converse(stream, &*answer));
            }
        });
    });
}

fn converse(stream: TcpStream, answer: &dyn Fn(&Request) -> Answer) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = read(&mut reader)?;
        match answer(&request) {
            Answer::Document(status, document) => {
                let body = document.to_string();
                write!(reader.get_mut(), "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()?;
            }
            Answer::Lines(lines) => {
                write!(reader.get_mut(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\n\r\n").ok()?;
                for line in lines {
                    write!(reader.get_mut(), "{:x}\r\n{line}\n\r\n", line.len() + 1).ok()?;
                }
                return None;
            }
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, body: serde_json::from_slice(&body).unwrap_or_default() })
}
