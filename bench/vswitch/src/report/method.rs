//! How it was measured, in words.

use crate::options::Options;

/// The text above all tables.
pub(super) fn method(options: &Options) -> String {
    let (rounds, seconds, path) = (options.rounds(), options.seconds(), options.data_path.description());
    format!(
        "kernel, transom and Open vSwitch (OVS) are set up at the same time and measured in turn, {rounds} rounds of {seconds} s each after a\n\
         warm-up. Figures are medians; a ratio is of the same round, and is shown as its median [least-most]. For RTT less is better, for\n\
         all else more. vswitchd runs with `{}`.\n\
         Congestion control is cubic. Streams are iperf3's; RTT is of one byte each way on a TCP connection, middle and mean; a connection\n\
         is opened, carries a byte each way and is closed, one after the other; of UDP, what arrives is counted, 64 bytes of payload each,\n\
         at a socket with room for 8 MB.\n\
         Kernel: veth and bridge, between nodes also its VXLAN device, for Services nftables with 10 s of memory for closed connections. OVS: its userspace datapath on veths, on one node with userspace TSO,\n\
         between nodes without, since its tunnels take no offloads. Wire-like: the wire between nodes carries frames of its MTU only\n\
         (GSO, TSO and segmentation of UDP and tunnels off), and both ends join them (GRO on). The switch itself is not pinned.\n\
         Floor and stretch are those of {path}.\n\
         Switch CPU is processor time of hnsd and vswitchd, of all nodes together, in one measurement with its warm-up.\n",
        options.vswitchd()
    )
}

/// The text above the table of a node that has much to remember.
pub(super) const LOADED: &str = "\
A node with 10,000 load balancers and 1,000 ACLs on the client's endpoint (loaded), beside one of ours without (empty) and the kernel's
bridge. First the flow of the test is the only one between the pods; then there are 100,000 others: datagrams between as many pairs of
ports, every one of them answered. Both of our switches have room for 262,144 connections, of which one pod may take half. Targets are
those of a node without all that.
";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_method_says_which_path_is_measured() {
        let method = |arguments: &[&str]| method(&Options::parse_from([&["vswitch-bench"], arguments].concat()));
        let (tap, bpf) = (method(&[]), method(&["--data-path", "bpf"]));
        assert!(tap.contains("portable path") && tap.contains("--data-path tap"));
        assert!(bpf.contains("eBPF") && bpf.contains("--data-path bpf") && !bpf.contains("portable"));
    }
}
