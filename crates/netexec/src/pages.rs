//! What each path answers.
//!
//! Left out of the original: `/upload` is refused, since nobody should fill a pod's disk, and SCTP is not served.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::http::{Answer, Request, canonical};
use crate::server::plain;
use crate::{dial, duration};

/// Both ends of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Who called.
    pub client: SocketAddr,
    /// The address by which we were called.
    pub local: SocketAddr,
}

/// What a request leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer.
    Answer(Answer),
    /// The end of the server.
    Exit {
        /// Its exit code.
        code: i32,
        /// How long to go on before.
        wait: Duration,
        /// How long open connections have after that.
        timeout: Duration,
    },
}

/// What pages need to know of the server.
#[derive(Debug)]
pub struct Site {
    /// Whether everything listens.
    pub ready: AtomicBool,
    /// Since when it is there.
    pub since: Instant,
    /// For how long it is healthy; always without it.
    pub healthy_for: Option<Duration>,
}

impl Site {
    /// The answer to a request.
    pub fn visit(&self, request: &Request, ends: Ends) -> Outcome {
        let answer = match request.path.as_str() {
            "/clientip" => Answer::text(plain(ends.client).to_string()),
            "/serverport" => Answer::text(ends.local.port().to_string()),
            "/who" => who(ends),
            "/dial" => dial::answer(request),
            "/echo" => echo(request),
            "/exit" => return exit(request),
            "/header" => header(request),
            "/healthz" => self.health(),
            "/started" if self.healthy_for.is_some() => Answer::text(format!("{:?}", self.since.elapsed())),
            "/hostname" | "/hostName" => Answer::text(crate::host_name()),
            "/redirect" => redirect(request),
            "/shell" => shell(request),
            "/shutdown" => return Outcome::Exit { code: 0, wait: Duration::ZERO, timeout: Duration::ZERO },
            "/upload" => Answer::text(json!({"error": "Unable to upload file."}).to_string()),
            // Everything else is the root, as in the original.
            _ => Answer::text(format!("NOW: {}", OffsetDateTime::now_utc())),
        };
        Outcome::Answer(answer)
    }

    fn health(&self) -> Answer {
        match self.healthy_for {
            Some(time) if self.since.elapsed() > time => Answer::new(500, format!("error: {}", self.since.elapsed().as_secs_f64())),
            Some(_) => Answer::text("ok"),
            None => Answer::new(if self.ready.load(Ordering::Relaxed) { 200 } else { 412 }, ""),
        }
    }
}

/// One header of the request by its name, or all of them.
fn header(request: &Request) -> Answer {
    let of = |name: &str| request.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone()).collect::<Vec<_>>();
    match request.parameter("key") {
        "" => {
            let names: BTreeSet<&String> = request.headers.iter().map(|(name, _)| name).collect();
            let all: Map<String, Value> = names.into_iter().map(|name| (name.clone(), json!(of(name)))).collect();
            Answer::text(Value::Object(all).to_string())
        }
        name => Answer::text(of(&canonical(name)).first().cloned().unwrap_or_default()),
    }
}

fn who(ends: Ends) -> Answer {
    let (client, local) = (plain(ends.client), plain(ends.local));
    let record = json!({
        "hostname": crate::host_name(),
        "client": {"address": client.ip().to_string(), "port": client.port()},
        "local": {"address": local.ip().to_string(), "port": local.port()},
    });
    Answer::text(format!("{record}\n")).header("Content-Type", "application/json")
}

fn echo(request: &Request) -> Answer {
    match status(request, 200) {
        Ok(status) => Answer::new(status, request.parameter("msg")),
        Err(answer) => answer,
    }
}

fn redirect(request: &Request) -> Answer {
    match status(request, 302) {
        Ok(status) => Answer::new(status, "").header("Location", request.parameter("location")),
        Err(answer) => answer,
    }
}

/// The status that a request asks for.
fn status(request: &Request, usual: u16) -> Result<u16, Answer> {
    match request.parameter("code") {
        "" => Ok(usual),
        code => match code.parse() {
            Ok(status @ 100..=999) => Ok(status),
            _ => Err(Answer::text(format!("argument 'code' must be an integer or empty, got {code:?}\n"))),
        },
    }
}

fn exit(request: &Request) -> Outcome {
    let time = |name: &str| match request.parameter(name) {
        "" => Ok(Duration::ZERO),
        text => duration::parse(text).ok_or_else(|| format!("argument '{name}' must be a valid golang duration or empty, got {text:?}\n")),
    };
    let code = match request.parameter("code") {
        "" => Ok(0),
        text => text.parse().map_err(|_| format!("argument 'code' must be an integer [0-127] or empty, got {text:?}\n")),
    };
    match (time("timeout"), time("wait"), code) {
        (Ok(timeout), Ok(wait), Ok(code)) => Outcome::Exit { code, wait, timeout },
        (Err(message), _, _) | (_, Err(message), _) | (_, _, Err(message)) => Outcome::Answer(Answer::text(message)),
    }
}

fn shell(request: &Request) -> Answer {
    let command = match request.parameter("shellCommand") {
        "" => request.parameter("cmd"),
        command => command,
    };
    let (shell, flag) = if cfg!(windows) { ("cmd", "/c") } else { ("/bin/sh", "-c") };
    let mut record = Map::new();
    match Command::new(shell).args([flag, command]).output() {
        Ok(output) => {
            let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            if !text.is_empty() {
                record.insert("output".into(), json!(text));
            }
            if !output.status.success() {
                record.insert("error".into(), json!(output.status.to_string().replace("exit status: ", "exit status ")));
            }
        }
        Err(error) => _ = record.insert("error".into(), json!(error.to_string())),
    }
    Answer::text(Value::Object(record).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(site: &Site, target: &str) -> Answer {
        let headers = [("User-Agent", "me"), ("X-Of-Mine", "1"), ("X-Of-Mine", "2")].map(|(name, value)| (name.into(), value.into()));
        let request = Request { headers: headers.into(), ..Request::get(target) };
        let end = "10.0.0.1:1".parse().unwrap();
        match site.visit(&request, Ends { client: end, local: end }) {
            Outcome::Answer(answer) => answer,
            exit @ Outcome::Exit { .. } => panic!("{exit:?}"),
        }
    }

    #[test]
    fn headers_are_told_one_or_all() {
        let site = Site { ready: true.into(), since: Instant::now(), healthy_for: None };
        assert_eq!(visit(&site, "/header?key=user-agent").body, "me");
        assert_eq!(visit(&site, "/header?key=nothing").body, "");
        assert_eq!(visit(&site, "/header").body, r#"{"User-Agent":["me"],"X-Of-Mine":["1","2"]}"#);
    }

    #[test]
    fn health_may_end() {
        let site = |healthy_for| Site { ready: true.into(), since: Instant::now(), healthy_for };
        let of = |healthy_for| visit(&site(healthy_for), "/healthz").status;
        assert_eq!((of(None), of(Some(Duration::from_secs(60))), of(Some(Duration::ZERO))), (200, 200, 500));
    }
}
