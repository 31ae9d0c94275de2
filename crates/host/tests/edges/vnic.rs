//! A pod's NIC: configured once, and left alone the second time.

use host::netlink::Netlink;
use host::sysctl::{Family, Key};
use host::vnic::{Route, VnicConfig, VnicError, configure};

use crate::ping::answers_once;
use crate::sandbox::{self, connect, equip, ip, link};

fn config() -> VnicConfig {
    let route = |destination: &str, next_hop: Option<&str>, metric| Route {
        destination: destination.parse().unwrap(),
        next_hop: next_hop.map(ip),
        metric,
    };
    VnicConfig {
        name: "eth0.pod".into(),
        mac: "02-00-00-00-00-11".parse().unwrap(),
        mtu: 1450,
        gso_max_size: Some(32_768),
        addresses: vec!["10.1.0.1/24".parse().unwrap(), "fd00:1::1/64".parse().unwrap()],
        routes: vec![
            route("0.0.0.0/0", Some("169.254.1.1"), 0),
            route("10.7.0.0/16", Some("10.1.0.2"), 5),
            route("10.8.0.0/16", None, 0),
            route("::/0", Some("fd00:ffff::1"), 0),
            route("fd00:7::/64", Some("fe80::1"), 9),
        ],
        neighbours: vec![(ip("169.254.1.1"), "02-00-00-00-00-01".parse().unwrap())],
        alias: Some("the NIC of a pod".into()),
    }
}

#[test]
fn configured_once_and_then_left_alone() {
    sandbox::run("vnic::configured_once_and_then_left_alone", || {
        let (pod, inside) = sandbox::namespace("pod");
        let here = Netlink::open().unwrap();
        connect(&here, "peer", &pod, "raw");
        equip(&here, "peer", &["10.1.0.2/24", "fd00:1::2/64"]);
        let index = link(&inside, "raw").index;
        configure(&inside, index, &config()).unwrap();

        let made = link(&inside, "eth0.pod");
        assert_eq!((made.mac, made.mtu, made.gso_max_size), (config().mac, 1450, Some(32_768)));
        assert_eq!((made.alias.as_deref(), made.up), (Some("the NIC of a pod"), true));
        assert!(inside.routes(index).unwrap().iter().any(|route| route.hops[0].gateway == Some(ip("169.254.1.1")) && route.hops[0].onlink));
        let ra = Key::interface(Family::V6, "eth0.pod", "accept_ra");
        assert_eq!(pod.run(|| ra.read().unwrap()).unwrap(), "0");
        assert!(pod.run(|| answers_once(ip("10.1.0.2")) && answers_once(ip("fd00:1::2"))).unwrap());

        let before = inside.changes();
        configure(&inside, index, &config()).unwrap();
        assert_eq!(inside.changes(), before, "the second time changed something");
    });
}

#[test]
fn only_the_difference_is_changed_and_others_things_stay() {
    sandbox::run("vnic::only_the_difference_is_changed_and_others_things_stay", || {
        let netlink = Netlink::open().unwrap();
        netlink.create_veth("raw", "peer").unwrap();
        equip(&netlink, "peer", &[]);
        let index = link(&netlink, "raw").index;
        configure(&netlink, index, &config()).unwrap();
        // Somebody in the pod adds an address of their own.
        equip(&netlink, "eth0.pod", &["192.0.2.1/32"]);

        let mut other = config();
        other.addresses[0] = "10.1.0.9/24".parse().unwrap();
        other.routes.remove(1);
        other.neighbours.clear();
        let before = netlink.changes();
        configure(&netlink, index, &other).unwrap();
        let after = netlink.changes();
        // The addresses, the route and the neighbour; the kernel itself may drop routes with an address, which then come back.
        assert!((4..=6).contains(&(after - before)), "{} changes", after - before);
        let addresses: Vec<String> = netlink.addresses(index).unwrap().iter().map(|address| address.network.to_string()).collect();
        assert!(addresses.contains(&"10.1.0.9/24".into()) && addresses.contains(&"192.0.2.1/32".into()), "{addresses:?}");
        assert!(!addresses.contains(&"10.1.0.1/24".into()), "{addresses:?}");
        assert!(!netlink.neighbours(index).unwrap().iter().any(|neighbour| neighbour.permanent && neighbour.address == ip("169.254.1.1")));

        configure(&netlink, index, &other).unwrap();
        assert_eq!(netlink.changes(), after);
        assert!(matches!(configure(&netlink, 4711, &other), Err(VnicError::Gone(4711))));
    });
}
