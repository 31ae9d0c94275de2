use std::cell::Cell;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Does as its configuration says, and counts what it is asked.
#[derive(Default)]
struct Obedient {
    dels: AtomicU32,
}

impl Obedient {
    fn obey(&self, call: &Call<'_>) -> Result<()> {
        match call.config.root().text("do")?.as_str() {
            "fail" => Err(Error::new(100, "as told").details("really")),
            "panic" => panic!("as told"),
            _ => Ok(()),
        }
    }
}

impl Plugin for Obedient {
    fn name(&self) -> &'static str {
        "obedient"
    }

    fn about(&self) -> &'static str {
        "does as it is told"
    }

    fn versions(&self) -> &'static [Version] {
        &[Version::V0_2_0, Version::V0_4_0, Version::V1_1_0]
    }

    fn add(&self, call: &Call<'_>) -> Result<AddResult> {
        self.obey(call)?;
        call.config.prev_result().map(Option::unwrap_or_default)
    }

    fn del(&self, call: &Call<'_>) -> Result<()> {
        self.dels.fetch_add(1, Ordering::Relaxed);
        self.obey(call)
    }

    fn check(&self, call: &Call<'_>) -> Result<()> {
        self.obey(call)
    }

    fn gc(&self, call: &Call<'_>) -> Result<()> {
        self.obey(call)
    }

    fn status(&self, call: &Call<'_>) -> Result<()> {
        self.obey(call)
    }
}

fn call_with(plugin: &Obedient, variables: &[(&str, &str)], stdin: &[u8]) -> Outcome {
    let read = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    dispatch(plugin, &Registry::default(), &read, || Ok(stdin.to_vec()))
}

fn call(command: &str, stdin: &str) -> Outcome {
    let variables =
        [("CNI_COMMAND", command), ("CNI_CONTAINERID", "c"), ("CNI_NETNS", "/nowhere"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/nowhere")];
    call_with(&Obedient::default(), &variables, stdin.as_bytes())
}

fn error_of(outcome: &Outcome) -> (u64, String, String) {
    assert_eq!(outcome.exit_code, 1, "{outcome:?}");
    let error: Value = serde_json::from_str(&outcome.stdout).unwrap();
    (error["code"].as_u64().unwrap(), error["msg"].as_str().unwrap().to_owned(), error["cniVersion"].as_str().unwrap().to_owned())
}

#[test]
fn without_a_command_it_introduces_itself() {
    for variables in [&[][..], &[("CNI_COMMAND", "")]] {
        let outcome = call_with(&Obedient::default(), variables, b"");
        assert_eq!((outcome.stdout.as_str(), outcome.exit_code), ("", 0));
        assert!(outcome.stderr.starts_with("CNI plugin obedient"), "{}", outcome.stderr);
        assert!(outcome.stderr.ends_with("CNI protocol versions supported: 0.2.0, 0.4.0, 1.1.0\n"), "{}", outcome.stderr);
    }
}

#[test]
fn versions_are_told_without_reading_anything() {
    let read = Cell::new(false);
    let outcome = dispatch(&Obedient::default(), &Registry::default(), &|name| (name == "CNI_COMMAND").then(|| "VERSION".into()), || {
        read.set(true);
        Ok(Vec::new())
    });
    assert_eq!(outcome.stdout, "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.2.0\",\"0.4.0\",\"1.1.0\"]}\n");
    assert!(!read.get());
}

#[test]
fn a_result_is_printed_in_the_configurations_version() {
    let stdin = r#"{"name":"n","cniVersion":"0.4.0","prevResult":{"ips":[{"version":"4","address":"10.0.0.2/24"}]}}"#;
    let outcome = call("ADD", stdin);
    let expected = "{\n    \"cniVersion\": \"0.4.0\",\n    \"ips\": [\n        {\n            \"version\": \"4\",\n            \"address\": \"10.0.0.2/24\"\n        }\n    ],\n    \"dns\": {}\n}";
    assert_eq!((outcome.stdout.as_str(), outcome.exit_code), (expected, 0));
}

#[test]
fn the_other_commands_print_nothing() {
    for command in ["DEL", "CHECK", "GC", "STATUS"] {
        assert_eq!(call(command, r#"{"name":"n","cniVersion":"1.1.0"}"#), Outcome::default(), "{command}");
    }
}

#[test]
fn errors_are_told_on_standard_output() {
    let (code, message, version) = error_of(&call("DEL", r#"{"name":"n","cniVersion":"0.4.0","do":"fail"}"#));
    assert_eq!((code, message.as_str(), version.as_str()), (100, "as told", "0.4.0"));
    assert_eq!(error_of(&call("FROB", "")).1, "unknown CNI_COMMAND: FROB");
    assert_eq!(error_of(&call("ADD", "{")).0, 6);
    assert_eq!(error_of(&call("ADD", "{}")).0, 7);
    let missing = call_with(&Obedient::default(), &[("CNI_COMMAND", "ADD")], b"");
    assert_eq!(error_of(&missing).1, "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing");
}

#[test]
fn standard_input_that_breaks_is_told() {
    let variables =
        |name: &str| [("CNI_COMMAND", "GC"), ("CNI_PATH", "/x")].iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
    let outcome = dispatch(&Obedient::default(), &Registry::default(), &variables, || Err(io::Error::other("gone")));
    assert_eq!(error_of(&outcome).0, 5);
}

#[test]
fn commands_have_the_versions_they_came_with() {
    let table = [
        ("CHECK", "0.2.0", 1, "config version does not allow CHECK"),
        ("CHECK", "0.3.9", 1, "config version does not allow CHECK"),
        ("CHECK", "1.0.0", 1, "incompatible CNI versions"),
        ("CHECK", "2.0.0", 1, "plugin version does not allow CHECK"),
        ("GC", "0.4.0", 1, "config version does not allow GC"),
        ("STATUS", "1.0.0", 1, "config version does not allow STATUS"),
        ("STATUS", "1.x", 6, "is no version"),
        ("ADD", "1.0.0", 1, "incompatible CNI versions"),
        ("DEL", "rubbish", 1, "incompatible CNI versions"),
    ];
    for (command, version, code, message) in table {
        let (found, text, _) = error_of(&call(command, &format!(r#"{{"name":"n","cniVersion":"{version}"}}"#)));
        assert_eq!(found, code, "{command} {version}");
        assert!(text.contains(message), "{command} {version}: {text}");
    }
}

#[test]
fn a_result_that_cannot_be_printed_is_undone() {
    let plugin = Obedient::default();
    let variables =
        [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "c"), ("CNI_NETNS", "/nowhere"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/nowhere")];
    let outcome = call_with(&plugin, &variables, br#"{"name":"n","cniVersion":"0.2.0"}"#);
    assert!(error_of(&outcome).1.contains("no valid IP addresses"));
    assert_eq!(plugin.dels.load(Ordering::Relaxed), 1);
}

#[test]
fn a_plugin_that_breaks_down_is_an_error_like_any_other() {
    let (code, message, _) = error_of(&call("STATUS", r#"{"name":"n","cniVersion":"1.1.0","do":"panic"}"#));
    assert_eq!((code, message.as_str()), (999, "obedient broke down on STATUS"));
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_added_to_the_plugins_own_namespace() {
    let call = |command, netns_override| {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c"),
            ("CNI_NETNS", "/proc/self/ns/net"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/x"),
            ("CNI_NETNS_OVERRIDE", netns_override),
        ];
        call_with(&Obedient::default(), &variables, br#"{"name":"n","cniVersion":"1.1.0"}"#)
    };
    assert_eq!(error_of(&call("ADD", "")).0, 8);
    assert_eq!(call("ADD", "1").exit_code, 0);
    assert_eq!(call("DEL", "").exit_code, 0);
}

proptest! {
    /// Whatever stands in the variables and on standard input, the answer is nothing or one JSON document.
    #[test]
    fn any_call_is_answered(command in "(ADD|DEL|CHECK|GC|STATUS|VERSION|.{0,4})", id in ".{0,8}", ifname in ".{0,8}", stdin in prop::collection::vec(any::<u8>(), 0..64)) {
        let variables = [("CNI_COMMAND", command.as_str()), ("CNI_CONTAINERID", &id), ("CNI_NETNS", "x"), ("CNI_IFNAME", &ifname), ("CNI_PATH", "/x")];
        let outcome = call_with(&Obedient::default(), &variables, &stdin);
        prop_assert!(outcome.stdout.is_empty() || serde_json::from_str::<Value>(&outcome.stdout).is_ok());
        prop_assert_eq!(outcome.exit_code == 1, outcome.stdout.contains("\"code\""));
    }
}
