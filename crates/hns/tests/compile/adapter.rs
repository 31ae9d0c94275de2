//! What holds on an adapter before any network is there: the node is on the wire as it was.

use crate::bench::Node;

#[test]
fn the_node_sends_and_receives_as_if_there_were_no_switch() {
    Node::new().check(&[
        ("host", "tcp 192.0.2.10:1000 > 198.51.100.7:443 @gw", "uplink: host > gw | 192.0.2.10:1000 > 198.51.100.7:443"),
        ("uplink", "ack 198.51.100.7:443 > 192.0.2.10:1000 as gw @host", "host: gw > host | 198.51.100.7:443 > 192.0.2.10:1000"),
        ("host", "tcp [fd01::10]:1000 > [fd01::20]:80 @peer", "uplink: host > peer | [fd01::10]:1000 > [fd01::20]:80"),
        ("uplink", "tcp [fd01::20]:1000 > [fd01::10]:22 as peer @host", "host: peer > host | [fd01::20]:1000 > [fd01::10]:22"),
        ("uplink", "echo 192.0.2.20 > 192.0.2.10 as peer @host", "host: peer > host | 192.0.2.20 > 192.0.2.10"),
    ]);
}

#[test]
fn what_goes_to_the_nodes_hardware_address_is_the_nodes_whatever_its_destination() {
    Node::new().check(&[
        ("uplink", "udp 192.0.2.20:5000 > 172.16.9.9:53 as peer @host", "host: peer > host | 192.0.2.20:5000 > 172.16.9.9:53"),
        ("uplink", "udp [fd01::20]:5000 > [fd99::9]:53 as peer @host", "host: peer > host | [fd01::20]:5000 > [fd99::9]:53"),
        ("uplink", "udp 192.0.2.20:5000 > 192.0.2.77:53 as peer @02-00-00-00-00-77", "drop no-route"),
    ]);
}

#[test]
fn neighbours_are_asked_by_the_node_and_ask_the_node() {
    Node::new().check(&[
        ("host", "who 192.0.2.20 tell 192.0.2.10", "uplink: host > all | who 192.0.2.20 tell host 192.0.2.10"),
        ("uplink", "who 192.0.2.10 tell 192.0.2.20 as peer", "host: peer > all | who 192.0.2.10 tell peer 192.0.2.20"),
        ("uplink", "who 192.0.2.99 tell 192.0.2.20 as peer", "host: peer > all | who 192.0.2.99 tell peer 192.0.2.20"),
    ]);
}

#[test]
fn groups_reach_the_node_and_nothing_but_ip_does() {
    Node::new().check(&[
        ("uplink", "udp 192.0.2.20:68 > 255.255.255.255:67 as peer @all", "flood host"),
        ("host", "udp 192.0.2.10:68 > 255.255.255.255:67 @all", "flood uplink"),
        ("uplink", "other as peer @host", "drop not-ip"),
    ]);
}
