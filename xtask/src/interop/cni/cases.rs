//! The table: configurations, what is done with them, and where we differ on purpose.

mod azure;
mod flannel;
mod nat;

use serde_json::{Value, json};

/// A command of CNI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Add,
    Check,
    Del,
    Status,
    Version,
    Gc,
}

impl Verb {
    /// As it stands in CNI_COMMAND.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Check => "CHECK",
            Self::Del => "DEL",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
            Self::Gc => "GC",
        }
    }
}

/// Something in which we differ on purpose.
#[derive(Clone)]
pub(super) struct Intended {
    /// Where, as [`super::compare`] names places; `*` is any one part, and what is below is meant too.
    pub(super) at: &'static str,
    pub(super) why: &'static str,
    /// What is there with us, if that is to be checked.
    pub(super) ours: Option<Value>,
}

/// What CNI_NETNS is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Netns {
    /// A namespace that is there.
    Namespace,
    /// A namespace that nobody has made.
    Nobodys,
    /// `none`: a sandbox by schema 1.
    None,
}

/// A configuration and what is done with it.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The networks that HNS has.
    pub(super) networks: Vec<Value>,
    /// What CNI_NETNS is.
    pub(super) netns: Netns,
    /// What CNI_ARGS is.
    pub(super) arguments: &'static str,
    /// What flanneld wrote.
    pub(super) subnet: Option<&'static str>,
    /// What the cloud says about this machine.
    pub(super) interfaces: Option<Value>,
    pub(super) config: Value,
    pub(super) steps: Vec<Verb>,
    pub(super) intended: Vec<Intended>,
}

impl Case {
    /// ADD, CHECK and DEL, in a namespace, where HNS has no network yet.
    pub(super) fn new(name: &'static str, config: Value) -> Self {
        Self {
            name,
            networks: Vec::new(),
            netns: Netns::Namespace,
            arguments: "",
            subnet: None,
            interfaces: None,
            config,
            steps: vec![Verb::Add, Verb::Check, Verb::Del],
            intended: Vec::new(),
        }
    }

    fn steps(mut self, steps: &[Verb]) -> Self {
        self.steps = steps.to_vec();
        self
    }

    fn networks(mut self, networks: Vec<Value>) -> Self {
        self.networks = networks;
        self
    }

    fn netns(mut self, netns: Netns) -> Self {
        self.netns = netns;
        self
    }

    fn differs(mut self, at: &'static str, why: &'static str) -> Self {
        self.intended.push(Intended { at, why, ours: None });
        self
    }

    /// An ADD that succeeds with one and fails with the other.
    fn only_one_adds(self, why: &'static str) -> Self {
        let places = ["1-ADD/exit", "1-ADD/error", "1-ADD/result", "1-ADD/endpoints", "1-ADD/namespaces", "1-ADD/addresses"];
        places.into_iter().fold(self.steps(&[Verb::Add]), |case, at| case.differs(at, why))
    }

    /// The first command is an ADD that fails with another code than the reference's.
    fn fails_with(mut self, code: u32) -> Self {
        let why = "by the code a runtime can tell what to do";
        self.intended.push(Intended { at: "1-ADD/error/code", why, ours: Some(json!(code)) });
        self
    }
}

/// win-bridge on an L2Bridge.
fn bridge(name: &'static str, more: Value) -> Case {
    case(name, "win-bridge", l2bridge("pods"), more)
}

/// win-overlay on an Overlay.
fn overlay(name: &'static str, more: Value) -> Case {
    case(name, "win-overlay", vxlan("pods"), more)
}

fn case(name: &'static str, plugin: &'static str, network: Value, more: Value) -> Case {
    let config = json!({"cniVersion": "1.0.0", "name": "pods", "type": plugin, "apiVersion": 2, "ipam": ipam(json!({}))});
    Case::new(name, with(config, more)).networks(vec![network])
}

/// A document with more in it.
fn with(mut document: Value, more: Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    document
}

/// Addresses by host-local.
fn ipam(more: Value) -> Value {
    with(json!({"type": "host-local", "ranges": [range("10.244.1.0/24", "10.244.1.10")]}), more)
}

fn range(subnet: &str, start: &str) -> Value {
    json!([{"subnet": subnet, "rangeStart": start}])
}

fn l2bridge(name: &str) -> Value {
    network(name, "L2Bridge", "10.244.1.2", json!([]))
}

fn vxlan(name: &str) -> Value {
    network(name, "Overlay", "10.244.1.1", json!([{"Type": "VSID", "Settings": {"IsolationId": 4096}}]))
}

fn network(name: &str, kind: &str, gateway: &str, policies: Value) -> Value {
    let route = json!({"NextHop": gateway, "DestinationPrefix": "0.0.0.0/0"});
    let subnet = json!({"IpAddressPrefix": "10.244.1.0/24", "Routes": [route], "Policies": policies});
    json!({"Name": name, "Type": kind, "Ipams": [{"Type": "Static", "Subnets": [subnet]}], "SchemaVersion": {"Major": 2, "Minor": 0}})
}

fn endpoint_policy(value: Value) -> Value {
    json!({"name": "EndpointPolicy", "value": value})
}

fn outbound_nat(exceptions: &[&str]) -> Value {
    endpoint_policy(json!({"Type": "OutBoundNAT", "Settings": {"Exceptions": exceptions}}))
}

fn sdn_route(prefix: &str) -> Value {
    endpoint_policy(json!({"Type": "SDNRoute", "Settings": {"DestinationPrefix": prefix, "NeedEncap": true}}))
}

fn runtime() -> Value {
    let mapping = |host: u16, container: u16, protocol: &str| json!({"hostPort": host, "containerPort": container, "protocol": protocol});
    let dns = json!({"servers": ["10.96.0.10"], "searches": ["svc.cluster.local"]});
    json!({"portMappings": [mapping(8080, 80, "TCP"), mapping(5353, 53, "udp")], "dns": dns})
}

/// What differs in many cases.
pub(super) fn everywhere() -> Vec<Intended> {
    let differs = |at, why| Intended { at, why, ours: None };
    vec![
        differs("*/endpoints/*/Owner", "GC removes what is ours and nothing else, so what is ours says so"),
        differs("*/networks/*/Owner", "a network that was made says by whom"),
        differs("*/error/cniVersion", "the specification wants it"),
        differs("*/error/msg", "errors are told in our own words"),
        differs("*/error/details", "errors say what to do"),
        differs("*/addresses/lock", "a call that takes no address makes no directory for them; STATUS tries whether it could"),
    ]
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut cases = versions();
    cases.extend(bridges());
    cases.extend(flat_policies());
    cases.extend(overlays());
    cases.extend(families());
    cases.extend(sandboxes());
    cases.extend(lives());
    cases.extend(mistakes());
    cases.extend(nat::all());
    cases.extend(flannel::all());
    cases.extend(azure::all());
    cases
}

/// The same in all versions of the specification.
fn versions() -> Vec<Case> {
    let all = [
        ("bridge in 0.2.0", "0.2.0"),
        ("bridge in 0.3.1", "0.3.1"),
        ("bridge in 0.4.0", "0.4.0"),
        ("bridge in 1.0.0", "1.0.0"),
        ("bridge in 1.1.0", "1.1.0"),
    ];
    let dns = json!({"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"]});
    all.into_iter().map(|(name, version)| bridge(name, json!({"cniVersion": version, "dns": dns}))).collect()
}

fn bridges() -> Vec<Case> {
    let both = json!([outbound_nat(&["10.244.0.0/16"]), sdn_route("10.96.0.0/12")]);
    let more = json!({"ipMasqNetwork": "10.244.0.0/16", "policies": [outbound_nat(&["10.96.0.0/12"])]});
    vec![
        bridge("bridge without dns", json!({})),
        bridge("bridge with policies", json!({"policies": both})),
        bridge("bridge with loopback DSR", json!({"loopbackDSR": true})),
        bridge("bridge with ports and dns of the runtime", json!({"runtimeConfig": runtime(), "dns": {"domain": "cluster.local"}})),
        bridge("bridge with ipMasqNetwork", json!({"ipMasqNetwork": "10.244.0.0/16"})),
        bridge("bridge with ipMasqNetwork and a policy", more).differs("*/endpoints/0/Policies", ONE_NAT),
        bridge("bridge without IPAM", json!({"ipam": {}})),
        bridge("bridge with a default route of IPAM", json!({"ipam": ipam(json!({"routes": [{"dst": "0.0.0.0/0"}]}))})),
        bridge("bridge with a route of IPAM", json!({"ipam": ipam(json!({"routes": [{"dst": "10.96.0.0/12", "gw": "10.244.1.3"}]}))}))
            .differs("1-ADD/endpoints/0/Routes", IPAM_ROUTES)
            .differs("1-ADD/result/routes", IPAM_ROUTES)
            .differs("2-CHECK/endpoints/0/Routes", IPAM_ROUTES),
    ]
}

const ONE_NAT: &str = "of several OutBoundNAT policies each would translate what the others except, so they become one";
const IPAM_ROUTES: &str = "routes that IPAM knows would be lost";
const FLAT: &str = "a policy in the older shape is translated, since its settings would be lost";

/// Policies in the shape of schema 1, which the reference passes on as they are.
fn flat_policies() -> Vec<Case> {
    let route = json!({"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NeedEncap": true});
    let nat = json!({"Type": "OutBoundNAT", "ExceptionList": ["10.244.0.0/16"]});
    vec![
        bridge("bridge with a flat ROUTE policy", json!({"policies": [endpoint_policy(route)]})).only_one_adds(FLAT),
        bridge("bridge with a flat OutBoundNAT policy", json!({"policies": [endpoint_policy(nat)]}))
            .differs("*/endpoints/0/Policies", FLAT),
    ]
}

fn overlays() -> Vec<Case> {
    let policies = json!([outbound_nat(&["10.96.0.0/12"]), sdn_route("10.96.0.0/12")]);
    vec![
        overlay("overlay", json!({})),
        overlay("overlay with ipMasq", json!({"ipMasq": true})),
        overlay("overlay with a MAC prefix", json!({"endpointMacPrefix": "02-11"})),
        overlay("overlay with loopback DSR", json!({"ipMasq": true, "loopbackDSR": true})),
        overlay("overlay with ipMasq and policies", json!({"ipMasq": true, "policies": policies}))
            .differs("*/endpoints/0/Policies", ONE_NAT),
        overlay("overlay in 1.1.0 with dns", json!({"cniVersion": "1.1.0", "runtimeConfig": {"dns": {"servers": ["10.96.0.10"]}}})),
        overlay("overlay with ports of the runtime", json!({"runtimeConfig": runtime()}))
            .differs("*/endpoints/0/Policies", "mapped ports are no less meant here than on a bridge"),
    ]
}

/// Networks with both families, of which the reference sees the first address alone.
fn families() -> Vec<Case> {
    let both = "the container gets an address of each family that IPAM gives and the network has";
    let ranges = [range("10.244.1.0/24", "10.244.1.10"), range("fd00:244:1::/64", "fd00:244:1::10")];
    let ipam = json!({"ipam": ipam(json!({"ranges": ranges}))});
    let v6 = |mut network: Value, gateway: &str| {
        let mut subnet = network["Ipams"][0]["Subnets"][0].clone();
        subnet["IpAddressPrefix"] = json!("fd00:244:1::/64");
        subnet["Routes"] = json!([{"NextHop": gateway, "DestinationPrefix": "::/0"}]);
        network["Ipams"][0]["Subnets"] = json!([network["Ipams"][0]["Subnets"][0], subnet]);
        vec![network]
    };
    let differs = |case: Case| {
        case.differs("1-ADD/result/ips/1", both).differs("*/endpoints/0/IpConfigurations/1", both).differs("*/endpoints/0/Routes/1", both)
    };
    vec![
        bridge("bridge, both families on a network of one", ipam.clone()),
        differs(bridge("bridge of both families", ipam.clone()).networks(v6(l2bridge("pods"), "fd00:244:1::2"))),
        differs(overlay("overlay of both families", ipam).networks(v6(vxlan("pods"), "fd00:244:1::1"))),
    ]
}

/// Runtimes from before HCN namespaces, by schema 1.
fn sandboxes() -> Vec<Case> {
    use Verb::{Add, Check, Del};
    let old = |mut case: Case| {
        case.config["apiVersion"] = json!(1);
        case.netns(Netns::None)
    };
    let route = json!({"Type": "ROUTE", "DestinationPrefix": "10.96.0.0/12", "NeedEncap": true});
    let nat = json!({"Type": "OutBoundNAT", "ExceptionList": ["10.244.0.0/16"]});
    let policies = json!({"policies": [endpoint_policy(nat), endpoint_policy(route)]});
    vec![
        old(bridge("bridge by schema 1", json!({}))),
        old(bridge("bridge by schema 1 with policies", policies.clone())),
        old(bridge("bridge by schema 1 with dns", json!({"dns": {"nameservers": ["10.96.0.10"], "search": ["svc.cluster.local"]}}))),
        old(bridge("bridge by schema 1 with ports", json!({"runtimeConfig": runtime()}))),
        old(bridge("bridge by schema 1, ADD twice", json!({}))).steps(&[Add, Add, Check, Del, Del]),
        old(overlay("overlay by schema 1", json!({}))),
        old(overlay("overlay by schema 1 with policies", policies)),
        old(overlay("overlay by schema 1 with ipMasq", json!({"ipMasq": true}))),
    ]
}

/// More than one ADD and DEL.
fn lives() -> Vec<Case> {
    use Verb::{Add, Check, Del, Gc, Status, Version};
    let collected = "GC removes what no valid attachment owns";
    let checked = "CHECK tells what is not as ADD promised";
    vec![
        bridge("bridge, DEL twice", json!({})).steps(&[Add, Del, Del]),
        bridge("bridge, DEL of nothing", json!({})).steps(&[Del]),
        bridge("bridge, ADD twice", json!({})).steps(&[Add, Add, Check, Del]),
        overlay("overlay, ADD twice", json!({})).steps(&[Add, Add, Check, Del]),
        bridge("bridge, ADD again after DEL", json!({})).steps(&[Add, Del, Add]),
        bridge("bridge, STATUS and VERSION", json!({"cniVersion": "1.1.0"})).steps(&[Version, Status]),
        bridge("bridge, GC", json!({"cniVersion": "1.1.0", "cni.dev/valid-attachments": []}))
            .steps(&[Add, Gc])
            .differs("2-GC/endpoints", collected)
            .differs("2-GC/namespaces", collected)
            .differs("2-GC/addresses", collected),
        bridge("bridge, CHECK after DEL", json!({}))
            .steps(&[Add, Del, Check])
            .differs("3-CHECK/exit", checked)
            .differs("3-CHECK/error", checked),
    ]
}

/// Pods that live while a node changes from one program to the other: who goes on finds what the other has made.
pub(super) fn handovers() -> Vec<Case> {
    use Verb::{Add, Check, Del};
    let steps = [Add, Add, Check, Del];
    vec![
        bridge("bridge, handed over", json!({"runtimeConfig": runtime()})).steps(&steps),
        overlay("overlay, handed over", json!({"ipMasq": true})).steps(&steps),
        flannel::on_overlay("flannel, handed over", json!({})).steps(&steps),
    ]
}

/// What cannot work. The message, the code and what to do are ours; that nothing is left is the same.
fn mistakes() -> Vec<Case> {
    let steps = [Verb::Add, Verb::Del];
    let sctp = json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "sctp"}]});
    vec![
        bridge("bridge with a port of an unknown protocol", json!({"runtimeConfig": sctp}))
            .only_one_adds("a port that leads nowhere should be noticed"),
        bridge("bridge, no such network", json!({})).networks(Vec::new()).steps(&steps).fails_with(7),
        overlay("overlay, no such network", json!({})).networks(Vec::new()).steps(&steps).fails_with(7),
        bridge("bridge on an Overlay", json!({})).networks(vec![vxlan("pods")]).steps(&steps).fails_with(7),
        overlay("overlay on an L2Bridge", json!({})).networks(vec![l2bridge("pods")]).steps(&steps).fails_with(7),
        bridge("bridge, no such namespace", json!({})).netns(Netns::Nobodys).steps(&steps).fails_with(8),
        overlay("overlay with a wrong MAC prefix", json!({"endpointMacPrefix": "0E:2A"})).steps(&steps).fails_with(7),
        bridge("bridge, no such IPAM", json!({"ipam": {"type": "nobody"}})).steps(&[Verb::Add]).fails_with(7),
        bridge("bridge in 9.9.9", json!({"cniVersion": "9.9.9"})).steps(&[Verb::Add]),
        bridge("bridge with a wrong apiVersion", json!({"apiVersion": "2"})).steps(&[Verb::Add]).fails_with(6),
    ]
}
