//! Namespaces that somebody else has made, as container runtimes do, with NICs of given names in them.

use std::path::Path;

use hcn::{Hcn, Kind};
use serde_json::{Value, json};

use crate::harness::document::{endpoint, schema};
use crate::harness::{Place, World, eventually, pings, run, serve, tcp};
use crate::l2bridge::{routed, routed_pod};

fn namespace(file: &str) -> Value {
    json!({ "Type": "Host", "SchemaVersion": schema(), "AdditionalParams": { "NetworkNamespace": file } })
}

#[test]
fn a_namespace_that_exists_is_used_and_stays() {
    run("existing_namespace::a_namespace_that_exists_is_used_and_stays", || {
        let mut world = World::new(1);
        let network = routed(&world, world.one());
        let other = routed_pod(world.one(), network, 12, &[]);
        let container = Place::make(Path::new("/run/netns"), "container");
        let node = world.one();
        let made = node.client.create(Kind::Namespace, None, None, &namespace("/run/netns/container").to_string()).expect("the namespace");
        let mut document = endpoint("pod", &["10.244.1.11/24", "fd00:244:1::11/64"], &["10.244.1.1", "fd00:244:1::1"], &[]);
        document["AdditionalParams"] = json!({ "InterfaceName": "net7" });
        let pod = node.endpoint(network, &document);
        node.attach(made, pod);
        assert!(container.netlink().link_by_name("net7").expect("the links").is_some_and(|link| link.up), "the NIC has its name");
        assert!(!node.file("namespaces").join(made.to_string()).exists(), "no other namespace is made for it");
        serve::start(&container);
        for address in [other.v4(), other.v6()] {
            pings(&container, address);
            tcp(&container, address);
        }
        tcp(&other, "10.244.1.11".parse::<std::net::IpAddr>().expect("an address"));

        // The switch comes back and takes the NIC up again.
        world.nodes[0].vswitchd.take().expect("vswitchd runs").kill();
        world.nodes[0].start_vswitchd();
        eventually("the NIC works again", || crate::harness::answers(&container, other.v4()));

        let node = world.one();
        node.client.delete(Kind::Endpoint, pod).expect("the endpoint goes");
        node.client.delete(Kind::Namespace, made).expect("the namespace goes");
        assert!(container.netlink().link_by_name("net7").expect("the links").is_none(), "the NIC is gone");
        assert!(host::namespace::open(Path::new("/run/netns/container")).is_ok(), "the namespace is not");
    });
}

#[test]
fn what_cannot_be_a_namespace_or_a_name_is_refused() {
    run("existing_namespace::what_cannot_be_a_namespace_or_a_name_is_refused", || {
        let world = World::new(1);
        let node = world.one();
        for file in [json!("netns/x"), json!(""), json!(7), json!("/run/\0")] {
            let mut document = namespace("");
            document["AdditionalParams"]["NetworkNamespace"] = file.clone();
            let error = node.client.create(Kind::Namespace, None, None, &document.to_string()).expect_err("no file").to_string();
            assert!(error.contains("AdditionalParams.NetworkNamespace") && error.contains("/run/netns/NAME"), "{file}: {error}");
        }
        let network = routed(&world, node);
        for name in ["", "a/b", "..", "sixteen-letters-", "a b", "a:b"] {
            let mut document = endpoint("pod", &["10.244.1.11/24"], &["10.244.1.1"], &[]);
            document["AdditionalParams"] = json!({ "InterfaceName": name });
            let error = node.client.create(Kind::Endpoint, Some(network), None, &document.to_string()).expect_err("no name").to_string();
            assert!(error.contains("AdditionalParams.InterfaceName"), "{name}: {error}");
        }
        assert_eq!(node.look("/ports").as_array().map(Vec::len), Some(2), "only the adapter and the node are there");
    });
}
