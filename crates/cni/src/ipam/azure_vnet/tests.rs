use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::dispatch::dispatch;
use crate::plugin::Registry;

const XML: &str = r#"<Interfaces><Interface MacAddress="000D3A6E1825" IsPrimary="true"><IPSubnet Prefix="10.240.0.0/16">
    <IPAddress Address="10.240.0.4" IsPrimary="true"/><IPAddress Address="10.240.0.5" IsPrimary="false"/>
    <IPAddress Address="10.240.0.6" IsPrimary="false"/></IPSubnet></Interface></Interfaces>"#;

fn interfaces() -> Vec<Interface> {
    vec![Interface { name: "eth0".to_owned(), mac: [0x00, 0x0d, 0x3a, 0x6e, 0x18, 0x25], addresses: Vec::new() }]
}

/// A host agent that answers every request with this, on a thread that ends with the tests.
fn host_agent(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/machine/plugins?comp=nmagent", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    url
}

/// A directory for the state, and calls on it.
struct Bench {
    directory: TempDir,
    ipam: Value,
}

impl Bench {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let ipam = json!({"type": "azure-vnet-ipam", "url": host_agent("200 OK", XML), "stateDir": directory.path()});
        Self { directory, ipam }
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("azure-vnet-ipam.json")
    }

    fn config(&self, changes: Value) -> Value {
        let mut ipam = self.ipam.clone();
        ipam.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"name": "azure", "cniVersion": "1.1.0", "ipam": ipam})
    }

    fn call_with(&self, command: &str, id: &str, config: &Value) -> Result<Value, (u64, String)> {
        let variables =
            [("CNI_COMMAND", command), ("CNI_CONTAINERID", id), ("CNI_NETNS", "dummy"), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/x")];
        let read = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        let plugin = AzureVnetIpam::with_interfaces(Name::Ipv4, interfaces);
        let outcome = dispatch(&plugin, &Registry::default(), &read, || Ok(config.to_string().into_bytes()));
        let answer: Value = serde_json::from_str(&outcome.stdout).unwrap_or_default();
        match outcome.exit_code {
            0 => Ok(answer),
            _ => Err((answer["code"].as_u64().unwrap(), format!("{}; {}", answer["msg"].as_str().unwrap(), answer["details"]))),
        }
    }

    fn call(&self, command: &str, id: &str) -> Result<Value, (u64, String)> {
        self.call_with(command, id, &self.config(json!({})))
    }

    fn add(&self, id: &str) -> Result<String, (u64, String)> {
        self.call("ADD", id).map(|result| result["ips"][0]["address"].as_str().unwrap().to_owned())
    }
}

#[test]
fn the_result_and_the_state_are_those_of_the_reference() {
    let bench = Bench::new();
    assert_eq!(
        bench.call("ADD", "c1").unwrap(),
        json!({
            "cniVersion": "1.1.0",
            "ips": [{"address": "10.240.0.5/16", "gateway": "10.240.0.1"}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.240.0.1"}],
            "dns": {"nameservers": ["168.63.129.16"]},
        })
    );
    let text = fs::read_to_string(bench.state()).unwrap();
    assert!(text.starts_with("{\n\t\"IPAM\": {\n\t\t\"Version\": "), "{text}");
    let mut state: Value = serde_json::from_str(&text).unwrap();
    assert!(state["IPAM"]["TimeStamp"].as_str().unwrap().ends_with('Z'));
    let expected = json!({"local": {"Id": "local", "Scope": 0, "Pools": {"10.240.0.0/16": {
        "Id": "10.240.0.0/16", "IfName": "eth0", "Subnet": {"IP": "10.240.0.0", "Mask": "//8AAA=="}, "Gateway": "10.240.0.1",
        "Addresses": {
            "10.240.0.5": {"ID": "c1", "Addr": "10.240.0.5", "InUse": true, "Network": "azure"},
            "10.240.0.6": {"ID": "", "Addr": "10.240.0.6", "InUse": false},
        },
        "IsIPv6": false, "Priority": 0, "RefCount": 1,
    }}}});
    assert_eq!(state["IPAM"]["AddressSpaces"].take(), expected);
    assert!(bench.directory.path().join("azure-vnet-ipam.lock").exists());
}

#[test]
fn a_state_of_the_reference_is_taken_over() {
    let bench = Bench::new();
    let theirs = json!({"Other": [1], "IPAM": {"Version": "v1.5.0", "TimeStamp": "2024-01-02T03:04:05.6+01:00", "AddressSpaces": {"local": {"Id": "local",
        "Scope": 0, "Pools": {"10.240.0.0/16": {"Id": "10.240.0.0/16", "IfName": "eth0", "Subnet": {"IP": "10.240.0.0", "Mask": "//8AAA=="},
        "Gateway": "10.240.0.1", "Addresses": {"10.240.0.5": {"ID": "theirs", "Addr": "10.240.0.5", "InUse": true},
        "10.240.0.99": {"ID": "gone", "Addr": "10.240.0.99", "InUse": true}}, "IsIPv6": false, "Priority": 0, "RefCount": 1}}}}}});
    fs::write(bench.state(), theirs.to_string()).unwrap();
    assert_eq!(bench.add("theirs"), Ok("10.240.0.5/16".into()));
    assert_eq!(bench.add("ours"), Ok("10.240.0.6/16".into()));
    let of_pool = bench.config(json!({"subnet": "10.240.0.0/16"}));
    assert_eq!(bench.call_with("DEL", "gone", &of_pool), Ok(Value::Null));
    assert_eq!(bench.call("ADD", "new").unwrap_err().0, 11, "what the source does not list any more is not given out");
    let state: Value = serde_json::from_slice(&fs::read(bench.state()).unwrap()).unwrap();
    assert_eq!(state["Other"], json!([1]));
    assert_eq!(fs::read_dir(bench.directory.path()).unwrap().count(), 2);
}

#[test]
fn add_is_idempotent_and_del_too() {
    let bench = Bench::new();
    assert_eq!(bench.call("DEL", "a"), Ok(Value::Null));
    assert_eq!(fs::read_dir(bench.directory.path()).unwrap().count(), 0);
    for _ in 0..2 {
        assert_eq!(bench.add("a"), Ok("10.240.0.5/16".into()));
    }
    assert_eq!(bench.add("b"), Ok("10.240.0.6/16".into()));
    let (code, message) = bench.add("c").unwrap_err();
    assert_eq!(code, 11);
    assert!(message.starts_with("there are no available addresses: all 2 are taken"), "{message}");
    for _ in 0..2 {
        assert_eq!(bench.call("DEL", "a"), Ok(Value::Null));
    }
    assert_eq!(bench.add("c"), Ok("10.240.0.5/16".into()));
}

#[test]
fn what_is_asked_for_is_given_or_refused() {
    let bench = Bench::new();
    let ask = |id: &str, changes: Value| bench.call_with("ADD", id, &bench.config(changes));
    assert_eq!(ask("a", json!({"ipAddress": "10.240.0.6"})).unwrap()["ips"][0]["address"], "10.240.0.6/16");
    for (changes, code, message) in [
        (json!({"ipAddress": "10.240.0.6"}), 11, "ipam.ipAddress: container a has the address 10.240.0.6"),
        (json!({"ipAddress": "10.240.9.9"}), 7, "ipam.ipAddress: no pool has the address 10.240.9.9"),
        (json!({"subnet": "10.9.0.0/16"}), 7, "ipam.subnet: there is no pool 10.9.0.0/16"),
        (json!({"addressSpace": "global"}), 2, "ipam.addressSpace: there is no address space \"global\""),
        (json!({"environment": "ipv6NodeIpam"}), 2, "ipam.environment: \"ipv6NodeIpam\" is not supported"),
        (json!({"environment": "x"}), 7, "ipam.environment: there is no \"x\""),
        (
            json!({"environment": "null", "stateDir": bench.directory.path().join("null")}),
            11,
            "there are no available addresses: all 0 are taken",
        ),
        (json!({"url": "https://x/"}), 7, "ipam.url: \"https://x/\" cannot be asked: it does not begin with http://"),
        (json!({"subnet": "rubbish"}), 6, "ipam.subnet: \"rubbish\" is no address with a prefix length"),
    ] {
        let (found, text) = ask("b", changes).unwrap_err();
        assert_eq!(found, code, "{text}");
        assert!(text.starts_with(message), "{text}");
    }
    let mut config = bench.config(json!({}));
    config["master"] = json!("eth7");
    let (code, message) = bench.call_with("ADD", "b", &config).unwrap_err();
    assert_eq!((code, message.starts_with("master: there are no address pools on interface \"eth7\"")), (7, true), "{message}");
}

#[test]
fn a_file_is_a_source_too() {
    let bench = Bench::new();
    let path = bench.directory.path().join("interfaces.json");
    let config = bench.config(json!({"environment": "fileIpam", "file": path}));
    let (code, message) = bench.call_with("ADD", "a", &config).unwrap_err();
    assert_eq!((code, message.contains("interfaces.json is not there")), (5, true), "{message}");
    let subnets = json!([{"Prefix": "10.1.0.0/24", "IPAddresses": [{"Address": "10.1.0.4", "IsPrimary": true}, {"Address": "10.1.0.9"}]}]);
    fs::write(&path, json!({"Interfaces": [{"MacAddress": "00:0d:3a:6e:18:25", "IPSubnets": subnets}]}).to_string()).unwrap();
    assert_eq!(bench.call_with("ADD", "a", &config).unwrap()["ips"][0]["address"], "10.1.0.9/24");
    fs::write(&path, "{").unwrap();
    assert!(
        bench
            .call_with("STATUS", "", &bench.config(json!({"environment": "mas", "file": path, "stateDir": path.with_extension("d")})))
            .is_err()
    );
}

#[test]
fn a_source_that_is_away_is_no_obstacle_once_it_was_asked() {
    let mut bench = Bench::new();
    assert_eq!(bench.add("a"), Ok("10.240.0.5/16".into()));
    for url in
        ["http://127.0.0.1:1/".to_owned(), host_agent("500 Oh", ""), host_agent("200 OK", "rubbish"), host_agent("200 OK", "<Interfaces/>")]
    {
        bench.ipam["url"] = url.into();
        assert_eq!(bench.add("b"), Ok("10.240.0.6/16".into()));
        assert_eq!(bench.call("DEL", "b"), Ok(Value::Null));
    }
    fs::remove_file(bench.state()).unwrap();
    let (code, message) = bench.add("b").unwrap_err();
    assert_eq!(code, 11);
    assert!(message.starts_with("the source of addresses lists no subnet of an interface of this machine"), "{message}");
    bench.ipam["url"] = "http://127.0.0.1:1/".into();
    let (code, message) = bench.call("STATUS", "").unwrap_err();
    assert_eq!((code, message.starts_with("asking the host agent at http://127.0.0.1:1/ failed")), (50, true), "{message}");
}

#[test]
fn check_names_what_was_lost() {
    let bench = Bench::new();
    let mut config = bench.config(json!({}));
    config["prevResult"] = bench.call("ADD", "a").unwrap();
    assert_eq!(bench.call_with("CHECK", "a", &config), Ok(Value::Null));
    let tampered = fs::read_to_string(bench.state()).unwrap().replace("\"a\"", "\"z\"");
    fs::write(bench.state(), tampered).unwrap();
    assert!(bench.call_with("CHECK", "a", &config).unwrap_err().1.starts_with("azure-vnet-ipam: container a has no address"));
    bench.add("a").unwrap();
    let (_, message) = bench.call_with("CHECK", "a", &config).unwrap_err();
    assert!(message.starts_with("azure-vnet-ipam: address 10.240.0.5, which ADD gave, is not container a's now"), "{message}");
}

#[test]
fn gc_releases_what_is_this_networks_and_not_valid() {
    let bench = Bench::new();
    bench.add("a").unwrap();
    bench.add("b").unwrap();
    let mut other = bench.config(json!({}));
    other["name"] = json!("other");
    other["cni.dev/valid-attachments"] = json!([]);
    bench.call_with("GC", "", &other).unwrap();
    assert_eq!(bench.add("c").unwrap_err().0, 11, "another network's are left alone");
    let mut config = bench.config(json!({}));
    config["cni.dev/valid-attachments"] = json!([{"containerID": "b", "ifname": "eth0"}]);
    bench.call_with("GC", "", &config).unwrap();
    assert_eq!(bench.add("c"), Ok("10.240.0.5/16".into()));
    assert_eq!(bench.add("b"), Ok("10.240.0.6/16".into()));
    // The reference's say no network: they are this one's only if the pool is.
    fs::write(bench.state(), fs::read_to_string(bench.state()).unwrap().replace("Network", "Unknown")).unwrap();
    bench.call_with("GC", "", &config).unwrap();
    assert_eq!(bench.add("d").unwrap_err().0, 11);
    let mut of_pool = bench.config(json!({"subnet": "10.240.0.0/16"}));
    of_pool["cni.dev/valid-attachments"] = json!([]);
    bench.call_with("GC", "", &of_pool).unwrap();
    assert_eq!(bench.add("d"), Ok("10.240.0.5/16".into()));
}

#[test]
fn status_takes_no_address() {
    let bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.call("STATUS", ""), Ok(Value::Null));
    }
    bench.add("a").unwrap();
    bench.add("b").unwrap();
    assert_eq!(bench.call("STATUS", "").unwrap_err().0, 50);
}

#[test]
fn a_state_that_cannot_be_read_is_named_and_left() {
    let bench = Bench::new();
    for content in ["{", "[]", r#"{"IPAM":5}"#, r#"{"IPAM":{"AddressSpaces":{"local":{"Pools":[]}}}}"#] {
        fs::write(bench.state(), content).unwrap();
        for command in ["ADD", "DEL", "CHECK", "STATUS"] {
            let (_, message) = bench.call(command, "a").unwrap_err();
            assert!(message.contains("azure-vnet-ipam.json cannot be read") && message.contains("restore the file"), "{message}");
        }
        assert_eq!(fs::read_to_string(bench.state()).unwrap(), content);
    }
    for content in ["", "\n", r#"{"IPAM":{"AddressSpaces":null}}"#] {
        fs::write(bench.state(), content).unwrap();
        assert_eq!(bench.add("a"), Ok("10.240.0.5/16".into()), "{content:?}");
    }
}

#[test]
fn the_lock_is_waited_for_and_ends_with_its_holder() {
    let directory = TempDir::new().unwrap();
    let path = |name| directory.path().join(name);
    let place = store::Place { state: path("a/state"), lock: path("b/lock"), time_limit: Duration::from_millis(50) };
    let held = Store::open(&place).unwrap();
    let error = Store::open(&place).unwrap_err();
    assert_eq!(error.code, 11);
    assert!(error.msg.contains("b/lock for 0.05 s"), "{error}");
    assert_eq!(fs::read_to_string(&place.lock).unwrap(), std::process::id().to_string());
    drop(held);
    assert!(Store::open(&place).is_ok());
}

#[test]
fn many_at_once_get_different_addresses() {
    let bench = Bench::new();
    let addresses: Vec<String> = (5..45).map(|last| format!("<IPAddress Address=\"10.240.0.{last}\"/>")).collect();
    let xml = format!(
        "<Interfaces><Interface MacAddress=\"*\"><IPSubnet Prefix=\"10.240.0.0/16\">{}</IPSubnet></Interface></Interfaces>",
        addresses.concat()
    );
    let config = bench.config(json!({"url": host_agent("200 OK", xml.leak())}));
    let mut given: Vec<String> = thread::scope(|scope| {
        let adding = |index: usize| {
            let (bench, config) = (&bench, &config);
            scope.spawn(move || bench.call_with("ADD", &format!("c{index}"), config).unwrap()["ips"][0]["address"].to_string())
        };
        let threads: Vec<_> = (0..40).map(adding).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 40);
}

proptest! {
    #[test]
    fn any_state_is_read_or_refused(content in "(\\{\"IPAM\":\\{\"AddressSpaces\":\\{\"local\":\\{\"Pools\":\\{\"x\":\\{\"Addresses\":\\{\"y\":\\{\\}\\}\\}\\}\\}\\}\\}\\}|.{0,40})") {
        let bench = Bench::new();
        fs::write(bench.state(), content).unwrap();
        let _ = bench.call("ADD", "a");
        let _ = bench.call("CHECK", "a");
        let _ = bench.call("DEL", "a");
    }
}
