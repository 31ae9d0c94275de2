//! The program as a CNI plugin: installed by itself, called as a runtime calls it, many at once, and beside the reference.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

const PROCESSES: usize = 50;

fn transom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transom")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Installs the plugins into a directory, and gives the path of host-local.
fn install(directory: &Path) -> PathBuf {
    let output = transom(&["cni", "install", directory.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    directory.join("host-local")
}

fn call(program: &Path, arguments: &[&str], command: &str, id: &str, config: &Value) -> Output {
    let variables =
        [("CNI_COMMAND", command), ("CNI_CONTAINERID", id), ("CNI_NETNS", "dummy"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/nowhere")];
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn config(data: &Path) -> Value {
    json!({"name": "net", "cniVersion": "1.0.0", "ipam": {"type": "host-local", "subnet": "10.1.0.0/26", "dataDir": data}})
}

fn addresses(data: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(data.join("net")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("10.")).collect()
}

/// Links to the program itself stay, and what is something else becomes one.
#[test]
fn installing_again_changes_only_what_is_different() {
    use std::os::unix::fs::MetadataExt;
    let directory = TempDir::new().unwrap();
    let files = || {
        let entry = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino());
        fs::read_dir(directory.path()).unwrap().map(|found| entry(found.unwrap())).collect::<BTreeSet<_>>()
    };
    let plugin = install(directory.path());
    let before = files();
    assert!(before.iter().any(|(name, _)| name == "azure-vnet") && before.iter().any(|(name, _)| name == "azure-vnet-ipamv6"));
    fs::remove_file(&plugin).unwrap();
    fs::write(&plugin, "an older one").unwrap();
    install(directory.path());
    let names = |files: &BTreeSet<(String, u64)>| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&files()), names(&before), "nothing is left beside them");
    assert!(fs::metadata(&plugin).unwrap().len() > 1000);
}

#[test]
fn installed_under_its_name_it_is_the_plugin() {
    let directory = TempDir::new().unwrap();
    let plugin = install(&directory.path().join("bin"));
    let config = config(directory.path());
    let added = call(&plugin, &[], "ADD", "a", &config);
    assert!(added.status.success(), "{added:?}");
    let expected = "{\n    \"cniVersion\": \"1.0.0\",\n    \"ips\": [\n        {\n            \"address\": \"10.1.0.2/26\",\n            \"gateway\": \"10.1.0.1\"\n        }\n    ]\n}";
    assert_eq!(String::from_utf8(added.stdout).unwrap(), expected);
    let again = call(&plugin, &[], "ADD", "a", &config);
    assert_eq!(again.status.code(), Some(1));
    let error: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(error["code"], json!(999));
    // By name it is the same.
    let deleted = call(env!("CARGO_BIN_EXE_transom").as_ref(), &["cni", "run", "host-local"], "DEL", "a", &config);
    assert!(deleted.status.success() && deleted.stdout.is_empty(), "{deleted:?}");
    assert!(addresses(directory.path()).is_empty());
    let about = Command::new(&plugin).stdin(Stdio::null()).env_remove("CNI_COMMAND").output().unwrap();
    assert!(about.status.success() && about.stdout.is_empty());
    assert!(
        String::from_utf8(about.stderr)
            .unwrap()
            .contains("CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0")
    );
}

#[test]
fn a_configuration_is_installed_beside() {
    let directory = TempDir::new().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (bin, conf, conf_dir) = (place("bin"), place("10-pods.conflist"), place("net.d"));
    fs::write(&conf, r#"{"name": "pods", "cniVersion": "1.0.0", "plugins": []}"#).unwrap();
    for _ in 0..2 {
        let output = transom(&["cni", "install", &bin, "--conf", &conf, "--conf-dir", &conf_dir]);
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(fs::read(directory.path().join("net.d/10-pods.conflist")).unwrap(), fs::read(&conf).unwrap());
    assert_eq!(fs::read_dir(&conf_dir).unwrap().count(), 1);
    assert_eq!(transom(&["cni", "install", &bin, "--conf", &conf]).status.code(), Some(2));
    fs::write(&conf, "broken").unwrap();
    assert_eq!(transom(&["cni", "install", &bin, "--conf", &conf, "--conf-dir", &conf_dir]).status.code(), Some(2));
    assert_eq!(transom(&["cni", "run", "frob"]).status.code(), Some(3));
}

/// Adds all at once and deletes all at once, by programs in turn; nothing is given out twice, and nothing is left.
fn storm(adding: &[PathBuf], deleting: &[PathBuf]) {
    let data = TempDir::new().unwrap();
    let config = config(data.path());
    let all = |command: &str, programs: &[PathBuf]| -> Vec<Output> {
        std::thread::scope(|scope| {
            let start = |number: usize| {
                let (config, program) = (&config, &programs[number % programs.len()]);
                let id = format!("c{number}");
                let command = command.to_owned();
                scope.spawn(move || call(program, &[], &command, &id, config))
            };
            let threads: Vec<_> = (0..PROCESSES).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    let given = all("ADD", adding).into_iter().map(|output| {
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        result["ips"][0]["address"].as_str().unwrap_or_else(|| panic!("{result}")).replace("/26", "")
    });
    let given: BTreeSet<String> = given.collect();
    assert_eq!(given.len(), PROCESSES);
    assert_eq!(given, addresses(data.path()));
    for output in all("DEL", deleting) {
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(addresses(data.path()), BTreeSet::new());
}

#[test]
fn many_processes_at_once() {
    let directory = TempDir::new().unwrap();
    let ours = install(directory.path());
    storm(std::slice::from_ref(&ours), std::slice::from_ref(&ours));
}

#[test]
fn many_processes_at_once_of_ours_and_the_reference() {
    let theirs = PathBuf::from("/usr/lib/cni/host-local");
    if !theirs.is_file() {
        return println!("skipped: many_processes_at_once_of_ours_and_the_reference: install containernetworking-plugins");
    }
    let directory = TempDir::new().unwrap();
    let ours = install(directory.path());
    storm(&[ours.clone(), theirs.clone()], &[theirs, ours]);
}

/// Killed at any instant, a plugin leaves nothing that keeps the next one from its work, and GC leaves nothing at all.
#[test]
fn killed_processes_block_nobody() {
    let directory = TempDir::new().unwrap();
    let (plugin, data) = (install(&directory.path().join("bin")), directory.path());
    let mut config = config(data);
    config["cniVersion"] = "1.1.0".into();
    for number in 0..40u64 {
        let mut command = Command::new(&plugin);
        command.env("CNI_COMMAND", "ADD").env("CNI_CONTAINERID", format!("killed{number}")).env("CNI_NETNS", "dummy");
        command.env("CNI_IFNAME", "eth0").env("CNI_PATH", "/nowhere").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_micros(number * 250));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let added = call(&plugin, &[], "ADD", "alive", &config);
    assert!(added.status.success(), "{added:?}");
    config["cni.dev/valid-attachments"] = json!([{"containerID": "alive", "ifname": "eth0"}]);
    let collected = call(&plugin, &[], "GC", "", &config);
    assert!(collected.status.success(), "{collected:?}");
    assert_eq!(addresses(data).len(), 1);
}

#[test]
fn nothing_is_wrong_with_what_is_printed_to_begin_with() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("sample.conflist");
    for name in ["win-overlay", "win-bridge", "flannel", "nat", "azure"] {
        let printed = transom(&["cni", "sample", name]);
        assert!(printed.status.success(), "{printed:?}");
        fs::write(&file, &printed.stdout).unwrap();
        let checked = transom(&["cni", "check-config", file.to_str().unwrap()]);
        assert_eq!((checked.status.code(), String::from_utf8_lossy(&checked.stdout).as_ref()), (Some(0), ""), "{name}");
    }
    assert_eq!(transom(&["cni", "sample", "frob"]).status.code(), Some(2));
}

#[test]
fn findings_have_a_place_and_an_exit_code() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("pods.conflist");
    let path = file.to_str().unwrap();
    let check = |more: &[&str]| {
        let output = transom(&[&["cni", "check-config", path], more].concat());
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let sample = String::from_utf8(transom(&["cni", "sample", "win-bridge"]).stdout).unwrap();
    fs::write(&file, sample.replace("\"rangeStart\": \"10.244.1.3\"", "\"rangeEnd\": \"10.244.1.99\"")).unwrap();
    let (code, text) = check(&[]);
    assert_eq!(code, 1);
    let expected = "error: plugins[0].ipam: host-local would give out 10.244.1.2, which is the gateway that win-bridge gives to pods";
    assert!(text.starts_with(&format!("{path}:12:19: {expected}\n")), "{text}");
    assert!(text.contains("fix: set rangeStart to \"10.244.1.3\" or later\n"), "{text}");
    fs::write(&file, &sample).unwrap();
    assert_eq!(check(&["--management-cidr", "192.168.1.0/24", "--cluster-cidr", "10.244.0.0/16"]), (0, String::new()));
    let (code, text) = check(&["--management-cidr", "192.168.0.0/16", "-o", "json"]);
    let findings: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &findings[0]["Line"], &findings[0]["Severity"]), (1, &json!(20), &json!("error")), "{text}");
    assert_eq!(findings[0]["Fix"], "add \"192.168.0.0/16\" to the exceptions");
    assert_eq!(check(&["--profile", "frob"]).0, 3);
    assert_eq!(transom(&["cni", "check-config", "/nowhere"]).status.code(), Some(2));
    fs::write(&file, sample.replace("\"apiVersion\"", "\"x-note\": 1, \"apiVersion\"")).unwrap();
    let (code, text) = check(&[]);
    assert_eq!((code, text.matches(": warning: ").count()), (0, 1), "{text}");
}

#[test]
fn builds_have_limits_of_their_own() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("a.conflist");
    let policy = |kind: &str, settings: Value| json!({"name": "NetworkPolicy", "value": {"Type": kind, "Settings": settings}});
    let policies = json!([policy("VSID", json!({"IsolationId": 100})), policy("VxlanPort", json!({"Port": 8472}))]);
    let document = json!({"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "sdnoverlay", "AdditionalArgs": policies}]});
    fs::write(&file, document.to_string()).unwrap();
    for (profile, errors) in [("ws2019", 2), ("ws2022", 1), ("transom", 0)] {
        let output = transom(&["cni", "check-config", file.to_str().unwrap(), "--profile", profile]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.matches(": error: ").count(), errors, "{profile}: {text}");
    }
}
