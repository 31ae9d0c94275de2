//! Rules about which table of routes counts for whom.

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::{Netlink, NetlinkError};

impl Netlink {
    /// Has packets from a range of addresses look into a table before the main one.
    pub fn add_source_rule(&self, source: IpNet, table: u32) -> Result<(), NetlinkError> {
        let mut message = RuleMessage::default();
        message.header.family = if source.addr().is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.src_len = source.prefix_len();
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![RuleAttribute::Source(source.network()), RuleAttribute::Table(table)];
        self.change(RouteNetlinkMessage::NewRule(message), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(|refusal| refusal.of(format!("add the rule for packets from {source}")))
    }
}
