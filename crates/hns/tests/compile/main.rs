//! Documents in, packets through a switch that is set up as vswitchd does it, verdicts out.
//!
//! A test is a table of port, packet and what becomes of it, as `packet.rs` reads and prints them; one file is one mode or one policy.

#[path = "../../../vfp/tests/common/frames.rs"]
mod frames;

mod access;
mod acl;
mod adapter;
mod bench;
mod documents;
mod guard;
mod internal;
mod l2bridge;
mod l2tunnel;
mod l4_proxy;
mod l4_wfp_proxy;
mod limits;
mod malformed;
mod model;
mod neighbor_discovery;
mod network_acl;
mod nic;
mod outbound_nat;
mod overlay;
mod packet;
mod port_mapping;
mod remote_subnet;
mod sdn_route;
mod sets;
mod source_mac_address;
mod tier_acl;
mod transparent;
mod vlan;
