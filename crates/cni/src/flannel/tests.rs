use std::ffi::OsString;
use std::fs;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::dispatch::dispatch;
use crate::ipam::host_local::HostLocal;
use crate::plugin::Registry;

const ENV: &str = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
const DUAL: &str = "FLANNEL_IPV6_NETWORK=2001:db8:42::/56\nFLANNEL_IPV6_SUBNET=2001:db8:42::1/64\n";

type Seen = Arc<Mutex<Vec<(Command, String, Value)>>>;

/// A delegate that notes what it is called with, and takes addresses as a real one does.
struct Witness {
    name: &'static str,
    seen: Seen,
    data: PathBuf,
}

impl Witness {
    fn call(&self, call: &Call<'_>) -> Result<Option<AddResult>> {
        let environment = &call.environment;
        let mut document = call.config.root().map().clone();
        let note = (environment.command, format!("{} {}", environment.container_id, environment.ifname), document.clone().into());
        self.seen.lock().unwrap().push(note);
        if call.config.root().text("fail")? == environment.command.text() {
            return Err(Error::new(100, "as told"));
        }
        document["ipam"]["dataDir"] = self.data.to_str().into();
        let (ipam, bytes) = (call.config.ipam_type()?, Value::Object(document).to_string());
        match environment.command {
            Command::Add => call.delegates.add(&ipam, environment, bytes.as_bytes()).map(Some),
            command => call.delegates.run(command, &ipam, environment, bytes.as_bytes()).map(|()| None),
        }
    }
}

impl Plugin for Witness {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        "notes its calls"
    }
    fn add(&self, call: &Call<'_>) -> Result<AddResult> {
        self.call(call).map(Option::unwrap_or_default)
    }
    fn del(&self, call: &Call<'_>) -> Result<()> {
        self.call(call).map(|_| ())
    }
    fn check(&self, call: &Call<'_>) -> Result<()> {
        self.call(call).map(|_| ())
    }
    fn gc(&self, call: &Call<'_>) -> Result<()> {
        self.call(call).map(|_| ())
    }
    fn status(&self, call: &Call<'_>) -> Result<()> {
        self.call(call).map(|_| ())
    }
}

/// A node with flanneld's file, and calls on it.
struct Bench {
    directory: TempDir,
    registry: Registry,
    seen: Seen,
}

impl Bench {
    fn new(env: &str) -> Self {
        let (directory, seen) = (TempDir::new().unwrap(), Seen::default());
        fs::write(directory.path().join("subnet.env"), env).unwrap();
        let witness = |name| Box::new(Witness { name, seen: seen.clone(), data: directory.path().join("networks") });
        let registry = Registry::new(vec![witness(DELEGATE), witness("win-overlay"), Box::new(HostLocal)]);
        Self { directory, registry, seen }
    }

    fn config(&self, delegate: Value) -> Value {
        let path = |name| self.directory.path().join(name);
        json!({"name": "net", "cniVersion": "1.1.0", "type": "flannel", "subnetFile": path("subnet.env"), "dataDir": path("flannel"), "delegate": delegate})
    }

    fn call_in(&self, netns: &str, command: &str, id: &str, config: &Value) -> Result<Value, (u64, String)> {
        let variables =
            [("CNI_COMMAND", command), ("CNI_CONTAINERID", id), ("CNI_NETNS", netns), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/x")];
        let read = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let outcome = dispatch(&Flannel, &self.registry, &read, || Ok(config.to_string().into_bytes()));
        let answer: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
        match outcome.exit_code {
            0 => Ok(answer),
            _ => Err((answer["code"].as_u64().unwrap(), format!("{}; {}", answer["msg"].as_str().unwrap(), answer["details"]))),
        }
    }

    fn call(&self, command: &str, id: &str, config: &Value) -> Result<Value, (u64, String)> {
        self.call_in("dummy", command, id, config)
    }

    fn state(&self, id: &str) -> PathBuf {
        self.directory.path().join("flannel").join(id)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.directory.path().join(directory)) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "lock" && !name.starts_with("last_reserved"));
        names.sort();
        names
    }

    /// The commands that the delegate got since the last time.
    fn commands(&self) -> String {
        let mut seen = self.seen.lock().unwrap();
        let texts: Vec<String> = seen.drain(..).map(|(command, who, _)| format!("{} {who}", command.text())).collect();
        texts.join(", ").replace("  ", "")
    }
}

#[test]
fn the_delegate_is_told_what_the_reference_tells_it() {
    let bench = Bench::new(ENV);
    let mut config = bench.config(json!({"apiVersion": 2, "policies": [], "ipMasq": false}));
    config["runtimeConfig"] = json!({"portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp"}]});
    let result = bench.call("ADD", "c1", &config).unwrap();
    assert_eq!(result["ips"][0]["address"], "10.244.1.2/24");
    let stored = fs::read_to_string(bench.state("c1")).unwrap();
    // As Go's encoder prints a map: in the order of keys, without a line break.
    let expected = r#"{"apiVersion":2,"cniVersion":"1.1.0","ipMasq":true,"ipMasqNetwork":"10.244.0.0/16","ipam":{"subnet":"10.244.1.0/24","type":"host-local"},"name":"net","policies":[],"runtimeConfig":{"portMappings":[{"containerPort":8080,"hostPort":80,"protocol":"tcp"}]},"type":"win-bridge"}"#;
    assert_eq!(stored, expected);
    let seen = bench.seen.lock().unwrap()[0].clone();
    assert_eq!((seen.0, seen.1.as_str(), seen.2.to_string()), (Command::Add, "c1 eth0", expected.to_owned()));
}

/// The delegate has a version even where this configuration has none; whoever asked gets the one that was asked for.
#[test]
fn results_are_of_the_version_that_was_asked_for() {
    for (asked, told, printed) in [
        (None, "0.2.0", "0.1.0"),
        (Some("0.1.0"), "0.1.0", "0.1.0"),
        (Some("0.2.0"), "0.2.0", "0.2.0"),
        (Some("0.4.0"), "0.4.0", "0.4.0"),
        (Some("1.1.0"), "1.1.0", "1.1.0"),
    ] {
        let bench = Bench::new(ENV);
        let mut config = bench.config(json!({}));
        config["cniVersion"] = asked.into();
        let result = bench.call("ADD", "c1", &config).unwrap();
        assert_eq!((&result["cniVersion"], result.get("ip4").is_some()), (&json!(printed), printed < "0.3.0"), "{asked:?}");
        assert_eq!(bench.seen.lock().unwrap()[0].2["cniVersion"], told, "{asked:?}");
        assert_eq!(bench.call("DEL", "c1", &config), Ok(Value::Null));
    }
}

#[cfg(unix)]
#[test]
fn states_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new(ENV);
    bench.call("ADD", "c1", &bench.config(json!({}))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&bench.state("c1")), mode(&bench.state(""))), (0o600, 0o700));
}

#[test]
fn versions_default_as_for_the_reference() {
    let bench = Bench::new(ENV);
    let mut config = bench.config(json!({"type": "win-overlay"}));
    config.as_object_mut().unwrap().remove("cniVersion");
    bench.call("ADD", "c1", &config).unwrap();
    let stored: Value = serde_json::from_slice(&fs::read(bench.state("c1")).unwrap()).unwrap();
    assert_eq!((&stored["cniVersion"], &stored["type"]), (&json!("0.2.0"), &json!("win-overlay")));
}

#[test]
fn both_families_and_ipv6_alone_work() {
    let bench = Bench::new(&format!("{ENV}{DUAL}"));
    let result = bench.call("ADD", "c1", &bench.config(json!({}))).unwrap();
    let ips: Vec<&str> = result["ips"].as_array().unwrap().iter().map(|ip| ip["address"].as_str().unwrap()).collect();
    assert_eq!(ips, ["10.244.1.2/24", "2001:db8:42::2/64"]);
    let alone = Bench::new(&format!("FLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n{DUAL}"));
    let result = alone.call("ADD", "c1", &alone.config(json!({}))).unwrap();
    assert_eq!(result["ips"][0]["address"], "2001:db8:42::2/64");
    let stored: Value = serde_json::from_slice(&fs::read(alone.state("c1")).unwrap()).unwrap();
    assert_eq!((&stored["ipMasqNetwork"], &stored["ipMasq"]), (&json!("2001:db8:42::/56"), &json!(false)));
    assert_eq!(stored["ipam"], json!({"type": "host-local", "ranges": [[{"subnet": "2001:db8:42::/64"}]]}));
    assert_eq!(alone.call("DEL", "c1", &alone.config(json!({}))), Ok(Value::Null));
}

#[test]
fn del_needs_nothing_but_the_state() {
    let bench = Bench::new(ENV);
    bench.call("ADD", "c1", &bench.config(json!({"type": "win-overlay"}))).unwrap();
    fs::remove_file(bench.directory.path().join("subnet.env")).unwrap();
    let other = bench.config(json!({"type": "absent"}));
    assert_eq!(bench.call("DEL", "c1", &other), Ok(Value::Null));
    assert_eq!(bench.call("DEL", "c1", &other), Ok(Value::Null));
    assert_eq!(bench.commands(), "ADD c1 eth0, DEL c1 eth0");
    assert_eq!((bench.names("flannel"), bench.names("networks/net")), (vec![], vec![]));
}

#[test]
fn a_del_that_fails_keeps_the_state() {
    let bench = Bench::new(ENV);
    let config = bench.config(json!({"fail": "DEL"}));
    bench.call("ADD", "c1", &config).unwrap();
    assert_eq!(bench.call("DEL", "c1", &config).unwrap_err().0, 100);
    assert_eq!(bench.names("flannel"), ["c1"]);
}

#[test]
fn a_failed_add_is_undone_unless_the_container_was_there() {
    let bench = Bench::new(ENV);
    let failing = bench.config(json!({"fail": "ADD"}));
    let (code, message) = bench.call("ADD", "c1", &failing).unwrap_err();
    assert_eq!((code, message.starts_with("failed to delegate add: as told")), (100, true), "{message}");
    assert_eq!(bench.commands(), "ADD c1 eth0, DEL c1 eth0");
    assert!(bench.names("flannel").is_empty());
    bench.call("ADD", "c1", &bench.config(json!({}))).unwrap();
    let before = fs::read(bench.state("c1")).unwrap();
    bench.call("ADD", "c1", &failing).unwrap_err();
    assert_eq!(bench.commands(), "ADD c1 eth0, ADD c1 eth0");
    assert_eq!(fs::read(bench.state("c1")).unwrap(), before);
    assert_eq!(bench.names("networks/net"), ["10.244.1.2"]);
}

#[test]
fn a_workload_container_has_the_state_of_its_sandbox() {
    let bench = Bench::new(ENV);
    bench.call_in("none", "ADD", "sandbox", &bench.config(json!({}))).unwrap();
    bench.call_in("container:sandbox", "DEL", "workload", &bench.config(json!({}))).unwrap();
    assert!(bench.names("flannel").is_empty());
}

#[test]
fn no_id_leads_out_of_the_directory() {
    let bench = Bench::new(ENV);
    let config = bench.config(json!({}));
    let victim = bench.directory.path().join("victim");
    fs::write(&victim, "{}").unwrap();
    for netns in ["container:../victim", "container:", "container:..", "container:a/b", "container:a\\b", "container:C:x"] {
        for command in ["ADD", "DEL", "CHECK"] {
            assert_eq!(bench.call_in(netns, command, "c1", &config).unwrap_err().0, 4, "{command} {netns}");
        }
    }
    for id in ["../victim", "..", ".hidden", "a/b"] {
        assert_eq!(bench.call("DEL", id, &config).unwrap_err().0, 4, "{id}");
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "{}");
    assert_eq!(bench.commands(), "");
}

#[test]
fn delegates_have_no_name_and_no_ipam_of_their_own() {
    let bench = Bench::new(ENV);
    for (delegate, message) in [
        (json!({"name": "x"}), "delegate.name: flannel sets it"),
        (json!({"ipam": {}}), "delegate.ipam: flannel sets it"),
        (json!({"type": 5}), "delegate.type: the name of a plugin is expected"),
        (json!({"type": ""}), "delegate.type: the name of a plugin is expected"),
        (json!([]), "delegate: an object is expected"),
    ] {
        let (_, found) = bench.call("ADD", "c1", &bench.config(delegate)).unwrap_err();
        assert!(found.starts_with(message), "{found}");
    }
    assert!(bench.names("flannel").is_empty());
}

#[test]
fn a_torn_state_stops_add_and_check_but_not_del() {
    let bench = Bench::new(ENV);
    let config = bench.config(json!({}));
    bench.call("ADD", "c1", &config).unwrap();
    let whole = fs::read(bench.state("c1")).unwrap();
    for content in [&whole[..whole.len() / 2], b"", b"null", br#"{"name":"net"}"#, b"\0\0\0"] {
        fs::write(bench.state("c1"), content).unwrap();
        for command in ["ADD", "CHECK"] {
            let (code, message) = bench.call(command, "c1", &config).unwrap_err();
            assert_eq!(code, 6);
            assert!(message.contains(bench.state("c1").to_str().unwrap()) && message.contains("DEL the container"), "{message}");
        }
    }
    assert_eq!(bench.call("DEL", "c1", &config), Ok(Value::Null));
    assert_eq!((bench.names("flannel"), bench.names("networks/net")), (vec![], vec![]));
    fs::write(bench.state("c2"), "").unwrap();
    fs::remove_file(bench.directory.path().join("subnet.env")).unwrap();
    let (code, message) = bench.call("DEL", "c2", &config).unwrap_err();
    assert_eq!(code, 11);
    assert!(message.contains("flannel/c2") && message.contains("subnet.env is not there"), "{message}");
}

#[test]
fn a_state_that_no_disk_gives_back_keeps_no_pod() {
    let bench = Bench::new(ENV);
    let config = bench.config(json!({}));
    bench.call("ADD", "c1", &config).unwrap();
    fs::File::options().write(true).open(bench.state("c1")).unwrap().set_len(17 << 20).unwrap();
    let (_, message) = bench.call("CHECK", "c1", &config).unwrap_err();
    assert!(message.contains("flannel/c1 cannot be read: it has more than"), "{message}");
    assert_eq!(bench.call("DEL", "c1", &config), Ok(Value::Null));
    assert_eq!((bench.names("flannel"), bench.names("networks/net")), (vec![], vec![]));
}

#[test]
fn check_asks_the_delegate_with_what_was_stored() {
    let bench = Bench::new(ENV);
    let mut config = bench.config(json!({"mark": 1}));
    let result = bench.call("ADD", "c1", &config).unwrap();
    config["prevResult"] = result.clone();
    config["delegate"] = json!({"mark": 2});
    bench.call("CHECK", "c1", &config).unwrap();
    let (command, _, document) = bench.seen.lock().unwrap().pop().unwrap();
    assert_eq!((command, &document["mark"], &document["prevResult"]), (Command::Check, &json!(1), &result));
    fs::remove_file(bench.directory.path().join("networks/net/10.244.1.2")).unwrap();
    assert!(bench.call("CHECK", "c1", &config).is_err());
    assert_eq!(bench.call("CHECK", "c9", &config).unwrap_err().0, 3);
}

#[test]
fn gc_removes_what_is_not_valid_and_of_this_network() {
    let bench = Bench::new(ENV);
    let mut config = bench.config(json!({}));
    for id in ["a", "b", "c"] {
        bench.call("ADD", id, &config).unwrap();
    }
    fs::write(bench.state("foreign"), r#"{"name":"other","type":"win-bridge"}"#).unwrap();
    fs::write(bench.state("torn"), "{").unwrap();
    bench.commands();
    config["cni.dev/valid-attachments"] = json!([{"containerID": "b", "ifname": "eth0"}]);
    bench.call("GC", "", &config).unwrap();
    assert_eq!(bench.commands(), "DEL a eth0, DEL c eth0, DEL torn eth0, GC");
    assert_eq!(
        (bench.names("flannel"), bench.names("networks/net")),
        (vec!["b".to_owned(), "foreign".to_owned()], vec!["10.244.1.3".to_owned()])
    );
}

#[test]
fn gc_goes_on_after_failures_and_tells_them_all() {
    let bench = Bench::new(ENV);
    bench.call("ADD", "a", &bench.config(json!({"fail": "DEL"}))).unwrap();
    let mut config = bench.config(json!({"fail": "GC"}));
    bench.call("ADD", "b", &config).unwrap();
    config["cni.dev/valid-attachments"] = Value::Null;
    let (code, message) = bench.call("GC", "", &config).unwrap_err();
    assert_eq!((code, message.starts_with("a: as told; as told")), (100, true), "{message}");
    assert_eq!(bench.names("flannel"), ["a"]);
}

#[test]
fn status_says_why_not() {
    let bench = Bench::new(ENV);
    assert_eq!(bench.call("STATUS", "", &bench.config(json!({}))), Ok(Value::Null));
    assert!(bench.names("flannel").is_empty());
    let (code, message) = bench.call("STATUS", "", &bench.config(json!({"fail": "STATUS"}))).unwrap_err();
    assert_eq!((code, message.starts_with("delegate win-bridge: as told")), (50, true), "{message}");
    let (code, message) = bench.call("STATUS", "", &bench.config(json!({"type": "absent"}))).unwrap_err();
    assert_eq!((code, message.contains("failed to find plugin \"absent\"")), (50, true), "{message}");
    fs::write(bench.directory.path().join("subnet.env"), "FLANNEL_MTU=1450").unwrap();
    let (code, message) = bench.call("STATUS", "", &bench.config(json!({}))).unwrap_err();
    assert_eq!(
        (code, message.contains("subnet.env: is missing FLANNEL_NETWORK") && message.contains("flanneld runs")),
        (50, true),
        "{message}"
    );
}

proptest! {
    /// Whatever a state file holds, calls are answered, and DEL leaves nothing.
    #[test]
    fn any_state_is_survived(content in prop::collection::vec(any::<u8>(), 0..64)) {
        let bench = Bench::new(ENV);
        let config = bench.config(json!({}));
        fs::create_dir(bench.state("")).unwrap();
        fs::write(bench.state("c"), content).unwrap();
        prop_assert!(bench.call("CHECK", "c", &config).is_err());
        prop_assert_eq!(bench.call("DEL", "c", &config), Ok(Value::Null));
        prop_assert!(bench.names("flannel").is_empty());
    }
}
