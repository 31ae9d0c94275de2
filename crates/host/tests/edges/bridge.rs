//! Bridges of the kernel.

use host::netlink::Netlink;
use wire::MacAddress;

use crate::sandbox::{self, link};

#[test]
fn its_address_stays_as_ports_come_and_go() {
    sandbox::run("bridge::its_address_stays_as_ports_come_and_go", || {
        let here = Netlink::open().unwrap();
        here.create_bridge("inside").unwrap();
        let before = link(&here, "inside").mac;
        here.create_veth("port", "far").unwrap();
        let port = link(&here, "port").index;
        // Left to itself a bridge would take the lowest address among those of its ports.
        here.set_mac(port, MacAddress([2, 0, 0, 0, 0, 1])).unwrap();
        here.set_controller(port, link(&here, "inside").index).unwrap();
        assert_eq!(link(&here, "inside").mac, before);
    });
}
