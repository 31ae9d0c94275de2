use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::ipam::host_local::HostLocal;
use crate::version::Version;

/// A directory for plugins, which is all of CNI_PATH.
struct Bench {
    directory: TempDir,
    registry: Registry,
}

impl Bench {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), registry: Registry::new(vec![Box::new(HostLocal)]) }
    }

    fn environment(&self) -> Environment {
        let variables = [
            ("CNI_COMMAND", OsString::from("DEL")),
            ("CNI_CONTAINERID", "c1".into()),
            ("CNI_NETNS", "/run/netns/x".into()),
            ("CNI_IFNAME", "eth0".into()),
            ("CNI_PATH", std::env::join_paths([self.directory.path().join("none"), self.directory.path().to_owned()]).unwrap()),
        ];
        Environment::read(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())).unwrap()
    }

    #[cfg(unix)]
    fn add(&self, plugin: &str) -> Result<AddResult> {
        Delegates::new(&self.registry).add(plugin, &self.environment(), br#"{"name":"n","cniVersion":"0.4.0","x":1.0}"#)
    }

    #[cfg(unix)]
    fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

#[test]
fn names_lead_to_regular_files_only() {
    let bench = Bench::new();
    fs::create_dir(bench.directory.path().join("folder")).unwrap();
    let paths = bench.environment().paths();
    for (name, message) in [
        ("", "no plugin name provided"),
        ("../x", "invalid plugin name"),
        ("/bin/true", "invalid plugin name"),
        ("folder", "failed to find plugin \"folder\" in path ["),
        ("absent", "failed to find plugin \"absent\" in path ["),
    ] {
        let error = find(name, &paths).unwrap_err();
        assert!(error.msg.contains(message), "{}", error.msg);
    }
    assert_eq!(find("x", &[]).unwrap_err().code, 4);
}

#[test]
fn ours_are_called_in_this_process() {
    let bench = Bench::new();
    let data = bench.directory.path().join("data");
    let ipam = json!({"type": "host-local", "subnet": "10.0.0.0/24", "dataDir": data});
    let configuration = json!({"name": "n", "cniVersion": "0.4.0", "ipam": ipam}).to_string();
    let delegates = Delegates::new(&bench.registry);
    let result = delegates.add("host-local", &bench.environment(), configuration.as_bytes()).unwrap();
    assert_eq!(result.ips[0].address.to_string(), "10.0.0.2/24");
    assert!(data.join("n/10.0.0.2").exists());
    delegates.run(Command::Check, "host-local", &bench.environment(), configuration.as_bytes()).unwrap();
    delegates.run(Command::Del, "host-local", &bench.environment(), configuration.as_bytes()).unwrap();
    assert!(!data.join("n/10.0.0.2").exists());
}

#[test]
fn the_plugin_for_addresses_is_the_one_configured() {
    let bench = Bench::new();
    let call = |ipam: serde_json::Value| Call {
        environment: bench.environment(),
        config: Config::read(json!({"name": "n", "cniVersion": "1.1.0", "ipam": ipam}).to_string().as_bytes()).unwrap(),
        delegates: Delegates::new(&bench.registry),
    };
    let ours = call(json!({"type": "host-local", "subnet": "10.0.0.0/24", "dataDir": bench.directory.path()}));
    assert_eq!(ours.ipam_add().unwrap().unwrap().ips.len(), 1);
    assert_eq!(ours.ipam(Command::Check), Ok(()));
    assert_eq!(ours.ipam(Command::Del), Ok(()));
    assert_eq!(ours.ipam(Command::Check).unwrap_err().code, 3);
    for none in [json!(null), json!({})] {
        assert_eq!(call(none.clone()).ipam_add(), Ok(None));
        assert_eq!(call(none).ipam(Command::Check), Ok(()));
    }
    let absent = call(json!({"type": "absent"}));
    assert!(absent.ipam_add().unwrap_err().msg.contains("failed to find plugin \"absent\""));
}

#[cfg(unix)]
#[test]
fn a_program_gets_the_whole_configuration_and_the_variables() {
    let bench = Bench::new();
    let seen = bench.directory.path().join("seen");
    bench.script(
        "other",
        &format!(
            "cat > {0}.in; echo $CNI_COMMAND $CNI_CONTAINERID $CNI_IFNAME $CNI_NETNS ${{CNI_ARGS-unset}} > {0}.env; echo '{{\"ips\":[{{\"version\":\"4\",\"address\":\"10.0.0.9/8\"}}]}}'",
            seen.display()
        ),
    );
    let result = bench.add("other").unwrap();
    assert_eq!(result.ips[0].address.to_string(), "10.0.0.9/8");
    assert_eq!(fs::read(seen.with_extension("in")).unwrap(), br#"{"name":"n","cniVersion":"0.4.0","x":1.0}"#);
    assert_eq!(fs::read_to_string(seen.with_extension("env")).unwrap(), "ADD c1 eth0 /run/netns/x unset\n");
}

#[cfg(unix)]
#[test]
fn what_a_program_reports_is_passed_on() {
    let bench = Bench::new();
    bench.script("failing", "echo '{\"code\": 11, \"msg\": \"busy\", \"details\": \"later\"}'; exit 3");
    assert_eq!(bench.add("failing").unwrap_err(), Error::try_again_later("busy").details("later"));
    let environment = bench.environment();
    let run = Delegates::new(&bench.registry).run(Command::Del, "failing", &environment, b"{}");
    assert_eq!(run.unwrap_err().code, 11);
}

#[cfg(unix)]
#[test]
fn silence_and_rubbish_are_reported_with_what_was_said() {
    let bench = Bench::new();
    let table = [
        ("exit 3", 999, "failed with no error message: exit status: 3"),
        ("echo oh no >&2; exit 1", 999, "failed: \"oh no\\n\": exit status: 1"),
        ("echo rubbish; exit 1", 999, "its message \"rubbish\\n\" cannot be read"),
        ("echo 5; exit 1", 999, "its message \"5\\n\" cannot be read"),
        ("kill -9 $$", 999, "signal: 9"),
        ("true", 6, "its result cannot be read"),
        ("echo rubbish", 6, "its result cannot be read"),
        ("echo null", 6, "the result of rubbish: an object is expected"),
        ("echo '{\"ips\": [{\"address\": 5}]}'", 6, "the result of rubbish.ips[0].address: a string is expected"),
        ("echo '{\"cniVersion\": \"7.0.0\"}'", 1, "there are no results of version \"7.0.0\""),
        ("head -c 5000000 /dev/zero", 999, "its message"),
    ];
    for (script, code, message) in table {
        bench.script("rubbish", script);
        let error = bench.add("rubbish").unwrap_err();
        assert_eq!(error.code, code, "{script}: {error}");
        assert!(error.msg.contains(message), "{script}: {error}");
        assert!(error.to_string().len() < 1500, "{script}");
    }
    bench.script("rubbish", "echo rubbish");
    assert_eq!(bench.add("rubbish").unwrap_err().details, "it printed \"rubbish\\n\"");
}

#[cfg(unix)]
#[test]
fn a_program_that_reads_nothing_is_no_failure() {
    let bench = Bench::new();
    bench.script("deaf", "echo '{\"ips\": []}'");
    let configuration = format!(r#"{{"name":"n","cniVersion":"1.0.0","x":"{}"}}"#, "x".repeat(1 << 20));
    let result = Delegates::new(&bench.registry).add("deaf", &bench.environment(), configuration.as_bytes());
    assert_eq!(result, Ok(AddResult::default()));
}

#[cfg(unix)]
#[test]
fn a_program_that_hangs_is_killed_with_its_children() {
    let bench = Bench::new();
    let mark = bench.directory.path().join("mark");
    bench.script("hanging", &format!("(sleep 3; touch {}) & sleep 600", mark.display()));
    // Long enough for a second attempt: another test may fork while the script is being written.
    let delegates = Delegates::new(&bench.registry).with_time_limit(Duration::from_millis(1500));
    let error = delegates.add("hanging", &bench.environment(), br#"{"name":"n"}"#).unwrap_err();
    assert_eq!(error.code, 11);
    assert!(error.msg.contains("did not end within 1.5 s; it was killed with its children"), "{}", error.msg);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!mark.exists(), "a child lives on");
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_being_written_is_tried_again() {
    let bench = Bench::new();
    let path = bench.directory.path().join("busy");
    fs::copy("/bin/true", &path).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        drop(writer);
    });
    let run = Delegates::new(&bench.registry).run(Command::Del, "busy", &bench.environment(), b"{}");
    closing.join().unwrap();
    assert_eq!(run, Ok(()));
}

#[cfg(unix)]
#[test]
fn what_is_no_program_is_named() {
    let bench = Bench::new();
    let path = bench.directory.path().join("text");
    fs::write(&path, "no program").unwrap();
    let error = bench.add("text").unwrap_err();
    assert_eq!(error.code, 5);
    assert!(error.msg.contains(&path.display().to_string()), "{}", error.msg);
}

#[test]
fn results_without_a_version_are_of_the_configurations() {
    let result = read_result("x", r#"{"ip4":{"ip":"10.0.0.2/24"}}"#, br#"{"name":"n","cniVersion":"0.2.0"}"#).unwrap();
    assert_eq!(result.ips.len(), 1);
    assert!(result.print(Version::LATEST).is_ok());
}
