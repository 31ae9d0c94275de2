//! A disk that is full, files that are not as they were, and clients that do not read.

#[path = "../../../node/tests/support/program.rs"]
mod program;
// Others ask more of it.
#[allow(dead_code)]
#[path = "../support/server.rs"]
mod server;

use std::fs;
use std::process::Command;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;

use server::{Home, maps, name_of};

/// More than the server remembers of one resource.
const MORE_THAN_REMEMBERED: usize = 9000;

struct Place {
    directory: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path());
        Self { directory, home }
    }

    fn journal(&self) -> std::path::PathBuf {
        self.home.state().join("api.journal")
    }

    /// What a server says that cannot be started.
    async fn complaint(&self, options: &[&str]) -> String {
        assert!(self.home.start_as(self.home.command().args(options)).await.is_err());
        self.home.last_words()
    }
}

#[tokio::test]
async fn on_a_full_disk_changes_fail_and_reads_go_on() {
    let place = Place::new();
    let command = place.home.command();
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    let server = place.home.start_as(&mut limited).await.unwrap();
    let api = maps(&place.home.client().await.unwrap());
    let mut made = Vec::new();
    let refusal = loop {
        assert!(made.len() < 1000, "the limit is not in force");
        match api.create(&PostParams::default(), &map(&format!("map-{}", made.len()), 700)).await {
            Ok(map) => made.push(name_of(&map)),
            Err(kube::Error::Api(status)) => break status,
            Err(error) => panic!("after {} objects: {error}", made.len()),
        }
    };
    assert!(made.len() > 3, "some fit: {made:?}");
    assert_eq!((refusal.code, refusal.reason.as_str()), (503, "ServiceUnavailable"), "{refusal:?}");
    let length = fs::metadata(place.journal()).unwrap().len();
    assert!(api.create(&PostParams::default(), &map("one-more", 700)).await.is_err());
    assert_eq!(fs::metadata(place.journal()).unwrap().len(), length, "no half of a change stays behind");
    assert_eq!(names(&api).await, sorted(&made));
    server.kill().unwrap();

    let _again = place.home.start().await.unwrap();
    let api = maps(&place.home.client().await.unwrap());
    assert_eq!(names(&api).await, sorted(&made), "what was acknowledged is there");
    made.push(name_of(&api.create(&PostParams::default(), &map("one-more", 700)).await.unwrap()));
    assert_eq!(names(&api).await, sorted(&made));
}

#[tokio::test]
async fn a_newer_file_is_left_alone() {
    let place = Place::new();
    place.home.start().await.unwrap().kill().unwrap();
    let mut bytes = fs::read(place.journal()).unwrap();
    bytes[12] = 99;
    fs::write(place.journal(), &bytes).unwrap();
    let said = place.complaint(&[]).await;
    assert!(said.contains("has format 99, and this version reads up to 1; it was left as it is"), "{said}");
    assert_eq!(fs::read(place.journal()).unwrap(), bytes);
}

#[tokio::test]
async fn a_damaged_file_is_left_alone_and_can_be_set_aside() {
    let place = Place::new();
    let server = place.home.start().await.unwrap();
    let api = maps(&place.home.client().await.unwrap());
    api.create(&PostParams::default(), &map("kept", 100)).await.unwrap();
    server.kill().unwrap();
    let mut bytes = fs::read(place.journal()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(place.journal(), &bytes).unwrap();
    let said = place.complaint(&[]).await;
    assert!(said.contains("cannot be read") && said.contains("--set-aside-unreadable-state"), "{said}");
    assert_eq!(fs::read(place.journal()).unwrap(), bytes);

    let _anew = place.home.start_as(place.home.command().arg("--set-aside-unreadable-state")).await.unwrap();
    let api = maps(&place.home.client().await.unwrap());
    assert!(api.get_opt("kept").await.unwrap().is_none(), "it begins anew");
    let kept = fs::read_dir(place.home.state()).unwrap().flatten().any(|entry| fs::read(entry.path()).is_ok_and(|kept| kept == bytes));
    assert!(kept, "what could not be read is kept in {}", place.directory.path().display());
}

/// Writers and those who read go on, memory stays what it was, and who comes back too late is told to list anew.
#[tokio::test]
async fn who_never_reads_holds_nobody_up() {
    let place = Place::new();
    let server = place.home.start().await.unwrap();
    let client = place.home.client().await.unwrap();
    let version = maps(&client).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut sleepers = Vec::new();
    for _ in 0..5 {
        sleepers.push(watch(&client, &version).await);
    }
    let reader = tokio::spawn(count(watch(&client, &version).await, MORE_THAN_REMEMBERED));
    let before = memory(server.id());
    write(&maps(&client), MORE_THAN_REMEMBERED).await;
    assert_eq!(reader.await.unwrap(), MORE_THAN_REMEMBERED, "who reads gets everything");
    let after = memory(server.id());
    // All that is remembered is 16 MB, twice: as it is, and as the line that watchers get.
    assert!(after < before + 96, "it took {before} MiB, and now takes {after}");

    let mut late = watch(&client, &version).await;
    let told = rest(&mut late).await;
    assert!(told.contains("\"code\":410") && told.contains("too old resource version"), "{told}");
}

#[tokio::test]
async fn the_file_does_not_grow_for_ever() {
    let place = Place::new();
    let server = place.home.start().await.unwrap();
    let api = maps(&place.home.client().await.unwrap());
    let big = |round: usize| {
        let mut map = map("big", 100_000);
        map.data.as_mut().unwrap().insert("round".to_owned(), round.to_string());
        map
    };
    api.create(&PostParams::default(), &big(0)).await.unwrap();
    for round in 1..300 {
        api.replace("big", &PostParams::default(), &big(round)).await.unwrap();
    }
    let length = fs::metadata(place.journal()).unwrap().len();
    assert!(length < 12 << 20, "30 MB were written, and the file has {length} bytes");
    server.kill().unwrap();
    let _again = place.home.start().await.unwrap();
    let found = maps(&place.home.client().await.unwrap()).get("big").await.unwrap();
    assert_eq!(found.data.unwrap()["round"], "299");
}

fn map(name: &str, length: usize) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": "x".repeat(length)}})).unwrap()
}

async fn names(api: &Api<ConfigMap>) -> Vec<String> {
    let listed = api.list(&ListParams::default()).await.unwrap();
    sorted(&listed.items.iter().map(name_of).filter(|name| name != "kube-root-ca.crt").collect::<Vec<_>>())
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

/// Makes changes of two kilobytes, some at once.
async fn write(api: &Api<ConfigMap>, changes: usize) {
    const AT_ONCE: usize = 16;
    let writer = |number: usize| async move {
        let name = format!("writer-{number}");
        api.create(&PostParams::default(), &map(&name, 2000)).await?;
        for change in 0..changes / AT_ONCE {
            let mut map = map(&name, 2000);
            map.data.get_or_insert_default().insert("change".to_owned(), change.to_string());
            api.replace(&name, &PostParams::default(), &map).await?;
        }
        Ok::<(), kube::Error>(())
    };
    try_join_all((0..AT_ONCE).map(writer)).await.unwrap();
}

/// A watch of which nothing is read.
async fn watch(client: &Client, version: &str) -> Body {
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={version}");
    let request = Request::get(path).body(Body::empty()).unwrap();
    client.send(request).await.unwrap().into_body()
}

/// How many events come, up to a number.
async fn count(mut body: Body, enough: usize) -> usize {
    let mut events = 0;
    while events < enough {
        let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_secs(20), body.frame()).await else { break };
        events += frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
    }
    events.min(enough)
}

/// Everything that comes until the end.
async fn rest(body: &mut Body) -> String {
    let mut text = Vec::new();
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_secs(20), body.frame()).await {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// What a process holds, in MiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}
