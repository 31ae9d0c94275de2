//! What cannot be is refused, by name and with a remedy; what is lost is made again.

use hcn::{Guid, Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, network, policy, schema, subnet};
use crate::harness::{Node, World, eventually, pings, run, tcp, world};
use crate::l2bridge::{routed, routed_pod};

fn bridge() -> Value {
    network("bridge", "L2Bridge", &[subnet("10.244.1.0/24", "10.244.1.1")], &[])
}

fn load_balancer() -> Value {
    json!({
        "SchemaVersion": schema(),
        "FrontendVIPs": ["10.96.0.10"],
        "PortMappings": [{ "Protocol": 6, "InternalPort": 80, "ExternalPort": 80 }],
        "HostComputeEndpoints": [],
    })
}

/// Policies that become nothing in the switch.
fn untrue() -> [(&'static str, Value); 1] {
    [("Encryption", json!({ "EncryptionMethodType": "Ipsec", "Name": "tunnel" }))]
}

/// What the service says to an endpoint with a policy.
fn with_policy(node: &Node, network: Guid, kind: &str, settings: &Value) -> hcn::Result<Guid> {
    let document = endpoint("pod", &["10.244.1.50/24"], &[], &[policy(kind, settings.clone())]);
    node.client.create(Kind::Endpoint, Some(network), None, &document.to_string())
}

#[test]
fn policies_that_are_not_made_true_are_refused_by_name() {
    run("refusals::policies_that_are_not_made_true_are_refused_by_name", || {
        let mut world = World::new(1);
        let network = world.one().network(&bridge());
        for (kind, settings) in untrue() {
            let refusal = with_policy(world.one(), network, kind, &settings).expect_err(kind).to_string();
            assert!(refusal.contains(kind), "{refusal}");
        }
        let mut endless = load_balancer();
        endless["AdditionalParams"] = json!({ "AffinityTimeoutSeconds": 0 });
        let refusal = world.one().client.create(Kind::LoadBalancer, None, None, &endless.to_string()).expect_err("a time of nothing");
        assert!(refusal.to_string().contains("AffinityTimeoutSeconds"), "{refusal}");
        let mut spoofing = endpoint("pod", &["10.244.1.50/24"], &[], &[]);
        spoofing["AdditionalParams"] = json!({ "MacAddressSpoofing": "On" });
        let refusal =
            world.one().client.create(Kind::Endpoint, Some(network), None, &spoofing.to_string()).expect_err("neither true nor false");
        assert!(refusal.to_string().contains("MacAddressSpoofing"), "{refusal}");

        world.nodes[0].stop_hnsd();
        world.nodes[0].start_hnsd(&["--switch", "none"]);
        for (kind, settings) in untrue() {
            let made = with_policy(world.one(), network, kind, &settings).unwrap_or_else(|error| panic!("{kind}: {error}"));
            world.one().client.delete(Kind::Endpoint, made).expect("it goes");
        }
        world.one().client.create(Kind::LoadBalancer, None, None, &load_balancer().to_string()).expect("documents only");
    });
}

#[test]
fn an_adapter_that_is_not_there_is_named() {
    run("refusals::an_adapter_that_is_not_there_is_named", || {
        let mut world = World::bare(1);
        world.nodes[0].start_vswitchd();
        world.nodes[0].start_hnsd(&["--adapter", "Ethernet=eth7"]);
        let create = |world: &World| world.one().client.create(Kind::Network, None, None, &bridge().to_string());
        let refusal = create(&world).expect_err("there is no such adapter");
        assert_eq!(refusal.hresult(), 0x803B_0006, "{refusal}");
        world.one().ip("link add eth7 type veth peer name far7");
        world.one().ip("link set far7 up");
        world.one().ip("link set eth7 up");
        world.one().ip("addr add 10.7.0.1/24 dev eth7");
        create(&world).expect("the adapter is there now");
        assert!(world.one().find_link("vEth-eth7").is_some());
    });
}

#[test]
fn an_adapter_that_is_only_talked_about_carries_nothing() {
    run("refusals::an_adapter_that_is_only_talked_about_carries_nothing", || {
        let mut world = World::bare(1);
        world.nodes[0].start_vswitchd();
        world.nodes[0].start_hnsd(&["--adapter", "Ethernet,ip=192.0.2.1/24,mac=00-15-5D-00-00-01"]);
        let network = world.one().network(&bridge());
        let document = endpoint("pod", &["10.244.1.50/24"], &[], &[]);
        let refusal =
            world.one().client.create(Kind::Endpoint, Some(network), None, &document.to_string()).expect_err("nothing can be true");
        assert_eq!(refusal.hresult(), 0x803B_0017, "{refusal}");
        let log = world.one().log("vswitchd");
        assert!(log.contains("--adapter"), "{log}");
    });
}

#[test]
fn an_adapter_that_another_switch_has_is_not_taken() {
    run("refusals::an_adapter_that_another_switch_has_is_not_taken", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let pod = routed_pod(node, network, 11, &[]);
        pings(&pod, node.v4());
        let path = |name: &str| node.file(name).display().to_string();
        let arguments = ["--socket", &path("other.sock"), "--namespace-dir", &path("others")].map(str::to_owned);
        let _switch = node.spawn("vswitchd", &arguments, "other.log");
        eventually("it listens", || std::os::unix::net::UnixStream::connect(path("other.sock")).is_ok());
        let arguments =
            ["--socket", &path("other-hnsd.sock"), "--state-dir", &path("other"), "--switch", &path("other.sock")].map(str::to_owned);
        let _hnsd = node.spawn("hnsd", &arguments, "other-hnsd.log");
        eventually("it listens", || std::os::unix::net::UnixStream::connect(path("other-hnsd.sock")).is_ok());
        let other = hcn::client::Client::new(hcn::client::Address::Unix(node.file("other-hnsd.sock")));
        let document = network_named("second");
        other.create(Kind::Network, None, None, &document.to_string()).expect("the document is kept");
        let log = || std::fs::read_to_string(node.file("other.log")).unwrap_or_default();
        eventually("the switch says why", || log().contains("could not be done"));
        assert!(log().contains("eth0"), "{}", log());
        tcp(&pod, node.v4());
        tcp(&world.outside, pod.v4());
    });
}

fn network_named(name: &str) -> Value {
    network(name, "L2Bridge", &[subnet("10.77.1.0/24", "10.77.1.1")], &[])
}

#[test]
fn a_second_switch_on_the_same_socket_says_who_has_it() {
    run("refusals::a_second_switch_on_the_same_socket_says_who_has_it", || {
        let world = World::new(1);
        let mut arguments = vec!["vswitchd".to_owned()];
        arguments.extend(world.one().vswitchd_arguments());
        let (code, text) = world.one().transom(&arguments);
        assert!(code.is_some_and(|code| code != 0), "{text}");
        assert!(text.contains("vswitchd (process") && text.contains("--socket"), "{text}");
        assert!(world.one().look("/ports").is_array(), "the first one still answers");
    });
}

#[test]
fn a_nic_that_somebody_deletes_is_made_again() {
    run("refusals::a_nic_that_somebody_deletes_is_made_again", || {
        let world = World::new(1);
        let network = routed(&world, world.one());
        let (one, two) = (routed_pod(world.one(), network, 11, &[]), routed_pod(world.one(), network, 12, &[]));
        pings(&one, two.v4());
        one.ip("link delete eth0");
        eventually("the NIC is back", || one.find_link("eth0").is_some_and(|link| link.up));
        pings(&one, two.v4());
        assert_eq!(tcp(&two, one.v6()).ip(), two.v6());
        assert_eq!(one.link("eth0").mac, one.mac);
    });
}

#[test]
fn an_adapter_that_comes_back_brings_its_networks_along() {
    run("refusals::an_adapter_that_comes_back_brings_its_networks_along", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        pings(&one, two.v4());
        node.ip("link delete eth0");
        eventually("its vNIC is gone", || node.find_link("vEth-eth0").is_none());
        world::connect_to_bridge(&world.underlay, node);
        world::equip(node);
        eventually("its vNIC is back", || node.find_link("vEth-eth0").is_some());
        pings(&one, two.v4());
        pings(&world.outside, one.v4());
        tcp(&world.outside, one.v6());
        tcp(&one, node.v4());
    });
}

#[test]
fn a_namespace_whose_file_is_removed_does_not_hurt_the_others() {
    run("refusals::a_namespace_whose_file_is_removed_does_not_hurt_the_others", || {
        let world = World::new(1);
        let node = world.one();
        let network = routed(&world, node);
        let (one, two) = (routed_pod(node, network, 11, &[]), routed_pod(node, network, 12, &[]));
        let path = node.file("namespaces").join(one.namespace.to_string());
        host::namespace::delete(&path).expect("the file goes");
        let three = routed_pod(node, network, 13, &[]);
        tcp(&two, three.v4());
        node.client.delete(Kind::Endpoint, one.endpoint).expect("the endpoint goes");
        node.client.delete(Kind::Namespace, one.namespace).expect("the namespace goes");
        tcp(&three, two.v6());
        let again = routed_pod(node, network, 11, &[]);
        tcp(&again, two.v4());
    });
}

#[test]
fn without_permission_the_switch_says_what_it_takes() {
    run("refusals::without_permission_the_switch_says_what_it_takes", || {
        let mut world = World::bare(1);
        let node = &world.nodes[0];
        let arguments = |path: &str| [node.vswitchd_arguments(), vec!["--data-path".to_owned(), path.to_owned()]].concat();
        let mut insists = node.spawn_powerless("vswitchd", &arguments("bpf"), "insists.log");
        eventually("one that insists ends", || !insists.is_alive());
        let said = node.log("insists");
        assert!(said.contains("CAP_BPF") && said.contains("--data-path tap"), "{said}");
        let _switch = node.spawn_powerless("vswitchd", &arguments("auto"), "vswitchd.log");
        eventually("it listens", || std::os::unix::net::UnixStream::connect(node.file("vswitchd.sock")).is_ok());
        world.nodes[0].start_hnsd(&[]);
        let node = world.one();
        node.network(&bridge());
        eventually("the switch says why", || node.log("vswitchd").contains("could not be done"));
        let log = node.log("vswitchd").to_lowercase();
        assert!(log.contains("not permitted") && log.contains("root"), "{log}");
        assert!(log.contains("all packets go by this process: could not") && log.contains("cap_bpf"), "{log}");
        assert_eq!(node.look("/data-path")["DataPath"], "tap");
        pings(&world.outside, node.v4());
    });
}
