//! Any bytes where a CNI plugin reads something: configurations, lists of addresses, files that others wrote.

#![no_main]

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cni::azure_vnet::AzureVnet;
use cni::flannel::SubnetEnv;
use cni::hns::Hns;
use cni::ipam::azure_vnet::{self, AzureVnetIpam};
use cni::ipam::host_local::HostLocal;
use cni::lint::{self, Surroundings};
use cni::nat::{Name, Nat};
use cni::win_bridge::WinBridge;
use cni::win_overlay::WinOverlay;
use cni::{Config, Outcome, Registry, dispatch};
use hcn::{Hcn, HcnExt, Kind};
use hns::machine::FakeMachine;
use hns::switch::Recorder;
use hns::{Build, Options, Service};
use host::interface::Interface;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// The plugins that attach containers, in the order in which a byte chooses among them.
/// Not flannel: its delegate's addresses are where host-local has them by default, which is the machine's own place.
const PLUGINS: [&str; 6] = ["win-bridge", "win-overlay", "nat", "sdnbridge", "sdnoverlay", "azure-vnet"];

/// Keys that say where files are, or whom to ask over the network. Wherever they stand they must not lead out of here.
const PLACES: [&str; 7] = ["dataDir", "stateDir", "subnetFile", "file", "url", "resolvConf", "environment"];

const ENV: &str = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";

const LIST: &str = r#"{"Interfaces":[{"MacAddress":"*","IPSubnets":[{"Prefix":"10.244.1.0/24","IPAddresses":[{"Address":"10.244.1.5"}]},
    {"Prefix":"fd00::/64","IPAddresses":[{"Address":"fd00::5"}]}]}]}"#;

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    match kind % 6 {
        0 => configuration(rest),
        1 => attachment(rest),
        2 => _ = azure_vnet::listed(&String::from_utf8_lossy(rest), &interfaces()),
        3 => _ = SubnetEnv::parse(&String::from_utf8_lossy(rest)),
        4 => address_file(rest),
        _ => azure_state(rest),
    }
});

fn interfaces() -> Vec<Interface> {
    let addresses = ["10.244.1.4/24", "fd00::4/64"].iter().filter_map(|address| address.parse().ok()).collect();
    vec![Interface { name: "Ethernet".to_owned(), mac: [0x00, 0x0d, 0x3a, 0, 0, 1], addresses }]
}

/// A service in memory, the plugins on it, and a directory for their files.
struct Bench {
    service: Arc<Service>,
    registry: Registry,
    directory: PathBuf,
}

thread_local! {
    /// Made once, since making a service costs more than all that is done with it.
    static BENCH: RefCell<Bench> = RefCell::new(Bench::new());
}

impl Bench {
    fn new() -> Self {
        let build = Build::named("transom", &[], &[]).expect("a profile");
        let machine = Arc::new(FakeMachine::with_ethernet());
        let service = Service::start(Options { state_dir: None, build, machine, switch: Arc::new(Recorder::default()) });
        let service = Arc::new(service.expect("a service"));
        let connected = service.clone();
        let hns = move || {
            let connected = connected.clone();
            Hns::new(move || Ok(connected.clone() as Arc<dyn Hcn>))
        };
        let registry = Registry::new(vec![
            Box::new(HostLocal),
            Box::new(AzureVnetIpam::with_interfaces(azure_vnet::Name::Ipv4, interfaces)),
            Box::new(AzureVnetIpam::with_interfaces(azure_vnet::Name::Ipv6, interfaces)),
            Box::new(AzureVnet::with_interfaces(hns(), interfaces)),
            Box::new(WinBridge::new(hns())),
            Box::new(WinOverlay::new(hns())),
            Box::new(Nat::new(Name::Nat, hns())),
            Box::new(Nat::new(Name::SdnBridge, hns())),
            Box::new(Nat::new(Name::SdnOverlay, hns())),
        ]);
        let directory = std::env::temp_dir().join(format!("transom-fuzz-cni-{}", std::process::id()));
        Self { service, registry, directory }
    }

    /// Empties the service and the directory.
    fn clear(&self) {
        for kind in [Kind::Endpoint, Kind::Namespace, Kind::Network] {
            for id in self.service.enumerate(kind, "").unwrap_or_default() {
                let _ = self.service.delete(kind, id);
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
        fs::create_dir_all(self.directory.join("networks/net")).expect("a directory");
        fs::write(self.directory.join("interfaces.json"), LIST).expect("a file");
    }

    fn call(&self, command: &str, netns: &str, config: &Value) -> Outcome {
        let plugin = config.get("type").and_then(Value::as_str).and_then(|name| self.registry.find(name)).expect("a plugin");
        let variable = |name: &str| {
            let value = match name {
                "CNI_COMMAND" => command,
                "CNI_CONTAINERID" => "c1",
                "CNI_NETNS" => netns,
                "CNI_IFNAME" => "eth0",
                "CNI_PATH" => "/nowhere",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let outcome = dispatch(plugin, &self.registry, &variable, || Ok(config.to_string().into_bytes()));
        assert!(!outcome.stdout.contains("broke down"), "{}", outcome.stdout);
        outcome
    }
}

fn with_bench(work: impl FnOnce(&Bench)) {
    BENCH.with_borrow(|bench| {
        bench.clear();
        work(bench);
    });
}

/// Whatever stands in a file, it is looked at, and the places of findings are in it.
fn configuration(bytes: &[u8]) {
    let surroundings = Surroundings { subnet_env: SubnetEnv::parse(ENV).ok(), ..Surroundings::default() };
    BENCH.with_borrow(|bench| {
        for finding in lint::check(bytes, &surroundings, &bench.registry) {
            assert!(finding.line > 0 && finding.column > 0 && !finding.message.is_empty() && !finding.fix.is_empty(), "{finding}");
            assert!(finding.line <= String::from_utf8_lossy(bytes).lines().count() + 1, "{finding}");
        }
    });
    if let Ok(config) = Config::read(bytes) {
        let _ = (config.dns(), config.port_mappings(), config.bandwidth(), config.runtime_dns(), config.prev_result());
        let _ = (config.valid_attachments(), config.ipam_type(), config.runtime_ips(), config.ip_ranges());
    }
}

/// A plugin with any configuration: a container that was refused or deleted leaves nothing.
fn attachment(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else { return };
    let Ok(Value::Object(document)) = serde_json::from_slice(text) else { return };
    with_bench(|bench| {
        let plugin = PLUGINS[usize::from(*choice) % PLUGINS.len()];
        let config = tame(document, plugin, &bench.directory);
        let kind = match plugin {
            "win-overlay" => Some("Overlay"),
            "win-bridge" => Some("L2Bridge"),
            _ => None,
        };
        if let Some(kind) = kind {
            network(&bench.service, kind);
        }
        let namespace = json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}}).to_string();
        let netns = bench.service.create(Kind::Namespace, None, None, &namespace).expect("a namespace").to_string();
        let added = bench.call("ADD", &netns, &config);
        if added.exit_code != 0 {
            assert_empty(bench, &added.stdout);
        }
        let mut again = config.clone();
        again["prevResult"] = serde_json::from_str(&added.stdout).unwrap_or_default();
        let _ = bench.call("CHECK", &netns, &again);
        let _ = bench.call("STATUS", &netns, &config);
        let deleted = bench.call("DEL", &netns, &config);
        if added.exit_code == 0 {
            assert_eq!(deleted.exit_code, 0, "what was added can be deleted: {}", deleted.stdout);
        }
        if deleted.exit_code == 0 {
            assert_empty(bench, "after DEL");
        }
    });
}

fn network(service: &Service, kind: &str) {
    let mut subnet = json!({"IpAddressPrefix": "10.244.1.0/24", "Routes": [{"NextHop": "10.244.1.1", "DestinationPrefix": "0.0.0.0/0"}]});
    if kind == "Overlay" {
        subnet["Policies"] = json!([{"Type": "VSID", "Settings": {"IsolationId": 4096}}]);
    }
    let document = json!({"Name": "net", "Type": kind, "Ipams": [{"Subnets": [subnet]}], "SchemaVersion": {"Major": 2, "Minor": 0}});
    service.create(Kind::Network, None, None, &document.to_string()).expect("a network");
}

/// The configuration for a plugin of ours, with all that it keeps in a directory of ours.
fn tame(mut document: Map<String, Value>, plugin: &str, directory: &Path) -> Value {
    displace(&mut document);
    document.retain(|key, _| !["type", "name", "cniVersion"].iter().any(|own| own.eq_ignore_ascii_case(key)));
    document.insert("cniVersion".to_owned(), "1.1.0".into());
    document.insert("name".to_owned(), "net".into());
    document.insert("type".to_owned(), plugin.into());
    if let Some(Value::Object(ipam)) = document.get_mut("ipam") {
        // Files of host-local and state of azure-vnet-ipam, whichever it is.
        ipam.insert("dataDir".to_owned(), directory.join("networks").to_str().into());
        ipam.insert("stateDir".to_owned(), directory.to_str().into());
        ipam.insert("environment".to_owned(), "fileIpam".into());
        ipam.insert("file".to_owned(), directory.join("interfaces.json").to_str().into());
        document.retain(|key, _| key == "ipam" || !key.eq_ignore_ascii_case("ipam"));
    } else {
        document.retain(|key, _| !key.eq_ignore_ascii_case("ipam"));
    }
    Value::Object(document)
}

/// Takes out, at any depth, what says where files are.
fn displace(document: &mut Map<String, Value>) {
    document.retain(|key, _| !PLACES.iter().any(|place| place.eq_ignore_ascii_case(key)));
    for value in document.values_mut() {
        match value {
            Value::Object(object) => displace(object),
            Value::Array(elements) => elements.iter_mut().filter_map(Value::as_object_mut).for_each(displace),
            _ => {}
        }
    }
}

fn assert_empty(bench: &Bench, what: &str) {
    let endpoints = bench.service.objects::<hcn::endpoint::Endpoint>(&[]).unwrap_or_default();
    assert_eq!(endpoints, [], "an endpoint is left: {what}");
    let entries = fs::read_dir(bench.directory.join("networks/net")).into_iter().flatten().flatten();
    let addresses: Vec<OsString> = entries.map(|entry| entry.file_name()).filter(|name| name.to_str().is_some_and(is_address)).collect();
    assert_eq!(addresses, [] as [OsString; 0], "an address is left: {what}");
}

fn is_address(name: &str) -> bool {
    name.replace('_', ":").parse::<std::net::IpAddr>().is_ok()
}

/// Any content in the files of host-local.
fn address_file(bytes: &[u8]) {
    with_bench(|bench| {
        let data = bench.directory.join("networks");
        for name in ["10.244.1.2", "last_reserved_ip.0"] {
            fs::write(data.join("net").join(name), bytes).expect("a file");
        }
        let ipam = json!({"type": "host-local", "subnet": "10.244.1.0/24", "dataDir": data});
        let config = json!({"cniVersion": "1.1.0", "name": "net", "type": "host-local", "ipam": ipam, "cni.dev/valid-attachments": []});
        for command in ["ADD", "CHECK", "STATUS", "DEL", "GC"] {
            let _ = bench.call(command, "dummy", &config);
        }
        assert_empty(bench, "after GC");
    });
}

/// Any content in the state of azure-vnet-ipam.
fn azure_state(bytes: &[u8]) {
    with_bench(|bench| {
        fs::write(bench.directory.join("azure-vnet-ipam.json"), bytes).expect("a file");
        let file = bench.directory.join("interfaces.json");
        let ipam = json!({"type": "azure-vnet-ipam", "environment": "fileIpam", "file": file, "stateDir": bench.directory});
        let config =
            json!({"cniVersion": "1.1.0", "name": "net", "type": "azure-vnet-ipam", "ipam": ipam, "cni.dev/valid-attachments": []});
        for command in ["ADD", "CHECK", "STATUS", "DEL", "GC"] {
            let _ = bench.call(command, "dummy", &config);
        }
    });
}
