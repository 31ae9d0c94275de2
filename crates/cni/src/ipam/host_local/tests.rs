use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::dispatch::{Outcome, dispatch};
use crate::plugin::Registry;

use super::*;

/// A data directory, and calls on it.
struct Bench {
    data: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { data: TempDir::new().unwrap() }
    }

    /// A configuration with these ranges.
    fn config(&self, ranges: Value) -> Value {
        json!({"name": "net", "cniVersion": "1.1.0", "ipam": {"type": "host-local", "ranges": ranges, "dataDir": self.data.path()}})
    }

    fn directory(&self) -> PathBuf {
        self.data.path().join("net")
    }

    fn call(&self, command: &str, id: &str, args: &str, config: &Value) -> Result<String, (u64, String)> {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", id),
            ("CNI_NETNS", "dummy"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_ARGS", args),
            ("CNI_PATH", "/x"),
        ];
        let read = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let Outcome { stdout, exit_code, .. } = dispatch(&HostLocal, &Registry::default(), &read, || Ok(config.to_string().into_bytes()));
        if exit_code == 0 {
            return Ok(stdout);
        }
        let error: Value = serde_json::from_str(&stdout).unwrap();
        Err((error["code"].as_u64().unwrap(), error["msg"].as_str().unwrap().to_owned()))
    }

    fn add_with(&self, id: &str, args: &str, config: &Value) -> Result<String, (u64, String)> {
        let result: Value = serde_json::from_str(&self.call("ADD", id, args, config)?).unwrap();
        let ips: Vec<&str> = result["ips"].as_array().unwrap().iter().map(|ip| ip["address"].as_str().unwrap()).collect();
        Ok(ips.join(" "))
    }

    fn add(&self, id: &str, config: &Value) -> Result<String, (u64, String)> {
        self.add_with(id, "", config)
    }

    fn del(&self, id: &str, config: &Value) {
        assert_eq!(self.call("DEL", id, "", config), Ok(String::new()));
    }

    /// The address files, in order.
    fn files(&self) -> String {
        let Ok(entries) = fs::read_dir(self.directory()) else { return String::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "lock" && !name.starts_with("last_reserved_ip"));
        names.sort();
        names.join(" ")
    }
}

fn added(result: &str) -> Result<String, (u64, String)> {
    Ok(result.to_owned())
}

#[test]
fn files_are_those_of_the_reference() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8:1::/64"}]]));
    assert_eq!(bench.add("c1", &config), added("10.1.2.2/24 2001:db8:1::2/64"));
    let read = |name: &str| fs::read_to_string(bench.directory().join(name)).unwrap();
    assert_eq!(read("10.1.2.2"), "c1\r\neth0");
    assert_eq!(read(if cfg!(windows) { "2001_db8_1__2" } else { "2001:db8:1::2" }), "c1\r\neth0");
    assert_eq!((read("last_reserved_ip.0"), read("last_reserved_ip.1")), ("10.1.2.2".to_owned(), "2001:db8:1::2".to_owned()));
    assert_eq!(read("lock"), "");
    bench.del("c1", &config);
    assert_eq!(bench.files(), "");
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.add("c1", &bench.config(json!([[{"subnet": "10.1.2.0/24"}]]))).unwrap();
    for name in ["10.1.2.2", "last_reserved_ip.0"] {
        assert_eq!(fs::metadata(bench.directory().join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn addresses_go_round() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/29"}]]));
    for (id, address) in [("a", 2), ("b", 3), ("c", 4)] {
        assert_eq!(bench.add(id, &config), added(&format!("10.0.0.{address}/29")));
    }
    bench.del("b", &config);
    // What was released comes back only when everything else has had its turn.
    for (id, address) in [("d", 5), ("e", 6), ("f", 3)] {
        assert_eq!(bench.add(id, &config), added(&format!("10.0.0.{address}/29")));
    }
    let (code, message) = bench.add("g", &config).unwrap_err();
    assert_eq!(code, 11);
    assert_eq!(message, "failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.6");
}

#[test]
fn a_container_gets_an_address_of_a_set_once() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/29"}]]));
    bench.add("a", &config).unwrap();
    let (_, message) = bench.add("a", &config).unwrap_err();
    assert!(message.contains("10.0.0.2 has been allocated to a, duplicate allocation is not allowed"), "{message}");
    assert_eq!(bench.files(), "10.0.0.2");
}

#[test]
fn an_add_that_fails_gives_everything_back() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/29"}], [{"subnet": "10.0.1.0/30"}]]));
    assert_eq!(bench.add("a", &config), added("10.0.0.2/29 10.0.1.2/30"));
    assert!(bench.add("b", &config).unwrap_err().1.starts_with("failed to allocate for range 1: no IP addresses"));
    assert_eq!(bench.files(), "10.0.0.2 10.0.1.2");
    let (code, message) = bench.add_with("c", "IP=10.9.9.9", &bench.config(json!([[{"subnet": "10.0.0.0/29"}]]))).unwrap_err();
    assert_eq!((code, message.as_str()), (7, "failed to allocate all requested IPs: 10.9.9.9"));
    assert_eq!(bench.files(), "10.0.0.2 10.0.1.2");
}

#[test]
fn addresses_can_be_asked_for_in_three_ways() {
    let bench = Bench::new();
    let sets = json!([[{"subnet": "10.0.0.0/24"}], [{"subnet": "10.0.1.0/24"}], [{"subnet": "fd00::/64"}]]);
    let mut config = bench.config(sets);
    config["args"] = json!({"cni": {"ips": ["10.0.1.20/24"]}});
    config["runtimeConfig"] = json!({"ips": ["fd00::30", "10.0.0.10"]});
    assert_eq!(
        bench.add_with("a", "IgnoreUnknown=1;IP=10.0.0.10/24;K8S_POD_NAME=x", &config),
        added("10.0.0.10/24 10.0.1.20/24 fd00::30/64")
    );
    let (code, message) = bench.add_with("b", "IP=10.0.0.10", &bench.config(json!([[{"subnet": "10.0.0.0/24"}]]))).unwrap_err();
    assert_eq!(code, 11);
    assert!(message.contains("requested IP address 10.0.0.10 is not available in range set 10.0.0.1-10.0.0.254"), "{message}");
    let (_, message) = bench.add_with("b", "IP=10.0.0.1", &bench.config(json!([[{"subnet": "10.0.0.0/24"}]]))).unwrap_err();
    assert!(message.contains("requested ip 10.0.0.1 is subnet's gateway"), "{message}");
    for args in ["IP=x", "IP=1.2.3.4/99", "OTHER=1"] {
        assert_eq!(bench.add_with("b", args, &bench.config(json!([[{"subnet": "10.0.0.0/24"}]]))).unwrap_err().0, 4, "{args}");
    }
}

#[test]
fn ranges_come_in_their_order() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.2.0/24"}]]));
    config["ipam"]["subnet"] = "10.0.1.0/24".into();
    config["runtimeConfig"] = json!({"ipRanges": [[{"subnet": "10.0.0.0/24", "gateway": "10.0.0.254"}]]});
    assert_eq!(bench.add("a", &config), added("10.0.0.1/24 10.0.1.2/24 10.0.2.2/24"));
}

#[test]
fn routes_and_names_are_passed_on() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    let resolv = bench.data.path().join("resolv.conf");
    fs::write(&resolv, "nameserver 10.96.0.10\nsearch svc.cluster.local\n").unwrap();
    config["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"Dst": "10.0.0.0/8", "GW": "10.0.0.1", "mtu": 1400}]);
    config["ipam"]["resolvConf"] = json!(resolv);
    let result: Value = serde_json::from_str(&bench.call("ADD", "a", "", &config).unwrap()).unwrap();
    assert_eq!(result["routes"], json!([{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/8", "gw": "10.0.0.1", "mtu": 1400}]));
    assert_eq!(result["dns"], json!({"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"]}));
}

#[test]
fn what_is_wrong_is_named() {
    let bench = Bench::new();
    let one = json!([[{"subnet": "10.0.0.0/24"}]]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut config = bench.config(one.clone());
        change(&mut config);
        config
    };
    let table = [
        (with(&|config| config["ipam"] = Value::Null), 7, "IPAM config missing 'ipam' key"),
        (with(&|config| config["ipam"] = json!([])), 6, "ipam: an object is expected"),
        (with(&|config| config["ipam"]["ranges"] = json!([])), 7, "no IP ranges specified"),
        (with(&|config| config["ipam"]["ranges"] = json!([[]])), 7, "ipam.ranges[0]: empty range set"),
        (with(&|config| config["ipam"]["ranges"] = json!([null])), 7, "ipam.ranges[0]: empty range set"),
        (with(&|config| config["ipam"]["ranges"] = json!([[{}]])), 7, "ipam.ranges[0][0].subnet"),
        (with(&|config| config["ipam"]["ranges"] = json!([[5]])), 6, "ipam.ranges[0][0]: an object"),
        (with(&|config| config["ipam"]["ranges"] = json!({})), 6, "ipam.ranges: a list"),
        (with(&|config| config["ipam"]["subnet"] = "10.0.0.0/16".into()), 7, "range set 0 overlaps with 1"),
        (with(&|config| config["ipam"]["routes"] = json!([{}])), 6, "ipam.routes[0].dst is missing"),
        (with(&|config| config["ipam"]["resolvConf"] = "/nowhere".into()), 5, "ipam.resolvConf: /nowhere"),
        (with(&|config| config["ipam"]["dataDir"] = 5.into()), 6, "ipam.dataDir: a string"),
        (with(&|config| config["runtimeConfig"] = json!({"ips": [""]})), 7, "runtimeConfig.ips[0]: cannot understand ip"),
        (with(&|config| config["runtimeConfig"] = json!({"ips": [null]})), 6, "runtimeConfig.ips[0]: a string"),
    ];
    for (config, code, message) in table {
        let (found, text) = bench.add("a", &config).unwrap_err();
        assert_eq!(found, code, "{text}");
        assert!(text.contains(message), "{text}");
        assert_eq!(bench.files(), "");
    }
}

#[test]
fn old_versions_have_room_for_one_address_of_each_family() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/64"}]]));
    config["cniVersion"] = "0.2.0".into();
    let result: Value = serde_json::from_str(&bench.call("ADD", "a", "", &config).unwrap()).unwrap();
    assert_eq!((&result["ip4"]["ip"], &result["ip6"]["ip"]), (&json!("10.0.0.2/24"), &json!("fd00::2/64")));
    config["ipam"]["subnet"] = "10.1.0.0/24".into();
    let (code, message) = bench.add("b", &config).unwrap_err();
    assert_eq!((code, message.as_str()), (7, "CNI version 0.2.0 does not support more than 1 address per family"));
}

#[test]
fn del_needs_nothing_but_the_place() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    bench.del("never-was", &config);
    assert!(!bench.directory().exists());
    bench.add("a", &config).unwrap();
    bench.del("a", &bench.config(json!("broken since")));
    assert_eq!(bench.files(), "");
    bench.del("a", &config);
}

#[test]
fn files_of_old_versions_and_with_blanks_are_understood() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    fs::create_dir_all(bench.directory()).unwrap();
    let write = |name: &str, content: &str| fs::write(bench.directory().join(name), content).unwrap();
    write("10.0.0.7", "old\n");
    write("10.0.0.8", "  new\r\neth0\t\n");
    write("10.0.0.9", "new\r\neth1");
    write("notes.txt", "old");
    for id in ["old", "new"] {
        assert_eq!(bench.call("CHECK", id, "", &config), Ok(String::new()), "{id}");
        assert!(bench.add(id, &config).unwrap_err().1.contains("duplicate allocation"), "{id}");
        bench.del(id, &config);
    }
    assert_eq!(bench.files(), "10.0.0.9 notes.txt");
}

#[test]
fn a_file_that_a_crash_left_empty_is_nobodys() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/30"}]]));
    fs::create_dir_all(bench.directory()).unwrap();
    for content in ["", "\r\n", "\0\0\0\0"] {
        fs::write(bench.directory().join("10.0.0.2"), content).unwrap();
        assert_eq!(bench.call("STATUS", "", "", &config), Ok(String::new()));
        assert_eq!(bench.add("a", &config), added("10.0.0.2/30"));
        assert_eq!(fs::read_to_string(bench.directory().join("10.0.0.2")).unwrap(), "a\r\neth0");
        bench.del("a", &config);
        fs::write(bench.directory().join("10.0.0.2"), content).unwrap();
        assert_eq!(bench.add_with("a", "IP=10.0.0.2", &config), added("10.0.0.2/30"));
        bench.del("a", &config);
    }
}

#[test]
fn a_hint_that_is_rubbish_is_no_hint() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    fs::create_dir_all(bench.directory()).unwrap();
    for (id, content, address) in [
        ("a", "", "10.0.0.2/24"),
        ("b", "rubbish", "10.0.0.3/24"),
        ("c", "10.0.0.200\n", "10.0.0.201/24"),
        ("d", "10.9.0.1", "10.0.0.4/24"),
    ] {
        fs::write(bench.directory().join("last_reserved_ip.0"), content).unwrap();
        assert_eq!(bench.add(id, &config), added(address), "{content:?}");
    }
}

#[test]
fn check_compares_with_what_add_promised() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    let (code, message) = bench.call("CHECK", "a", "", &config).unwrap_err();
    assert_eq!(code, 3);
    assert!(message.starts_with("host-local: Failed to find address added by container a"), "{message}");
    let result: Value = serde_json::from_str(&bench.call("ADD", "a", "", &config).unwrap()).unwrap();
    config["prevResult"] = result;
    // A later plugin may have added an address of its own.
    config["prevResult"]["ips"].as_array_mut().unwrap().push(json!({"address": "192.168.0.1/24"}));
    assert_eq!(bench.call("CHECK", "a", "", &config), Ok(String::new()));
    config["prevResult"]["ips"][0]["address"] = "10.0.0.77/24".into();
    assert_eq!(bench.call("CHECK", "a", "", &config).unwrap_err().1, "host-local: address 10.0.0.77, which ADD gave, is free now");
    fs::write(bench.directory().join("10.0.0.77"), "b\r\neth0").unwrap();
    let (_, message) = bench.call("CHECK", "a", "", &config).unwrap_err();
    assert_eq!(message, "host-local: address 10.0.0.77, which ADD gave, belongs to container b on interface eth0 now");
}

#[test]
fn gc_releases_what_is_not_valid_and_nothing_else() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.0.0/24"}]]));
    for id in ["a", "b", "c"] {
        bench.add(id, &config).unwrap();
    }
    fs::write(bench.directory().join("10.0.0.9"), "a\r\neth1").unwrap();
    fs::write(bench.directory().join("10.0.0.10"), "b").unwrap();
    fs::write(bench.directory().join("10.0.0.11"), "").unwrap();
    fs::write(bench.directory().join("notes.txt"), "x").unwrap();
    assert_eq!(bench.call("GC", "", "", &config).unwrap_err().0, 7);
    assert_eq!(bench.files(), "10.0.0.10 10.0.0.11 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.9 notes.txt");
    config["cni.dev/valid-attachments"] = json!([{"containerID": "a", "ifname": "eth0"}, {"containerID": "b", "ifname": "eth0"}]);
    assert_eq!(bench.call("GC", "", "", &config), Ok(String::new()));
    assert_eq!(bench.files(), "10.0.0.10 10.0.0.2 10.0.0.3 notes.txt");
    config["cni.dev/valid-attachments"] = Value::Null;
    assert_eq!(bench.call("GC", "", "", &config), Ok(String::new()));
    assert_eq!(bench.files(), "notes.txt");
}

#[test]
fn status_counts() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/29"}]]));
    for id in ["a", "b", "c", "d", "e"] {
        assert_eq!(bench.call("STATUS", "", "", &config), Ok(String::new()), "before {id}");
        bench.add(id, &config).unwrap();
    }
    let (code, message) = bench.call("STATUS", "", "", &config).unwrap_err();
    assert_eq!((code, message.as_str()), (50, "no IP addresses available in range set: 10.0.0.1-10.0.0.6: 5 of 5 are taken"));
    assert_eq!(bench.files(), "10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6");
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let bench = Bench::new();
    let mut config = bench.config(json!([[{"subnet": "10.0.0.0/29"}]]));
    let file = bench.data.path().join("file");
    fs::write(&file, "").unwrap();
    config["ipam"]["dataDir"] = json!(file);
    let (code, message) = bench.add("a", &config).unwrap_err();
    assert_eq!(code, 5);
    assert!(message.contains(&file.join("net").display().to_string()), "{message}");
    assert_eq!(bench.call("STATUS", "", "", &config).unwrap_err().0, 50);
}

/// A full disk, of the only kind that anybody may fill: a device that refuses every byte.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/29"}]]));
    fs::create_dir_all(bench.directory()).unwrap();
    std::os::unix::fs::symlink("/dev/full", bench.directory().join("last_reserved_ip.0")).unwrap();
    let (code, message) = bench.add("a", &config).unwrap_err();
    assert_eq!(code, 5);
    assert!(message.contains("last_reserved_ip.0 failed: No space left on device"), "{message}");
    assert_eq!(bench.files(), "");
    std::os::unix::fs::symlink("/dev/full", bench.directory().join(".probe")).unwrap();
    assert_eq!(bench.call("STATUS", "", "", &config).unwrap_err().0, 50);
}

#[test]
fn calls_at_once_get_different_addresses() {
    let bench = Bench::new();
    let config = bench.config(json!([[{"subnet": "10.0.0.0/25"}]]));
    let mut addresses: Vec<String> = std::thread::scope(|scope| {
        let adding: Vec<_> = (0..50)
            .map(|number| (scope, number))
            .map(|(scope, number)| {
                let (bench, config) = (&bench, &config);
                scope.spawn(move || bench.add(&format!("c{number}"), config).unwrap())
            })
            .collect();
        adding.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 50);
}
