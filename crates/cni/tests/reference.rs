//! host-local beside the reference plugin of the same name: the same calls give the same results and the same files,
//! and both can work on one directory.
//!
//! The reference is Debian's `containernetworking-plugins`; `TRANSOM_CNI_REFERENCE` names another directory of plugins.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cni::ipam::host_local::HostLocal;
use cni::{Registry, Version};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Who answers.
#[derive(Clone, Debug)]
enum Subject {
    Ours,
    Theirs(PathBuf),
}

/// What was answered.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    stdout: String,
    success: bool,
}

impl Subject {
    /// The reference, or nothing where it is not installed.
    fn reference(test: &str) -> Option<Self> {
        let directory = std::env::var_os("TRANSOM_CNI_REFERENCE").map_or_else(|| PathBuf::from("/usr/lib/cni"), PathBuf::from);
        let program = directory.join("host-local");
        if program.is_file() {
            return Some(Self::Theirs(program));
        }
        println!("skipped: {test}: there is no {}; install containernetworking-plugins", program.display());
        None
    }

    fn call(&self, command: &str, id: &str, args: &str, config: &Value) -> Answer {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", id),
            ("CNI_NETNS", "dummy"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", args),
            ("CNI_PATH", "/nowhere"),
        ];
        let stdin = config.to_string().into_bytes();
        match self {
            Self::Ours => {
                let read = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
                let outcome = cni::dispatch(&HostLocal, &Registry::default(), &read, || Ok(stdin));
                Answer { stdout: outcome.stdout, success: outcome.exit_code == 0 }
            }
            Self::Theirs(program) => {
                let mut command = Command::new(program);
                command.envs(variables).stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().unwrap();
                child.stdin.take().unwrap().write_all(&stdin).unwrap();
                let output = child.wait_with_output().unwrap();
                Answer { stdout: String::from_utf8(output.stdout).unwrap(), success: output.status.success() }
            }
        }
    }

    /// The versions that the subject speaks.
    fn versions(&self) -> Vec<Version> {
        let answer: Value = serde_json::from_str(&self.call("VERSION", "", "", &json!({})).stdout).unwrap();
        let spoken = answer["supportedVersions"].as_array().unwrap().iter();
        spoken.filter_map(|version| Version::find(version.as_str().unwrap())).collect()
    }
}

/// The files of a data directory with their content; that `lock` is there says nothing.
fn files(data: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(data.join("net")) else { return BTreeMap::new() };
    let read = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    entries.map(|entry| read(entry.unwrap())).filter(|(name, _)| name != "lock").collect()
}

/// The files that stand for addresses.
fn addresses(data: &Path) -> BTreeSet<String> {
    files(data).into_keys().filter(|name| !name.starts_with("last_reserved_ip")).collect()
}

fn config(version: &str, ipam: &Value, more: &Value, data: &Path) -> Value {
    let mut config = json!({"name": "net", "cniVersion": version, "type": "x", "ipam": ipam});
    config["ipam"]["type"] = "host-local".into();
    config["ipam"]["dataDir"] = json!(data);
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// The configurations: `ipam`, other keys, and CNI_ARGS.
///
/// Two addresses asked for in one set are not among them: both fail, but the reference takes either of them first.
fn table(resolv_conf: &Path) -> Vec<(Value, Value, &'static str)> {
    let one = json!({"ranges": [[{"subnet": "10.1.2.0/24"}]]});
    let dual = json!({"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8:1::/64"}]]});
    let none = json!({});
    vec![
        (json!({"subnet": "10.1.2.0/24"}), none.clone(), ""),
        (json!({"subnet": "10.1.2.0/29", "rangeStart": "10.1.2.3", "rangeEnd": "10.1.2.4", "gateway": "10.1.2.6"}), none.clone(), ""),
        (json!({"Subnet": "10.1.2.0/29", "RANGESTART": "10.1.2.0", "rangeEnd": "10.1.2.7"}), none.clone(), ""),
        (json!({"subnet": "10.1.2.0/30"}), none.clone(), ""),
        (json!({"subnet": "2001:db8:1::/125"}), none.clone(), ""),
        (one.clone(), none.clone(), ""),
        (dual.clone(), none.clone(), ""),
        (
            json!({"ranges": [[{"subnet": "10.1.2.0/30"}, {"subnet": "10.1.3.0/30"}, {"subnet": "10.1.4.0/30", "gateway": "192.0.2.1"}]]}),
            none.clone(),
            "",
        ),
        (json!({"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.3.0/24"}]]}), none.clone(), ""),
        (json!({"subnet": "10.1.1.0/24", "ranges": [[{"subnet": "10.1.2.0/24"}]]}), none.clone(), ""),
        (
            json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "0.0.0.0/0"}, {"Dst": "10.0.0.0/8", "GW": "10.1.2.9"}, {"dst": "::/0", "gw": "fd00::1"}]}),
            none.clone(),
            "",
        ),
        (json!({"subnet": "10.1.2.0/24", "routes": [], "resolvConf": resolv_conf}), none.clone(), ""),
        (json!({"subnet": "10.1.2.0/24", "resolvConf": "/nowhere/resolv.conf"}), none.clone(), ""),
        (one.clone(), none.clone(), "IP=10.1.2.77"),
        (one.clone(), none.clone(), "IP=10.1.2.77/24;IgnoreUnknown=true;K8S_POD_NAME=x"),
        (one.clone(), none.clone(), "IP=10.1.2.1"),
        (one.clone(), none.clone(), "IP=10.9.9.9"),
        (one.clone(), none.clone(), "IP="),
        (one.clone(), none.clone(), "IP=::ffff:10.1.2.88"),
        (one.clone(), none.clone(), "IP=rubbish"),
        (one.clone(), none.clone(), "K8S_POD_NAME=x"),
        (one.clone(), none.clone(), "rubbish"),
        (dual.clone(), json!({"args": {"cni": {"ips": ["10.1.2.50", "2001:db8:1::50/64"]}}}), ""),
        (dual.clone(), json!({"runtimeConfig": {"ips": ["2001:db8:1::60"]}}), "IP=10.1.2.60"),
        (one.clone(), json!({"runtimeConfig": {"ipRanges": [[{"subnet": "10.1.9.0/24", "rangeStart": "10.1.9.9"}]]}}), ""),
        (json!({}), json!({"runtimeConfig": {"ipRanges": [[{"subnet": "10.1.9.0/24"}]]}}), ""),
        (one.clone(), json!({"dns": "of another plugin", "runtimeConfig": {"portMappings": "too"}}), ""),
        (one.clone(), json!({"runtimeConfig": null, "args": {"cni": null}}), ""),
        (json!({}), none.clone(), ""),
        (json!({"ranges": [[]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.0/31"}]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.3/24"}]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.3.1"}]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.8"}]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "2001:db8::/64"}]]}), none.clone(), ""),
        (json!({"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.2.128/25"}]]}), none.clone(), ""),
        (json!({"subnet": "10.1.2.0"}), none.clone(), ""),
        (json!({"subnet": 5}), none.clone(), ""),
        (json!({"subnet": "10.1.2.0/24", "routes": [{"dst": "x"}]}), none, ""),
    ]
}

/// What the calls of one configuration answer, with the files after each.
fn play(subject: &Subject, version: Version, (ipam, more, args): &(Value, Value, &str)) -> Vec<(String, Answer, BTreeMap<String, String>)> {
    let data = TempDir::new().unwrap();
    let config = config(version.text(), ipam, more, data.path());
    let adding = subject.call("ADD", "a", args, &config).success;
    let mut calls = vec![
        ("DEL", "a"),
        ("ADD", "a"),
        ("ADD", "b"),
        ("ADD", "c"),
        ("DEL", "b"),
        ("ADD", "d"),
        ("CHECK", "a"),
        ("CHECK", "b"),
        ("DEL", "a"),
        ("DEL", "never-was"),
    ];
    if !adding {
        // Where the configuration is wrong, DEL of ours works and theirs does not; that is on purpose.
        calls.retain(|(command, _)| *command == "ADD");
    }
    if version < Version::V0_4_0 {
        calls.retain(|(command, _)| *command != "CHECK");
    }
    let mut seen = Vec::new();
    for (command, id) in calls {
        // A second container cannot have the address that the first one asked for; it goes without.
        let answer = subject.call(command, id, if id == "a" { args } else { "" }, &config);
        seen.push((format!("{command} {id}"), answer, files(data.path())));
    }
    seen
}

/// What may differ in an answer: texts of errors, and what older libraries print of 1.x.
fn comparable(answer: &Answer, version: Version, newest: bool) -> Answer {
    let stdout = match (answer.success, answer.stdout.as_str()) {
        (false, _) => String::new(),
        (true, text) if text.is_empty() || version < Version::V1_0_0 || newest => text.to_owned(),
        // The library of 1.0.0 prints an empty dns, and names in the order of its fields.
        (true, text) => {
            let mut result: Value = serde_json::from_str(text).unwrap();
            if result["dns"] == json!({}) {
                result.as_object_mut().unwrap().remove("dns");
            }
            result.sort_all_objects();
            result.to_string()
        }
    };
    Answer { stdout, success: answer.success }
}

#[test]
fn the_same_calls_give_the_same_results_and_the_same_files() {
    let Some(theirs) = Subject::reference("the_same_calls_give_the_same_results_and_the_same_files") else { return };
    let versions = theirs.versions();
    let newest = versions.contains(&Version::LATEST);
    let resolv_conf = tempfile::NamedTempFile::new().unwrap();
    fs::write(resolv_conf.path(), "nameserver 10.96.0.10\nsearch a.b c.d\noptions ndots:5\ndomain <x>&y\n").unwrap();
    for case in table(resolv_conf.path()) {
        for version in &versions {
            let (ours, theirs) = (play(&Subject::Ours, *version, &case), play(&theirs, *version, &case));
            assert_eq!(ours.len(), theirs.len(), "{version} {case:?}: {:?} {:?}", ours.first(), theirs.first());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let place = || format!("{version} {case:?} {}: ours {} theirs {}", ours.0, ours.1.stdout, theirs.1.stdout);
                assert_eq!(comparable(&ours.1, *version, newest), comparable(&theirs.1, *version, newest), "{}", place());
                assert_eq!(ours.2, theirs.2, "{}", place());
            }
        }
    }
}

#[test]
fn either_goes_on_where_the_other_stopped() {
    let Some(theirs) = Subject::reference("either_goes_on_where_the_other_stopped") else { return };
    let data = TempDir::new().unwrap();
    let ipam = json!({"ranges": [[{"subnet": "10.1.2.0/27"}], [{"subnet": "2001:db8:1::/123"}]]});
    let config = config("1.0.0", &ipam, &json!({}), data.path());
    let subject = |turn: usize| if turn.is_multiple_of(2) { &Subject::Ours } else { &theirs };
    let mut living = Vec::new();
    let mut last = 1;
    for turn in 0..120 {
        let id = format!("c{turn}");
        let answer = subject(turn).call("ADD", &id, "", &config);
        assert!(answer.success, "{turn}: {}", answer.stdout);
        let result: Value = serde_json::from_str(&answer.stdout).unwrap();
        // Round and round, whoever it was before, and never the gateway.
        last = if last == 30 { 2 } else { last + 1 };
        assert_eq!(result["ips"][0]["address"], json!(format!("10.1.2.{last}/27")), "{turn}");
        living.push(id);
        if living.len() > 5 {
            let oldest = living.remove(0);
            assert!(subject(turn / 2).call("CHECK", &oldest, "", &config).success, "{turn}");
            assert!(!subject(turn + 1).call("ADD", &oldest, "", &config).success, "{turn}");
            assert!(subject(turn / 3).call("DEL", &oldest, "", &config).success, "{turn}");
            assert!(!subject(turn / 2).call("CHECK", &oldest, "", &config).success, "{turn}");
        }
        assert_eq!(addresses(data.path()).len(), living.len() * 2, "{turn}");
    }
}

#[test]
fn both_at_once_give_out_no_address_twice_and_lose_none() {
    let Some(theirs) = Subject::reference("both_at_once_give_out_no_address_twice_and_lose_none") else { return };
    let data = TempDir::new().unwrap();
    let config = config("1.0.0", &json!({"subnet": "10.1.0.0/26"}), &json!({}), data.path());
    let subject = |number: usize| if number.is_multiple_of(2) { &Subject::Ours } else { &theirs };
    let all = |call: &(dyn Fn(usize) -> Answer + Sync)| -> Vec<Answer> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..50).map(|number| scope.spawn(move || call(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    for round in 0..3 {
        let added = all(&|number| subject(number).call("ADD", &format!("c{number}"), "", &config));
        let given: BTreeSet<String> = added
            .iter()
            .map(|answer| serde_json::from_str::<Value>(&answer.stdout).unwrap()["ips"][0]["address"].as_str().unwrap().replace("/26", ""))
            .collect();
        assert_eq!(given.len(), 50, "round {round}");
        assert_eq!(given, addresses(data.path()), "round {round}");
        let deleted = all(&|number| subject(number + 1).call("DEL", &format!("c{number}"), "", &config));
        assert!(deleted.iter().all(|answer| answer.success), "round {round}: {deleted:?}");
        assert_eq!(addresses(data.path()), BTreeSet::new(), "round {round}");
    }
}
