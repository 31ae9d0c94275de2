//! A machine: an HNS in memory that can be made to fail, plugins on it, and a directory for addresses.

use std::ffi::OsString;
use std::fs;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cni::azure_vnet::AzureVnet;
use cni::hns::Hns;
use cni::ipam::azure_vnet::{self, AzureVnetIpam};
use cni::ipam::host_local::HostLocal;
use cni::nat::{Name, Nat};
use cni::win_bridge::WinBridge;
use cni::win_overlay::WinOverlay;
use cni::{Registry, dispatch};
use hcn::api::Events;
use hcn::error::detail;
use hcn::{Guid, Hcn, Kind};
use hns::machine::FakeMachine;
use hns::switch::{Recorder, Switch};
use hns::{Build, Options, Service};
use host::interface::Interface;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The whole of a list, in schema 2.
pub(crate) const V2: &str = r#"{"SchemaVersion":{"Major":2,"Minor":0}}"#;

/// How calls of HNS fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None does.
    Never,
    /// One does, and did nothing.
    Refused(usize),
    /// One does, but was done: only the answer was lost.
    Unanswered(usize),
    /// One does, and all that follow.
    Dead(usize),
}

/// An HNS that fails when it is told to.
pub(crate) struct Faulty {
    service: Service,
    calls: AtomicUsize,
    fault: Mutex<Fault>,
}

impl Faulty {
    fn ask<T>(&self, call: impl FnOnce(&Service) -> hcn::Result<T>) -> hcn::Result<T> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let lost = || Err(hcn::Error::ServiceUnavailable(detail("the test has cut the line").remedy("wait")));
        match *self.fault.lock().unwrap() {
            Fault::Refused(at) if at == number => lost(),
            Fault::Dead(at) if number >= at => lost(),
            Fault::Unanswered(at) if at == number => call(&self.service).and_then(|_| lost()),
            _ => call(&self.service),
        }
    }
}

impl Hcn for Faulty {
    fn enumerate(&self, kind: Kind, query: &str) -> hcn::Result<Vec<Guid>> {
        self.ask(|service| service.enumerate(kind, query))
    }

    fn create(&self, kind: Kind, network: Option<Guid>, id: Option<Guid>, settings: &str) -> hcn::Result<Guid> {
        self.ask(|service| service.create(kind, network, id, settings))
    }

    fn query(&self, kind: Kind, id: Guid, query: &str) -> hcn::Result<Value> {
        self.ask(|service| service.query(kind, id, query))
    }

    fn modify(&self, kind: Kind, id: Guid, settings: &str) -> hcn::Result<()> {
        self.ask(|service| service.modify(kind, id, settings))
    }

    fn delete(&self, kind: Kind, id: Guid) -> hcn::Result<()> {
        self.ask(|service| service.delete(kind, id))
    }

    fn call(&self, method: &str, path: &str, request: &str) -> hcn::Result<Value> {
        self.ask(|service| service.call(method, path, request))
    }

    fn settle(&self) -> hcn::Result<()> {
        self.ask(|service| service.settle())
    }

    fn events(&self) -> hcn::Result<Events> {
        self.service.events()
    }
}

/// The interfaces of the machine, as its operating system shows them.
fn interfaces() -> Vec<Interface> {
    let interface = |name: &str, last: u8, addresses: &[&str]| Interface {
        name: name.to_owned(),
        mac: [0x00, 0x0d, 0x3a, 0, 0, last],
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
    };
    vec![interface("Ethernet", 1, &["10.240.0.4/16", "fd00:240::4/64"]), interface("Ethernet 2", 2, &["10.241.0.4/16"])]
}

/// The machine.
pub(crate) struct Machine {
    pub(crate) hcn: Arc<Faulty>,
    pub(crate) state: TempDir,
    /// What keeps the switch from working.
    pub(crate) switch_failure: Arc<Mutex<Option<String>>>,
    registry: Registry,
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) succeeded: bool,
    pub(crate) text: String,
}

impl Answer {
    /// The document that was printed.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The result of a call that must succeed.
    pub(crate) fn result(&self) -> Value {
        assert!(self.succeeded, "{}", self.text);
        self.document()
    }

    /// Code, message and details of a call that must fail.
    pub(crate) fn failure(&self) -> (u64, String, String) {
        assert!(!self.succeeded, "it succeeded: {}", self.text);
        let document = self.document();
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        (document["code"].as_u64().unwrap(), text("msg"), text("details"))
    }
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with_switch(Arc::new(Recorder::default()))
    }

    /// One whose HNS has a switch of the caller's choice.
    pub(crate) fn with_switch(switch: Arc<dyn Switch>) -> Self {
        let build = Build::named("transom", &[], &[]).unwrap();
        let machine = Arc::new(FakeMachine::with_ethernet());
        let service = Service::start(Options { state_dir: None, build, machine, switch }).unwrap();
        let hcn = Arc::new(Faulty { service, calls: AtomicUsize::new(0), fault: Mutex::new(Fault::Never) });
        let switch_failure: Arc<Mutex<Option<String>>> = Arc::default();
        let (connected, failure) = (hcn.clone(), switch_failure.clone());
        let hns = move || {
            let (connected, failure) = (connected.clone(), failure.clone());
            Hns::new(move || Ok(connected.clone() as Arc<dyn Hcn>)).with_switch(move || Ok(failure.lock().unwrap().clone()))
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
        Self { hcn, state: TempDir::new().unwrap(), switch_failure, registry }
    }

    /// From now on calls of HNS fail so, counted from the next.
    pub(crate) fn fail(&self, fault: Fault) {
        self.hcn.calls.store(0, Ordering::SeqCst);
        *self.hcn.fault.lock().unwrap() = fault;
    }

    /// Calls a plugin, which is the `type` of the configuration.
    pub(crate) fn call(&self, command: &str, config: &Value, container: &str, netns: &str) -> Answer {
        self.call_with(command, config, &[("CNI_CONTAINERID", container), ("CNI_NETNS", netns), ("CNI_IFNAME", "eth0")])
    }

    /// The same with these variables.
    pub(crate) fn call_with(&self, command: &str, config: &Value, variables: &[(&str, &str)]) -> Answer {
        let variable = |name: &str| {
            let given = variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            let value = match name {
                "CNI_COMMAND" => Some(command),
                "CNI_PATH" => Some("/nowhere"),
                _ => given,
            };
            value.map(OsString::from)
        };
        let plugin = self.registry.find(config["type"].as_str().unwrap()).unwrap();
        let outcome = dispatch(plugin, &self.registry, &variable, || Ok(config.to_string().into_bytes()));
        Answer { succeeded: outcome.exit_code == 0, text: outcome.stdout }
    }

    pub(crate) fn add(&self, config: &Value, container: &str, netns: &str) -> Answer {
        self.call("ADD", config, container, netns)
    }

    pub(crate) fn del(&self, config: &Value, container: &str, netns: &str) -> Answer {
        self.call("DEL", config, container, netns)
    }

    /// Makes an object.
    pub(crate) fn make(&self, kind: Kind, document: &Value) -> Guid {
        self.hcn.service.create(kind, None, None, &document.to_string()).unwrap_or_else(|error| panic!("{document}: {error}"))
    }

    /// A network with these subnets, each with its gateway.
    pub(crate) fn network(&self, kind: &str, name: &str, subnets: &[(&str, &str)]) -> Guid {
        let subnets: Vec<Value> = subnets
            .iter()
            .map(|(prefix, gateway)| {
                let everything = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
                let mut subnet = json!({"IpAddressPrefix": prefix, "Routes": [{"NextHop": gateway, "DestinationPrefix": everything}]});
                if kind == "Overlay" {
                    subnet["Policies"] = json!([{"Type": "VSID", "Settings": {"IsolationId": 4096}}]);
                }
                subnet
            })
            .collect();
        let pool = json!({"Ranges": [{"StartMacAddress": "00-15-5D-52-C0-00", "EndMacAddress": "00-15-5D-52-CF-FF"}]});
        self.make(
            Kind::Network,
            &json!({"Name": name, "Type": kind, "MacPool": pool, "Ipams": [{"Type": "Static", "Subnets": subnets}], "SchemaVersion": {"Major": 2, "Minor": 0}}),
        )
    }

    /// A namespace as a runtime on Windows makes it.
    pub(crate) fn namespace(&self) -> String {
        self.make(Kind::Namespace, &json!({"Type": "Host", "SchemaVersion": {"Major": 2, "Minor": 0}})).to_string()
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> Vec<Value> {
        self.hcn.service.list(kind, V2).unwrap()
    }

    /// The endpoint with a name.
    pub(crate) fn endpoint(&self, name: &str) -> Value {
        let all = self.all(Kind::Endpoint);
        all.iter().find(|endpoint| endpoint["Name"] == name).cloned().unwrap_or_else(|| panic!("no endpoint {name}: {all:?}"))
    }

    /// Asks the service itself, past all faults.
    pub(crate) fn service(&self) -> &Service {
        &self.hcn.service
    }

    /// The addresses that host-local has given out on a network, with their containers.
    pub(crate) fn leases(&self, network: &str) -> Vec<(IpAddr, String)> {
        let Ok(entries) = fs::read_dir(self.state.path().join(network)) else { return Vec::new() };
        let mut leases: Vec<(IpAddr, String)> = entries
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let address = entry.file_name().to_str()?.replace('_', ":").parse().ok()?;
                let content = fs::read_to_string(entry.path()).unwrap();
                Some((address, content.lines().next().unwrap_or_default().to_owned()))
            })
            .collect();
        leases.sort();
        leases
    }

    /// `ipam` with host-local and these ranges.
    pub(crate) fn host_local(&self, subnets: &[&str]) -> Value {
        let ranges: Vec<Value> = subnets
            .iter()
            .map(|subnet| match subnet.split_once("..") {
                Some((subnet, start)) => json!([{"subnet": subnet, "rangeStart": start}]),
                None => json!([{"subnet": subnet}]),
            })
            .collect();
        json!({"type": "host-local", "dataDir": self.state.path(), "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]})
    }

    /// `ipam` with azure-vnet-ipam, which the cloud has given these subnets and addresses on the interfaces with these numbers.
    pub(crate) fn azure(&self, pools: &[(u8, &str, &[&str])]) -> Value {
        let interface = |(number, prefix, addresses): &(u8, &str, &[&str])| {
            let addresses: Vec<Value> = addresses.iter().map(|address| json!({"Address": address})).collect();
            let subnets = json!([{"Prefix": prefix, "IPAddresses": addresses}]);
            json!({"MacAddress": format!("000D3A00000{number}"), "IsPrimary": *number == 1, "IPSubnets": subnets})
        };
        let listed: Vec<Value> = pools.iter().map(interface).collect();
        let file = self.state.path().join("interfaces.json");
        fs::write(&file, json!({"Interfaces": listed}).to_string()).unwrap();
        json!({"type": "azure-vnet-ipam", "environment": "fileIpam", "file": file, "stateDir": self.state.path()})
    }

    /// The addresses that azure-vnet-ipam has given out, with their containers.
    pub(crate) fn azure_leases(&self) -> Vec<(String, String)> {
        let Ok(text) = fs::read(self.state.path().join("azure-vnet-ipam.json")) else { return Vec::new() };
        let state: Value = serde_json::from_slice(&text).unwrap();
        let pools = state["IPAM"]["AddressSpaces"]["local"]["Pools"].as_object().into_iter().flatten();
        let records = pools.flat_map(|(_, pool)| pool["Addresses"].as_object().into_iter().flatten());
        let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_owned();
        records.filter(|(_, record)| record["InUse"] == true).map(|(_, record)| (text(record, "Addr"), text(record, "ID"))).collect()
    }

    /// Nothing of any container is there.
    pub(crate) fn assert_empty(&self, network: &str, what: &str) {
        assert_eq!(self.all(Kind::Endpoint), Vec::<Value>::new(), "endpoints are left: {what}");
        assert_eq!(self.leases(network), [], "addresses are left: {what}");
        let made = self.all(Kind::Namespace).into_iter().filter(|namespace| namespace["Owner"] == cni::hns::OWNER);
        assert_eq!(made.count(), 0, "namespaces are left: {what}");
    }
}

/// What HNS chose or counts, left out of an endpoint.
pub(crate) fn settings_of(mut endpoint: Value) -> Value {
    let fields = endpoint.as_object_mut().unwrap();
    for field in ["ID", "Version", "HostComputeNetwork", "HostComputeNamespace", "State", "Health", "SchemaVersion"] {
        fields.remove(field);
    }
    endpoint
}
