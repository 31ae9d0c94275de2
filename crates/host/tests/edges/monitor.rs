//! A follower hears of what changes, and the kernel's answers about ways and neighbours.

use host::netlink::{Change, Hop, Monitor, Route};

use crate::sandbox::{self, connect, equip, eventually, ip, link};

#[test]
fn sees_links_addresses_routes_and_neighbours() {
    sandbox::run("monitor::sees_links_addresses_routes_and_neighbours", || {
        let (namespace, netlink) = sandbox::namespace("followed");
        let monitor = Monitor::open_in(&namespace).unwrap();
        assert_eq!(monitor.receive().unwrap(), []);
        netlink.create_veth("one", "two").unwrap();
        let index = equip(&netlink, "one", &["10.1.0.1/24"]);
        equip(&netlink, "two", &[]);
        let hop = Hop { index, gateway: Some(ip("10.1.0.2")), ..Hop::default() };
        let route = Route::new("10.2.0.0/16".parse().unwrap(), hop, 7);
        netlink.prepend_route(&route).unwrap();
        netlink.set_neighbour(index, ip("10.1.0.2"), "02-00-00-00-00-02".parse().unwrap()).unwrap();
        let mut seen = Vec::new();
        eventually("all is told", || {
            seen.extend(monitor.receive().unwrap());
            seen.iter().any(|change| matches!(change, Change::Neighbour(neighbour) if neighbour.address == ip("10.1.0.2")))
        });
        assert!(seen.iter().any(|change| matches!(change, Change::Link(link) if link.name == "one" && link.up)), "{seen:?}");
        assert!(seen.iter().any(|change| matches!(change, Change::Address(of, _) if *of == index)), "{seen:?}");
        assert!(seen.contains(&Change::Route(route.clone())), "{seen:?}");

        netlink.delete_link(index).unwrap();
        eventually("the end is told", || {
            seen.extend(monitor.receive().unwrap());
            seen.iter().any(|change| matches!(change, Change::LinkGone(link) if link.name == "one"))
        });
        assert!(seen.iter().any(|change| matches!(change, Change::AddressGone(of, _) if *of == index)), "{seen:?}");
    });
}

#[test]
fn the_kernel_answers_for_ways_and_neighbours() {
    sandbox::run("monitor::the_kernel_answers_for_ways_and_neighbours", || {
        let (peer, there) = sandbox::namespace("peer");
        let here = host::netlink::Netlink::open().unwrap();
        connect(&here, "eth0", &peer, "wire");
        let index = equip(&here, "eth0", &["10.1.0.1/24", "fd00:1::1/64"]);
        equip(&there, "wire", &["10.1.0.2/24", "fd00:1::2/64"]);
        let hop = Hop { index, gateway: Some(ip("10.1.0.2")), ..Hop::default() };
        here.replace_route(&Route::new("0.0.0.0/0".parse().unwrap(), hop, 0)).unwrap();

        let far = here.lookup(ip("192.0.2.1"), None).unwrap().unwrap();
        assert_eq!((far.index, far.address, far.source), (index, ip("10.1.0.2"), ip("10.1.0.1")));
        let near = here.lookup(ip("fd00:1::77"), Some(index)).unwrap().unwrap();
        assert_eq!((near.address, near.source), (ip("fd00:1::77"), ip("fd00:1::1")));
        assert_eq!(here.lookup(ip("2001:db8::1"), None).unwrap(), None);

        let mac = link(&there, "wire").mac;
        for address in [ip("10.1.0.2"), ip("fd00:1::2")] {
            // The kernel asks only once its link-local address is known to be free.
            eventually("the neighbour is known", || {
                here.resolve(index, address).unwrap();
                here.neighbours(index).unwrap().iter().any(|neighbour| neighbour.address == address && neighbour.mac == Some(mac))
            });
        }
        let error = here.set_up(4711).unwrap_err();
        assert!(error.is_missing() && error.to_string().contains("set up link 4711"), "{error}");
    });
}
