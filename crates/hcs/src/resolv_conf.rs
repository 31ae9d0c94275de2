//! The file by which Linux programs find names, made to behave like Windows as far as it can.
//!
//! Windows asks a name with a dot as it is, and a name without one with the suffix, and not as it is unless that is allowed.
//! The options come closest to it:
//!
//! * `ndots:1`: a name with a dot is asked as it is, first. It is the default, but a machine's file may say otherwise.
//! * `no-tld-query`: a name without a dot is never asked as it is.
//!
//! What differs: when a name with a dot is not found, glibc asks again with each suffix, which Windows does not do, and no option
//! turns off; musl behaves like Windows there. Where Windows asks the second server after one second, glibc waits for five.
//! glibc has room for three servers and Windows has no limit; the rest is named in a comment.

use std::fmt::Write;

use crate::network::{Network, SearchList};

/// More servers than this are ignored by glibc, or make it complain.
const SERVERS: usize = 3;

/// The content of `/etc/resolv.conf`.
pub fn resolv_conf(network: &Network, list: SearchList) -> String {
    let mut text = String::new();
    let suffixes = network.suffixes(list);
    if !suffixes.is_empty() {
        let _ = writeln!(text, "search {}", suffixes.join(" "));
    }
    for (position, server) in network.dns_servers().iter().enumerate() {
        let comment = if position < SERVERS { "" } else { "# no room: " };
        let _ = writeln!(text, "{comment}nameserver {server}");
    }
    text.push_str("options ndots:1");
    if !network.allow_unqualified_queries {
        text.push_str(" no-tld-query");
    }
    text.push('\n');
    text
}

/// The content of `/etc/hosts`: the machine itself, and the container by each of its addresses.
pub fn hosts(network: &Network) -> String {
    let mut text = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    if !network.host_name.is_empty() {
        for address in network.adapters.iter().flat_map(|adapter| &adapter.addresses) {
            let _ = writeln!(text, "{}\t{}", address.addr(), network.host_name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::network;

    #[test]
    fn one_suffix_and_the_options_of_windows() {
        let mut network = network();
        let expected = "search shop.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:1 no-tld-query\n";
        assert_eq!(resolv_conf(&network, SearchList::First), expected);
        network.allow_unqualified_queries = true;
        network.adapters[0].dns_servers = (1..5).map(|last| std::net::IpAddr::from([10, 0, 0, last])).collect();
        let expected = "search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n\
                        nameserver 10.0.0.3\n# no room: nameserver 10.0.0.4\noptions ndots:1\n";
        assert_eq!(resolv_conf(&network, SearchList::Whole), expected);
    }

    #[test]
    fn a_container_knows_its_own_name() {
        assert!(hosts(&network()).ends_with("10.244.1.5\tweb-0\nfd00:1::5\tweb-0\n"));
    }
}
